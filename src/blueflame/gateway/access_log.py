"""gateway.jsonl: one line per request, written when it ends. No headers, paths or queries: they hold secrets."""

from __future__ import annotations

import json
import os
from dataclasses import field
from datetime import UTC, datetime

from blueflame.lazy_dataclass import dataclass
from blueflame.system.fd import append_line

MAX_LOG_BYTES = 32 * 1024 * 1024


def format_now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(slots=True, kw_only=True)
class AccessEntry:
    """One request."""

    began: str = field(default_factory=format_now)
    kind: str = ""
    host: str = ""
    port: int = 0
    decision: str = "block"
    rule: str = "unfinished"
    details: str = ""
    up: int = 0
    down: int = 0

    def set_decision(self, decision: str, rule: str, details: str) -> None:
        self.decision, self.rule, self.details = decision, rule, details


class AccessLog:
    """The log file. `problem` says why a line could not be written: nothing more is let through then."""

    def __init__(self, path: str, attempt: str, *, largest: int = MAX_LOG_BYTES) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._room = largest - os.fstat(self._file).st_size
        self._attempt = attempt
        self.problem = ""
        self.open_entries: dict[int, AccessEntry] = {}

    def open_entry(self) -> AccessEntry:
        entry = AccessEntry()
        self.open_entries[id(entry)] = entry
        return entry

    def close_entry(self, entry: AccessEntry) -> None:
        if self.open_entries.pop(id(entry), None) is not None:
            self._write(entry)

    def close(self) -> None:
        """End the entries of open connections, too."""
        for entry in list(self.open_entries.values()):
            if entry.decision == "allow":
                entry.details = "cut off: the attempt ended"
            self.close_entry(entry)
        os.close(self._file)

    def _write(self, entry: AccessEntry) -> None:
        data = _format_line(entry, self._attempt)
        if len(data) > self._room:
            self.problem = "the gateway's record is full"
        if self.problem:
            return
        self._room -= len(data)
        if failure := append_line(self._file, data):
            self.problem = f"the gateway's record cannot be written: {failure}"


def _format_line(entry: AccessEntry, attempt: str) -> bytes:
    content = {
        "timestamp": entry.began,
        "ended": format_now(),
        "attempt": attempt,
        "kind": entry.kind,
        "host": entry.host,
        "port": entry.port,
        "decision": entry.decision,
        "rule": entry.rule,
        "details": entry.details,
        "bytes_up": entry.up,
        "bytes_down": entry.down,
    }
    return (json.dumps(content) + "\n").encode()
