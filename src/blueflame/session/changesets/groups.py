"""Which tasks land together, and in which order: one changeset per cohesion group.

Group A lands before B when a task of B depends on, or was built on, a task of A. Even if the tasks have no cycle, their
groups can have one (a1 needs b1, b2 needs a2); such groups cannot land one after the other, so they are joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from blueflame.lazy_dataclass import dataclass
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
    """Return the groups in the order in which they can land. An edge is (task, another task that it was built on).

    `waited` is how often a task was postponed: each time counts as much as one step of priority, so that no group waits
    for ever behind more urgent ones.
    """
    plan = {task.id: task for task in tasks}
    needs = _collect_needs(plan, edges)
    groups = _collect_group_needs(plan, needs)
    urgency = _compute_urgency(plan, waited or {})
    joined = {names[0]: names for names in find_components(groups)}  # by their first name
    first_of = {name: first for first, names in joined.items() for name in names}
    joined_needs = {
        first: {first_of[need] for name in names for need in groups[name]} for first, names in joined.items()
    }
    order = sort_topologically(joined_needs, lambda first: min(urgency[name] for name in joined[first]))
    members: dict[str, list[str]] = {first: [] for first in joined}
    for name in sort_topologically(needs, lambda name: (plan[name].priority, name)):
        members[first_of[plan[name].cohesion_group]].append(name)
    place = {first: number for number, first in enumerate(order)}
    return tuple(
        LandingGroup(
            names=joined[first],
            tasks=tuple(members[first]),
            after=tuple(
                name for other in sorted(joined_needs[first] - {first}, key=place.__getitem__) for name in joined[other]
            ),
        )
        for first in order
    )


def _collect_needs(plan: Mapping[str, Task], edges: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    needs = {name: set(task.dependencies) & plan.keys() for name, task in plan.items()}
    for name, foundation in edges:
        if name in plan and foundation in plan and name != foundation:
            needs[name].add(foundation)
    return needs


def _collect_group_needs(plan: Mapping[str, Task], needs: Mapping[str, set[str]]) -> dict[str, set[str]]:
    groups: dict[str, set[str]] = {task.cohesion_group: set() for task in plan.values()}
    for name, own in needs.items():
        group = plan[name].cohesion_group
        groups[group].update(plan[need].cohesion_group for need in own)
        groups[group].discard(group)
    return groups


def _compute_urgency(plan: Mapping[str, Task], waited: Mapping[str, int]) -> dict[str, tuple[int, str]]:
    """Compute the urgency of each group: its smallest priority, minus its postponements, then its smallest task id."""
    found: dict[str, tuple[int, str]] = {}
    for task in plan.values():
        own = (task.priority - waited.get(task.id, 0), task.id)
        found[task.cohesion_group] = min(own, found.get(task.cohesion_group, own))
    return found
