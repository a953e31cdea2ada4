"""Read the audit log of an attempt, check that it is complete, and summarize it for validators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path

from blueflame.lazy_dataclass import dataclass
from blueflame.model.audit import ALLOW, BLOCK, AuditLine, hash_audit_line
from blueflame.system.files import build_file_error, parse_json_object
from blueflame.text.sanitize import shorten_line

MAX_AUDIT_BYTES = 65 * 1024 * 1024  # the watcher stops before that
MAX_LISTED = 20
MAX_SHOWN_LENGTH = 160
LINE_KEYS = tuple(field.name for field in fields(AuditLine))
WRITE_TOOLS = ("Write", "Edit", "MultiEdit", "NotebookEdit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """`findings` are defects of the log itself; with any of them it is no proof."""

    lines: tuple[AuditLine, ...] = ()
    findings: tuple[str, ...] = ()
    last: str = ""  # hash of the newest line; the warden records it, so that a truncated log is noticed


def read_audit(path: Path) -> Audit:
    """Raise WorldError only if the log exists and cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_AUDIT_BYTES + 1)
    except FileNotFoundError:
        return Audit(findings=(f"there is no audit log {path.name}",))
    except OSError as e:
        raise build_file_error("read the audit log", path, e) from e
    return parse_audit(data, path.name)


def parse_audit(data: bytes, name: str) -> Audit:
    lines, findings, prev = [], [], ""
    if len(data) > MAX_AUDIT_BYTES:
        findings.append(f"{name} is larger than {MAX_AUDIT_BYTES >> 20} MB; the rest was not read")
    raw = data.split(b"\n")
    if raw.pop():
        findings.append(f"{name}: its last line was written only in part")
    for n, each in enumerate(raw, start=1):
        line = _parse_line(each)
        if line is None:
            findings.append(f"{name}:{n}: not a line of the watcher")
        else:
            lines.append(line)
            if line.prev != prev:
                findings.append(f"{name}:{n}: the line before it was changed or removed")
        prev = hash_audit_line(each)
    return Audit(lines=tuple(lines), findings=tuple(findings), last=prev)


def format_summary(lines: Sequence[AuditLine]) -> str:
    """Summarize for a validator what the agent used, was refused, wrote and ran."""
    if not lines:
        return "The watcher has seen no calls."
    calls = [line for line in lines if line.rule != "canary"]
    refused = [line for line in calls if not line.allowed]
    parts = [
        f"{len(calls)} calls, {len(refused)} refused.",
        *_format_list("Calls by tool", _count_by_tool(calls)),
        *_format_list("Refused", [f"{line.rule}: {_format_call(line)}" for line in refused]),
        *_format_list("Files written", _list_targets(calls, WRITE_TOOLS)),
        *_format_list("Commands run", _list_targets(calls, ("Bash",))),
    ]
    return "\n".join(parts)


def _parse_line(raw: bytes) -> AuditLine | None:
    found = parse_json_object(raw)
    if found is None or set(found) != set(LINE_KEYS) or not all(isinstance(v, str) for v in found.values()):
        return None
    return AuditLine(**found) if found["decision"] in (ALLOW, BLOCK) else None


def _count_by_tool(calls: Sequence[AuditLine]) -> list[str]:
    counts = Counter(line.tool for line in calls)
    return [
        f"{shorten_line(tool, MAX_SHOWN_LENGTH) or '(none)'}: {n}"
        for tool, n in sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    ]


def _list_targets(calls: Sequence[AuditLine], tools: Sequence[str]) -> list[str]:
    """List allowed targets once each, in order of last use."""
    last = {line.target: n for n, line in enumerate(calls) if line.allowed and line.tool in tools}
    return [shorten_line(target, MAX_SHOWN_LENGTH) for target in sorted(last, key=last.__getitem__)]


def _format_list(title: str, entries: Sequence[str]) -> Iterator[str]:
    if not entries:
        return
    older = len(entries) - MAX_LISTED
    yield f"{title}{f' (the newest {MAX_LISTED} of {len(entries)})' if older > 0 else ''}:"
    yield from (f"  {entry}" for entry in entries[-MAX_LISTED:])


def _format_call(line: AuditLine) -> str:
    return f"{shorten_line(line.tool, MAX_SHOWN_LENGTH)} {shorten_line(line.target, MAX_SHOWN_LENGTH)}".strip()
