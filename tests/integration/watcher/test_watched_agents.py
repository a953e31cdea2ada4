"""Scripted agents under a real, watching warden: their calls, the audit log, and how the attempt ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from blueflame.agents.runtime import AgentBrief, AgentOutput, read_spool
from blueflame.agents.scripted import ScriptedRuntime
from blueflame.agents.scripted.script import parse_script
from blueflame.checks.audit_gaps import find_defied_refusals, find_unaudited_calls
from blueflame.telemetry.audit import Audit, read_audit
from support.hook_servers import build_watch
from support.wardens import run_warden, write_launch


class WatchedRun(NamedTuple):
    outcome: dict[str, Any]
    audit: Audit
    gathered: AgentOutput

    @property
    def gaps(self) -> tuple[str, ...]:
        return find_unaudited_calls(self.gathered.calls, self.audit.lines, unread=self.gathered.is_incomplete)


def worked(repo: Path, steps: str, **changes: object) -> WatchedRun:
    runtime = ScriptedRuntime(parse_script(f"defaults: {{worker: {steps}}}", source="play.yaml"))
    folder = repo.parent / "attempts" / "ses-1.task-001.worker.1"
    brief = AgentBrief(
        attempt=folder.name,
        agent_id="worker-0a1b2c3d",
        role="worker",
        subject="task-001",
        n=1,
        session="ses-1",
        worktree=str(repo),
        prompt="",
    )
    launch = runtime.prepare_launch(brief, directory=folder)
    watch = {**build_watch(repo), "port": 61130, **changes}
    env = {"PATH": "/usr/bin:/bin", **launch.env}
    outcome = run_warden(write_launch(folder, *launch.argv, env=env, cwd=str(repo), watch=watch))
    return WatchedRun(outcome, read_audit(Path(watch["audit"])), read_spool(runtime, folder / "stdout.log"))


def test_a_good_agent_is_watched_from_the_canary_to_the_end(repo: Path) -> None:
    ended = worked(repo, '[write: {path: src/a.py, text: "x\\n"}, commit: "feat(task-001): x"]')

    assert (ended.outcome["reason"], ended.outcome["exit_code"]) == ("exited", 0)
    assert [(line.tool, line.decision) for line in ended.audit.lines] == [
        ("BlueflameCanary", "block"),
        ("Write", "allow"),
        ("Bash", "allow"),
    ]
    assert (ended.audit.findings, ended.gaps) == ((), ())
    assert ended.outcome["watch"] == {"lines": 3, "last": ended.audit.last, "proven": True, "problem": ""}
    assert (repo / "src" / "a.py").read_text() == "x\n"


def test_a_refused_agent_continues_and_one_that_disobeys_is_detected(repo: Path) -> None:
    ended = worked(repo, "[write: {path: .env, text: x}, {write: {path: b.secret, text: x}, rogue: true}]")

    assert not (repo / ".env").exists()
    assert (repo / "b.secret").exists()
    assert ended.gaps == ()
    assert [line.target for line in find_defied_refusals(ended.gathered.calls, ended.audit.lines)] == [
        str(repo / "b.secret")
    ]
    assert ended.gathered.text == "1 step was refused."


def test_an_agent_that_does_not_ask_leaves_a_gap(repo: Path) -> None:
    ended = worked(repo, "[{run: touch ran, rogue: unasked}]")

    assert (repo / "ran").exists()
    assert ended.gaps == ("Bash 'touch ran' was never asked for",)


def test_an_agent_whose_hook_is_broken_does_not_start(repo: Path, tmp_path: Path) -> None:
    broken = tmp_path / "hook.sh"
    for words in ("exit 0", "exit 1", "kill -9 $$", "echo '{}'"):
        broken.write_text(f"#!/bin/sh\n{words}\n")
        broken.chmod(0o755)
        ended = worked(repo, "[write: {path: src/a.py, text: x}]", hook=str(broken))

        assert ended.outcome["exit_code"] != 0
        assert not (repo / "src" / "a.py").exists()
        for each in sorted((repo.parent / "attempts").rglob("*"), reverse=True):
            each.unlink() if each.is_file() else each.rmdir()


def test_an_agent_without_a_usable_policy_does_nothing(repo: Path, tmp_path: Path) -> None:
    ended = worked(repo, "[write: {path: src/a.py, text: x}]", policy=str(tmp_path / "none"))

    assert "policy" in ended.outcome["watch"]["problem"]
    assert not (repo / "src" / "a.py").exists()
