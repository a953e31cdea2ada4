"""What the watcher wrote down, what an agent shows that it did, and the fingerprint by which the two are matched."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

ALLOW, BLOCK = "allow", "block"
CHAIN_HASH_LENGTH = 16
"""Hex digits of a line's hash that the next line repeats: a line that was changed or taken away shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine:
    """One decision of the watcher. `call` and `digest` name the call in the words of the agent's own stream."""

    timestamp: str
    agent_id: str
    attempt: str
    tool: str
    target: str
    decision: str
    rule: str
    details: str
    call: str
    digest: str
    prev: str

    @property
    def allowed(self) -> bool:
        return self.decision == ALLOW


@dataclass(frozen=True, slots=True)
class ObservedCall:
    """One tool call as an agent's own output shows it. `denied`: the agent says that it was refused, and not done;
    `open`: its result is still to come; `by_digest`: its program asks under another name, or under none, so that only
    tool and input tell which line of the log is its own."""

    tool: str
    target: str
    call: str = ""
    digest: str = ""
    denied: bool = False
    open: bool = False
    by_digest: bool = False


def compute_input_digest(tool_input: Mapping[str, Any]) -> str:
    """The same for the same input, whoever wrote its JSON. Raises RecursionError on what is nested beyond reason."""
    text = json.dumps(tool_input, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def hash_audit_line(line: bytes) -> str:
    """What the line after this one says of it. Without the line's end."""
    return sha256(line).hexdigest()[:CHAIN_HASH_LENGTH]
