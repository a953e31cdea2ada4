"""Fixes on simulated sessions: which work can be fixed, the urgent task that does it, and the lesson that stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

import pytest

from blueflame.journal.codec import decode_event, encode_event
from blueflame.journal.journal import Message
from blueflame.knowledge.wording import describe_record
from blueflame.memory.records import build_records
from blueflame.model.attempt import Attempt, Ending
from blueflame.model.changeset import ChangesetState
from blueflame.model.errors import Refused
from blueflame.model.event import AttemptIntended, Event, FixRequested, GateAnswered, Landed
from blueflame.model.gate import Answer
from blueflame.model.hand_off import HandOff
from blueflame.model.limits import Limits
from blueflame.model.memory import Lesson
from blueflame.model.task import FixedWork, Task, TaskState
from blueflame.model.workflow import Workflow
from blueflame.orchestrator.inbox import decide_message
from blueflame.session.apply.indexes import rank_check
from blueflame.session.decide import FIX, next_events
from blueflame.session.gates.answers import build_proposal
from blueflame.session.gates.edits import build_edit_payload
from blueflame.session.replay import replay
from blueflame.session.requests.fixes import build_fix, find_work, refuse_unknown
from blueflame.session.state import Session
from blueflame.testing.simulation import Simulation, build_opening
from blueflame.text.fixed_work import MAX_TOKENS, describe_fixed_work
from blueflame.text.tokens import estimate_tokens
from support.session_examples import BARRIER, FLOW, SINGLE, Outcomes, begun, events, reported, task

ONE_WORKER = Limits(allowed_paths=("src/**",), workers=1)
WRONG = "the total is off by one\nfor empty carts"
LANDED = FixedWork(session="ses-20250101-000000", tasks=("task-007",), title="Add a cart", changeset="cs-1", commit="c")


def order(work: FixedWork, *, of: Session | None = None, locks: tuple[str, ...] = ()) -> dict[str, object]:
    """The message of `blueflame fix`; without a session, about work of an earlier one."""
    fix = Task(id="", title="Fix: it", description=WRONG, priority=1, cohesion_group="", file_locks=locks)
    if of is not None:
        fix = build_fix(of, work, WRONG, builds_on=True)
    return build_edit_payload([fix]) | {"work": asdict(work) | {"tasks": list(work.tasks)}, "by": "ann"}


def ask(replies: list[str], build: Callable[[Session], dict[str, object]]) -> Callable[[Session], Sequence[Event]]:
    def send(session: Session) -> Sequence[Event]:
        decided = decide_message(session, Message(id=1, session=session.id, at=9.0, kind="fix", body=build(session)))
        replies.append(decided.reply)
        return decided.events

    return send


def started(world: Simulation) -> list[str]:
    made = (event.attempt for event in events(world, AttemptIntended))
    return [attempt.subject for attempt in made if attempt.role == "worker"]


@pytest.mark.parametrize("workflow", [BARRIER, FLOW], ids=["waves", "flow"])
def test_a_fix_goes_before_every_task_that_waits_whatever_their_priority(workflow: Workflow) -> None:
    replies: list[str] = []
    tasks = [task(n, priority=1) for n in range(1, 5)]
    world = begun(Outcomes(*tasks, minutes={"task-001.worker.1": 20.0}), workflow, ONE_WORKER)
    world.send(ask(replies, lambda _session: order(LANDED, locks=("src/cart.py",))), at=9.0)
    world.run()
    assert replies == ["added task-005, which fixes task-007: it goes before all other tasks"]
    assert started(world) == ["task-001", "task-005", "task-002", "task-003", "task-004"]
    assert world.session.outcome == "completed"
    assert world.session.tasks["task-005"].state is TaskState.MERGED


def approve(session: Session) -> Sequence[Event]:
    return [GateAnswered(gate=name, answer=Answer(choice="approve")) for name in session.open_gates]


def test_a_fix_is_reviewed_before_what_waits_longer() -> None:
    tasks = [task(n, group=f"g{n}", priority=1) for n in range(1, 5)]
    long = {"task-001.validator.1": 60.0}
    world = begun(Outcomes(*tasks, minutes=long), FLOW, Limits(allowed_paths=("src/**",), workers=5, validators=1))
    world.send(ask([], lambda _session: order(LANDED, locks=("src/cart.py",))), at=9.0)
    world.run()
    reviewed = [event.attempt.subject for event in events(world, AttemptIntended) if event.attempt.role == "validator"]
    assert reviewed == ["task-001", "task-005", "task-002", "task-003", "task-004"]
    assert world.session.outcome == "completed"


def test_a_fix_lands_before_the_changesets_that_wait_for_a_person() -> None:
    tasks = [task(n, group=f"g{n}", priority=1) for n in range(1, 5)]
    unanswered = {"changeset-cs-001": None, "changeset-cs-002": None}
    world = begun(Outcomes(*tasks, answers=unanswered), FLOW, Limits(allowed_paths=("src/**",), workers=5))
    world.send(approve, at=40.0)
    world.send(ask([], lambda _session: order(LANDED, locks=("src/cart.py",))), at=50.0)
    world.send(approve, at=80.0)
    world.run()
    landed = [world.session.changesets[event.changeset].changeset.tasks[0] for event in events(world, Landed)]
    assert landed == ["task-001", "task-002", "task-005", "task-003", "task-004"], "after the question that was open"
    assert world.session.outcome == "completed"


def test_a_fix_that_builds_on_what_is_landing_waits_for_it() -> None:
    def about(session: Session) -> dict[str, object]:
        work = find_work(session, "task-001")
        assert work is not None
        return order(work, of=session)

    outcomes = Outcomes(*(task(n, group=f"g{n}") for n in range(1, 4)), answers={"changeset-cs-001": None})
    world = begun(outcomes, FLOW, Limits(allowed_paths=("src/**",), workers=5))
    world.send(ask([], about), at=9.0)
    world.send(approve, at=40.0)
    world.run()
    landed = [set(world.session.changesets[event.changeset].changeset.tasks) for event in events(world, Landed)]
    assert landed[:2] == [{"task-001"}, {"task-004"}]
    assert world.session.outcome == "completed"


def test_a_fix_is_checked_next_after_the_checks_that_run() -> None:
    limits = Limits(allowed_paths=("src/**",), workers=9, validators=2)
    session = begun(Outcomes(), FLOW, limits).session
    session.fixes["task-004"] = FixRequested(task="task-004", work=LANDED, wrong=WRONG, by="ann")
    for n, name in enumerate(("task-001", "task-002", "task-003", "task-004"), start=1):
        session.seq = n
        session.to_check.add(name, 0, rank_check(session, name))
    assert list(session.to_check.list_all()) == ["task-001", "task-002", "task-004", "task-003"]


def test_a_fix_that_waits_for_a_lock_is_not_passed_over() -> None:
    long = {"task-001.worker.1": 20.0, "task-002.worker.1": 30.0}
    tasks = [task(1, locks=("src/a.py",)), task(2), task(3, locks=("src/b.py",))]
    world = begun(Outcomes(*tasks, minutes=long), FLOW, replace(ONE_WORKER, workers=2))
    world.send(ask([], lambda _session: order(LANDED, locks=("src/a.py", "src/b.py"))), at=9.0)
    world.run()
    assert started(world) == ["task-001", "task-002", "task-004", "task-003"]


def test_a_fix_of_work_that_has_not_landed_builds_on_it_and_lands_with_it() -> None:
    replies: list[str] = []

    def about(session: Session) -> dict[str, object]:
        work = find_work(session, "task-001")
        assert work is not None
        return order(work, of=session)

    world = begun(Outcomes(task(1), task(2), minutes={"task-001.worker.1": 20.0}), FLOW, ONE_WORKER)
    world.send(ask(replies, about), at=9.0)
    world.run()
    assert started(world) == ["task-001", "task-003", "task-002"]
    fix = world.session.tasks["task-003"].task
    assert (fix.title, fix.dependencies, fix.file_locks) == (
        "Fix: the total is off by one",
        ("task-001",),
        ("src/1.py",),
    )
    assert fix.cohesion_group == "main"
    assert world.session.outcome == "completed"


def test_landed_work_is_found_by_task_and_by_changeset() -> None:
    session = reported(Outcomes(task(1), task(2, group="b")), FLOW).session
    (name,) = (each for each, record in session.changesets.items() if "task-002" in record.changeset.tasks)
    found = find_work(session, "task-002")
    assert found == find_work(session, name)
    assert found == FixedWork(
        session=session.id,
        tasks=("task-002",),
        title="thing 2",
        changeset=name,
        commit=session.changesets[name].landed_as or "",
        seats=(session.seat_of["task-002", "worker"], session.seat_of["task-002", "validator"]),
    )
    fix = build_fix(session, found, "x")
    assert (fix.dependencies, fix.cohesion_group) == ((), ""), "it starts from the base, and lands alone"
    assert build_fix(session, found, "x", locks=("src/other.py",)).file_locks == ("src/other.py",)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (TaskState.PENDING, "has not been started yet"),
        (TaskState.FAILED, "blueflame retry task-001"),
        (TaskState.REQUEUED, "blueflame retry task-001"),
        (TaskState.DROPPED, "add a task with 'blueflame add'"),
    ],
)
def test_work_without_a_result_is_refused_with_what_to_do(state: TaskState, words: str) -> None:
    session = reported(Outcomes(task(1), answers={"changeset": None}), FLOW).session
    session.changesets.clear()
    session.tasks["task-001"] = replace(session.tasks["task-001"], state=state)
    with pytest.raises(Refused, match=words):
        find_work(session, "task-001")


@pytest.mark.parametrize(
    ("state", "words"), [(ChangesetState.UNDONE, "nothing of it is left"), (ChangesetState.PROPOSED, "merge it first")]
)
def test_work_that_is_not_on_the_base_is_refused(state: ChangesetState, words: str) -> None:
    session = reported(Outcomes(task(1)), SINGLE).session
    (name,) = session.changesets
    session.changesets[name] = replace(session.changesets[name], state=state, note="undone by ann", place="#12")
    for wanted in (name, "task-001"):
        with pytest.raises(Refused, match=words):
            find_work(session, wanted)
    assert find_work(session, "task-9") is None
    assert "did you mean task-001?" in str(refuse_unknown(session, "task-01"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"work": {"tasks": "task-001"}}, "not a fix"),
        ({"work": {**asdict(LANDED), "tasks": [1]}}, "not a fix"),
        ({"tasks": []}, "not a fix"),
        (
            {"work": {**asdict(LANDED), "tasks": ["task-9"], "commit": "", "session": "HERE"}},
            "there is no task 'task-9'",
        ),
    ],
)
def test_a_message_that_is_no_fix_changes_nothing(change: dict[str, object], words: str) -> None:
    replies: list[str] = []
    world = begun(Outcomes(task(1), minutes={"task-001.worker.1": 20.0}), FLOW, ONE_WORKER)

    def build(session: Session) -> dict[str, object]:
        work = change.get("work")
        here = {"work": {**work, "session": session.id}} if isinstance(work, dict) and "session" in work else {}
        return order(LANDED) | change | here

    world.send(ask(replies, build), at=9.0)
    world.run()
    assert words in replies[0]
    assert list(world.session.tasks) == ["task-001"]
    assert not world.session.fixes


def test_a_session_for_one_fix_needs_no_approval_of_its_plan() -> None:
    world = Simulation(Outcomes(), [build_opening(workflow=BARRIER, limits=ONE_WORKER)])
    fix = replace(task(1), title="Fix: it", description=WRONG)
    requested = FixRequested(task="task-001", work=LANDED, wrong=WRONG, by="ann")
    world._append([requested, build_proposal(world.session, (fix,), FIX, 1)])  # as `open_session` does
    world.run()
    assert world.session.outcome == "completed"
    assert not [gate for gate in world.session.gates.values() if gate.kind.value == "plan"]
    assert next_events(world.session, world._capacity) == ()


def test_a_fix_that_breaks_the_rules_of_a_plan_is_shown_at_the_gate() -> None:
    world = Simulation(Outcomes(answers={"plan": "quit"}), [build_opening(workflow=BARRIER, limits=ONE_WORKER)])
    world._append([build_proposal(world.session, (replace(task(1), file_locks=("../x",)),), FIX, 1)])
    world.run()
    assert [gate.kind.value for gate in world.session.gates.values()] == ["plan"]


class Talkative(Outcomes):
    def pick_hand_off(self, _attempt: Attempt) -> HandOff:
        return HandOff(summary=("did it",), learnings=("carts are lazy",))


def test_the_history_has_what_was_asked_committed_judged_and_handed_over() -> None:
    outcomes = Talkative(task(1), endings={"task-001.worker.1": Ending.NO_COMMITS})
    session = reported(outcomes, BARRIER, ONE_WORKER).session
    work = find_work(session, "task-001")
    assert work is not None
    text = describe_fixed_work(session, work)
    result = session.tasks["task-001"].result
    assert result is not None
    for words in (
        f"It landed on main as commit {work.commit}.",
        "## task-001: thing 1",
        "do thing 1",
        f"- commits: {result.base}..{result.sha}",
        "- attempt 1: failed",
        f"- verdict of validator on {result.sha[:12]}: pass: validator-",
        "# HANDOFF: worker → validator",
        "- carts are lazy",
    ):
        assert words in text


def test_a_long_history_is_cut_to_its_budget() -> None:
    tasks = [replace(task(n), description="x" * 5_000) for n in range(1, 30)]
    session = reported(Outcomes(*tasks), BARRIER).session
    (name,) = session.changesets
    work = find_work(session, name)
    assert work is not None
    assert estimate_tokens(describe_fixed_work(session, work)) <= MAX_TOKENS + 1


def test_a_lesson_is_kept_and_shown_to_later_planners() -> None:
    world = begun(Outcomes(task(1), minutes={"task-001.worker.1": 20.0}), FLOW, ONE_WORKER)
    world.send(ask([], lambda _session: order(LANDED, locks=("src/cart.py",))), at=9.0)
    world.run()
    (lesson,) = (each for each in build_records(world.session) if isinstance(each, Lesson) and each.about == "fix")
    assert lesson.origin.files == ("src/cart.py",)
    assert describe_record(lesson, 0).startswith(
        "A FAULT FOUND LATER: Add a cart: the total is off by one for empty carts"
    )


def test_a_journal_with_a_fix_is_replayed_to_the_same_end() -> None:
    world = begun(Outcomes(task(1), task(2), minutes={"task-001.worker.1": 20.0}), FLOW, ONE_WORKER)
    world.send(ask([], lambda _session: order(LANDED)), at=9.0)
    world.run()
    again = [replace(each, event=decode_event(*encode_event(each.event))) for each in world.journal]
    assert replay(again).fixes == world.session.fixes
    assert replay(again).queue.pick(9) == world.session.queue.pick(9)
