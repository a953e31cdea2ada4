from __future__ import annotations

from dataclasses import replace

from blueflame.cli.console import render_text
from blueflame.cli.render.plan import render_plan
from blueflame.model.limits import Limits
from blueflame.model.task import Task
from blueflame.session.estimate import CostRange, plan_batches
from blueflame.views.plan import PlanView, list_plan_changes
from support.recorded_session import ID, TASKS

COST = CostRange(low=1_500_000, high=4_500_000)


def test_a_plan_is_shown_as_it_is_reviewed() -> None:
    view = PlanView(
        tasks=TASKS,
        session=ID,
        request="Add authentication\nto the API",
        round=2,
        batches=tuple(plan_batches(TASKS, Limits().workers)),
        cost=COST,
        warnings=("task-003 is alone in its group",),
    )
    assert render_text(render_plan(view), width=80) == (
        """\
Plan review                                        round 2 · ses-20260206-143022
────────────────────────────────────────────────────────────────────────────────
  Request:         Add authentication to the API
  Tasks:           3
  Estimated cost:  $1.50 - $4.50 (base - with retries)
                   by reference figures; nothing is learned yet

  task-001  [auth] Add JWT middleware to API router                   priority 1
            locks  pkg/middleware/, internal/auth/
            after  nothing
  task-002  [auth] Add auth tests                                     priority 2
            locks  tests/auth/
            after  task-001
  task-003  [api] Обновить документацию маршрутов                     priority 3
            locks  docs/api reference/
            after  nothing

Schedule, by batch
  1  task-001, task-003
  2  task-002

Warnings
  !  task-003 is alone in its group
"""
    )


def test_descriptions_are_shown_and_long_ones_name_the_command_that_shows_them_whole() -> None:
    short = replace(TASKS[0], description="Check the token.\n\n  Answer 401 without one.\n")
    long = replace(TASKS[1], description="line\n" * 30)
    text = render_text(render_plan(PlanView(tasks=(short, long), session=ID)))
    assert "            Check the token.\n            Answer 401 without one.\n            locks" in text
    assert text.count("line\n") == 12
    assert "… the rest: blueflame show task-002\n" in text
    many = tuple(replace(long, id=f"task-{n:03}") for n in range(20))
    assert render_text(render_plan(PlanView(tasks=many, session=ID))).count("  line\n") == 20


def test_after_an_edit_what_changed_is_shown() -> None:
    edited = (replace(TASKS[0], priority=2, file_locks=("pkg/middleware/",), description="a\nb"), TASKS[2])
    changes = tuple(list_plan_changes(TASKS, (*edited, replace(TASKS[1], id="task-004"))))
    assert changes == (
        "task-002 was removed: Add auth tests",
        "task-001: the description was changed, from 1 line to 2 lines",
        "task-001: priority: 1 -> 2",
        "task-001: file locks: pkg/middleware/, internal/auth/ -> pkg/middleware/",
        "task-004 was added: Add auth tests",
    )
    text = render_text(render_plan(PlanView(tasks=edited, session=ID, changes=changes)))
    assert "Changed since the plan before\n  !  task-002 was removed: Add auth tests\n" in text


def test_problems_come_last_where_the_question_is() -> None:
    text = render_text(
        render_plan(PlanView(tasks=TASKS, session=ID, problems=("cycle: task-001 → task-002 → task-001",)))
    )
    assert text.endswith("Problems: the plan cannot be approved as it is\n  ✗  cycle: task-001 → task-002 → task-001\n")


def test_long_titles_fold_under_themselves() -> None:
    long = replace(TASKS[0], title="word " * 30)
    lines = render_text(render_plan(PlanView(tasks=(long,), session=ID)), width=60).splitlines()
    folded = [line for line in lines if "word" in line]
    assert len(folded) > 2
    assert all(line.startswith(" " * 12 + "word") for line in folded[1:])


def test_nothing_an_agent_wrote_reaches_the_terminal_raw() -> None:
    evil = Task(id="task-001", title="\x1b[2Jhi\nthere", description="", cohesion_group="\x07g", file_locks=("a\x1bb",))
    view = PlanView(tasks=(evil,), session=ID, request="\x1bx", warnings=("\x1bw",), problems=("\x1bp",))
    text = render_text(render_plan(view))
    assert "\x1b" not in text
    assert "[␇g] ␛[2Jhi there" in text


def test_a_huge_plan_stays_readable() -> None:
    tasks = tuple(replace(TASKS[0], id=f"task-{n:05}") for n in range(10_000))
    text = render_text(render_plan(PlanView(tasks=tasks, session=ID, batches=tuple((task.id,) for task in tasks))))
    assert len(text.splitlines()) < 300
    assert "Tasks:  10,000" in text
    assert "… and 9,940 more, all of them in .blueflame/tasks.yaml" in text
    assert "… and 9,980 more" in text


def test_a_task_in_a_group_of_its_own_is_named_once() -> None:
    alone = replace(TASKS[0], cohesion_group=TASKS[0].id)
    text = render_text(render_plan(PlanView(tasks=(alone,), session=ID)))
    assert f"[{alone.id}]" not in text and f"{alone.id}  {alone.title}" in text
