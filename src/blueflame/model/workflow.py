"""The stages that a session goes through, as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from types import MappingProxyType

from blueflame.lazy_dataclass import dataclass
from blueflame.model.attempt import USUAL_ROLES, WITHOUT_TASK, Duty
from blueflame.model.task import Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One position in a workflow: what is done there, and who does it."""

    name: str  # as written: work, check, or the name of a role
    duty: Duty
    role: str = ""  # "" where only the checks judge
    key: str = ""  # its name in the ids of attempts, different for each stage of a workflow


STAGE_DUTIES: Mapping[str, Duty] = {
    "plan": Duty.PLAN,
    "work": Duty.MAKE,
    "check": Duty.JUDGE,
    "validate": Duty.JUDGE,
    "merge": Duty.MERGE,
    "curate": Duty.CURATE,
}
"""The stages that are not named for a role."""


def build_stages(
    names: Iterable[str], duties: Mapping[str, Duty] = MappingProxyType({}), *, maker: str = ""
) -> tuple[Stage, ...]:
    """Build the stages of these names. `duties`: those of the roles that are named; `maker` does the `work` stage."""
    stages: list[Stage] = []
    for name in names:
        duty = {**duties, **STAGE_DUTIES}.get(name, Duty.MAKE)
        usual = maker if maker and name == "work" else USUAL_ROLES[duty]
        role = "" if name == "check" else usual if name in STAGE_DUTIES else name
        stages.append(Stage(name=name, duty=duty, role=role, key=_choose_key(role or name, stages)))
    return tuple(stages)


def _choose_key(role: str, before: Sequence[Stage]) -> str:
    """The role; from its second stage on with a number."""
    taken = {stage.key for stage in before}
    numbered = (f"{role}-{n}" for n in count(2))
    return next(key for key in chain([role], numbered) if key not in taken)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """Stages as data. With a barrier every task waits at the end of a stage; without it each moves on when it may."""

    name: str = "waves"
    stages: tuple[str, ...] = ("plan", "work", "validate", "merge")
    barrier: bool = True
    steps: tuple[Stage, ...] = ()
    """What is done at each stage. Left out, as in journals of earlier versions: by their names."""
    review_threshold: float | None = None  # of one that a plan chose for a task; the session's is in its limits
    max_retries: int | None = None  # the same; None: as the limits say
    retry_wait: float = 0.0  # the same
    ladder: tuple[Assignment, ...] = ()  # the same

    def __post_init__(self) -> None:
        if not self.steps:
            object.__setattr__(self, "steps", build_stages(self.stages))

    @property
    def is_planned(self) -> bool:
        return self.has_duty(Duty.PLAN)

    @property
    def asks_for_size(self) -> bool:
        """Whether an agent sizes the request first; its answer chooses how to continue."""
        return self.has_duty(Duty.SIZE)

    @property
    def task_stages(self) -> tuple[Stage, ...]:
        """What a task goes through, by position: all stages after the plan."""
        return tuple(stage for stage in self.steps if stage.duty not in WITHOUT_TASK)

    @property
    def curates(self) -> bool:
        """Whether an agent curates the knowledge files, and nothing is made."""
        return self.has_duty(Duty.CURATE)

    def add_sizing(self, role: str) -> Workflow:
        sizing = Stage(name="size", duty=Duty.SIZE, role=role, key=role)
        return replace(self, stages=("size", *self.stages), steps=(sizing, *self.steps))

    def drop_sizing(self) -> Workflow:
        return replace(self, stages=self.stages[1:], steps=self.steps[1:]) if self.asks_for_size else self

    def has_duty(self, duty: Duty) -> bool:
        return any(stage.duty is duty for stage in self.steps)

    def has_reviewer(self) -> bool:
        """Whether an agent judges the results, and not only the checks."""
        return any(stage.duty is Duty.JUDGE and stage.role for stage in self.steps)

    def find_role(self, duty: Duty) -> str:
        """Return the first role with this duty, else the built-in one."""
        return next((stage.role for stage in self.steps if stage.duty is duty and stage.role), USUAL_ROLES[duty])

    def find_next_position(self, position: int) -> int:
        """Return the position that follows. What was judged has been checked: another `check` is passed over."""
        stages, after = self.task_stages, position + 1
        if stages[position].duty is not Duty.JUDGE:
            return after
        return next((n for n in range(after, len(stages)) if stages[n].role), len(stages))

    def find_next(self, position: int) -> Stage | None:
        """Return the stage that follows a position; None after the last."""
        return next(iter(self.task_stages[self.find_next_position(position) :]), None)

    def find_next_making_stage(self, position: int) -> int:
        """Return the making stage after a position; the one that follows if none makes."""
        stages = enumerate(self.task_stages)
        makes = (n for n, stage in stages if n > position and stage.duty is Duty.MAKE)
        return next(makes, self.find_next_position(position))

    def find_making_stage(self, position: int) -> int:
        """Return the making stage at or before a position: where a task is made that is judged there."""
        stages = self.task_stages[: position + 1]
        return max((n for n, stage in enumerate(stages) if stage.duty is Duty.MAKE), default=0)

    def is_made_at_once(self) -> bool:
        """Whether only one stage makes."""
        return sum(stage.duty is Duty.MAKE for stage in self.steps) <= 1

    def is_made(self, position: int) -> bool:
        """Whether no making stage follows a position."""
        return all(stage.duty is not Duty.MAKE for stage in self.task_stages[position + 1 :])
