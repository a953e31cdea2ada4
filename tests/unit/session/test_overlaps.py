from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blueflame.model.attempt import Ending
from blueflame.model.event import AttemptCancelled, AttemptEnded, Event, GateOpened, GateWithdrawn, OverlapSeen
from blueflame.model.gate import Answer, Gate
from blueflame.model.limits import Limits
from blueflame.model.task import Task
from blueflame.session.gates.edits import build_edit_payload
from blueflame.session.gates.questions import answer_error
from blueflame.session.overlaps import (
    FILE,
    LINES,
    classify_overlap,
    describe_overlap,
    find_changed_spans,
    list_current_overlaps,
    list_new_overlaps,
    order_by_start,
)
from blueflame.session.replay import replay
from blueflame.session.state import Session
from blueflame.testing.simulation import Simulation
from support.random_sessions import plans
from support.session_examples import BARRIER, FLOW, Outcomes, begun, events, moves, states, task

BASE = "".join(f"{n}\n" for n in range(20))
ONE, TWO = (f"ses-20261115-120000.task-00{n}.worker.1" for n in (1, 2))


def changed(*lines: int, insert: int | None = None) -> str:
    text = [f"{n} new\n" if n in lines else f"{n}\n" for n in range(20)]
    return "".join(text if insert is None else [*text[:insert], "inserted\n", *text[insert:]])


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        (changed(3), changed(15), FILE),
        (changed(3), changed(3), LINES),
        (changed(3, 4, 5), changed(5, 6), LINES),
        (changed(3), changed(4), LINES),
        (changed(3), changed(5), FILE),
        (changed(insert=7), changed(7), LINES),
        (changed(insert=7), changed(insert=7), LINES),
        (changed(insert=7), changed(12), FILE),
        (BASE, changed(3), FILE),
        (None, changed(3), FILE),
    ],
)
def test_changes_meet_when_git_could_not_merge_them(one: str | None, other: str, kind: str) -> None:
    assert classify_overlap(BASE, one, other) == kind
    assert classify_overlap(BASE, other, one) == kind


def test_a_file_that_both_made_is_the_nearest_there_is() -> None:
    assert classify_overlap(None, "a\n", "b\n") == LINES
    assert classify_overlap(None, "a\n", None) == FILE


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_spans_are_in_order_and_cover_all_that_differs(before: list[str], after: list[str]) -> None:
    spans = find_changed_spans(before, after)
    assert (spans == ()) == (before == after)
    assert list(spans) == sorted(spans)
    assert all(0 <= start <= end <= len(before) for start, end in spans)


def test_a_change_too_long_to_compare_counts_as_one_piece() -> None:
    before = [f"{n}" for n in range(5_000)]
    after = [f"{n} new" if n % 2 else f"{n}" for n in range(5_000)]
    assert find_changed_spans(before, after) == ((1, 5_000),)


def overlap(*paths: str, kind: str = FILE) -> OverlapSeen:
    return OverlapSeen(tasks=("task-001", "task-002"), attempts=(ONE, TWO), paths=paths or ("src/a.py",), kind=kind)


def seen(session: Session) -> Sequence[Event]:
    return [overlap()] if len(session.live) == 2 else []


TASKS = (task(1, locks=("src/one/",)), task(2, locks=("src/two/",)))


def world(on_overlap: str, reply: Answer | None = None) -> Simulation:
    minutes = {"task-001.worker.1": 10.0, "task-002.worker.1": 10.0}
    outcomes = Outcomes(*TASKS, answers={"overlap": reply}, minutes=minutes)
    made = begun(outcomes, limits=Limits(on_overlap=on_overlap, workers=2, allowed_paths=("src/**",)))
    made.send(seen, at=2.0)
    return made


def overlap_gates(made: Simulation) -> list[Gate]:
    return [event.gate for event in events(made, GateOpened) if event.gate.kind.value == "overlap"]


def test_an_overlap_with_on_overlap_warn_is_recorded_and_changes_nothing() -> None:
    made = world("warn").run()
    assert overlap_gates(made) == []
    assert states(made) == {"task-001": "merged", "task-002": "merged"}
    assert describe_overlap(overlap()) == "task-001 and task-002 both change src/a.py"
    assert describe_overlap(overlap("a", "b", kind=LINES)) == "task-001 and task-002 both change the same lines of a, b"
    assert made.session.overlaps == {}, "an ended attempt overlaps with none"


@pytest.mark.parametrize(
    ("choice", "waits", "works_on"), [("wait", "task-002", "task-001"), ("reorder", "task-001", "task-002")]
)
def test_the_one_that_waits_starts_again_from_the_others_work(choice: str, waits: str, works_on: str) -> None:
    made = world("ask", Answer(choice=choice)).run()
    (gate,) = overlap_gates(made)
    assert (gate.subject, gate.evidence["tasks"]) == ("task-002", ["task-001", "task-002"])
    assert moves(made, waits)[:4] == ["claim", "release", "claim", "complete"]
    assert moves(made, works_on)[:2] == ["claim", "complete"]
    endings = [event.ended.ending for event in events(made, AttemptEnded) if f"{waits}.worker" in event.attempt]
    assert endings == [Ending.CANCELLED, Ending.PASSED]
    second = made.session.attempts[f"ses-20261115-120000.{waits}.worker.2"].attempt
    assert [foundation.task for foundation in second.built_on] == [works_on]
    assert made.session.tasks[waits].retries == 0, "no retry is counted"
    assert all("src/a.py" in record.task.file_locks for record in made.session.tasks.values())
    assert states(made) == {"task-001": "merged", "task-002": "merged"}
    assert f"it waits for {works_on}" in made.session.tasks[waits].history[0].notes


def test_a_path_that_no_task_may_lock_is_not_locked() -> None:
    made = world("ask", Answer(choice="wait"))
    made.send(lambda session: [overlap("../x", "other/b.py")] if len(session.live) == 2 else [], at=1.5)
    made.run()
    assert "other/b.py" not in made.session.tasks["task-001"].task.file_locks


def test_splitting_starts_only_those_again_whose_task_changed() -> None:
    other = replace(TASKS[1], description="Only the second half.")
    made = world("ask", Answer(choice="split", payload=build_edit_payload((TASKS[0], other)))).run()
    assert moves(made, "task-001")[:2] == ["claim", "complete"]
    assert moves(made, "task-002")[:3] == ["claim", "release", "claim"]
    assert made.session.tasks["task-002"].task.description == "Only the second half."


def test_a_split_must_hold_the_two_tasks_and_be_a_sound_plan() -> None:
    session = begun_with_gate()
    (name,) = session.open_gates
    assert "needs the edited tasks" in answer_error(session, name, Answer(choice="split"))
    one = Answer(choice="split", payload=build_edit_payload(TASKS[:1]))
    assert "expected exactly the tasks task-001 and task-002" in answer_error(session, name, one)
    cyclic = (replace(TASKS[0], dependencies=("task-002",)), replace(TASKS[1], dependencies=("task-001",)))
    assert answer_error(session, name, Answer(choice="split", payload=build_edit_payload(cyclic)))
    assert answer_error(session, name, Answer(choice="split", payload=build_edit_payload(TASKS))) == ""


def begun_with_gate() -> Session:
    made = world("ask")
    while made.step():
        if any(gate.kind.value == "overlap" for gate in made.session.open_gates.values()):
            return made.session
    raise AssertionError("no gate was opened")


def test_the_overlaps_of_agents_at_work_are_known() -> None:
    (now,) = list_current_overlaps(begun_with_gate())
    assert (now.tasks, now.paths, now.kind) == (("task-001", "task-002"), ("src/a.py",), FILE)


def test_ignoring_is_asked_once_for_two_attempts() -> None:
    made = world("ask", Answer(choice="ignore"))
    made.send(lambda session: [overlap("src/b.py")] if len(session.live) == 2 else [], at=4.0)
    made.run()
    assert len(overlap_gates(made)) == 1
    assert events(made, AttemptCancelled) == []


def test_an_unanswered_overlap_gate_is_withdrawn_when_one_attempt_ends() -> None:
    made = world("ask").run()
    (gone,) = events(made, GateWithdrawn)
    assert gone.gate == "overlap-task-002"
    assert states(made) == {"task-001": "merged", "task-002": "merged"}


def test_only_new_overlaps_are_recorded_and_lines_after_file_is_new() -> None:
    session = begun_with_gate()
    assert list(list_new_overlaps(session, (ONE, TWO), {"src/a.py": FILE})) == []
    assert [
        (event.paths, event.kind) for event in list_new_overlaps(session, (ONE, TWO), {"src/a.py": LINES, "b": FILE})
    ] == [
        (("b",), FILE),
        (("src/a.py",), LINES),
    ]


@settings(max_examples=30)
@given(
    plan=plans(),
    times=st.lists(st.floats(0.5, 6.0), min_size=1, max_size=6),
    choices=st.lists(st.sampled_from(("wait", "reorder", "ignore")), min_size=6, max_size=6),
    barrier=st.booleans(),
)
def test_with_any_overlaps_and_answers_everything_lands_and_can_be_replayed(
    plan: tuple[Task, ...], times: list[float], choices: list[str], barrier: bool
) -> None:
    def overlapping(session: Session) -> Sequence[Event]:
        workers = order_by_start(session, [name for name, attempt in session.live.items() if attempt.role == "worker"])
        if len(workers) < 2:
            return []
        first, later = workers[0], workers[-1]
        tasks = (session.attempts[first].attempt.subject, session.attempts[later].attempt.subject)
        return [OverlapSeen(tasks=tasks, attempts=(first, later), paths=("src/shared.py",), kind=FILE)]

    answers = {f"overlap-{task.id}": choices[n % len(choices)] for n, task in enumerate(plan)}
    limits = Limits(on_overlap="ask", workers=4, allowed_paths=("**",), max_cycles=9)
    made = begun(Outcomes(*plan, answers=answers), BARRIER if barrier else FLOW, limits)
    for at in times:
        made.send(overlapping, at=at)
    made.run()
    assert set(states(made).values()) == {"merged"}
    again = replay(made.journal)
    assert (again.tasks, again.attempts, again.answers) == (
        made.session.tasks,
        made.session.attempts,
        made.session.answers,
    )
