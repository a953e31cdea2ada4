"""How the checks end on the base itself: kept in the state folder, by tree and commands.

`blueflame init` and `doctor --try` write it, a red check of a task is compared with it, and `run` warns by it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from blueflame.lazy_dataclass import dataclass
from blueflame.model.settings import Settings
from blueflame.model.verdict import Check
from blueflame.system.files import read_json_object, write_atomically

MAX_ENTRIES = 50  # the oldest are forgotten
KEPT_FIELDS = ("name", "exit_code", "seconds", "timed_out", "failures", "tests")


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineKey:
    """The tree that was checked, and a digest of what was run on it."""

    tree: str
    commands: str

    def __str__(self) -> str:
        return f"{self.commands}:{self.tree}"


def digest_commands(settings: Settings) -> str:
    worktree, checks = settings.worktree, settings.validation.validator_diagnostics
    lines = json.dumps([worktree.setup, worktree.registries, checks.commands if checks.enabled else []])
    return hashlib.sha256(lines.encode()).hexdigest()[:16]


@dataclass(slots=True)
class BaselineFile:
    """The results on base trees. A file that cannot be read counts as empty: the checks just run again."""

    path: Path
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def find(self, key: BaselineKey) -> tuple[Check, ...] | None:
        entry = self._read().get(str(key))
        return None if entry is None else _parse_checks(entry)

    def list_for(self, commands: str) -> tuple[tuple[Check, ...], ...]:
        """The results of these commands on any tree, the newest last."""
        entries = [entry for name, entry in self._read().items() if name.startswith(f"{commands}:")]
        return tuple(_parse_checks(entry) for entry in entries)

    def list_missing(self, commands: str) -> frozenset[str]:
        """The checks whose program was missing when a person tried them: sessions do not keep such results."""
        return frozenset(check.name for ended in self.list_for(commands) for check in ended if check.cannot_start)

    def save(self, key: BaselineKey, checks: Sequence[Check], lines: Sequence[str]) -> None:
        """Keep the result of these lines. A run that ended in setup is not kept: it may be the network."""
        if tuple(check.name for check in checks) != tuple(lines):
            return
        entries = {name: entry for name, entry in self._read().items() if name != str(key)}
        entries[str(key)] = [
            {name: value for name, value in asdict(check).items() if name in KEPT_FIELDS} for check in checks
        ]
        kept = dict(list(entries.items())[-MAX_ENTRIES:])
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path, json.dumps({"schema_version": 1, "entries": kept}, indent=1) + "\n", durable=False)

    def _read(self) -> Mapping[str, Any]:
        entries = read_json_object(self.path).get("entries")
        return entries if isinstance(entries, dict) else {}


def describe_baseline(path: Path, settings: Settings) -> str:
    """What a person should know before a session: the checks never ran on the base, or are red; "" when all is well."""
    checks = settings.validation.validator_diagnostics
    if not checks.commands or not checks.enabled:
        return ""
    found = BaselineFile(path).list_for(digest_commands(settings))
    if any(all(check.passed for check in ended) for ended in found):
        return ""
    if not found:
        return "setup and checks were never tried on the base: run `blueflame doctor --try` before agents cost money"
    red = ", ".join(check.name for check in found[-1] if not check.passed)
    return f"red on the base when it was tried: {red}; a task is blamed only for what it adds"


def _parse_checks(entry: object) -> tuple[Check, ...]:
    rows = entry if isinstance(entry, list) else []
    return tuple(
        Check(
            name=str(row.get("name", "")),
            exit_code=int(row.get("exit_code", 1)),
            seconds=float(row.get("seconds", 0)),
            timed_out=bool(row.get("timed_out")),
            failures=tuple(str(name) for name in row.get("failures", ())),
            tests=count if isinstance(count := row.get("tests"), int) else None,
        )
        for row in rows
        if isinstance(row, dict)
    )
