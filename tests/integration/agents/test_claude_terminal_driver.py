"""The program between a terminal and claude, on real terminals, with a small program in claude's place.

tests/acceptance tries it with the real one.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from blueflame.agents.claude import terminal_driver
from blueflame.agents.claude.stream import parse_line
from blueflame.agents.runtime import CallResult, RunResult, TextOutput
from support.terminals import open_viewer
from support.wardens import read_outcome, running_warden, write_launch

CLAUDE = r"""
import json, os, signal, sys, termios, time, tty
notes = os.path.join(os.environ["HOME"], ".blueflame-talk")
options = json.loads(os.environ["OPTIONS"])
transcript = os.path.join(os.environ["HOME"], "t.jsonl")
def note(event, **more):
    draft = os.path.join(notes, event + ".draft")
    with open(draft, "w") as file:
        json.dump({"transcript_path": transcript, **more}, file)
    os.rename(draft, os.path.join(notes, event))
def show(text):
    os.write(1, text.encode())
def write(*lines):
    with open(transcript, "a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
if options.get("dies"):
    sys.exit(3)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
note("SessionStart")
tty.setraw(0)
show("\x1b[?2004hready\r\n")
heard, deaf = b"", options.get("deaf", 0)
while True:
    heard += os.read(0, 65536)
    if b"\x1b[201~" in heard and not heard.endswith(b"\r"):
        show("[Pasted text]")
    if heard.endswith(b"\r"):
        if deaf:
            deaf -= 1
            heard = heard[:-1]
            continue
        break
with open(os.path.join(os.environ["HOME"], "heard"), "wb") as file:
    file.write(heard)
note("UserPromptSubmit")
write(*options.get("lines", ()))
show("working\r\n")
if options.get("fails"):
    note("StopFailure", last_assistant_message=options["fails"])
elif not options.get("talks"):
    note("Stop")
while b"quit" not in heard:
    heard += os.read(0, 65536)
    show("got it\r\n")
"""
ASK = "import sys; print('{\"type\": \"asked\", \"with\": ' + __import__('json').dumps(sys.stdin.read()) + '}')"
TEXT = {"type": "assistant", "message": {"content": [{"type": "text", "text": "All done."}]}}


def prepared(
    folder: Path, reported: Mapping[str, Any], *, prompt: str = "Привет\nмир", alone: bool = True, ask: bool = False
) -> Path:
    folder.mkdir()
    (folder / "prompt.md").write_text(prompt)
    (folder / "final.md").write_text("And now?")
    program = {
        "talk": [sys.executable, "-c", CLAUDE],
        "ask": [sys.executable, "-c", ASK] if ask else [],
        "prompt": str(folder / "prompt.md"),
        "final": str(folder / "final.md"),
        "alone": alone,
    }
    (folder / "talk.json").write_text(json.dumps(program))
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "OPTIONS": json.dumps(reported)}
    argv = (sys.executable, terminal_driver.__file__, str(folder / "talk.json"))
    return write_launch(folder, *argv, env=env, terminal={"rows": 30, "columns": 90})


def ended(folder: Path) -> dict[str, Any]:
    with running_warden(folder) as warden:
        assert warden.wait(30) == 0
    return read_outcome(folder)


def said(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "stdout.log").read_text().splitlines()]


def test_the_prompt_is_pasted_whole_and_the_result_read_from_the_transcript(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "дело", {"lines": [TEXT]})
    assert ended(folder)["exit_code"] == 0
    assert (folder / "heard").read_bytes() == b"\x1b[200~" + "Привет\nмир".encode() + b"\x1b[201~\r"
    assert said(folder)[-1] == {
        "type": "result",
        "is_error": False,
        "terminal_reason": "completed",
        "result": "All done.",
    }


def test_a_long_prompt_arrives_whole(tmp_path: Path) -> None:
    prompt = "".join(f"строка {n}\n" for n in range(30_000)).rstrip("\n")
    folder = prepared(tmp_path / "дело", {}, prompt=prompt)
    assert ended(folder)["exit_code"] == 0
    assert (folder / "heard").read_bytes() == b"\x1b[200~" + prompt.encode() + b"\x1b[201~\r"


def test_a_prompt_cannot_end_its_own_paste(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "дело", {}, prompt="a\x1b[201~\rrm -rf /\r\x03b")
    assert ended(folder)["exit_code"] == 0
    assert (folder / "heard").read_bytes() == b"\x1b[200~a[201~rm -rf /b\x1b[201~\r"


def test_enter_is_pressed_again_when_it_had_no_effect(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "дело", {"deaf": 1})
    assert ended(folder)["exit_code"] == 0


def test_the_transcript_is_printed_in_the_format_of_print_mode(tmp_path: Path) -> None:
    denied = {
        "type": "user",
        "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": True}]},
        "toolUseResult": "Error: no",
        "toolDenialKind": "permission-rule",
    }
    call = {
        "type": "assistant",
        "message": {"content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}]},
    }
    other = {"type": "api-request-blob", "message": {"content": []}}
    aside = {**TEXT, "isSidechain": True}
    folder = prepared(tmp_path / "дело", {"lines": [call, denied, other, aside, TEXT]})
    ended(folder)
    signals = [signal for line in (folder / "stdout.log").read_text().splitlines() for signal in parse_line(line)]
    assert CallResult("t1", denied=True) in signals
    assert signals.count(TextOutput("All done.")) == 2  # as a message, and as the result
    assert RunResult() in signals


def test_a_turn_that_failed_is_a_failure(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "дело", {"fails": "API Error: 400 nothing left"}, ask=True)
    assert ended(folder)["exit_code"] == 1
    last = said(folder)[-1]
    assert (last["is_error"], last["result"]) == (True, "API Error: 400 nothing left")


def test_a_claude_that_dies_before_it_has_its_prompt_is_a_failure(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "дело", {"dies": True}, ask=True)
    assert ended(folder)["exit_code"] == 1
    assert "before it had its prompt" in said(folder)[-1]["result"]


def test_the_conversation_is_asked_for_its_result_once_more(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "дело", {"lines": [TEXT]}, ask=True)
    assert ended(folder)["exit_code"] == 0
    assert said(folder)[-1] == {"type": "asked", "with": "And now?"}


def test_with_a_person_it_is_over_when_the_person_leaves(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "дело", {"talks": True, "lines": [TEXT]}, alone=False, ask=True)
    with running_warden(folder) as warden:
        with open_viewer(folder) as person:
            person.type(b"too early")  # would mix with the prompt
            person.expect(b"working")
            person.type(b"a word")
            person.expect(b"got it")
            person.type(b"quit")
            person.expect(b"writing its result")
            assert person.until_gone()
        assert warden.wait(30) == 0
    assert (folder / "heard").read_bytes().endswith(b"\x1b[201~\r")
    assert said(folder)[-1]["type"] == "asked"


def test_a_hint_to_resume_outside_of_the_sandbox_is_not_shown() -> None:
    conversation = object.__new__(terminal_driver.Conversation)
    conversation.leaving = False
    typed = b"explain claude --resume 1\r\n"
    assert conversation._drop_resume_hint(b"\x1b[?2004h" + typed) == b"\x1b[?2004h" + typed
    left = b"bye\x1b[?2004l\r\n\r\nResume this session with:\r\n\x1b[2mclaude --resume 0a1b\x1b[0m\r\nend"
    assert conversation._drop_resume_hint(left) == b"bye\x1b[?2004l\r\n\r\nend"


def test_the_size_of_the_window_reaches_claude(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "дело", {"talks": True}, alone=False)
    program = json.loads((folder / "talk.json").read_text())
    program["talk"] = ["sh", "-c", "trap 'echo now $(stty size)' WINCH; echo begun; while :; do sleep 0.1; done"]
    (folder / "talk.json").write_text(json.dumps(program))
    with running_warden(folder), open_viewer(folder) as person:
        person.expect(b"begun")
        person.resize(50, 132)
        person.expect(b"now 50 132")


@pytest.mark.parametrize(
    "lines", [["not json"], [["a list"]], [{"type": "assistant"}], [{"type": "user", "message": 1}]]
)
def test_an_unreadable_transcript_breaks_nothing(tmp_path: Path, lines: list[object]) -> None:
    folder = prepared(tmp_path / "дело", {"lines": [*lines, TEXT]})
    assert ended(folder)["exit_code"] == 0
    assert said(folder)[-1]["result"] == "All done."
