"""Our ACP client with a small agent of our own, the real hook and a real watcher."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest

from blueflame.agents.acp import build_runtime
from blueflame.agents.hook import find_hook
from blueflame.agents.runtime import AgentBrief, AgentOutput, read_spool
from blueflame.checks.audit_gaps import find_defied_refusals, find_unaudited_calls
from blueflame.telemetry.audit import Audit, read_audit
from support import acp_agent
from support.command_forks import build_forked_main
from support.hook_servers import run_hook_server


class Played(NamedTuple):
    code: int
    gathered: AgentOutput
    notes: list[Any]  # what the client sent to the agent
    audit: Audit
    errors: str

    @property
    def answers(self) -> list[str]:
        outcomes = [note for note in self.notes if isinstance(note, dict) and "outcome" in note]
        return [str(note.get("optionId") or note["outcome"]) for note in outcomes]

    @property
    def gaps(self) -> tuple[str, ...]:
        return find_unaudited_calls(self.gathered.calls, self.audit.lines)


Play = Callable[..., Played]


@pytest.fixture
def play(repo: Path, tmp_path: Path) -> Play:
    def playing(
        *steps: dict[str, Any], prompt: str = "Do it.", program: bool = False, hook: Path | None = None
    ) -> Played:
        folder = tmp_path / "attempt-files"
        folder.mkdir()
        (folder / "steps.json").write_text(json.dumps(steps))
        command = f"{sys.executable} {acp_agent.__file__} '{folder}'"
        brief = AgentBrief(
            attempt="a",
            agent_id="worker-0a1b2c3d",
            role="worker",
            subject="task-001",
            n=1,
            session="ses-1",
            worktree=str(repo),
            prompt=prompt,
            model="some-model",
        )
        launch = build_runtime({"command": command}, tmp_path).prepare_launch(brief, directory=folder)
        with run_hook_server(repo) as watch:
            watch.prove()
            (folder / "home" / ".claude").mkdir(parents=True)  # settings left there by a setup command
            env = {"PATH": "/usr/bin:/bin", "HOME": str(folder / "home"), **launch.env, **watch.env}
            env |= {"BLUEFLAME_HOOK": str(hook)} if hook else {}
            begin = None if program else fork_client(launch.argv[-1], env)
            done = watch.during(
                lambda: subprocess.run(
                    launch.argv,
                    input=launch.stdin,
                    text=True,
                    capture_output=True,
                    check=False,
                    env=env,
                    cwd=repo,
                    preexec_fn=begin,  # the other thread holds no lock that it needs
                )
            )
            audit = watch.audit
        assert not (folder / "home" / ".claude").exists()
        spool = folder / "stdout.log"
        spool.write_text(done.stdout)
        notes = [json.loads(line) for line in (folder / "notes.jsonl").read_text().splitlines()]
        gathered = read_spool(build_runtime({}, tmp_path), spool)
        return Played(done.returncode, gathered, notes, read_audit(audit), done.stderr)

    return playing


def fork_client(orders: str, env: Mapping[str, str]) -> Callable[[], NoReturn]:
    """The client in a process that is forked: its library takes most of a second of CPU time to import."""
    from blueflame.agents.acp import client  # late, for the processes that run none of these tests

    return build_forked_main(partial(client.main, [orders]), env)


def call(name: str, kind: str, **more: object) -> dict[str, Any]:
    return {"toolCallId": name, "kind": kind, **more}


def started(name: str, kind: str, title: str, **more: object) -> dict[str, Any]:
    return {"update": {"sessionUpdate": "tool_call", "status": "pending", "title": title, **call(name, kind, **more)}}


def updated(name: str, status: str, **more: object) -> dict[str, Any]:
    return {"update": {"sessionUpdate": "tool_call_update", "toolCallId": name, "status": status, **more}}


def said(text: str, message: str = "m1") -> dict[str, Any]:
    content = {"type": "text", "text": text}
    return {"update": {"sessionUpdate": "agent_message_chunk", "messageId": message, "content": content}}


def test_an_agent_that_asks_is_answered_by_the_hook(play: Play, repo: Path) -> None:
    good, bad = f"{repo}/src/a.py", f"{repo}/.env"
    played = play(
        said("I wri"),
        said("te it."),
        {"ask": call("c1", "edit", title="Write", rawInput={"file_path": good})},
        updated("c1", "completed"),
        {"ask": call("c2", "edit", title="Write", rawInput={"file_path": bad})},
        updated("c2", "failed"),
        {"ask": call("c3", "execute", title="run", rawInput={"command": "git status"})},
        updated("c3", "completed"),
        said('{"done": true}', "m2"),
        program=True,
    )

    assert played.answers == ["allow_once", "reject_once", "allow_once"]
    assert [(act.tool, act.target, act.denied) for act in played.gathered.calls] == [
        ("Edit", good, False),
        ("Edit", bad, True),
        ("Bash", "git status", False),
    ]
    assert (played.gaps, find_defied_refusals(played.gathered.calls, played.audit.lines)) == ((), ())
    assert played.gathered.output == {"done": True}
    assert played.gathered.result is not None and played.gathered.result.failure == ""
    assert played.code == 0


def test_a_hook_that_is_killed_is_asked_again(play: Play, repo: Path, tmp_path: Path) -> None:
    """No one has decided; its question may have its line already."""
    hook, good = tmp_path / "killed.sh", f"{repo}/src/a.py"
    hook.write_text(
        f"#!/bin/sh\n{find_hook()} || exit 2\ntest -e '{hook}.seen' || {{ : > '{hook}.seen'; kill -KILL $$; }}\n"
    )
    hook.chmod(0o755)

    played = play(
        {"ask": call("c1", "edit", title="Write", rawInput={"file_path": good})}, updated("c1", "completed"), hook=hook
    )

    assert played.answers == ["allow_once"]
    assert [(act.target, act.denied) for act in played.gathered.calls] == [(good, False)]
    assert len(played.audit.lines) == 3  # with the canary
    assert (played.gaps, find_defied_refusals(played.gathered.calls, played.audit.lines)) == ((), ())


def test_the_agent_is_offered_no_services_and_set_to_a_mode_that_asks(play: Play, repo: Path) -> None:
    outside = {"path": f"{repo}/x", "content": "x"}
    played = play(
        {"request": "fs/write_text_file", "params": outside},
        {"request": "terminal/create", "params": {"command": "ls"}},
    )

    offered, mode, prompt, writing, terminal = played.notes
    assert not offered.get("terminal")
    assert not any((offered.get("fs") or {}).values())
    assert (mode, prompt) == ("default", "Do it.")
    assert "error" in writing and terminal.get("result") is None
    assert not (repo / "x").exists()


def test_a_call_that_is_not_described_waits_for_the_rest_and_is_refused_without(play: Play, repo: Path) -> None:
    played = play(
        started("c1", "read", "read"),
        updated("c1", "in_progress", rawInput={"filePath": f"{repo}/README.md"}),
        {"ask": call("c1", "read", title="read", rawInput={})},
        updated("c1", "completed"),
        started("c2", "execute", "bash", rawInput={"cwd": str(repo)}),
        {"ask": call("c2", "execute", title="make", rawInput={"command": "make"})},  # its folder is never sent
        updated("c2", "failed"),
        {"ask": call("c3", "fetch", title="the news")},
    )

    assert played.answers == ["allow_once", "reject_once", "reject_once"]
    assert ("Read", f"{repo}/README.md") in [(act.tool, act.target) for act in played.gathered.calls]


def test_a_message_is_printed_whole_when_a_call_ends_in_the_middle(play: Play, repo: Path) -> None:
    played = play(
        said("First."),
        started("c1", "read", "Read", rawInput={"file_path": f"{repo}/README.md"}),
        said('{"do', "m2"),
        updated("c1", "completed"),
        said('ne": ', "m2"),
        said("true}", "m2"),
    )

    assert played.gathered.output == {"done": True}
    assert [act.tool for act in played.gathered.calls] == ["Read"]


def test_what_was_done_without_a_question_gets_its_line_afterwards(play: Play, repo: Path) -> None:
    played = play(
        started("c1", "read", "Read", rawInput={"file_path": f"{repo}/README.md"}),
        updated("c1", "completed"),
    )

    assert [(line.tool, line.allowed) for line in played.audit.lines[1:]] == [("Read", True)]
    assert (played.gaps, played.code) == ((), 0)


def test_an_agent_that_does_what_is_refused_without_a_question_is_stopped(play: Play, repo: Path) -> None:
    played = play(
        started("c1", "edit", "Write", rawInput={"file_path": f"{repo}/.env"}),
        updated("c1", "completed"),
        {"ask": call("c2", "read", title="Read", rawInput={"file_path": f"{repo}/README.md"})},
        {"request": "terminal/create"},
        {"request": "terminal/create"},
    )

    assert played.gathered.result is not None
    assert "without asking" in played.gathered.result.detail
    assert [line.target for line in find_defied_refusals(played.gathered.calls, played.audit.lines)] == [f"{repo}/.env"]
    assert played.code == 1


def test_an_agent_that_does_something_else_than_it_asked_for_is_stopped(play: Play, repo: Path) -> None:
    played = play(
        started("c1", "edit", "Write"),
        {"ask": call("c1", "edit", title="Write", rawInput={"file_path": f"{repo}/src/a.py"})},
        updated("c1", "completed", locations=[{"path": f"{repo}/.env"}]),
    )

    assert played.answers == ["allow_once"]
    assert played.gathered.result is not None and played.gathered.result.failure == "error"
    assert [line.target for line in find_defied_refusals(played.gathered.calls, played.audit.lines)] == [f"{repo}/.env"]


def test_a_refusal_that_cannot_be_chosen_is_a_cancellation(play: Play, repo: Path) -> None:
    ask = call("c1", "edit", title="Write", rawInput={"file_path": f"{repo}/.env"})
    allowed = call("c2", "edit", title="Write", rawInput={"file_path": f"{repo}/src/a.py"})

    played = play({"ask": ask, "options": ["allow_once"]}, {"ask": allowed, "options": ["allow_always"]})

    assert played.answers == ["cancelled", "cancelled"]


@pytest.mark.parametrize(
    ("step", "failure"),
    [
        ({"stop": "max_tokens"}, "error"),
        ({"fail": "Internal error: 529 overloaded"}, "outage"),
    ],
)
def test_an_agent_that_does_not_finish_has_failed(play: Play, step: dict[str, Any], failure: str) -> None:
    played = play(step)

    assert played.gathered.result is not None
    assert (played.gathered.result.failure, played.code) == (failure, 1)


def test_an_agent_whose_program_crashes_ends_as_a_shell_would(play: Play) -> None:
    played = play({"signal": signal.SIGSEGV})

    assert played.gathered.result is not None
    assert (played.gathered.result.detail, played.code) == ("its program ended by signal 11", 139)


def test_what_the_agents_program_says_before_it_ends_is_in_its_output(play: Play) -> None:
    played = play({"exit": 126}, program=True)

    assert played.gathered.result is not None
    assert (played.gathered.result.detail, played.code) == ("its program ended with exit code 126", 126)
    assert played.errors.startswith("no such library\n") and "Traceback" not in played.errors


def test_what_is_no_message_is_reported_in_one_line(play: Play) -> None:
    played = play({"print": "Welcome!"}, program=True)

    assert played.code == 0
    assert played.errors == "Error parsing JSON-RPC message: Expecting value: line 1 column 1 (char 0)\n"


def test_a_program_that_ends_while_it_is_written_to_has_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from blueflame.agents.acp import client  # late, as above

    monkeypatch.setenv("BLUEFLAME_HOOK", "none")
    orders = {"cwd": str(tmp_path), "argv": ["/bin/sh", "-c", "exit 126"]}
    for _ in range(20):  # of two errors the library raises the one that comes first
        with pytest.raises(client.ProgramEnded, match="exit code 126"):
            asyncio.run(client.run_agent(orders, "Do it."))
