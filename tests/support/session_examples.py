"""Simulated sessions: a plan, what goes wrong, and what people answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

from blueflame.model.attempt import Attempt, Ending
from blueflame.model.event import ConfigDrifted, Event, TaskMoved
from blueflame.model.gate import Answer, Gate
from blueflame.model.limits import Limits
from blueflame.model.spend import NO_SPEND, Spend
from blueflame.model.task import Task, TaskState
from blueflame.model.workflow import Workflow
from blueflame.session.effects import CrossBoundary, DiagnoseTask
from blueflame.session.state import HookDue, Session
from blueflame.testing.simulated_outcomes import SimulatedOutcomes
from blueflame.testing.simulation import Simulation, build_opening

BARRIER = Workflow()
FLOW = Workflow(name="flow", barrier=False)
SINGLE = Workflow(name="single", stages=("work", "check", "merge"), barrier=False)

E = TypeVar("E", bound=Event)


def task(
    n: int,
    *needs: int,
    locks: tuple[str, ...] | None = None,
    group: str = "main",
    priority: int = 3,
    minutes: float = 1,
) -> Task:
    return Task(
        id=f"task-{n:03}",
        title=f"thing {n}",
        description=f"do thing {n}",
        priority=priority,
        cohesion_group=group,
        dependencies=tuple(f"task-{need:03}" for need in needs),
        file_locks=(f"src/{n}.py",) if locks is None else locks,
    )


class Outcomes(SimulatedOutcomes):
    """Everything succeeds except what is given here. Attempts are called like `task-001.worker.2`.

    An answer is a choice, a whole Answer, or None for no answer; by gate id, else by kind.
    """

    def __init__(
        self,
        *tasks: Task,
        endings: Mapping[str, Ending] | None = None,
        refused: Collection[str] = (),
        red: Collection[str] = (),
        evicted: Mapping[str, str] | None = None,
        landings: Mapping[tuple[str, str], str] | None = None,
        hooks: Mapping[str, int] | None = None,
        answers: Mapping[str, str | Answer | None] | None = None,
        plans: Mapping[int, tuple[Task, ...] | str] | None = None,
        spends: Mapping[str, Spend] | None = None,
        drifts: Mapping[tuple[int, str], ConfigDrifted] | None = None,
        minutes: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(tasks)
        self.endings = endings or {}
        self.refused = refused
        self.red = red
        self.evicted = evicted or {}
        self.landings = landings or {}
        self.hooks = hooks or {}
        self.answers = answers or {}
        self.plans = plans or {}
        self.spends = spends or {}
        self.drifts = drifts or {}
        self.lengths = minutes or {}

    def plan(self, attempt: Attempt, _session: Session) -> tuple[Task, ...] | str:
        return self.plans.get(attempt.n, self.tasks)

    def pick_minutes(self, attempt: Attempt) -> float:
        return self.lengths.get(called(attempt), 1.0)

    def pick_ending(self, attempt: Attempt) -> Ending:
        return self.endings.get(called(attempt), Ending.PASSED)

    def pick_spend(self, attempt: Attempt) -> Spend:
        return self.spends.get(called(attempt), self.spends.get(attempt.role, NO_SPEND))

    def approves(self, attempt: Attempt) -> bool:
        return called(attempt) not in self.refused

    def is_green(self, effect: DiagnoseTask) -> bool:
        return effect.sha not in self.red

    def pick_eviction(self, changeset: str, base: str) -> str:
        return self.evicted.get(changeset, "")

    def pick_landing(self, changeset: str, base: str) -> str:
        return self.landings.get((changeset, base), "landed")

    def run_hook(self, due: HookDue) -> int:
        return self.hooks.get(due.key, 0)

    def find_drift(self, session: Session, effect: CrossBoundary) -> ConfigDrifted | None:
        drift = self.drifts.get((effect.cycle, effect.stage))
        known = drift is None or drift.digest in session.drift_kept or drift.digest == session.config_digest
        return None if known else drift

    def answer(self, gate: Gate, session: Session) -> Answer | None:
        for name in (gate.id, gate.kind.value):
            if name in self.answers:
                reported = self.answers[name]
                return Answer(choice=reported, note="because", by="Ада") if isinstance(reported, str) else reported
        return super().answer(gate, session)


def called(attempt: Attempt) -> str:
    return f"{attempt.subject}.{attempt.role}.{attempt.n}"


def begun(outcomes: SimulatedOutcomes, workflow: Workflow = BARRIER, limits: Limits | None = None) -> Simulation:
    """A world before its first event."""
    return Simulation(outcomes, [build_opening(workflow=workflow, limits=limits)])


def reported(outcomes: SimulatedOutcomes, workflow: Workflow = BARRIER, limits: Limits | None = None) -> Simulation:
    return begun(outcomes, workflow, limits).run()


def events(world: Simulation, kind: type[E]) -> list[E]:
    return [recorded.event for recorded in world.journal if isinstance(recorded.event, kind)]


def states(world: Simulation) -> dict[str, TaskState]:
    return {name: record.state for name, record in world.session.tasks.items()}


def moves(world: Simulation, name: str) -> list[str]:
    return [event.cause.value for event in events(world, TaskMoved) if event.task == name]
