"""Laws of whole sessions: whatever the plan, the world and the people do."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from blueflame.model.attempt import UNAVAILABLE, AttemptRecord, Duty, Ending
from blueflame.model.errors import Refused
from blueflame.model.event import (
    AttemptEnded,
    AttemptIntended,
    ChangesetEvicted,
    ChangesetJudged,
    ChangesetTrimmed,
    CycleStarted,
    Event,
    FixRequested,
    GateAnswered,
    GateOpened,
    JournalEntry,
    Landed,
    OrchestratorStarted,
    PlanApproved,
    SessionOpened,
    TaskMoved,
    TasksImported,
    VerdictGiven,
)
from blueflame.model.gate import GateKind
from blueflame.model.limits import Capacity, Limits
from blueflame.model.seat import Team
from blueflame.model.task import Cause, Task, TaskState
from blueflame.model.workflow import Workflow
from blueflame.session.budget import compute_reservation, is_stopped_by_shared_budget, list_shared_budgets
from blueflame.session.consequences.session import ASKED_AGAIN
from blueflame.session.decide import next_events
from blueflame.session.effects import Effect, effects_due
from blueflame.session.missing_work import list_needed_commits
from blueflame.session.replay import apply_event, open_session
from blueflame.session.requests.fixes import build_fix, find_work
from blueflame.session.requests.tasks import (
    complete_new_tasks,
    find_addition_problems,
    find_retry_problem,
)
from blueflame.session.retries import is_blameless, retry_task
from blueflame.session.stages import can_claim, list_claimable
from blueflame.session.state import Session, is_about_result
from blueflame.session.team.conversations import list_conversation
from blueflame.session.team.seats import sum_seat_work
from blueflame.testing.simulated_outcomes import SimulatedOutcomes
from blueflame.testing.simulation import (
    SIMULATED_DAY,
    SimulatedMessage,
    Simulation,
    ask_questions,
    build_opening,
    report_stalls,
    request_proceed,
    request_stop,
)
from support.random_sessions import (
    bounds,
    dependencies_verified,
    ended_well,
    failing_worlds,
    faults,
    plans,
    related_worlds,
    teams,
    workflows,
    worlds,
)

MOST_STEPS = 5_000
CAPACITY = Capacity(agents=1_000)

laws = settings(max_examples=int(os.environ.get("BLUEFLAME_EXAMPLES", "25")))
"""More by hand: BLUEFLAME_EXAMPLES=1000 pytest tests/unit/session/test_session_laws.py"""


def run(world: Simulation) -> Simulation:
    for _ in range(MOST_STEPS):
        if not world.step():
            return world
    raise AssertionError("the session never ends")


def walk(world: Simulation) -> Iterator[tuple[Session, Event]]:
    """Each event with the session as it stood before it."""
    session = open_session(world.journal[0])
    for recorded in world.journal[1:]:
        yield session, recorded.event
        apply_event(session, recorded)


def assert_in_order(world: Simulation) -> None:
    session = open_session(world.journal[0])
    ends = set(world.transactions)
    for recorded in world.journal[1:]:
        apply_event(session, recorded)
        if recorded.seq in ends:
            assert not list(faults(session)), recorded


def a_session_keeps_its_order_and_comes_to_an_end(world: Simulation) -> None:
    assert_in_order(world)
    assert ended_well(world.session)


@laws
@given(worlds())
def test_a_session_that_has_nothing_to_do_has_ended(world: Simulation) -> None:
    going = True
    while going:
        going = world.step()
        if not next_events(world.session, CAPACITY) and not effects_due(world.session):
            assert world.session.ended


@laws
@given(worlds())
def test_no_slot_is_idle_while_a_task_can_be_claimed(world: Simulation) -> None:
    while world.step():
        session = world.session
        limited = not (session.limits.session_budget.unlimited and session.limits.day_budget.unlimited)
        if next_events(session, CAPACITY) or not can_claim(session) or limited or session.parked:
            continue
        assert not list_claimable(session, 1) or session.count_running(Duty.MAKE) >= session.limits.workers


def a_task_starts_only_when_its_dependencies_are_verified(world: Simulation) -> None:
    for session, event in walk(world):
        if isinstance(event, TaskMoved) and event.cause is Cause.CLAIM:
            assert dependencies_verified(session, event.task)


def what_lands_was_judged_approved_and_built_on_what_landed(world: Simulation) -> None:
    passed: set[tuple[str, str]] = set()
    judged: dict[str, str] = {}
    landed: Counter[str] = Counter()
    for session, event in walk(world):
        if isinstance(event, VerdictGiven) and event.verdict.passed:
            passed.add((event.task, event.sha))
        elif isinstance(event, ChangesetJudged):
            judged[event.changeset] = event.choice
        elif isinstance(event, Landed):
            assert judged[event.changeset] == "approve"
            tasks = session.changesets[event.changeset].changeset.tasks
            landed.update(tasks)
            for name in tasks:
                result = session.tasks[name].result
                assert result is not None
                assert (name, result.sha) in passed
                for below in result.built_on:
                    other = session.tasks[below.task]
                    assert other.state is TaskState.MERGED or below.task in tasks
                    assert other.result is not None
                    assert other.result.sha == below.sha
    assert set(landed.values()) <= {1}
    assert sorted(landed) == list(world.session.list_in_state(TaskState.MERGED))


def _was_let_down(record: AttemptRecord) -> bool:
    if record.ended is None:
        return False
    unavailable = record.ended.ending in (*UNAVAILABLE, Ending.ENVIRONMENT, Ending.CONFLICT, Ending.LOST)
    asked = record.ended.ending is Ending.QUESTION
    return unavailable or asked or is_stopped_by_shared_budget(record.attempt, record.ended)


def attempts_histories_and_cycles_are_bounded(world: Simulation) -> None:
    limits = world.session.limits
    cycles = sum(isinstance(recorded.event, CycleStarted) for recorded in world.journal)
    assert cycles <= limits.max_cycles
    asked = count_further_tries(world)
    per_cycle = 5  # no configuration here allows more than two retries and two rungs
    outages = Counter(r.attempt.subject for r in world.session.attempts.values() if _was_let_down(r))
    for name, record in world.session.tasks.items():
        assert len(record.history) <= limits.max_history
        for stage in world.session.workflow.task_stages:
            assert (
                world.session.attempts_on.get((name, stage.key), 0) <= per_cycle * cycles + outages[name] + asked[name]
            )


def count_further_tries(world: Simulation) -> Counter[str]:
    """How often a person asked for one more attempt at a task."""
    given = (recorded.event for recorded in world.journal if isinstance(recorded.event, GateAnswered))
    gates = (world.session.gates[each.gate] for each in given if each.answer.choice in ("retry", "reassign"))
    return Counter(gate.subject for gate in gates if gate.kind is GateKind.ESCALATION)


def no_attempt_begins_above_the_ceiling_unless_a_person_asked_for_it(world: Simulation) -> None:
    """Counted from what happened to the work, not from how the session counts it."""
    failed, granted = Counter[str](), Counter[str]()
    for session, event in walk(world):
        failed.update(find_failed_work(session, event))
        for name in find_wanted_tries(session, event):
            granted[name] = failed[name] + 1
        if isinstance(event, AttemptIntended) and event.attempt.duty is Duty.MAKE:
            name = event.attempt.subject
            assert failed[name] == session.tasks[name].failures
            assert not session.limits.max_attempts or failed[name] < max(session.limits.max_attempts, granted[name])


def find_failed_work(session: Session, event: Event) -> Iterator[str]:
    """The tasks whose attempt failed, or whose work was sent back, by this event."""
    match event:
        case AttemptEnded():
            record = session.attempts[event.attempt]
            task = session.tasks.get(record.attempt.subject)
            if record.attempt.duty is Duty.MAKE and task is not None and task.state is TaskState.CLAIMED:
                by_person = event.ended.ending is Ending.CANCELLED and event.attempt not in session.halted
                blamed = not event.ended.passed and not is_blameless(record.attempt, event.ended)
                if (by_person and not record.restarts) or (blamed and not by_person):
                    yield record.attempt.subject
        case VerdictGiven() if not event.verdict.passed:
            task = session.tasks[event.task]
            waits = task.state is TaskState.DEFERRED and task.result is not None and task.result.sha == event.sha
            is_sent_back = is_about_result(session, event) and session.limits.on_validation_failed == "requeue"
            if waits or is_sent_back:
                yield event.task
        case GateAnswered() if (session.gates[event.gate].kind, event.answer.choice) in SENDS_BACK:
            yield session.gates[event.gate].subject
        case ChangesetTrimmed():
            yield from event.tasks
        case ChangesetEvicted() | ChangesetJudged(choice="reject"):
            yield from session.changesets[event.changeset].changeset.tasks


SENDS_BACK = {
    *((GateKind.VALIDATION, choice) for choice in ("requeue", "scratch", "edit")),
    *((GateKind.VALIDATOR, choice) for choice in ("retry", "skip")),
}


def find_wanted_tries(session: Session, event: Event) -> Iterator[str]:
    """The tasks that a person asked to try again: at their gate, with `blueflame retry`, or in a new plan."""
    match event:
        case GateAnswered() if event.answer.choice in ("retry", "reassign"):
            if session.gates[event.gate].kind is GateKind.ESCALATION:
                yield session.gates[event.gate].subject
        case TaskMoved(cause=Cause.RENEW, reason="retried by a person"):
            yield event.task
        case PlanApproved():
            yield from (task.id for task in event.tasks)


def no_attempt_begins_before_its_moment_and_each_is_made_by_its_rung(world: Simulation) -> None:
    for session, event in walk(world):
        if isinstance(event, AttemptIntended) and event.attempt.duty is Duty.MAKE:
            attempt = event.attempt
            assert attempt.subject not in session.waiting
            if attempt.rung:
                rung = session.limits.ladder[attempt.rung - 1]
                assert attempt.model == rung.model
                assert attempt.runtime == (rung.runtime or "scripted")


def no_two_gates_have_one_name_and_no_subject_is_asked_about_twice_at_once(world: Simulation) -> None:
    names: set[str] = set()
    for session, event in walk(world):
        if isinstance(event, GateOpened):
            assert event.gate.id not in names
            assert not session.is_asking(event.gate.kind, event.gate.subject)
            names.add(event.gate.id)


def no_attempt_starts_while_a_question_about_its_subject_is_open_and_questions_are_bounded(world: Simulation) -> None:
    for session, event in walk(world):
        if isinstance(event, AttemptIntended):
            assert not session.is_asking(GateKind.CLARIFICATION, event.attempt.subject)
        if isinstance(event, GateOpened) and event.gate.kind is GateKind.CLARIFICATION:
            times = session.gate_counts.get((GateKind.CLARIFICATION, event.gate.subject), 0)
            assert times < session.limits.max_questions


def an_open_question_is_always_settled(world: Simulation) -> None:
    if world.session.outcome == "completed":
        assert not world.session.is_asking(GateKind.CLARIFICATION)


def no_attempt_is_promised_what_the_session_has_not_got(world: Simulation) -> None:
    """Whatever its role's budget is, and in whatever unit; the same for the day and for its task."""
    for session, event in walk(world):
        if isinstance(event, AttemptIntended):
            capacity = replace(CAPACITY, day=SIMULATED_DAY, day_spend=session.spend)
            for shared in list_shared_budgets(session, event.attempt.subject, capacity):
                assert 0 < shared.budget.measure(compute_reservation(event.attempt)) <= shared.left


def agents_that_keep_to_their_limits_never_overspend_the_session_whatever_the_order_of_their_ends(
    world: Simulation,
) -> None:
    for session, _event in walk(world):
        budget = session.limits.session_budget
        if not budget.unlimited:
            assert budget.measure(session.spend) + budget.measure(session.reserved) <= budget.limit


def no_attempt_is_started_with_a_parked_runtime(world: Simulation) -> None:
    for session, event in walk(world):
        if isinstance(event, AttemptIntended):
            assert event.attempt.runtime not in session.parked


def nothing_is_started_while_a_person_is_asked_for_money(world: Simulation) -> None:
    for session, event in walk(world):
        if isinstance(event, AttemptIntended):
            assert not session.is_asking(GateKind.BUDGET)


@laws
@given(plans(), workflows, bounds())
def test_without_mishap_every_task_lands_in_the_first_cycle(
    plan: tuple[Task, ...], workflow: Workflow, limits: Limits
) -> None:
    world = run(Simulation(SimulatedOutcomes(plan), [build_opening(workflow=workflow, limits=limits)]))
    assert world.session.outcome == "completed"
    assert world.session.cycle == 1
    assert set(world.session.list_in_state(TaskState.MERGED)) == {task.id for task in plan}


def request_retries(session: Session) -> Sequence[Event]:
    """Try again the first task that may be."""
    found = next((name for name in session.tasks if not find_retry_problem(session, name)), None)
    return tuple(retry_task(session, found, "", 0.0)) if found is not None and not session.ended else ()


def request_task(session: Session) -> Sequence[Event]:
    """Add a task after the first one."""
    needs = tuple(sorted(session.tasks))[:1]
    new = complete_new_tasks(session, [Task(id="", title="one more", description="", dependencies=needs)])
    return () if session.ended or find_addition_problems(session, new) else (TasksImported(digest="", added=new),)


def request_fix(session: Session) -> Sequence[Event]:
    """Fix the first task that can be: begun, validated or landed."""
    for name in sorted(session.tasks):
        with suppress(Refused):
            work = find_work(session, name)
            assert work is not None
            (fix,) = complete_new_tasks(session, [build_fix(session, work, "it is wrong", builds_on=True)])
            if session.ended or find_addition_problems(session, (fix,)):
                return ()
            asked = FixRequested(task=fix.id, work=work, wrong="it is wrong")
            return (asked, TasksImported(digest="", added=(fix,)))
    return ()


LETTERS: st.SearchStrategy[SimulatedMessage] = st.sampled_from(
    (
        ask_questions,
        report_stalls,
        request_stop,
        partial(request_stop, now=True),
        request_proceed,
        partial(request_proceed, kill=True),
        request_retries,
        request_task,
        request_fix,
    )
)


@laws
@given(worlds(), st.lists(st.tuples(LETTERS, st.floats(0, 60)), max_size=3))
def test_stops_resumes_and_haste_break_nothing(
    world: Simulation, letters: list[tuple[SimulatedMessage, float]]
) -> None:
    for letter, at in letters:
        world.send(letter, at=at)
    run(world)
    while world.session.stopping:
        world = run(world.resume())
    assert_in_order(world)
    assert ended_well(world.session)


@laws
@given(worlds(), st.data())
def test_a_crash_at_any_moment_breaks_nothing(world: Simulation, data: st.DataObject) -> None:
    run(world)
    cut = data.draw(st.sampled_from(world.transactions))
    again = run(Simulation(world.outcomes, world.journal[:cut]))
    assert_in_order(again)
    assert ended_well(again.session)


def story(journal: list[JournalEntry]) -> list[tuple[float, Event]]:
    return [(each.at, each.event) for each in journal if not isinstance(each.event, OrchestratorStarted)]


class Prompt(Simulation):
    """Effects that are no longer due are dropped, as a crash would have dropped them."""

    def _build_outcome(self, effect: Effect) -> Sequence[Event]:
        return super()._build_outcome(effect) if effect in effects_due(self.session) else ()


@laws
@given(worlds(hasty=True), st.data())
def test_after_a_crash_a_session_continues_as_it_would_have(world: Simulation, data: st.DataObject) -> None:
    """Except that a resume tries again what failed, and looks whether a person has repaired what was asked about."""
    world = run(Prompt(world.outcomes, world.journal[:-1]))  # without the start of another orchestrator
    asked = [recorded.event.gate.kind for recorded in world.journal if isinstance(recorded.event, GateOpened)]
    assume(ASKED_AGAIN.isdisjoint(asked))
    cut = data.draw(st.sampled_from(world.transactions))
    again = run(Prompt(world.outcomes, world.journal[:cut]))
    assert story(again.journal) == story(world.journal)


def strip_seats(journal: list[JournalEntry]) -> list[tuple[float, Event]]:
    return [
        (at, replace(event, attempt=replace(event.attempt, allocation=None)))
        if isinstance(event, AttemptIntended)
        else (at, event)
        for at, event in story(journal)[1:]
    ]


@laws
@given(worlds(), teams())
def test_seats_decide_who_and_never_what_or_when(world: Simulation, team: Team) -> None:
    opening = world.journal[0]
    assert isinstance(opening.event, SessionOpened)
    others = replace(opening, event=replace(opening.event, team=team))
    again = run(Simulation(world.outcomes, [others, *world.journal[1:-1]]))
    assert strip_seats(again.journal) == strip_seats(run(world).journal)


@laws
@given(related_worlds())
def test_conversations_go_on_only_with_work_that_is_there_and_never_end_together(world: Simulation) -> None:
    a_conversation_goes_on_only_with_work_that_is_there(run(world))
    assert_in_order(world)


def lose_commits(session: Session) -> tuple[Event, ...]:
    return () if session.ended else (OrchestratorStarted(pid=2, missing=tuple(list_needed_commits(session))),)


@laws
@given(worlds(), st.data())
def test_commits_lost_at_any_moment_break_nothing(world: Simulation, data: st.DataObject) -> None:
    run(world)
    cut = data.draw(st.sampled_from(world.transactions))
    again = Prompt(world.outcomes, world.journal[:cut])
    again.send(lose_commits, at=again.now)
    run(again)
    assert_in_order(again)
    assert ended_well(again.session)


def no_seat_changes_its_domain_and_none_is_added_while_one_of_that_domain_is_free(world: Simulation) -> None:
    domains: dict[str, str] = {}
    for session, event in walk(world):
        domains = {**{name: seat.domain for name, seat in session.seats.items()}, **domains}
        if not isinstance(event, AttemptIntended) or event.attempt.allocation is None:
            continue
        given, role = event.attempt.allocation, event.attempt.role
        busy = {attempt.seat for attempt in session.live.values()}
        free = [seat for seat in session.seats.values() if seat.role == role and seat.name not in busy]
        assert given.is_new == (given.seat not in session.seats)
        assert given.is_new or given.seat in {seat.name for seat in free}
        assert not (given.is_new and given.domain in {seat.domain for seat in free})
        before = session.seat_of.get((event.attempt.subject, role))
        assert given.seat == before or before not in {seat.name for seat in free}
    assert domains == {name: seat.domain for name, seat in world.session.seats.items()} | domains


def a_conversation_goes_on_only_with_work_that_is_there(world: Simulation) -> None:
    for session, event in walk(world):
        given = event.attempt.allocation if isinstance(event, AttemptIntended) else None
        if given is None or not given.continues:
            continue
        assert isinstance(event, AttemptIntended)
        before, budget = session.attempts[given.continues], session.limits.context_budget
        assert budget is not None and event.attempt.duty is Duty.MAKE and not given.reset
        assert before.ended is not None and before.ended.ending is Ending.PASSED and not before.ended.violations
        assert (before.attempt.seat, before.attempt.model, before.attempt.runtime) == (
            given.seat,
            event.attempt.model,
            event.attempt.runtime,
        )
        there = {below.task for below in event.attempt.built_on} | set(session.list_in_state(TaskState.MERGED))
        assert before.attempt.subject in there - {event.attempt.subject}
        tasks = {record.attempt.subject for record in list_conversation(session, before)}
        others = [attempt.allocation for attempt in session.live.values() if attempt.seat != given.seat]
        assert len(tasks) < budget.tasks or any(other is not None and other.is_budget_reset for other in others)


def the_work_of_all_seats_is_the_work_of_all_attempts(world: Simulation) -> None:
    done = sum_seat_work(world.session)
    merged = world.session.count_in_state(TaskState.MERGED)
    assert max((seat.landed for seat in done), default=0) <= merged <= sum(seat.landed for seat in done)
    assert all(seat.first_time <= seat.landed <= sum(seat.tasks.values()) for seat in done)
    known = world.session.seats
    assert all(sum(seat.tasks.values()) <= sum(known[seat.name].tasks.values()) for seat in done)


def what_was_spent_is_the_sum_of_all_endings(world: Simulation) -> None:
    endings = [recorded.event.ended for recorded in world.journal if isinstance(recorded.event, AttemptEnded)]
    assert world.session.spend.tokens == sum(ended.spend.tokens for ended in endings)
    assert all(ended.ending in Ending for ended in endings)


OF_FINISHED_SESSIONS = (
    a_session_keeps_its_order_and_comes_to_an_end,
    a_task_starts_only_when_its_dependencies_are_verified,
    what_lands_was_judged_approved_and_built_on_what_landed,
    attempts_histories_and_cycles_are_bounded,
    no_attempt_begins_above_the_ceiling_unless_a_person_asked_for_it,
    no_attempt_begins_before_its_moment_and_each_is_made_by_its_rung,
    no_two_gates_have_one_name_and_no_subject_is_asked_about_twice_at_once,
    no_attempt_starts_while_a_question_about_its_subject_is_open_and_questions_are_bounded,
    an_open_question_is_always_settled,
    no_attempt_is_promised_what_the_session_has_not_got,
    agents_that_keep_to_their_limits_never_overspend_the_session_whatever_the_order_of_their_ends,
    no_attempt_is_started_with_a_parked_runtime,
    nothing_is_started_while_a_person_is_asked_for_money,
    what_was_spent_is_the_sum_of_all_endings,
    no_seat_changes_its_domain_and_none_is_added_while_one_of_that_domain_is_free,
    a_conversation_goes_on_only_with_work_that_is_there,
    the_work_of_all_seats_is_the_work_of_all_attempts,
)


@laws
@given(worlds())
def test_every_law_of_finished_sessions_holds(world: Simulation) -> None:
    """One run for all of them: what costs is to invent a session and to run it."""
    run(world)
    for law in OF_FINISHED_SESSIONS:
        law(world)


@laws
@given(failing_worlds(), st.lists(st.tuples(LETTERS, st.floats(0, 90)), max_size=3))
def test_the_ceiling_of_attempts_holds_whatever_fails_and_whatever_people_want(
    world: Simulation, letters: list[tuple[SimulatedMessage, float]]
) -> None:
    for letter, at in letters:
        world.send(letter, at=at)
    run(world)
    while world.session.stopping:
        world = run(world.resume())
    no_attempt_begins_above_the_ceiling_unless_a_person_asked_for_it(world)
    assert ended_well(world.session)
