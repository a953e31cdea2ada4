"""Check whether a plan can be carried out, and report all its problems at once.

A task without locks locks the whole repository: it is accepted only where the whole repository may be written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from unicodedata import category, normalize

from blueflame.model.ids import is_task_id
from blueflame.model.limits import Limits
from blueflame.model.task import Task
from blueflame.paths.globs import BadPattern, Globs
from blueflame.paths.locks import BadLock, LockPath, fold_path, parse_lock, parse_task_locks
from blueflame.session.changesets.groups import order_groups
from blueflame.session.estimate import plan_batches
from blueflame.session.scheduling.graph import find_components

RESERVED_FOLDERS = frozenset({".git", ".blueflame"})
"""Directories that belong to git and to Blue Flame."""

MAX_SHOWN_NAMES = 8  # of a long list
MAX_QUOTED_CHARS = 120


def find_new_plan_problems(before: Iterable[Task], after: Iterable[Task], limits: Limits) -> tuple[str, ...]:
    """Return the problems of a changed plan that it did not have before."""
    known = find_plan_problems(before, limits)
    return tuple(problem for problem in find_plan_problems(after, limits) if problem not in known)


def find_plan_problems(tasks: Iterable[Task], limits: Limits) -> tuple[str, ...]:
    """Return everything that is wrong with a plan, in plan order; nothing when it can be carried out."""
    plan = tuple(tasks)
    if not plan:
        return ("the plan has no tasks; ask for at least one, or say that nothing is to be done",)
    try:
        allowed = Globs(limits.allowed_paths)
        blocked = Globs(tuple(_fold_case(pattern) for pattern in limits.blocked_paths))
    except BadPattern as error:
        return (f"allowed_paths or blocked_paths of the configuration cannot be used: {error}",)
    known = {task.id for task in plan}
    alone = (
        f"{_format_id(task.id)}: {problem}"
        for task in plan
        for problem in (
            *_check_fields(task),
            *_check_dependencies(task, known),
            *_check_locks(task, allowed, blocked),
            *_check_choices(task, limits),
        )
    )
    return (*alone, *_find_duplicate_ids(plan), *_find_cycles(plan))


def _check_fields(task: Task) -> Iterator[str]:
    if not is_task_id(task.id):
        yield "the id is not of the form task-001; it names branches and directories"
    if not task.title.strip():
        yield "has no title; say in a few words what it does"
    if task.priority < 1:
        yield f"has priority {task.priority}; 1 is the highest"
    if not task.cohesion_group.strip() or any(category(letter) == "Cc" for letter in task.cohesion_group):
        yield f"has the cohesion_group {_quote_text(task.cohesion_group)}; name what it lands with in plain words"
    minutes = task.estimate_minutes
    if minutes is not None and not (isfinite(minutes) and minutes > 0):
        yield f"has an estimate of {minutes} minutes; give a number above 0, or none"


def _check_dependencies(task: Task, known: set[str]) -> Iterator[str]:
    for need in dict.fromkeys(task.dependencies):
        if need == task.id:
            yield "depends on itself; remove that dependency"
        elif need not in known:
            yield f"depends on {_format_id(need)}, which is not in the plan"


def _check_locks(task: Task, allowed: Globs, blocked: Globs) -> Iterator[str]:
    if not task.file_locks:
        if not allowed.covers_lock("."):
            only = _describe_allowed(allowed)
            yield f"has no file_locks, which locks the whole repository, but {only}; name what it will write"
        return
    for lock in dict.fromkeys(task.file_locks):
        try:
            path = fold_path(parse_lock(lock))
        except BadLock as error:
            yield str(error)
            continue
        if not RESERVED_FOLDERS.isdisjoint(path):
            yield f"the lock {_quote_text(lock)} is inside a directory that belongs to git or to Blue Flame"
        elif blocked.covers_lock(_fold_case(lock)):
            yield f"the lock {_quote_text(lock)} is inside blocked_paths"
        elif not allowed.covers_lock(lock):
            yield f"the lock {_quote_text(lock)} is outside of allowed_paths: {_describe_allowed(allowed)}"


def _check_choices(task: Task, limits: Limits) -> Iterator[str]:
    """Check that the plan chose only what the configuration allows."""
    for name in dict.fromkeys(filter(None, (task.model, task.validator_model))):
        if limits.task_models is not None and name not in limits.task_models:
            yield (
                f"names the model {_quote_text(name)}, which planning.models does not allow; "
                f"{_describe_choices(limits.task_models)}"
            )
    if task.workflow is not None and task.workflow not in limits.task_workflows:
        yield (
            f"names the workflow {_quote_text(task.workflow)}, which planning.workflows does not allow here; "
            f"{_describe_choices(tuple(limits.task_workflows))}"
        )


def _describe_choices(names: Sequence[str]) -> str:
    return f"use {_format_some(names)}, or leave it out" if names else "leave it out"


def _describe_allowed(allowed: Globs) -> str:
    return f"only {_format_some(allowed.patterns)} may be written" if allowed else "allowed_paths is empty"


def _find_duplicate_ids(plan: Sequence[Task]) -> Iterator[str]:
    counts: dict[str, int] = {}
    for task in plan:
        counts[task.id] = counts.get(task.id, 0) + 1
    for name, count in counts.items():
        if count > 1:
            yield f"{_format_id(name)}: the id is used {count} times; every task needs its own"


def _find_cycles(plan: Iterable[Task]) -> Iterator[str]:
    needs: dict[str, set[str]] = {}
    for task in plan:
        needs.setdefault(task.id, set()).update(set(task.dependencies) - {task.id})
    for component in find_components(needs):
        if len(component) > 1:
            members = set(component)
            cycle = _find_shortest_cycle(component[0], {name: sorted(needs[name] & members) for name in component})
            shown = " -> ".join(_omit_middle([_format_id(name) for name in cycle]))
            yield f"{shown}: these wait for each other; remove one of the dependencies"


def _find_shortest_cycle(start: str, needs: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the shortest path from a task on a cycle back to itself, the smallest names first."""
    came_from: dict[str, str] = {}
    queue = deque([start])
    while queue and start not in came_from:
        name = queue.popleft()
        for need in needs[name]:
            if need not in came_from:
                came_from[need] = name
                queue.append(need)
    path = [start, came_from[start]]
    while path[-1] != start:
        path.append(came_from[path[-1]])
    return tuple(reversed(path))


def find_plan_warnings(tasks: Iterable[Task]) -> tuple[str, ...]:
    """Return what a person should know before approving a plan; invalid locks are problems, not warnings."""
    plan = tuple(tasks)
    try:
        return (
            *_find_case_variants(plan),
            *_find_broad_locks(plan),
            *_find_joined_groups(plan),
            *_find_serial_plan(plan),
        )
    except BadLock:
        return ()


def _find_case_variants(plan: Iterable[Task]) -> Iterator[str]:
    """Find paths that differ only in case: on some disks they are two files, here they count as one."""
    variants: dict[LockPath, dict[LockPath, None]] = {}
    for task in plan:
        for lock in task.file_locks:
            path = parse_lock(lock)
            for depth in range(1, len(path) + 1):
                variants.setdefault(fold_path(path[:depth]), {})[path[:depth]] = None
    for paths in variants.values():
        if len({path[-1] for path in paths}) > 1:
            names = sorted("/".join(path) for path in paths)
            yield f"the locks {' and '.join(names)} differ only in case: they count as one"


def _find_broad_locks(plan: Sequence[Task]) -> Iterator[str]:
    """Find locks that more than half of the plan's tasks wait for."""
    holders: dict[LockPath, list[str]] = {}
    reach: dict[LockPath, int] = {}
    for task in plan:
        paths = parse_task_locks(task)
        for path in paths:
            holders.setdefault(path, []).append(task.id)
        for above in {path[:depth] for path in paths for depth in range(len(path) + 1)}:
            reach[above] = reach.get(above, 0) + 1
    for path, names in holders.items():
        if reach[path] > max(2, len(plan) / 2):
            lock = "/".join(path) or "the whole repository"
            waiting = f"{reach[path]} of {len(plan)} tasks work there and wait for each other"
            yield f"{lock} is locked by {_format_some(names)}: {waiting}"


def _find_joined_groups(plan: Iterable[Task]) -> Iterator[str]:
    for group in order_groups(plan):
        if len(group.names) > 1:
            yield f"the groups {', '.join(group.names)} need each other and will land as one changeset"


def _find_serial_plan(plan: Sequence[Task]) -> Iterator[str]:
    if len(plan) > 1 and all(len(batch) == 1 for batch in plan_batches(plan, 2)):
        yield "dependencies and locks make all tasks run one after the other: nothing runs in parallel"


def _fold_case(text: str) -> str:
    """Fold letter case: on many disks `.ENV` is `.env`, which blocked_paths must catch."""
    return normalize("NFC", text).casefold()


def _format_id(task_id: str) -> str:
    """Quote what is not a valid id: it can contain anything."""
    return task_id if is_task_id(task_id) else _quote_text(task_id)


def _quote_text(text: str) -> str:
    return repr(text) if len(text) <= MAX_QUOTED_CHARS else f"{text[:MAX_QUOTED_CHARS]!r}..."


def _format_some(names: Sequence[str]) -> str:
    rest = len(names) - MAX_SHOWN_NAMES
    return ", ".join(names[:MAX_SHOWN_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def _omit_middle(names: Sequence[str]) -> tuple[str, ...]:
    if len(names) <= 2 * MAX_SHOWN_NAMES:
        return tuple(names)
    return (*names[:MAX_SHOWN_NAMES], f"({len(names) - MAX_SHOWN_NAMES - 2} more)", *names[-2:])
