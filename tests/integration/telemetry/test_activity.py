"""What agents do now, as it is read on from files that grow: however they grow, the same comes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.agents import registry
from blueflame.agents.scripted import ScriptedRuntime
from blueflame.model.activity import Activity, AgentState
from blueflame.model.attempt import Attempt, AttemptOutcome, AttemptRecord, Ending
from blueflame.model.spend import Spend
from blueflame.system.lines import MAX_TAIL_LINE_BYTES, STEP_BYTES, FileTail
from blueflame.telemetry.activity import ActivityTracker, build_status, shorten_paths
from blueflame.telemetry.transcript import (
    AgentComplaint,
    AgentTranscript,
    AgentWords,
    ModelCharge,
    TranscriptCall,
    TranscriptEntry,
)

ATTEMPT = Attempt(
    id="ses-1.task-001.worker.1", session="ses-1", subject="task-001", role="worker", n=1, agent_id="worker-0a1b2c3d"
)
RECORD = AttemptRecord(attempt=ATTEMPT, intended_at=1.0, started_at=2.0, worktree="/trees/worker-0a1b2c3d")
STREAM, AUDIT, USAGE = "stdout.log", "audit.jsonl", "usage.jsonl"
Files = Mapping[str, Sequence[Mapping[str, Any]]]


def follower(folder: Path) -> ActivityTracker:
    return ActivityTracker({"scripted": ScriptedRuntime()}, lambda _attempt: folder, lambda _agent: folder / AUDIT)


def write(folder: Path, name: str, *lines: Mapping[str, Any]) -> None:
    with (folder / name).open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def says(text: str) -> dict[str, Any]:
    return {"type": "say", "text": text}


def acts(tool: str, target: str, call: str = "", *, denied: bool = False) -> dict[str, Any]:
    return {"type": "action", "tool": tool, "target": target, "call": call, "denied": denied}


def asks(tool: str, target: str, call: str = "", *, decision: str = "allow", at: str = "") -> dict[str, Any]:
    rule = "canary" if tool == "Canary" else "path_not_allowed" if decision == "block" else ""
    said = {"tool": tool, "target": target, "call": call, "decision": decision}
    return {**said, "rule": rule, "details": "", "timestamp": at}


def uses(tokens: int, micro_usd: int = 0, *, at: str = "", refused: str = "") -> dict[str, Any]:
    return {"at": at, "model": "m-1", "input": tokens, "output": 1, "micro_usd": micro_usd, "refused": refused}


def test_the_latest_call_and_the_last_text(tmp_path: Path) -> None:
    follow = follower(tmp_path)
    assert follow.read_activity(RECORD) == Activity(attempt=ATTEMPT, status=build_status(RECORD, {}, heard_at=None))
    write(tmp_path, STREAM, says("I read"), acts("Read", "/trees/worker-0a1b2c3d/src/a.py", "1"))
    seen = follow.read_activity(RECORD)
    assert (seen.call, seen.last_words, seen.spoke_last, seen.calls) == ("Read src/a.py", "I read", False, 1)
    write(tmp_path, STREAM, says("I have read"))
    assert follow.read_activity(RECORD).spoke_last


def test_a_call_is_known_from_the_audit_log_before_the_agent_shows_it(tmp_path: Path) -> None:
    follow = follower(tmp_path)
    write(tmp_path, STREAM, acts("Read", "a.py", "1"), says("Now I write"))
    write(tmp_path, AUDIT, asks("Canary", "", decision="block"), asks("Read", "a.py", "1"))
    assert follow.read_activity(RECORD).spoke_last
    write(tmp_path, AUDIT, asks("Write", "b.py", "2", decision="block"))
    seen = follow.read_activity(RECORD)
    assert (seen.call, seen.spoke_last, seen.calls, seen.refused) == ("Write b.py", False, 2, 1)
    write(tmp_path, STREAM, acts("Write", "b.py", "2", denied=True), says("Then not"))
    seen = follow.read_activity(RECORD)
    assert (seen.call, seen.spoke_last, seen.calls, seen.refused) == ("Write b.py", True, 2, 1)


def test_what_the_gateway_counts_is_what_counts(tmp_path: Path) -> None:
    follow = follower(tmp_path)
    write(tmp_path, STREAM, {"type": "usage", "input_tokens": 7, "cost_usd": 0.5})
    assert follow.read_activity(RECORD).spend == Spend(micro_usd=500_000, input_tokens=7)
    write(tmp_path, USAGE, uses(100, 20), uses(5, 5, refused="budget"), uses(10, 2))
    assert follow.read_activity(RECORD).spend == Spend(micro_usd=22, input_tokens=110, output_tokens=2)


@pytest.mark.parametrize(
    ("record", "status", "doing", "why"),
    [
        (RECORD, {}, AgentState.STARTING, ""),
        (RECORD, {"state": "setup"}, AgentState.SETUP, ""),
        (RECORD, {"state": "working", "parked": {}}, AgentState.WORKING, ""),
        (RECORD, {"state": "working", "asking_since": 5.0}, AgentState.ASKING, ""),
        (
            RECORD,
            {"state": "working", "parked": {"kind": "network", "reason": "no route"}},
            AgentState.PARKED,
            "no route",
        ),
        (RECORD, {"state": "stopping"}, AgentState.ENDING, ""),
        (RECORD, {"state": "ended"}, AgentState.ENDING, ""),
        (RECORD, {"state": "something new"}, AgentState.STARTING, ""),
        (
            replace(RECORD, cancel_reason="enough"),
            {"state": "working", "parked": {"kind": "x"}},
            AgentState.ENDING,
            "enough",
        ),
        (replace(RECORD, stalled_at=60.0), {"state": "working"}, AgentState.SILENT, ""),
        (replace(RECORD, stalled_at=40.0), {"state": "working"}, AgentState.WORKING, ""),
        (
            replace(RECORD, ended=AttemptOutcome(ending=Ending.NO_COMMITS)),
            {"state": "working"},
            AgentState.ENDED,
            "no commits",
        ),
    ],
)
def test_the_status_of_an_agent(record: AttemptRecord, status: dict[str, Any], doing: AgentState, why: str) -> None:
    stand = build_status(record, status, heard_at=50.0)
    assert (stand.state, stand.reason) == (doing, why)


def test_until_when_it_waits() -> None:
    parked = {"kind": "rate_limit", "reason": "429", "since": 10, "until": 99.5}
    stand = build_status(RECORD, {"state": "working", "parked": parked}, heard_at=None)
    assert (stand.kind, stand.since, stand.until) == ("rate_limit", 10.0, 99.5)
    assert build_status(RECORD, {"state": "working", "parked": {**parked, "until": None}}, heard_at=None).until is None


def test_files_that_make_no_sense_are_not_a_reason_to_fail(tmp_path: Path) -> None:
    for name in (STREAM, AUDIT, USAGE, "status.json"):
        (tmp_path / name).write_bytes(b'[1]\n\xff\xfe\n{"input": -4, "micro_usd": true}\n' + b"[" * 5000 + b"\n")
    seen = follower(tmp_path).read_activity(RECORD)
    assert seen.spend == Spend()
    assert seen.status.state is AgentState.STARTING


def test_paths_are_relative_to_the_checkout() -> None:
    assert shorten_paths("/trees/w", "/trees/w/src/a.py") == "src/a.py"
    assert shorten_paths("/trees/w", "cp /trees/w/a /trees/w/b") == "cp a b"
    assert shorten_paths("/trees/w", "/trees/w") == "."
    assert shorten_paths(None, "/etc/passwd") == "/etc/passwd"


def test_who_is_gone_is_forgotten(tmp_path: Path) -> None:
    follow = follower(tmp_path)
    write(tmp_path, AUDIT, asks("Read", "a.py"))
    assert follow.read_activity(RECORD).calls == 1
    follow.keep_only({})
    (tmp_path / AUDIT).unlink()
    assert follow.read_activity(RECORD).calls == 0


def test_a_flood_is_caught_up_with_bit_by_bit(tmp_path: Path) -> None:
    follow = follower(tmp_path)
    write(tmp_path, AUDIT, *[asks("Read", "x" * 300)] * 2000)
    first = follow.read_activity(RECORD).calls
    assert 0 < first < 2000
    while follow.read_activity(RECORD).calls < 2000:
        pass


def test_a_line_that_is_too_long_is_left_out_and_those_around_it_are_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\n" + b"x" * (MAX_TAIL_LINE_BYTES + 3 * STEP_BYTES) + b"\ntwo\nthr")
    tail, lines = FileTail(path), list[bytes]()
    for _ in range(5):
        lines += tail.read_lines()
    with path.open("ab") as file:
        file.write(b"ee\n")
    assert [*lines, *tail.read_lines()] == [b"one", b"two", b"three"]


words = st.text(st.characters(blacklist_categories=["Cs"]), max_size=8)
tools = st.sampled_from(["Read", "Edit", "Bash"])
calls = st.sampled_from(["1", "2", "3", ""])
stream_lines = st.lists(
    st.one_of(
        st.builds(says, words),
        st.builds(acts, tools, words, calls, denied=st.booleans()),
        st.fixed_dictionaries({"type": st.just("usage"), "input_tokens": st.integers(0, 99)}),
        st.just({"type": "?"}),
    ),
    max_size=8,
)
audit_lines = st.lists(
    st.builds(
        asks, st.sampled_from(["Read", "Edit", "Canary"]), words, calls, decision=st.sampled_from(["allow", "block"])
    ),
    max_size=6,
)
usage_lines = st.lists(st.builds(uses, st.integers(0, 999), st.integers(0, 999)), max_size=4)
folders = st.fixed_dictionaries({STREAM: stream_lines, AUDIT: audit_lines, USAGE: usage_lines})


def content(files: Files) -> dict[str, bytes]:
    return {name: "".join(json.dumps(line) + "\n" for line in lines).encode() for name, lines in files.items()}


@given(files=folders, data=st.data())
def test_any_chunking_of_the_files_gives_the_same_activity(files: Files, data: st.DataObject) -> None:
    whole = content(files)
    with TemporaryDirectory() as made:
        folder = Path(made)
        follow, seen = follower(folder), None
        for name, length in ((name, len(text)) for name, text in whole.items()):
            cuts = data.draw(st.lists(st.integers(0, length), max_size=4))
            for start, end in pairwise([0, *sorted(cuts), length]):
                with (folder / name).open("ab") as file:
                    file.write(whole[name][start:end])
                seen = follow.read_activity(RECORD)
        assert seen is not None
        at_once = follower(folder).read_activity(RECORD)
        assert replace(seen, status=at_once.status) == at_once


def diary(folder: Path) -> AgentTranscript:
    return AgentTranscript(ScriptedRuntime(), folder, folder / AUDIT, "/trees/w")


def test_a_transcript_has_text_calls_and_charges_in_order(tmp_path: Path) -> None:
    write(tmp_path, STREAM, says("I read"), acts("Read", "a.py", "1"), says("I write"), acts("Write", "b.py", "2"))
    write(tmp_path, STREAM, {"type": "error", "text": "oh"}, says("Done"), says("Done"))
    write(tmp_path, AUDIT, asks("Canary", "", decision="block"))
    write(tmp_path, AUDIT, asks("Read", "/trees/w/a.py", "1", at="2026-01-01T00:00:02.000Z"))
    write(tmp_path, AUDIT, asks("Write", "b.py", "2", decision="block", at="2026-01-01T00:00:04.000Z"))
    write(tmp_path, USAGE, uses(10, 1, at="2026-01-01T00:00:01.000Z"), uses(20, 2, at="2026-01-01T00:00:03.000Z"))
    write(tmp_path, USAGE, uses(0, at="2026-01-01T00:00:05.000Z", refused="budget"))
    first = Spend(micro_usd=1, input_tokens=10, output_tokens=1)
    second = Spend(micro_usd=2, input_tokens=20, output_tokens=1)
    assert [*diary(tmp_path).read_entries()] == [
        AgentWords("I read"),
        ModelCharge(spend=first, total=first, model="m-1", at="2026-01-01T00:00:01.000Z"),
        TranscriptCall(tool="Read", target="a.py", allowed=True, at="2026-01-01T00:00:02.000Z"),
        AgentWords("I write"),
        ModelCharge(spend=second, total=first + second, model="m-1", at="2026-01-01T00:00:03.000Z"),
        TranscriptCall(
            tool="Write", target="b.py", allowed=False, why="path_not_allowed", at="2026-01-01T00:00:04.000Z"
        ),
        AgentComplaint("oh"),
        AgentWords("Done"),
        ModelCharge(spend=Spend(), total=first + second, model="m-1", refused="budget", at="2026-01-01T00:00:05.000Z"),
    ]


def test_a_call_is_reported_once_whichever_log_has_it_first(tmp_path: Path) -> None:
    book = diary(tmp_path)
    write(tmp_path, AUDIT, asks("Read", "a.py", "1"))
    assert [*book.read_entries()] == [TranscriptCall(tool="Read", target="a.py", allowed=True)]
    write(tmp_path, STREAM, acts("Read", "a.py", "1"), acts("Edit", "b.py", "2"), acts("Edit", "c.py", "3"))
    assert [*book.read_entries()] == [
        TranscriptCall(tool="Edit", target="b.py"),
        TranscriptCall(tool="Edit", target="c.py"),
    ]
    write(tmp_path, AUDIT, asks("Edit", "b.py", "2"), asks("Edit", "c.py", "3", decision="block"))
    assert [*book.read_entries()] == [TranscriptCall(tool="Edit", target="c.py", allowed=False, why="path_not_allowed")]
    assert [*book.read_entries()] == []


def test_without_a_gateway_the_agents_own_usage_is_shown(tmp_path: Path) -> None:
    write(tmp_path, STREAM, {"type": "usage", "input_tokens": 7}, {"type": "usage", "input_tokens": 3})
    assert [entry.total.tokens for entry in diary(tmp_path).read_entries() if isinstance(entry, ModelCharge)] == [7, 10]


@given(files=folders, data=st.data())
def test_a_transcript_has_all_text_whatever_the_chunks(files: Files, data: st.DataObject) -> None:
    text = content(files)[STREAM]
    with TemporaryDirectory() as made:
        folder = Path(made)
        book, result = diary(folder), list[TranscriptEntry]()
        cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=4))
        for start, end in pairwise([0, *sorted(cuts), len(text)]):
            with (folder / STREAM).open("ab") as file:
                file.write(text[start:end])
            result += book.read_entries()
        assert result == [*diary(folder).read_entries()]


def test_a_file_that_cannot_be_read_is_reported_instead_of_text(tmp_path: Path) -> None:
    (tmp_path / AUDIT).mkdir()
    seen = follower(tmp_path).read_activity(RECORD)
    assert AUDIT in seen.last_words
    assert seen.status.state is AgentState.STARTING


def test_what_claude_does_is_read_past_its_partial_messages(tmp_path: Path) -> None:
    partial = {"type": "stream_event", "event": {"type": "content_block_delta", "delta": {"text": "N"}}}
    edit = {"type": "tool_use", "id": "toolu_1", "name": "Edit", "input": {"file_path": f"{RECORD.worktree}/src/a.py"}}
    lines: list[dict[str, Any]] = [
        {"type": "system", "subtype": "init"},
        *[partial] * 500,
        {"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": "Now the parser."}]}},
        {"type": "assistant", "message": {"id": "m", "content": [edit]}},
        *[partial] * 500,
    ]
    with (tmp_path / STREAM).open("w") as file:
        file.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    claude = {"claude": registry.build_runtime("claude", {}, tmp_path)}
    follow = ActivityTracker(claude, lambda _attempt: tmp_path, lambda _agent: tmp_path / AUDIT)
    seen = follow.read_activity(replace(RECORD, attempt=replace(ATTEMPT, runtime="claude")), most=1 << 20)
    assert (seen.call, seen.last_words, seen.spoke_last, seen.calls) == (
        "Edit src/a.py",
        "Now the parser.",
        False,
        1,
    )
