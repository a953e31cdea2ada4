from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from blueflame.model.attempt import WORKER, AttemptOutcome, Ending
from blueflame.model.event import (
    AttemptCancelled,
    AttemptEnded,
    AttemptIntended,
    AttemptStarted,
    EnvironmentFailed,
    EnvironmentRecovered,
    EnvironmentRetried,
    GateWithdrawn,
    JournalEntry,
    Landed,
    OrchestratorStarted,
    OrchestratorStopped,
    StopRequested,
    TaskMoved,
)
from blueflame.model.exit_codes import ExitCode, choose_exit_code
from blueflame.model.gate import Answer, Gate, GateKind
from blueflame.model.limits import Limits
from blueflame.model.task import Cause, TaskState
from blueflame.session.consequences import consequences_of
from blueflame.session.environment import (
    ASK_AFTER,
    UNWATCHED_CAUSE,
    classify_problem,
    describe_problem,
    has_failed_meanwhile,
    is_last_try,
    join_problems,
    may_blame_watch,
    report_problem,
    was_limited_meanwhile,
)
from blueflame.session.missing_work import list_needed_foundations
from blueflame.session.replay import apply_event, replay
from blueflame.session.state import Session
from blueflame.testing.simulation import Simulation, build_opening
from blueflame.views.session import build_summary_view
from support.recorded_session import ID, Story
from support.session_examples import Outcomes, events, reported, states, task

NO_RETRIES = Limits(max_retries=0, validator_retries=0)
HELD_FOR_LONG = EnvironmentFailed(act="", cause="", reason="", until=0.0, times=0)


class Hindered(Outcomes):
    """These acts fail so many times."""

    failing: Counter[str] = Counter()
    choice: str = "retry"
    by: str = "terminal"

    def find_problem(self, act: str, times: int) -> str:
        return "cannot write it: No space left on device" if times < self.failing[act] else ""

    def answer(self, gate: Gate, session: Session) -> Answer | None:
        if gate.kind is GateKind.ENVIRONMENT:
            return Answer(choice=self.choice, by=self.by) if self.choice else None
        return super().answer(gate, session)


def hindered(*acts: str, times: int = 1, choice: str = "retry") -> Hindered:
    outcomes = Hindered(task(1), task(2))
    outcomes.failing, outcomes.choice = Counter(dict.fromkeys(acts, times)), choice
    return outcomes


@pytest.mark.parametrize(
    "act",
    [
        "planner of plan",
        "worker of task-001",
        "checks of task-001",
        "validator of task-001",
        "build of cs-001",
        "landing of cs-001",
        "begin of cycle 1",
        "begin of work",
    ],
)
def test_an_act_of_our_own_that_fails_is_tried_again_and_no_one_is_blamed(act: str) -> None:
    world = reported(hindered(act, times=3), limits=NO_RETRIES)
    failed = events(world, EnvironmentFailed)
    assert [(each.act, each.cause, each.times) for each in failed] == [(act, "disk", n) for n in (1, 2, 3)]
    assert world.session.outcome == "completed"
    assert world.session.problems == {}
    assert {record.retries for record in world.session.tasks.values()} == {0}
    assert world.session.plan_failures == ()


def test_the_waits_double() -> None:
    world = reported(hindered("landing of cs-001", times=4))
    failed = [(entry.at, entry.event) for entry in world.journal if isinstance(entry.event, EnvironmentFailed)]
    waits = [event.until - at for at, event in failed]
    assert waits == pytest.approx([waits[0] * 2**n for n in range(4)])


@pytest.mark.parametrize(("by", "shortened"), [("terminal", True), ("decisions:environment[0]", False)])
def test_only_a_person_shortens_the_wait(by: str, shortened: bool) -> None:
    """An entry with `repeat: true` would try again and again without a pause."""
    outcomes = hindered("landing of cs-001", times=ASK_AFTER + 2)
    outcomes.by = by
    world = reported(outcomes)
    failed = [entry.event.until for entry in world.journal if isinstance(entry.event, EnvironmentFailed)]
    tried = [entry.at for entry in world.journal if isinstance(entry.event, EnvironmentRetried)]
    assert any(at < until for at, until in zip(tried, failed, strict=True)) is shortened
    assert world.session.outcome == "completed"


def test_a_person_is_asked_once_for_all_acts_and_not_any_more_when_they_succeed() -> None:
    outcomes = hindered("worker of task-001", "worker of task-002", times=ASK_AFTER + 1, choice="")
    world = reported(outcomes)
    asked = [gate for gate in world.session.gates.values() if gate.kind is GateKind.ENVIRONMENT]
    assert [gate.id for gate in asked] == ["environment"]
    assert "the disk is full (5 times in a row)" in asked[0].title
    assert [event.gate for event in events(world, GateWithdrawn)] == ["environment"]
    assert world.session.outcome == "completed"


def test_other_work_goes_on_meanwhile() -> None:
    """Also with one worker: an attempt that is held gives its slot to the next task."""
    world = Simulation(hindered("worker of task-001", times=50, choice=""), [build_opening(limits=Limits(workers=1))])
    while world.session.problems.get("worker of task-001", HELD_FOR_LONG).times < 8:
        assert world.step()
    ended = {r.attempt.subject for r in world.session.attempts.values() if r.ended and r.attempt.role == WORKER}
    assert ended == {"task-002"}


def test_attempts_that_are_held_one_after_the_other_keep_their_slots() -> None:
    """A full disk must not hold every task of a long plan."""
    outcomes = Hindered(*(task(n) for n in range(1, 9)))
    outcomes.failing, outcomes.choice = Counter({f"worker of task-{n:03d}": 50 for n in range(1, 9)}), ""
    world = Simulation(outcomes, [build_opening(limits=Limits(workers=2))])
    while world.session.problems.get("worker of task-001", HELD_FOR_LONG).times < 8:
        assert world.step()
    assert len(world.session.live) == 3


def test_a_kill_asks_for_the_last_try_of_a_held_attempt_also_after_a_stop() -> None:
    story = Story().working()
    session, attempt = story.session, story.session.attempts[f"{ID}.task-001.worker.1"].attempt

    def hold() -> None:
        story.tell(report_problem(session, "worker of task-001", "the disk is full", story.now))

    def cancel(reason: str) -> None:
        story.tell(*tuple(consequences_of(session, AttemptCancelled(attempt=attempt.id, reason=reason), story.now)))

    hold()
    story.tell(StopRequested(reason="stop"))
    cancel("stop")
    assert (is_last_try(session, attempt), list(session.halted)) == (False, [attempt.id])
    hold()
    story.tell(OrchestratorStarted(pid=1))
    cancel("enough")
    assert (is_last_try(session, attempt), list(session.halted)) == (True, [])
    assert session.attempts[attempt.id].cancel_reason == "enough"


def test_all_attempts_that_are_held_make_room_while_others_succeed() -> None:
    """With two workers: what stops three tasks does not stop the other five."""
    outcomes = Hindered(*(task(n) for n in range(1, 9)))
    outcomes.failing, outcomes.choice = Counter({f"worker of task-{n:03d}": 50 for n in (1, 4, 6)}), ""
    world = Simulation(outcomes, [build_opening(limits=Limits(workers=2))])
    while world.session.problems.get("worker of task-001", HELD_FOR_LONG).times < 8:
        assert world.step()
    ended = {r.attempt.subject for r in world.session.attempts.values() if r.ended and r.attempt.role == WORKER}
    assert ended == {f"task-{n:03d}" for n in (2, 3, 5, 7, 8)}


def test_a_machine_that_fails_later_does_not_hold_every_task() -> None:
    """Three tasks came to a result before; then nothing does any more."""
    outcomes = Hindered(*(task(n) for n in range(1, 21)))
    outcomes.failing, outcomes.choice = Counter({f"worker of task-{n:03d}": 50 for n in (1, *range(5, 21))}), ""
    world = Simulation(outcomes, [build_opening(limits=Limits(workers=2))])
    while world.session.problems.get("worker of task-001", HELD_FOR_LONG).times < 8:
        assert world.step()
    assert len(world.session.live) == 4, "the first one, one that makes room for others, and two that keep their slots"


def test_retry_tries_at_once_what_is_held() -> None:
    world = reported(hindered("build of cs-001", times=ASK_AFTER))
    assert [event.by for event in events(world, EnvironmentRetried)][-1] == "terminal"
    assert world.session.outcome == "completed"


def test_stop_leaves_a_session_that_can_be_resumed_and_exits_with_4() -> None:
    outcomes = hindered("worker of task-001", "worker of task-002", times=ASK_AFTER, choice="stop")
    world = reported(outcomes)
    assert isinstance(world.journal[-1].event, OrchestratorStopped)
    assert len(world.session.live) == 2, "the attempts are still intended"
    assert choose_exit_code(None, all_landed=False, hindered=bool(world.session.problems)) is ExitCode.WORLD
    shown = {fact.name: fact.text for fact in build_summary_view(world.session, now=world.now).facts}
    assert "worker of task-001, worker of task-002: the disk is full" in shown["Hindered"]
    outcomes.failing.clear()  # a person has freed some space
    again = world.resume().run()
    assert again.session.outcome == "completed"
    assert len(again.session.attempts) == len(world.session.attempts) + 2, "only the two reviewers are new"


def test_one_failure_after_a_resume_does_not_stop_it_again() -> None:
    """It may be from before the repair: a warden has kept its result until it could write it."""
    outcomes = hindered("build of cs-001", times=ASK_AFTER, choice="stop")
    world = reported(outcomes)
    outcomes.failing["build of cs-001"] = ASK_AFTER + 1
    assert world.resume().run().session.outcome == "completed"

    still = reported(hindered("build of cs-001", times=99, choice="stop")).resume().run()
    times = [event.times for event in events(still, EnvironmentFailed)]
    assert times == list(range(1, ASK_AFTER + 3)), "the second one does"


def test_an_agent_that_could_not_be_started_waits_before_the_next_is() -> None:
    world = reported(Outcomes(task(1), endings={"task-001.worker.1": Ending.ENVIRONMENT}), limits=NO_RETRIES)
    turns = [turn for turn in world.schedule if turn.attempt.role == WORKER]
    (failed,) = events(world, EnvironmentFailed)
    assert failed.act == "worker of task-001"
    assert turns[1].ends >= failed.until
    assert states(world) == {"task-001": "merged"}
    assert world.session.tasks["task-001"].retries == 0
    assert [event.act for event in events(world, EnvironmentRecovered)] == ["worker of task-001"]


def test_agents_that_cannot_be_started_again_and_again_are_asked_about() -> None:
    """Each has a warden: its start alone does not show that the sandbox works."""
    endings = {f"task-001.worker.{n}": Ending.ENVIRONMENT for n in range(1, 50)}
    outcomes = Hindered(task(1), endings=endings)
    outcomes.choice = "stop"
    world = reported(outcomes, limits=NO_RETRIES)
    assert [event.times for event in events(world, EnvironmentFailed)] == list(range(1, ASK_AFTER + 1))
    assert events(world, EnvironmentRecovered) == [], "a start is no recovery when the one before got as far"
    assert isinstance(world.journal[-1].event, OrchestratorStopped)
    again = world.resume()
    outcomes.endings = {}
    assert again.run().session.outcome == "completed"


def test_what_hindered_the_attempt_before_says_nothing_about_the_next_one() -> None:
    world = reported(Outcomes(task(1), endings={"task-001.worker.1": Ending.ENVIRONMENT}), limits=NO_RETRIES)
    begun = [each.seq for each in world.journal if isinstance(each.event, AttemptStarted)]
    session = replay(each for each in world.journal if each.seq <= begun[2])  # of the planner, and twice of the worker
    (attempt,) = session.live.values()
    assert "worker of task-001" in session.problems, "until it has got further"
    assert not has_failed_meanwhile(session, attempt)
    failed = report_problem(session, "worker of task-001", "no space", session.last_at)
    apply_event(session, JournalEntry(session.seq + 1, session.last_at, failed))
    assert has_failed_meanwhile(session, attempt)


def test_a_limit_that_others_meet_holds_for_the_agents_at_work_as_well() -> None:
    world = reported(Outcomes(task(1)), limits=NO_RETRIES)
    begun = [each.seq for each in world.journal if isinstance(each.event, AttemptStarted)]
    session = replay(each for each in world.journal if each.seq <= begun[1])
    (attempt,) = session.live.values()
    for reason, limited in (("no space left", False), ("cannot fork", True)):
        failed = report_problem(session, "worker of task-002", reason, session.last_at)
        apply_event(session, JournalEntry(session.seq + 1, session.last_at, failed))
        assert was_limited_meanwhile(session, attempt) is limited, reason


def test_missing_work_whose_dependency_was_dropped_meanwhile_is_blocked() -> None:
    """It would wait for that dependency for ever."""
    world = reported(Outcomes(task(1), task(2, 1)))
    ended = [isinstance(e.event, AttemptEnded) and "task-002.worker" in e.event.attempt for e in world.journal].index(
        True
    )
    session = replay(world.journal[: ended + 2])
    for each in (TaskMoved(task="task-001", cause=Cause.DROP), OrchestratorStarted(pid=1, missing=("task-002",))):
        for event in tuple(consequences_of(session, each, 9.0)):
            apply_event(session, JournalEntry(session.seq + 1, 9.0, event))

    assert session.tasks["task-002"].state is TaskState.BLOCKED


def test_the_failure_of_an_act_that_is_not_needed_any_more_is_forgotten() -> None:
    outcomes = hindered("checks of task-001", times=50, choice="")
    world = Simulation(outcomes, [build_opening()])
    while "checks of task-001" not in world.session.problems:
        assert world.step()
    world.send(lambda _session: [TaskMoved(task="task-001", cause=Cause.DROP)], at=world.now)
    world.run()
    assert world.session.problems == {}
    assert world.session.ended


def test_an_attempt_whose_foundation_is_gone_is_lost_when_the_session_is_resumed() -> None:
    """It was intended and could not be started: without that the session could never go on."""
    world = reported(Outcomes(task(1), task(2, 1)))
    name = f"{world.session.id}.task-002.worker.1"
    intended = [isinstance(e.event, AttemptIntended) and e.event.attempt.id == name for e in world.journal].index(True)
    session = replay(world.journal[: intended + 1])
    assert list_needed_foundations(session) == {name: ("task-001@1",)}

    started = OrchestratorStarted(pid=1, host="here", version="1", missing=("task-001", name))
    for event in tuple(consequences_of(session, started, 9.0)):
        apply_event(session, JournalEntry(session.seq + 1, 9.0, event))

    assert session.live == {}
    assert {each: record.state for each, record in session.tasks.items()} == {
        "task-001": TaskState.PENDING,
        "task-002": TaskState.PENDING,
    }
    assert session.cycle == 1
    assert {record.retries for record in session.tasks.values()} == {0}


def test_a_conflict_of_foundations_waits_for_a_landing_and_burns_nothing() -> None:
    plan = (task(1), task(2), task(3, 1, 2))
    world = reported(Outcomes(*plan, endings={"task-003.worker.1": Ending.CONFLICT}), limits=NO_RETRIES)
    assert states(world)["task-003"] == "merged"
    assert world.session.tasks["task-003"].retries == 0
    landed = [entry.at for entry in world.journal if isinstance(entry.event, Landed)]
    tries = [turn for turn in world.schedule if turn.attempt.subject == "task-003" and turn.attempt.role == WORKER]
    assert len(tries) == 2
    assert tries[1].begins >= landed[0]


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("cannot write /x: No space left on device; free some disk space", "disk"),
        ("git read-tree: fatal: sha1 file '/x/.git/index.lock' write error. Out of diskspace", "disk"),
        ("git update-ref in /x: Unable to create '/x/.git/packed-refs.lock': File exists.", "lock"),
        ("git init in /x: it was killed by signal 9", "killed"),
        ("git init in /x: it was killed by signal 9; see whether memory is short (journalctl -k)", "killed"),
        ("cannot run git in /x: Resource temporarily unavailable; the limit on processes is reached", "limit"),
        ("git fetch in /x: fatal: Too many open files; close other programs", "limit"),
        ("git gc in /x: error: Input/output error; check the disk", "io"),
        ("programs of checks cannot be started, on the base either: `x` (exit 126)\nPermission denied", "missing"),
        ("checks do not end in time, on the base either: `x` (ended after 9 s); repair what they wait for", "endless"),
        ("'./hook.sh' cannot be run in /x: sh: Permission denied; install its program", "command"),
        ("the result of 'git clean -ffdx' is gone: /x was removed while it ran; if it does that itself", "removed"),
        ("a rebase of main is under way (/x/.git/rebase-merge); finish or abort it first", "under_way"),
        ("cannot prepare the sandbox in /x: odd", "sandbox"),
        ("git cat-file in /x: bad object", "git"),
        ("git hash-object in /x: insufficient permission for adding an object", "permission"),
        ("its program ended before it asked its model anything (exit code 127): no git; run it by hand", "program"),
        ("its program crashed (SIGSEGV): no space left; run it by hand", "program"),
        ("the program 'codex' was not found, or cannot be run; install it with `npm install`", "program"),
        ("git index-pack in /x: it met the limit on file sizes; raise 'ulimit -f'", "limit"),
        ("cannot write /x: File too large; the limit on file sizes is reached: raise `ulimit -f`", "limit"),
        ("git stores no space left.dat through the filter lfs, which agents do not have. Turn", "filter"),
        ("kingfisher failed: exit code 127: no libc; reinstall it", "scanner"),
        ("kingfisher failed: it was killed by signal 9; see whether memory is short (journalctl -k)", "killed"),
        ("something else", "file"),
        ("there is no free port on 127.0.0.1 for the agent's gateway: Address already in use", "port"),
        ("'git rev-parse HEAD' could not be started: it was not ready to run within 30 seconds", "sandbox"),
    ],
)
def test_a_cause_is_found_in_the_words_of_the_error(reason: str, cause: str) -> None:
    assert classify_problem(reason) == cause


def test_a_problem_is_described_in_one_line() -> None:
    problem = EnvironmentFailed(act="landing of cs-001", cause="lock", reason="", times=3)
    assert describe_problem(problem) == "landing of cs-001: a lock of git is held (3 times in a row)"


def test_problems_with_one_reason_are_described_together() -> None:
    full = EnvironmentFailed(act="worker of task-001", cause="disk", reason="0 MB are free", until=9.0, times=5)
    soon = replace(full, act="worker of task-002", until=7.0, times=4)
    held = EnvironmentFailed(act="landing of cs-001", cause="lock", reason="HEAD.lock")
    both = replace(full, act="worker of task-001, worker of task-002", until=7.0)
    assert join_problems([full, held, soon]) == (both, held)


def test_calls_that_were_not_judged_are_blamed_the_second_time() -> None:
    """A hook that is killed and one that its agent ends look the same."""
    name = f"{ID}.task-001.worker.1"
    assert not may_blame_watch(Story().working().session, Story().working().session.attempts[name].attempt)
    for cause in ("", UNWATCHED_CAUSE):
        ended = AttemptOutcome(ending=Ending.LOST, cause=cause)
        session = Story().working().tell(AttemptEnded(attempt=name, ended=ended)).session
        assert may_blame_watch(session, session.attempts[name].attempt) is bool(cause)
