"""What a person asks of a session that is under way: to try a task again, or to do one more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from blueflame.model.task import Task, TaskState
from blueflame.session.decide import build_single_task
from blueflame.session.requests.task_file import compare_tasks
from blueflame.session.state import Phase, Session

WHY_NOT_RETRIED: Mapping[TaskState, str] = {
    TaskState.PENDING: "has not been started yet",
    TaskState.CLAIMED: "is being worked on: end its agent with 'blueflame kill', and it starts again",
    TaskState.PARTIAL: "is made in part, and goes on by itself",
    TaskState.DONE: "has a result that is being checked: answer its gate to send it back",
    TaskState.VALIDATED: "has a result that waits for its changeset: reject that to send it back",
    TaskState.DEFERRED: "has a result that is shown again in the next cycle",
    TaskState.BLOCKED: "waits for another task: retry that one",
    TaskState.MERGED: "has landed: 'blueflame undo' reverts it",
    TaskState.DROPPED: "was dropped: add it again with 'blueflame add'",
}


def find_retry_problem(session: Session, name: str) -> str:
    """Return why a task cannot be tried again; empty if it can."""
    record = session.tasks.get(name)
    if record is None:
        known = ", ".join(session.list_in_state(TaskState.FAILED, TaskState.REQUEUED))
        return f"there is no task {name!r}; those that can be retried: {known or 'none'}"
    if name in session.waiting:
        return ""
    if name in session.list_waiting_for_answer():
        return f"{name} waits for an answer to its question: 'blueflame gates' shows it"
    if record.state in WHY_NOT_RETRIED:
        return f"{name} {WHY_NOT_RETRIED[record.state]}"
    gate = next((gate.id for gate in session.open_gates.values() if gate.subject == name), "")
    return f"a gate asks about {name}: answer it with 'blueflame answer {gate}'" if gate else ""


def complete_new_tasks(session: Session, tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Give new tasks what a person left out: the next id, all allowed paths as locks, a group of their own."""
    numbers = [int(name.rpartition("-")[2]) for name in session.tasks if name.rpartition("-")[2].isdigit()]
    return tuple(
        fill_task(task, task.id or f"task-{n:03d}", session.limits.allowed_paths)
        for n, task in enumerate(tasks, max(numbers, default=0) + 1)
    )


def fill_task(task: Task, name: str, allowed_paths: tuple[str, ...]) -> Task:
    return replace(
        task,
        id=name,
        file_locks=task.file_locks or build_single_task("", allowed_paths).file_locks,
        cohesion_group=task.cohesion_group or name,
        description=task.description or task.title,
    )


def find_addition_problems(session: Session, tasks: Sequence[Task]) -> tuple[str, ...]:
    """Return why tasks cannot be added; empty if they can."""
    if session.phase is not Phase.WORKING:
        return ("no plan is approved yet: ask for the task at the plan gate",)
    known = [task.id for task in tasks if task.id in session.tasks]
    if known:
        return (f"{', '.join(known)} is in the session already: leave the id out, and the task gets the next one",)
    return compare_tasks(session, [*(record.task for record in session.tasks.values()), *tasks]).problems
