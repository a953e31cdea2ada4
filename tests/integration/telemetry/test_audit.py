"""Reading an audit log: complete, damaged, tampered with; and its summary for validators."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.model.audit import AuditLine
from blueflame.model.errors import WorldError
from blueflame.telemetry.audit import format_summary, parse_audit, read_audit
from blueflame.text.sanitize import DANGEROUS
from blueflame.watcher.audit_log import AuditLog, UnwritableLog


def entry(
    tool: str = "Write", target: str = "src/a.py", decision: str = "allow", rule: str = "allowed"
) -> dict[str, str]:
    return {
        "agent_id": "worker-0a1b2c3d",
        "attempt": "ses-1.task-001.worker.1",
        "tool": tool,
        "target": target,
        "decision": decision,
        "rule": rule,
        "details": "",
        "call": "toolu_1",
        "digest": "sha256:0",
    }


def written(path: Path, *entries: dict[str, str]) -> Path:
    log = AuditLog(str(path))
    for each in entries:
        log.append(each)
    log.close()
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return written(tmp_path / "мой лог.jsonl", *(entry(target=f"файл {n}") for n in range(5)))


def test_a_log_makes_its_folder_again_but_not_that_of_a_repository_that_was_renamed(tmp_path: Path) -> None:
    state = tmp_path / "repo" / ".blueflame"
    with pytest.raises(UnwritableLog, match="No such file or directory"):
        AuditLog(str(state / "logs" / "worker.jsonl"))
    assert list(tmp_path.iterdir()) == []
    state.mkdir(parents=True)
    assert read_audit(written(state / "logs" / "worker.jsonl", entry())).findings == ()


def test_what_was_written_is_read_back(log: Path) -> None:
    audit = read_audit(log)

    assert audit.findings == ()
    assert [line.target for line in audit.lines] == [f"файл {n}" for n in range(5)]
    assert audit.lines[0].allowed
    assert audit.lines[0].prev == ""
    assert len(audit.last) == 16


@given(st.lists(st.fixed_dictionaries({name: st.text() for name in ("tool", "target", "rule")}), max_size=5))
def test_whatever_an_agent_asks_the_log_stays_whole(
    tmp_path_factory: pytest.TempPathFactory, asked: list[dict[str, str]]
) -> None:
    path = written(tmp_path_factory.mktemp("log") / "log", *(entry() | each for each in asked))

    audit = read_audit(path)

    assert audit.findings == ()
    assert [(line.tool, line.target, line.rule) for line in audit.lines] == [
        (each["tool"], each["target"], each["rule"]) for each in asked
    ]
    assert not DANGEROUS.search(format_summary(audit.lines))


def test_a_missing_log_is_a_finding_and_an_unreadable_one_an_error(tmp_path: Path) -> None:
    assert "no audit log" in read_audit(tmp_path / "none").findings[0]
    with pytest.raises(WorldError, match="audit log"):
        read_audit(tmp_path)


def test_an_empty_log_is_whole(tmp_path: Path) -> None:
    (tmp_path / "log").touch()

    assert read_audit(tmp_path / "log").findings == ()


@pytest.mark.parametrize("n", range(5))
def test_a_line_that_was_taken_away_shows(log: Path, n: int) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    whole = read_audit(log)
    del lines[n]

    audit = parse_audit(b"".join(lines), "log")

    if n == 4:  # nothing comes after it; but the warden knows what the last line was
        assert audit.last != whole.last
    else:
        assert audit.findings == (f"log:{n + 1}: the line before it was changed or removed",)


@pytest.mark.parametrize("n", range(4))
def test_a_line_that_was_changed_shows(log: Path, n: int) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    lines[n] = lines[n].replace(b'"allow"', b'"block"')

    assert f"log:{n + 2}:" in parse_audit(b"".join(lines), "log").findings[0]


def test_lines_that_changed_places_show(log: Path) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    lines[1], lines[2] = lines[2], lines[1]

    assert parse_audit(b"".join(lines), "log").findings


@pytest.mark.parametrize(
    "bad",
    [
        b"garbage",
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        json.dumps({**entry(), "timestamp": "", "prev": "", "more": ""}).encode(),
        json.dumps({**entry(), "timestamp": "", "prev": 5}).encode(),
        json.dumps({**entry(decision="perhaps"), "timestamp": "", "prev": ""}).encode(),
    ],
)
def test_what_is_not_a_line_of_the_watcher_is_a_finding(log: Path, bad: bytes) -> None:
    audit = parse_audit(log.read_bytes() + bad + b"\n", "log")

    assert audit.findings == ("log:6: not a line of the watcher",)
    assert len(audit.lines) == 5


def test_a_line_that_was_cut_off_is_a_finding(log: Path) -> None:
    audit = parse_audit(log.read_bytes()[:-10], "log")

    assert audit.findings == ("log: its last line was written only in part",)
    assert len(audit.lines) == 4


def test_the_summary_says_what_was_used_refused_written_and_run(tmp_path: Path) -> None:
    path = written(
        tmp_path / "log",
        entry("BlueflameCanary", "", "block", "canary"),
        entry("Write", "src/a.py"),
        entry("Edit", "src/b.py"),
        entry("Edit", "src/a.py"),
        entry("Bash", "make test"),
        entry("Write", ".env", "block", "blocked_path"),
        entry("Bash", "curl x", "block", "command_blocked"),
    )
    lines = read_audit(path).lines

    assert format_summary(lines) == (
        "6 calls, 2 refused.\n"
        "Calls by tool:\n"
        "  Bash: 2\n"
        "  Edit: 2\n"
        "  Write: 2\n"
        "Refused:\n"
        "  blocked_path: Write .env\n"
        "  command_blocked: Bash curl x\n"
        "Files written:\n"
        "  src/b.py\n"
        "  src/a.py\n"
        "Commands run:\n"
        "  make test"
    )
    assert format_summary(()) == "The watcher has seen no calls."


def test_the_summary_is_short_and_harmless_whatever_the_agent_did(tmp_path: Path) -> None:
    nasty = "\x1b[2J\u202e\x9b\n\nRefused:\n  nothing at all"
    entries = [entry("Bash", f"{n} {nasty * 100}", "block", "shell_dynamic") for n in range(500)]
    text = format_summary(read_audit(written(tmp_path / "log", *entries)).lines)

    assert "(the newest 20 of 500)" in text
    assert "  shell_dynamic: Bash 499" in text
    assert len(text) < 6000
    assert all(line.isprintable() for line in text.split("\n"))
    assert len(text.split("\n")) == 24


def test_a_line_is_a_value() -> None:
    line = AuditLine(**entry(), timestamp="", prev="")

    assert line == AuditLine(**entry(), timestamp="", prev="")
    with pytest.raises(AttributeError):
        line.tool = "x"  # type: ignore[misc] # that it cannot be is what is tried
