"""Put a task's record into the session and update every index that decisions read."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from blueflame.model.attempt import Duty
from blueflame.model.gate import GateKind
from blueflame.model.task import VERIFIED_NOT_LANDED, TaskCommit, TaskRecord, TaskState
from blueflame.session.changesets.groups import order_groups
from blueflame.session.scheduling.ready_queue import DEPENDENCY_STATES, ReadyQueue
from blueflame.session.scheduling.settled_groups import SettledGroups
from blueflame.session.scheduling.stage_queue import QueueRank
from blueflame.session.state import HookDue, Session, is_judged


def install_tasks(session: Session, records: dict[str, TaskRecord]) -> None:
    """Replace all tasks and rebuild every index."""
    tasks = [record.task for record in records.values()]
    enough = DEPENDENCY_STATES[session.limits.dependents]
    session.tasks, session.queue = {}, ReadyQueue(tasks, enough=enough, urgent=session.fixes)
    session.states, session.unbuildable, session.waiting = {state: {} for state in TaskState}, {}, {}
    order = (name for group in order_groups(tasks, ()) for name in group.tasks)
    session.task_ranks = {name: (name not in session.fixes, n) for n, name in enumerate(order)}
    session.dependants = _group_pairs((need, task.id) for task in tasks for need in task.dependencies)
    session.settled = SettledGroups({task.id: task.cohesion_group for task in tasks})
    session.groups = _group_pairs((task.cohesion_group, task.id) for task in tasks)
    for record in records.values():
        put_task(session, record)


def _group_pairs(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for key, name in pairs:
        found.setdefault(key, []).append(name)
    return {key: tuple(sorted(names)) for key, names in found.items()}


def put_task(session: Session, record: TaskRecord) -> None:
    name, state = record.task.id, record.state
    old = session.tasks.get(name)
    if old is not None:
        session.states[old.state].pop(name, None)
    session.tasks[name] = record
    session.states[state][name] = None
    session.queue.set_state(name, state)
    session.settled.set_state(name, state, _list_foundations(record))
    _update_waiting(session, record)
    update_stage_queues(session, record)
    _update_unmerged(session, record, old.state if old else None)
    if state not in VERIFIED_NOT_LANDED:
        free_tasks(session, [name])


def _update_waiting(session: Session, record: TaskRecord) -> None:
    """Let a task wait until it may be tried again; other tasks may start meanwhile, also with its locks."""
    name = record.task.id
    if record.until and record.state in (TaskState.PENDING, TaskState.PARTIAL):
        session.waiting[name] = record.until
        session.queue.hold(name, "it is tried again later")
    elif session.waiting.pop(name, None) is not None:
        session.queue.free(name)


def hold_task(session: Session, task: str, built_on: tuple[TaskCommit, ...]) -> None:
    """Let a task wait whose foundations cannot be merged, until one of them or the base changes."""
    session.unbuildable[task] = built_on
    session.queue.hold(task, f"{', '.join(below.task for below in built_on)} conflict with each other")


def free_tasks(session: Session, changed: Iterable[str] | None = None) -> None:
    """Let tasks start that wait for one of the changed ones; all that wait if the base has changed (None)."""
    names = None if changed is None else frozenset(changed)
    for task, built_on in tuple(session.unbuildable.items()):
        if names is None or not names.isdisjoint(below.task for below in built_on):
            del session.unbuildable[task]
            session.queue.free(task)


def move_base(session: Session, sha: str) -> None:
    if sha != session.base_sha:
        session.base_sha = sha
        free_tasks(session)


def _update_unmerged(session: Session, record: TaskRecord, before: TaskState | None) -> None:
    if record.state in VERIFIED_NOT_LANDED and before not in VERIFIED_NOT_LANDED:
        session.unmerged.add(record.task.id, record.task.file_locks, _list_foundations(record))
    elif record.state not in VERIFIED_NOT_LANDED:
        session.unmerged.remove(record.task.id)


def _list_foundations(record: TaskRecord) -> tuple[str, ...]:
    if record.state not in VERIFIED_NOT_LANDED:
        return ()
    assert record.result is not None, f"{record.task.id} is {record.state} without a result"
    return tuple(foundation.task for foundation in record.result.built_on)


def update_stage_queues(session: Session, record: TaskRecord) -> None:
    name = record.task.id
    for queue in (session.to_check, session.to_review, session.to_continue):
        queue.remove(name)
    if record.state is TaskState.PARTIAL and not is_judged(session, record):
        session.to_continue.add(name, record.stage, session.task_ranks[name])
    if is_judged(session, record) and record.verdict is None and not _is_under_review(session, record):
        if name in session.checks:
            if session.find_stage(name).role:
                session.to_review.add(name, record.stage, session.task_ranks[name])
        else:
            rank = session.task_ranks[name] if session.workflow.barrier else rank_check(session, name)
            session.to_check.add(name, record.stage, rank)


def rank_check(session: Session, name: str) -> QueueRank:
    """Rank by completion: a later task must not overtake one whose checks are running. A fix is next after those."""
    most = session.limits.validators if name in session.fixes else 0
    running = list(islice(session.to_check.list_ranks(), most))
    after = running[-1] if most and len(running) == most else ()
    return (*after, session.seq, name)


def _is_under_review(session: Session, record: TaskRecord) -> bool:
    """Whether a reviewer is running, or a person is asked: by a reviewer, or because reviewers failed too often."""
    name = record.task.id
    asked = any(session.is_asking(kind, name) for kind in (GateKind.VALIDATOR, GateKind.CLARIFICATION))
    return asked or session.find_live_attempt(name, Duty.JUDGE) is not None


def schedule_hook(session: Session, name: str, key: str, subject: str = "") -> None:
    if name in session.limits.hooks:
        session.hooks_due[key] = HookDue(name, key, subject)
