"""What is said of an attempt that failed."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from blueflame.agents.runtime import AgentOutput, RunResult
from blueflame.git.checkouts import get_record_path
from blueflame.model.attempt import Ending
from blueflame.model.audit import ObservedCall
from blueflame.model.errors import GitFailed
from blueflame.orchestrator.attempts import worker
from blueflame.orchestrator.attempts.inspect_result import (
    describe_ending,
    find_audit_gaps,
    judge_unreadable,
    may_hook_be_killed,
    read_leftovers,
    was_nothing_done_unwatched,
)
from blueflame.orchestrator.context import FinishedAttempt, SessionContext
from blueflame.orchestrator.engine.interface import ExitReason, ProcessOutcome
from blueflame.orchestrator.engine.local import LocalEngine
from support.recorded_session import ID, Story


@pytest.mark.parametrize(
    ("reason", "words"),
    [(ExitReason.EXITED, "nothing to commit"), (ExitReason.SETUP_FAILED, "+ npm ci\nno network")],
)
def test_the_output_of_a_setup_is_shown_only_where_it_failed(reason: ExitReason, words: str) -> None:
    attempt = Story().working().session.attempts[f"{ID}.task-001.worker.1"].attempt
    outcome = ProcessOutcome(attempt=attempt.id, reason=reason, exit_code=1, setup_output="+ npm ci\nno network\n")
    problems = ("nothing to commit",) if reason is ExitReason.EXITED else ()
    finished = FinishedAttempt(attempt=attempt, base="a" * 40, outcome=outcome, gathered=AgentOutput(problems=problems))
    assert describe_ending(finished) == words


def test_a_crash_of_a_program_names_its_signal_its_last_words_and_the_fix() -> None:
    attempt = Story().working().session.attempts[f"{ID}.task-001.worker.1"].attempt
    for code, number in ((None, 11), (139, None)):
        outcome = ProcessOutcome(attempt=attempt.id, reason=ExitReason.EXITED, exit_code=code, signal=number)
        finished = FinishedAttempt(
            attempt=attempt, base="a" * 40, outcome=outcome, gathered=AgentOutput(), printed="bun: oh no"
        )
        assert finished.crash is None, "a scripted agent, or a command: its program is the agent"
        words = describe_ending(replace(finished, reports_end=True))
        assert words.startswith("its program crashed (SIGSEGV): bun: oh no; run the program by hand")


def test_a_program_that_asked_nothing_is_shown_with_the_reason_that_its_client_reports() -> None:
    attempt = Story().working().session.attempts[f"{ID}.task-001.worker.1"].attempt
    outcome = ProcessOutcome(attempt=attempt.id, reason=ExitReason.EXITED, exit_code=1)
    gathered = AgentOutput(result=RunResult(failure="error", detail="Claude Code process exited with code 1"))
    finished = FinishedAttempt(attempt=attempt, base="a" * 40, outcome=outcome, gathered=gathered, asked=False)
    assert "(exit code 1): Claude Code process exited with code 1; run the program by hand" in describe_ending(finished)


def test_output_of_a_program_that_asked_nothing_is_shown_also_if_it_cannot_be_read() -> None:
    attempt = Story().working().session.attempts[f"{ID}.task-001.worker.1"].attempt
    outcome = ProcessOutcome(attempt=attempt.id, reason=ExitReason.EXITED, exit_code=0)
    for gathered, words in (
        (AgentOutput(), "(exit code 0), and printed nothing; run"),
        (
            AgentOutput(problems=("a line of its output is not JSON: 'hello'",)),
            ": a line of its output is not JSON: 'h",
        ),
        (AgentOutput(unread_bytes=1 << 25), ": a line that is too long to be read; run"),
    ):
        finished = FinishedAttempt(attempt=attempt, base="a" * 40, outcome=outcome, gathered=gathered, asked=False)
        assert words in describe_ending(finished)


def test_an_attempt_of_an_earlier_version_is_judged_by_the_walls_that_it_was_started_with(tmp_path: Path) -> None:
    """Its launch file has a sandbox and no survey: that no survey was made is not its fault."""
    attempt = Story().working().session.attempts[f"{ID}.task-001.worker.1"].attempt
    outcome = ProcessOutcome(attempt=attempt.id, reason=ExitReason.EXITED, exit_code=0)
    finished = FinishedAttempt(attempt=attempt, base="a" * 40, outcome=outcome, gathered=AgentOutput())
    engine = LocalEngine(tmp_path)
    context = cast("SessionContext", SimpleNamespace(engine=engine))
    launch = engine.stage(attempt.id) / "launch.json"
    launch.parent.mkdir(parents=True)
    before: dict[str, object] = {"argv": ["true"], "sandbox": {"argv": ["bwrap"], "seccomp": None, "net": "none"}}
    launch.write_text(json.dumps(before))
    assert read_leftovers(context, finished) is None
    launch.write_text(json.dumps({**before, "survey": ["git", "status"]}))
    with pytest.raises(GitFailed, match="no answer"):
        read_leftovers(context, finished)


def test_commits_of_a_lost_attempt_are_fetched_again_when_our_git_was_killed(tmp_path: Path) -> None:
    """Without that they would be in no ref, and gone with the checkout."""
    attempt = Story().working().session.attempts[f"{ID}.task-001.worker.1"].attempt
    outcome = ProcessOutcome(attempt=attempt.id, reason=ExitReason.LOST)
    finished = FinishedAttempt(attempt=attempt, base="a" * 40, outcome=outcome, gathered=AgentOutput())
    checkout = tmp_path / "worker-1"
    checkout.mkdir()
    get_record_path(checkout).touch()
    paths = SimpleNamespace(checkout=lambda _agent: checkout)
    context = cast("SessionContext", SimpleNamespace(paths=paths, repo=None))
    killed = GitFailed("git update-ref --stdin: it was killed by signal 9")
    with pytest.raises(GitFailed, match="signal 9"):
        judge_unreadable(context, finished, killed)
    damaged = GitFailed("the branch names a missing object, not a commit")
    assert judge_unreadable(context, finished, damaged).ending is Ending.LOST


@pytest.mark.parametrize(("denied", "nothing"), [(True, True), (False, False)])
def test_calls_that_a_hook_refused_without_asking_are_not_done_unwatched(
    tmp_path: Path, *, denied: bool, nothing: bool
) -> None:
    """As without /proc, without which it cannot ask, or while its warden is stopped."""
    attempt = Story().working().session.attempts[f"{ID}.task-001.worker.1"].attempt
    outcome = ProcessOutcome(attempt=attempt.id, reason=ExitReason.EXITED, exit_code=0, watch={"last": ""})
    calls = (ObservedCall("Write", "src/1.txt", "call-1", "d" * 64, denied),)
    finished = FinishedAttempt(
        attempt=attempt, base="a" * 40, outcome=outcome, gathered=AgentOutput(calls=calls, call_count=1)
    )
    (tmp_path / "audit.jsonl").touch()
    paths = SimpleNamespace(audit=lambda _agent: tmp_path / "audit.jsonl")
    context = cast("SessionContext", SimpleNamespace(paths=paths, settings=SimpleNamespace(runtimes={})))

    assert find_audit_gaps(context, finished) == ("Write 'src/1.txt' was never asked for",)
    assert was_nothing_done_unwatched(context, finished) is nothing
    for runtime, may_be in (("codex", True), ("scripted", False)):
        of_runtime = replace(finished, attempt=replace(attempt, runtime=runtime))
        assert may_hook_be_killed(context, of_runtime) is may_be


@pytest.mark.parametrize(
    ("printed", "ended", "kept"),
    [
        ("tests fail", {}, "f" * 40),
        ("", {"free_disk": 0}, None),
        ("cp: error writing 'src/a': Disk quota exceeded", {}, None),
        ("OSError: [Errno 5] Input/output error", {}, None),
        ('"EFBIG: file too large, write"', {}, None),
        ("", {"exit_code": None, "signal": signal.SIGXFSZ}, None),
        ("", {"exit_code": 128 + signal.SIGXFSZ}, None),
    ],
)
def test_what_an_agent_could_not_write_to_its_end_is_not_continued(
    printed: str, ended: dict[str, Any], kept: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is cut off there, and the next attempt would take that for its work."""
    attempt = Story().working().session.attempts[f"{ID}.task-001.worker.1"].attempt
    outcome = ProcessOutcome(attempt=attempt.id, reason=ExitReason.EXITED, exit_code=1, free_disk=1 << 30)
    outcome = replace(outcome, **ended)
    finished = FinishedAttempt(attempt=attempt, base="a" * 40, outcome=outcome, gathered=AgentOutput())
    paths = SimpleNamespace(worktrees=tmp_path, checkout=tmp_path.joinpath, state=tmp_path)
    engine = LocalEngine(tmp_path)
    engine.mirror(attempt.id).mkdir(parents=True)
    (engine.mirror(attempt.id) / "stderr.log").write_text(printed)
    context = cast("SessionContext", SimpleNamespace(paths=paths, repo=None, engine=engine))
    policy = SimpleNamespace(allowed_paths=SimpleNamespace(written=()), blocked_paths=SimpleNamespace(written=()))
    monkeypatch.setattr(worker, "load_policy", lambda _path: policy)
    monkeypatch.setattr(worker, "commit_unfinished", lambda *_args: "f" * 40)
    assert worker.keep_unfinished(context, finished, None) == kept
