from __future__ import annotations

import signal

import pytest

from blueflame.model.attempt import Duty, Ending
from blueflame.session.attempt_verdict import ENDING_BY_REASON, AttemptFacts, find_crash, judge_attempt

GOOD = {"reason": "exited", "exit_code": 0}


def worker(**facts: object) -> Ending:
    return judge_attempt(AttemptFacts(duty=Duty.MAKE, **{**GOOD, **facts}))  # type: ignore[arg-type]  # a table of facts


def test_commits_without_violations_pass() -> None:
    assert worker(commits=2) is Ending.PASSED


def test_an_exit_of_nought_without_commits_is_no_pass() -> None:
    """T43: an empty diff breaks no rule, but there is nothing to show either (B-09)."""
    assert worker(commits=0) is Ending.NO_COMMITS
    assert worker(commits=0, has_output=True) is Ending.NO_COMMITS


def test_violations_count_after_commits() -> None:
    assert worker(commits=1, violations=1) is Ending.POSTCHECK
    assert worker(commits=0, violations=1) is Ending.NO_COMMITS


@pytest.mark.parametrize("code", [1, 2, 127, -1, None])
def test_any_other_exit_is_a_failure_whatever_was_committed(code: int | None) -> None:
    assert worker(exit_code=code, commits=3) is Ending.FAILED


def test_a_signal_is_a_crash() -> None:
    assert worker(exit_code=None, signal=9, commits=3) is Ending.CRASHED
    assert worker(exit_code=0, signal=11, commits=3) is Ending.CRASHED


def test_a_crash_of_a_program_that_is_not_the_agents_own_is_not_its_failure() -> None:
    for facts in ({"exit_code": None, "signal": 11}, {"exit_code": 139, "failure": "error"}, {"unwatched": 1}):
        assert worker(crashed=True, commits=3, **facts) is Ending.ENVIRONMENT
    assert worker(crashed=True, reason="memory") is Ending.RESOURCES


def test_a_crash_is_known_by_its_signal_or_by_the_exit_code_of_a_shell() -> None:
    for name in ("SEGV", "BUS", "ILL", "FPE", "ABRT", "TRAP", "SYS"):
        number = signal.Signals[f"SIG{name}"]
        assert find_crash(None, number) == find_crash(128 + number, None) == number
    assert [find_crash(None, number) for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGXCPU)] == [None] * 3
    assert [find_crash(code, None) for code in (None, 0, 1, 11, 127, 130, 137)] == [None] * 7


@pytest.mark.parametrize("reason", ENDING_BY_REASON)
@pytest.mark.parametrize("duty", [Duty.MAKE, Duty.PLAN, Duty.JUDGE])
def test_what_the_warden_saw_comes_before_all_else(reason: str, duty: Duty) -> None:
    facts = AttemptFacts(duty=duty, reason=reason, exit_code=0, commits=1, has_output=True)
    assert judge_attempt(facts) is ENDING_BY_REASON[reason]
    assert judge_attempt(facts) is not Ending.PASSED


@pytest.mark.parametrize("duty", [Duty.PLAN, Duty.JUDGE])
def test_who_must_answer_passes_with_an_answer_only(duty: Duty) -> None:
    assert judge_attempt(AttemptFacts(duty=duty, reason="exited", exit_code=0, has_output=True)) is Ending.PASSED
    assert judge_attempt(AttemptFacts(duty=duty, reason="exited", exit_code=0)) is Ending.BAD_OUTPUT
    assert judge_attempt(AttemptFacts(duty=duty, reason="exited", exit_code=3, has_output=True)) is Ending.FAILED


def test_an_unknown_reason_is_never_a_pass() -> None:
    with pytest.raises(KeyError):
        worker(reason="enlightened", commits=1)


def test_an_agent_whose_last_answer_was_cut_off_is_not_at_fault() -> None:
    judge = AttemptFacts(duty=Duty.JUDGE, reason="exited", exit_code=0, unanswered=True)
    assert judge_attempt(judge) is Ending.OUTAGE
    assert worker(unanswered=True) is Ending.OUTAGE
    assert worker(unanswered=True, exit_code=1, failure="error") is Ending.OUTAGE
    assert worker(unanswered=True, commits=1) is Ending.PASSED
    assert worker(unanswered=True, commits=1, violations=1) is Ending.POSTCHECK
    assert worker(unanswered=True, unwatched=1) is Ending.UNWATCHED
    assert worker(unanswered=True, reason="output") is Ending.FAILED
    assert worker(unanswered=True, reason="timeout") is Ending.TIMEOUT


def test_an_agent_whose_hook_died_is_not_at_fault_for_what_it_did_not_do() -> None:
    assert worker(hook_failed=True) is Ending.LOST
    assert worker(hook_failed=True, exit_code=1) is Ending.LOST
    assert worker(hook_failed=True, commits=1) is Ending.PASSED
    assert worker(hook_failed=True, commits=1, violations=1) is Ending.POSTCHECK
    assert worker(hook_failed=True, failure="budget") is Ending.BUDGET
    assert worker(hook_failed=True, reason="timeout") is Ending.TIMEOUT


def test_a_program_that_ended_before_it_asked_its_model_could_not_be_started() -> None:
    crashed = {"exit_code": None, "signal": 11}
    for facts in ({}, {"exit_code": 127}, crashed, {"failure": "error"}, {"reason": "timeout"}, {"reason": "silent"}):
        assert worker(asked=False, **facts) is Ending.ENVIRONMENT
    assert worker(asked=False, commits=1) is Ending.PASSED
    assert worker(asked=False, commits=1, unwatched=1) is Ending.ENVIRONMENT
    assert worker(asked=False, failure="account") is Ending.ACCOUNT
    assert worker(asked=False, reason="cancelled") is Ending.CANCELLED
