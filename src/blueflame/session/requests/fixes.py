"""What a person asks to be fixed: which work that is, whether it can be fixed, and the task that does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from blueflame.model.changeset import ChangesetRecord, ChangesetState
from blueflame.model.errors import Refused, UsageError
from blueflame.model.suggestions import suggest
from blueflame.model.task import FixedWork, Task, TaskState
from blueflame.session.state import Session

MAX_TITLE_CHARS = 72
WHY_NOT_FIXED: Mapping[TaskState, str] = {
    TaskState.PENDING: "has not been started yet: change its description in the tasks file, or wait for its result",
    TaskState.BLOCKED: "has not been started yet: it waits for another task",
    TaskState.FAILED: "has no result to fix: try it again with 'blueflame retry {task} -m \"what is wrong\"'",
    TaskState.REQUEUED: "is being done again: say it with 'blueflame retry {task} -m \"what is wrong\"'",
    TaskState.DROPPED: "was dropped, so there is nothing to fix: add a task with 'blueflame add'",
}
LANDED_STATES = frozenset({ChangesetState.LANDED, ChangesetState.PROPOSED, ChangesetState.UNDONE})


def find_work(session: Session, wanted: str) -> FixedWork | None:
    """Find the work of a task or a changeset; None when there is no such id. Raise Refused if it cannot be fixed."""
    if wanted in session.changesets:
        return build_work(session, session.changesets[wanted].changeset.tasks, session.changesets[wanted])
    if wanted not in session.tasks:
        return None
    return build_work(session, (wanted,), find_landing(session, wanted))


def build_work(session: Session, tasks: Sequence[str], landing: ChangesetRecord | None) -> FixedWork:
    """`landing`: the changeset with which it landed, or is to land."""
    if landing is not None and landing.state in LANDED_STATES:
        check_landing(landing)
    elif problem := find_fix_problem(session, tasks):
        raise Refused(problem)
    has_landed = landing is not None and landing.state is ChangesetState.LANDED
    titles = [session.tasks[name].task.title for name in tasks if name in session.tasks]
    return FixedWork(
        session=session.id,
        tasks=tuple(tasks),
        title="; ".join(titles),
        changeset=landing.changeset.id if landing is not None and has_landed else "",
        commit=(landing.landed_as or "") if landing is not None and has_landed else "",
        seats=tuple(dict.fromkeys(seat for (task, _role), seat in session.seat_of.items() if task in tasks)),
    )


def find_landing(session: Session, task: str) -> ChangesetRecord | None:
    """Find the changeset with which a task landed, was proposed, or was undone; the newest of them."""
    found = [each for each in session.changesets.values() if task in each.changeset.tasks]
    return next((each for each in reversed(found) if each.state in LANDED_STATES), None)


def check_landing(landing: ChangesetRecord) -> None:
    name = landing.changeset.id
    if landing.state is ChangesetState.UNDONE:
        raise Refused(f"{name} was {landing.note}: nothing of it is left to fix; ask for it again with 'blueflame run'")
    if landing.state is ChangesetState.PROPOSED:
        raise Refused(f"{name} is proposed ({landing.place}) and has not landed: merge it first, or review it there")


def find_fix_problem(session: Session, tasks: Sequence[str]) -> str:
    """Return why work that has not landed cannot be fixed; empty if it can."""
    for name in tasks:
        if name not in session.tasks:
            return f"there is no task {name!r} in {session.id}"
        if (state := session.tasks[name].state) in WHY_NOT_FIXED:
            return f"{name} {WHY_NOT_FIXED[state].format(task=name)}"
    return ""


def build_fix(
    session: Session, work: FixedWork, wrong: str, *, locks: Sequence[str] = (), builds_on: bool = False
) -> Task:
    """Build the task, without an id. `session` is that of the work; `builds_on`: the fix is made in it.

    Work that has not landed lands together with its fix.
    """
    own = [session.tasks[name].task for name in work.tasks if name in session.tasks]
    named = tuple(dict.fromkeys(lock for task in own for lock in task.file_locks))
    everything = any(not task.file_locks for task in own)
    first = " ".join(wrong.splitlines()[0].split())
    return Task(
        id="",
        title=f"Fix: {first}"[:MAX_TITLE_CHARS],
        description=wrong,
        priority=1,
        cohesion_group="" if work.commit or not own else own[-1].cohesion_group,
        dependencies=work.tasks if builds_on else (),
        file_locks=tuple(locks) or (() if everything else named),
    )


def parse_work(values: Mapping[str, Any]) -> FixedWork:
    """Parse the work of a message, which can come from any program. Raise KeyError or TypeError."""
    texts = {name: values[name] for name in ("session", "title", "changeset", "commit")}
    lists = {"tasks": values["tasks"], "seats": values.get("seats", [])}
    for each in lists.values():
        if not isinstance(each, list | tuple) or not all(isinstance(text, str) for text in (*each, *texts.values())):
            raise TypeError("its work must have texts, and lists of tasks and seats")
    return FixedWork(tasks=tuple(lists["tasks"]), seats=tuple(lists["seats"]), **texts)


def refuse_unknown(session: Session, wanted: str) -> UsageError:
    """Build the error for a name that is neither in the session nor a commit."""
    known = [*session.changesets, *session.tasks]
    near = suggest(wanted, known) or f"it has {', '.join(known[:8]) or 'no task yet'}."
    return UsageError(
        f"{session.id} has no task or changeset {wanted!r}, and git has no such commit: {near} "
        "Another session is chosen with --session; 'blueflame sessions' lists them"
    )
