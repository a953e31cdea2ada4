"""What `blueflame guard` promises of an agent that it watches: proven with each real one that is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from blueflame.model.exit_codes import ExitCode
from blueflame.orchestrator.project import open_project
from blueflame.orchestrator.sessions import find_session, load_session, open_journal
from blueflame.telemetry.audit import read_audit
from blueflame.testing import LoopbackModel
from support.command_line import YES, configure, here, write
from support.model_scripts import build_worker_scenario, build_write_turns, sum_served
from support.npm_agents import FORBIDDEN_CALLS, KEY, count_tokens
from support.repositories import run_git

GUARDED_TURNS = (build_worker_scenario("task-001", *FORBIDDEN_CALLS, *build_write_turns("src/1.txt", "one\n")),)
LIMITS = {"kill_grace": "2s", "agent_timeout": "120s", "warn_threshold": 1}


def check_guarded_command(
    repo: Path, capsys: pytest.CaptureFixture[str], model: LoopbackModel, program: Path, *words: str
) -> None:
    """Check the walls: a refused call is not done, the rest is audited, metered, checked and landed by a person."""
    config = configure(repo, {"sandbox": {"level": "standard"}, "limits": LIMITS})
    decisions = write(repo.parent / "decisions.yaml", YES)
    said = here(capsys, "guard", "--budget", "1", "--decisions-file", decisions, "--", program, *words, "Write one")
    assert said.code == 0, said.out + said.err
    assert said.out.startswith(f"{program}: watcher, sandbox, postcheck\n")
    assert run_git(repo, "show", "main:src/1.txt") == "one\n"
    assert not (repo / "elsewhere.txt").exists()
    with open_journal(open_project(config)) as journal:
        session = load_session(journal, find_session(journal, None))
    (record,) = session.attempts.values()
    assert record.attempt.unguarded == ""
    assert str(record.worktree).startswith(str(repo / ".trees")), "a checkout of its own"
    audit = read_audit(repo / ".blueflame" / "logs" / f"{record.attempt.agent_id}.audit.jsonl")
    assert [line.allowed for line in audit.lines[1:]] == [False, False, True, True]
    assert count_tokens(session) == sum_served(model.served)
    assert {served.key for served in model.served} == {KEY}
    assert "Write one" in here(capsys, "show", "cs-001").out


def check_guarded_budget(
    repo: Path, capsys: pytest.CaptureFixture[str], model: LoopbackModel, program: Path, *words: str
) -> None:
    """Check that the agent is ended where its budget is, and that nothing lands."""
    configure(repo, {"sandbox": {"level": "standard"}, "limits": LIMITS})
    decisions = write(repo.parent / "decisions.yaml", {**YES, "budget": ["stop"], "session": ["stop"]})
    before = run_git(repo, "rev-parse", "main")
    said = here(capsys, "guard", "--budget", "0.005", "--decisions-file", decisions, "--", program, *words, "Write one")
    assert said.code == ExitCode.STOPPED, said.out + said.err
    assert "The budget of this session is used up" in said.out
    assert len(model.served) == 1, "no call after it is answered"
    assert run_git(repo, "rev-parse", "main") == before
