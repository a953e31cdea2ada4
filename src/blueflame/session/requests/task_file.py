"""What a person changed in the exported tasks file, checked by the rules of a plan, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from blueflame.lazy_dataclass import dataclass
from blueflame.model.event import Event, GateWithdrawn, TaskMoved, TasksImported
from blueflame.model.gate import GateKind
from blueflame.model.task import FINISHED, VERIFIED_NOT_LANDED, Cause, HistoryResult, Task, TaskRecord, TaskState
from blueflame.session.cascade import WILL_NOT_FINISH, find_reachable
from blueflame.session.plan_problems import find_new_plan_problems
from blueflame.session.retries import requeue_with_history
from blueflame.session.state import Session, is_workflow_changed

STATES_WITH_RESULT = VERIFIED_NOT_LANDED | {TaskState.DEFERRED}
UNCHANGEABLE: Mapping[TaskState, str] = {
    TaskState.MERGED: "has landed and cannot be changed any more: add a new task instead",
    TaskState.DROPPED: "was dropped from this session: add it again under another id",
    TaskState.CLAIMED: "is being worked on and cannot be changed now",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFileEdit:
    """How a tasks file differs from the session's tasks."""

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
        if state in UNCHANGEABLE:
            yield f"{task.id} {UNCHANGEABLE[state]}"
        elif is_workflow_changed(session.tasks[task.id], task):
            yield f"{task.id} has begun in its workflow, which cannot be changed any more: add a new task instead"
    for name in edit.dropped:
        if session.tasks[name].state is TaskState.CLAIMED:
            yield f"{name} is being worked on and cannot be left out now"
    for task in (*edit.added, *edit.edited):
        if lost := sorted(_find_new_needs(session, task) & session.states[TaskState.DROPPED].keys()):
            yield f"{task.id} depends on {', '.join(lost)}, which was dropped: it could never start"
    finished = {name: record.task for name, record in session.tasks.items() if record.state in FINISHED}
    if all(task.id in finished for task in tasks):
        yield "there is no task left to do in it; to end the session, stop it"
    duplicates = [task for n, task in enumerate(tasks) if task.id in {other.id for other in tasks[:n]}]
    before = tuple(record.task for record in session.tasks.values())
    after = (*{**finished, **{task.id: task for task in tasks}}.values(), *duplicates)
    yield from find_new_plan_problems(before, after, session.limits)


def _find_new_needs(session: Session, task: Task) -> set[str]:
    known = session.tasks.get(task.id)
    return set(task.dependencies) - set(known.task.dependencies if known is not None else ())


def handle_tasks_imported(session: Session, event: TasksImported, now: float) -> Iterator[Event]:
    """Drop what was left out, and redo the results of changed tasks and of the work built on either."""
    for name in event.dropped:
        yield TaskMoved(task=name, cause=Cause.DROP, reason="left out of the tasks file by a person")
        if asked := session.gate_subjects.get((GateKind.ESCALATION, name)):
            yield GateWithdrawn(gate=asked, reason=f"{name} was left out of the tasks file")
    changed = [task.id for task in event.edited if _needs_new_result(session.tasks[task.id], task)]
    built_on = find_reachable((*event.dropped, *changed), lambda name: session.built_upon.get(name, ()))
    stale = [name for name in built_on if session.tasks[name].state in STATES_WITH_RESULT]
    for name in sorted({*changed, *stale} - set(event.dropped)):
        reason = "its task was changed by a person" if name in changed else "what it was built on is being redone"
        yield requeue_with_history(session, name, HistoryResult.STALE, now, reason)
        yield TaskMoved(task=name, cause=Cause.RENEW)
    for task in event.edited:
        needs = (session.tasks[need] for need in task.dependencies if need in session.tasks)
        is_held_up = any(need.state in WILL_NOT_FINISH for need in needs)
        if session.tasks[task.id].state is TaskState.BLOCKED and not is_held_up:
            yield TaskMoved(task=task.id, cause=Cause.UNBLOCK)


def _needs_new_result(record: TaskRecord, task: Task) -> bool:
    fields = attrgetter("title", "description", "file_locks", "dependencies")
    return record.state in STATES_WITH_RESULT and fields(record.task) != fields(task)
