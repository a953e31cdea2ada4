"""Which tasks land together, and in which order: one changeset per cohesion group.

Group A goes before B when a task of B depends on, or was built on, a task of A. Tasks without a cycle can still give
groups with one (a1 needs b1, b2 needs a2); such groups cannot be landed one after the other, so they are joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from blueflame.model.task import Task
from blueflame.session.scheduling.graph import find_components, sort_topologically


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingGroup:
    names: tuple[str, ...]  # the cohesion groups in it: one, or several that had to be joined
    tasks: tuple[str, ...]  # in dependency order, then by priority, then by id
    after: tuple[str, ...] = ()  # the cohesion groups that land first, because this one builds on them

    @property
    def name(self) -> str:
        return " + ".join(self.names)


def order_groups(
    tasks: Iterable[Task], edges: Iterable[tuple[str, str]] = (), waited: Mapping[str, int] | None = None
) -> tuple[LandingGroup, ...]:
    """The groups in the order in which they can land. An edge is (task, another task that it was built on).

    `waited` says how often a task has been passed over: each time counts as much as one step of priority, so that
    nobody waits for ever behind what is more urgent.
    """
    plan = {task.id: task for task in tasks}
    needs = _collect_needs(plan, edges)
    groups = _collect_group_needs(plan, needs)
    urgency = _compute_urgency(plan, waited or {})
    joined = find_components(groups)
    home = {name: ring[0] for ring in joined for name in ring}
    ring_needs = {ring[0]: {home[need] for name in ring for need in groups[name]} for ring in joined}
    ring_of = {ring[0]: ring for ring in joined}
    order = sort_topologically(ring_needs, lambda head: min(urgency[name] for name in ring_of[head]))
    place = {
        task: position
        for position, task in enumerate(sort_topologically(needs, lambda name: (plan[name].priority, name)))
    }
    members: dict[str, list[str]] = {head: [] for head in ring_of}
    for name in sorted(plan, key=place.__getitem__):
        members[home[plan[name].cohesion_group]].append(name)
    return tuple(
        LandingGroup(
            names=ring_of[head],
            tasks=tuple(members[head]),
            after=tuple(name for other in order if other in ring_needs[head] - {head} for name in ring_of[other]),
        )
        for head in order
    )


def _collect_needs(plan: Mapping[str, Task], edges: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    needs = {name: set(task.dependencies) & plan.keys() for name, task in plan.items()}
    for name, foundation in edges:
        if name in plan and foundation in plan and name != foundation:
            needs[name].add(foundation)
    return needs


def _collect_group_needs(plan: Mapping[str, Task], needs: Mapping[str, set[str]]) -> dict[str, set[str]]:
    groups: dict[str, set[str]] = {task.cohesion_group: set() for task in plan.values()}
    for name, wanted in needs.items():
        group = plan[name].cohesion_group
        groups[group].update(plan[need].cohesion_group for need in wanted)
        groups[group].discard(group)
    return groups


def _compute_urgency(plan: Mapping[str, Task], waited: Mapping[str, int]) -> dict[str, tuple[int, str]]:
    """How urgent a group is: its smallest priority, less what it has waited, then its smallest task id."""
    found: dict[str, tuple[int, str]] = {}
    for task in plan.values():
        mine = (task.priority - waited.get(task.id, 0), task.id)
        found[task.cohesion_group] = min(mine, found.get(task.cohesion_group, mine))
    return found
