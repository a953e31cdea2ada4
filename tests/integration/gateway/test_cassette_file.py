from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from blueflame.gateway.cassette.file import CassettePlayer, CassetteRecorder
from blueflame.model.errors import WorldError

KEY = "worker/task-001/1"
HERE = {"{{worktree}}": "/home/ann/wt"}
THERE = {"{{worktree}}": "/srv/x"}


def asked(words: str, turns: int = 0, model: str = "m") -> bytes:
    agent_call = [{"role": "user", "content": words}]
    for n in range(turns):
        agent_call += [{"role": "assistant", "content": f"{n}"}, {"role": "user", "content": "go on"}]
    return json.dumps({"model": model, "messages": agent_call}).encode()


def said(words: str) -> bytes:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 1, "output_tokens": 1}}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": words[:3]}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": words[3:]}},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def record(path: Path, *exchanges: tuple[bytes, str], key: str = KEY) -> None:
    recorder = CassetteRecorder(str(path), key, HERE)
    for body, words in exchanges:
        recorder.add("anthropic", body, said(words), True)
    recorder.close()
    assert recorder.problem == ""


def received(player: CassettePlayer, body: bytes) -> str | None:
    chunks = player.find_answer("anthropic", body)
    if chunks is None:
        return None
    events = [json.loads(chunk.decode().split("data: ", 1)[1]) for chunk in chunks]
    return "".join(event["delta"]["text"] for event in events if event["type"] == "content_block_delta")


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return tmp_path / "tape.jsonl"


def test_recorded_answers_are_replayed_turn_by_turn_with_the_paths_of_this_run(tape: Path) -> None:
    record(tape, (asked("in /home/ann/wt"), "see /home/ann/wt/a"), (asked("in /home/ann/wt", 1), "done"))
    player = CassettePlayer(str(tape), KEY, THERE)
    assert received(player, asked("in /srv/x")) == "see /srv/x/a"
    assert received(player, asked("in /srv/x", 1)) == "done"


def test_the_same_question_after_a_retry_gets_the_same_answer(tape: Path) -> None:
    record(tape, (asked("a"), "one"), (asked("a", 1), "two"))
    player = CassettePlayer(str(tape), KEY, HERE)
    assert [received(player, asked("a")) for _ in range(3)] == ["one"] * 3
    assert received(player, asked("a", 1)) == "two"


def test_two_answers_to_one_question_are_played_in_order(tape: Path) -> None:
    record(tape, (asked("a"), "one"), (asked("a"), "other"))
    player = CassettePlayer(str(tape), KEY, HERE)
    assert [received(player, asked("a")) for _ in range(3)] == ["one", "other", "other"]


def test_conversations_of_one_attempt_are_distinguished(tape: Path) -> None:
    record(tape, (asked("main"), "m0"), (asked("sub"), "s0"), (asked("sub", 1), "s1"), (asked("main", 1), "m1"))
    player = CassettePlayer(str(tape), KEY, HERE)
    assert received(player, asked("sub")) == "s0"
    assert received(player, asked("main")) == "m0"
    assert received(player, asked("main", 1)) == "m1"
    assert received(player, asked("sub", 1)) == "s1"


def test_a_conversation_with_another_beginning_is_replayed_in_order(tape: Path) -> None:
    record(tape, (asked("at 10:01"), "a0"), (asked("title", model="small"), "t0"), (asked("at 10:01", 1), "a1"))
    player = CassettePlayer(str(tape), KEY, HERE)
    assert received(player, asked("another title", model="small")) == "t0"
    assert received(player, asked("at 11:59")) == "a0"
    assert received(player, asked("at 11:59", 1)) == "a1"
    assert received(player, asked("no conversation began with this")) is None


def test_a_turn_that_was_not_recorded_gets_the_next_answer_of_its_conversation(tape: Path) -> None:
    record(tape, (asked("a"), "one"), (asked("a", 2), "two"))
    player = CassettePlayer(str(tape), KEY, HERE)
    assert [received(player, asked("a", n)) for n in (0, 1)] == ["one", "two"]
    assert received(player, asked("a", 5)) is None


def test_an_attempt_that_was_not_recorded_replays_an_earlier_one_of_its_task(tape: Path) -> None:
    record(tape, (asked("a"), "first"), key="worker/task-001/1")
    record(tape, (asked("a"), "second"), key="worker/task-001/2")
    record(tape, (asked("a"), "other task"), key="worker/task-0011/1")
    assert received(CassettePlayer(str(tape), "worker/task-001/2", HERE), asked("a")) == "second"
    assert received(CassettePlayer(str(tape), "worker/task-001/9", HERE), asked("a")) == "second"
    assert received(CassettePlayer(str(tape), "worker/task-002/1", HERE), asked("a")) is None
    assert received(CassettePlayer(str(tape), "validator/task-001/1", HERE), asked("a")) is None


def test_only_whole_answers_are_kept_and_nothing_of_the_request(tape: Path) -> None:
    recorder = CassetteRecorder(str(tape), KEY, HERE)
    recorder.add("anthropic", asked("a secret request"), said("hm")[:-30], True)
    recorder.add("anthropic", b"oops", said("hm"), True)
    assert tape.read_bytes() == b""
    recorder.add("anthropic", asked("a secret request"), said("hm"), True)
    recorder.close()
    line = json.loads(tape.read_bytes())
    assert set(line) == {"key", "api", "thread", "turn", "model", "streamed", "response"}
    assert b"secret" not in tape.read_bytes()


def test_an_answer_that_was_not_streamed_is_played_as_one(tape: Path) -> None:
    message = {"type": "message", "content": [{"type": "text", "text": "/home/ann/wt"}]}
    recorder = CassetteRecorder(str(tape), KEY, HERE)
    recorder.add("anthropic", asked("a"), json.dumps(message).encode(), False)
    recorder.close()
    chunks = CassettePlayer(str(tape), KEY, THERE).find_answer("anthropic", asked("a"))
    assert chunks is not None
    assert json.loads(b"".join(chunks))["content"][0]["text"] == "/srv/x"


WRITER = """
import sys
sys.path[:0] = [sys.argv[3]]
from test_cassette_file import KEY, asked, said
from blueflame.gateway.cassette.file import CassetteRecorder

recorder = CassetteRecorder(sys.argv[1], f"worker/{sys.argv[2]}/1", {})
for n in range(40):
    recorder.add("anthropic", asked(str(n)), said(f"{sys.argv[2]} " + "x" * 20_000), True)
assert recorder.problem == ""
"""


def test_several_gateways_write_to_one_cassette_at_once(tape: Path) -> None:
    names = ["a", "b", "c"]
    here = str(Path(__file__).parent)
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tape), name, here]) for name in names]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    lines = [json.loads(line) for line in tape.read_bytes().splitlines()]
    assert len(lines) == 120
    for name in names:
        player = CassettePlayer(str(tape), f"worker/{name}/1", {})
        assert received(player, asked("7")) == f"{name} " + "x" * 20_000


@pytest.mark.parametrize(
    "line", ["oops", "[]", '{"key": "worker/task-001/1"}', '{"key": "worker/task-001/1", "api": "anthropic"', ""]
)
def test_a_damaged_cassette_is_refused_with_its_line(tape: Path, line: str) -> None:
    record(tape, (asked("a"), "one"))
    with tape.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(WorldError, match=r"tape\.jsonl:2 is not a line of a cassette"):
        CassettePlayer(str(tape), KEY, HERE)


def test_a_missing_cassette_is_refused(tape: Path) -> None:
    with pytest.raises(WorldError, match="cannot read the cassette"):
        CassettePlayer(str(tape), KEY, HERE)
    with pytest.raises(WorldError, match="cannot write the cassette"):
        CassetteRecorder(str(tape / "x"), KEY, HERE)


def test_a_full_disk_is_reported_and_delays_no_call() -> None:
    recorder = CassetteRecorder("/dev/full", KEY, HERE)
    recorder.add("anthropic", asked("a"), said("one"), True)
    assert "No space left" in recorder.problem
