"""What a person changed in the exported tasks file, judged by the same rules as a plan, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from blueflame.model.event import Event, TaskMoved, TasksImported
from blueflame.model.task import FINISHED, VERIFIED_NOT_LANDED, Cause, HistoryResult, Task, TaskRecord, TaskState
from blueflame.session.cascade import WILL_NOT_FINISH, find_reachable
from blueflame.session.plan_problems import find_plan_problems
from blueflame.session.retries import build_history_entry
from blueflame.session.state import Session

STATES_WITH_RESULT = VERIFIED_NOT_LANDED | {TaskState.DEFERRED}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFileEdit:
    """How a tasks file differs from the tasks as they are."""

    added: tuple[Task, ...] = ()
    edited: tuple[Task, ...] = ()
    dropped: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        return bool(self.added or self.edited or self.dropped)


def compare_tasks(session: Session, tasks: Sequence[Task]) -> TaskFileEdit:
    given = {task.id: task for task in tasks}
    known = session.tasks
    edit = TaskFileEdit(
        added=tuple(task for task in tasks if task.id not in known),
        edited=tuple(task for task in tasks if task.id in known and known[task.id].task != task),
        dropped=tuple(name for name in session.unfinished if name not in given),
    )
    return replace(edit, problems=tuple(_find_problems(session, tasks, edit))) if edit.changes else edit


def _find_problems(session: Session, tasks: Sequence[Task], edit: TaskFileEdit) -> Iterator[str]:
    for task in edit.edited:
        state = session.tasks[task.id].state
        if state is TaskState.MERGED:
            yield f"{task.id} has landed and cannot be changed any more: add a new task instead"
        elif state is TaskState.DROPPED:
            yield f"{task.id} was dropped from this session: add it again under another id"
        elif state is TaskState.CLAIMED:
            yield f"{task.id} is being worked on and cannot be changed now"
    yield from (
        f"{name} is being worked on and cannot be left out now" for name in edit.dropped if _is_claimed(session, name)
    )
    finished = {name: record.task for name, record in session.tasks.items() if record.state in FINISHED}
    if all(task.id in finished for task in tasks):
        yield "there is no task left to do in it; to end the session, stop it"
    yield from _find_new_problems(session, tasks, finished)


def _is_claimed(session: Session, name: str) -> bool:
    return session.tasks[name].state is TaskState.CLAIMED


def _find_new_problems(session: Session, tasks: Sequence[Task], finished: dict[str, Task]) -> Iterator[str]:
    """As a plan is judged; what was wrong before is nobody's fault now."""
    rules = {"allowed_paths": session.limits.allowed_paths, "blocked_paths": session.limits.blocked_paths}
    before = find_plan_problems(tuple(record.task for record in session.tasks.values()), **rules)
    duplicates = [task for n, task in enumerate(tasks) if task.id in {other.id for other in tasks[:n]}]
    after = find_plan_problems((*{**finished, **{task.id: task for task in tasks}}.values(), *duplicates), **rules)
    yield from (problem for problem in after if problem not in before)


def handle_tasks_imported(session: Session, event: TasksImported, now: float) -> Iterator[Event]:
    """Who was left out is dropped; a result that was made for other words, or on such a one, is made anew."""
    for name in event.dropped:
        yield TaskMoved(task=name, cause=Cause.DROP, reason="left out of the tasks file by a person")
    changed = [task.id for task in event.edited if _needs_new_result(session.tasks[task.id], task)]
    fallen = (*event.dropped, *changed)
    leaning = [
        name
        for name in find_reachable(fallen, lambda name: session.built_upon.get(name, ()))
        if _has_result(session, name)
    ]
    for name in sorted({*changed, *leaning} - set(event.dropped)):
        reason = "its task was changed by a person" if name in changed else "what it was built on is made anew"
        entry = build_history_entry(session.tasks[name], HistoryResult.STALE, now, notes=reason)
        yield TaskMoved(task=name, cause=Cause.REQUEUE, reason=reason, history=entry)
        yield TaskMoved(task=name, cause=Cause.RENEW)
    for task in event.edited:
        if session.tasks[task.id].state is TaskState.BLOCKED and not _is_held_up(session, task):
            yield TaskMoved(task=task.id, cause=Cause.UNBLOCK)


def _has_result(session: Session, name: str) -> bool:
    return session.tasks[name].state in STATES_WITH_RESULT


def _needs_new_result(record: TaskRecord, task: Task) -> bool:
    old = record.task
    same = (old.title, old.description, old.file_locks, old.dependencies) == (
        task.title,
        task.description,
        task.file_locks,
        task.dependencies,
    )
    return record.state in STATES_WITH_RESULT and not same


def _is_held_up(session: Session, task: Task) -> bool:
    return any(need in session.tasks and session.tasks[need].state in WILL_NOT_FINISH for need in task.dependencies)
