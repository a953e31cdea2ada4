"""What the watcher logged, what an agent's output shows, and the digest by which the two are matched."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from blueflame.lazy_dataclass import dataclass

ALLOW, BLOCK = "allow", "block"
CHAIN_HASH_LENGTH = 16
"""Hex digits of a line's hash that the next line repeats: a changed or removed line is detected."""


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
    tool and input identify its line in the log."""

    tool: str
    target: str
    call: str = ""
    digest: str = ""
    denied: bool = False
    open: bool = False
    by_digest: bool = False


def compute_input_digest(tool_input: Mapping[str, Any]) -> str:
    """The same for the same input, however its JSON is written. Raises RecursionError on too deep nesting."""
    text = json.dumps(tool_input, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def hash_audit_line(line: bytes) -> str:
    """The hash of a line, without its line end, that the next line repeats."""
    return sha256(line).hexdigest()[:CHAIN_HASH_LENGTH]
