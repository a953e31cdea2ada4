"""What happens in a simulated session: endings, costs, verdicts, conflicts and answers."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from blueflame.model.attempt import Attempt, Ending
from blueflame.model.event import ConfigDrifted
from blueflame.model.gate import Answer, Gate, GateKind
from blueflame.model.hand_off import HandOff
from blueflame.model.limits import SlotWait
from blueflame.model.sizing import SizeAnswer, Tier
from blueflame.model.spend import NO_SPEND, Spend
from blueflame.model.task import Task
from blueflame.session.effects import CrossBoundary, DiagnoseTask, Effect
from blueflame.session.state import HookDue, Session

APPROVING_ANSWERS = {
    GateKind.PLAN: Answer(choice="approve"),
    GateKind.CHANGESET: Answer(choice="approve"),
    GateKind.SESSION: Answer(choice="continue"),
    GateKind.VALIDATION: Answer(choice="requeue"),
    GateKind.VALIDATOR: Answer(choice="accept"),
    GateKind.ESCALATION: Answer(choice="abort"),
    GateKind.BUDGET: Answer(choice="raise", note="0"),
    GateKind.DRIFT: Answer(choice="use"),
    GateKind.STALL: Answer(choice="wait"),
    GateKind.RATE_LIMIT: Answer(choice="wait"),
    GateKind.ENVIRONMENT: Answer(choice="retry"),
    GateKind.CLARIFICATION: Answer(choice="answer", note="the first"),
    GateKind.OVERLAP: Answer(choice="ignore"),
    GateKind.CURATION: Answer(choice="approve"),
    GateKind.ASSIGNMENT: Answer(choice="wait"),
    GateKind.TASKS: Answer(choice="keep"),
    GateKind.BASE: Answer(choice="retry"),
}


class SimulatedOutcomes:
    """The outcome of each effect. By default everything succeeds; a subclass overrides what does not.

    A result may depend on the arguments, never on the time: a resumed simulation continues as it would have.
    """

    def __init__(self, tasks: Sequence[Task] = ()) -> None:
        self.tasks = tuple(tasks)

    def pick_size(self, _attempt: Attempt) -> SizeAnswer:
        """Return what an agent that sizes the request says."""
        return SizeAnswer(tier=Tier.PLANNED, reason="several parts take part")

    def plan(self, _attempt: Attempt, _session: Session) -> tuple[Task, ...] | str:
        """Return a plan, or why the planner failed."""
        return self.tasks

    def find_wait(self, _attempt: Attempt) -> SlotWait | None:
        """Return why the house's pool gives an attempt no slot now; None for a free one."""
        return None

    def pick_minutes(self, _attempt: Attempt) -> float:
        return 1.0

    def pick_pause(self, _effect: Effect) -> float:
        """Return how long an effect other than an attempt takes."""
        return 0.0

    def pick_ending(self, _attempt: Attempt) -> Ending:
        return Ending.PASSED

    def pick_hand_off(self, attempt: Attempt) -> HandOff | None:
        """Return what an agent leaves for the next stage."""
        return HandOff(summary=(f"{attempt.label} did its part",), confidence=self.pick_confidence(attempt))

    def pick_context(self, _attempt: Attempt) -> int:
        """Return the tokens of an agent's conversation; 0 if it cannot be continued."""
        return 0

    def pick_spend(self, _attempt: Attempt) -> Spend:
        return NO_SPEND

    def pick_cause(self, _attempt: Attempt) -> str:
        """Return whose budget was used up, or what was unavailable."""
        return ""

    def approves(self, _attempt: Attempt) -> bool:
        """Return a validator's verdict."""
        return True

    def pick_confidence(self, _attempt: Attempt) -> float | None:
        return None

    def is_green(self, _effect: DiagnoseTask) -> bool:
        return True

    def pick_eviction(self, _changeset: str, _base: str) -> str:
        """Return why a changeset cannot be built on this base; empty when it can."""
        return ""

    def find_conflict(self, _changeset: str, _base: str, _tasks: tuple[str, ...], _resolved: int) -> str:
        """Return the task that does not merge by itself; empty when all do."""
        return ""

    def find_culprit(self, _changeset: str, _base: str, _tasks: tuple[str, ...]) -> str:
        """Return the task that turns the checks red; empty when they are green."""
        return ""

    def pick_landing(self, _changeset: str, _base: str) -> str:
        """Return landed or moved (the base branch has moved)."""
        return "landed"

    def find_problem(self, _act: str, _times: int) -> str:
        """Return why an act of the orchestrator cannot be done, after it failed so many times; empty when it can."""
        return ""

    def run_hook(self, _due: HookDue) -> int:
        return 0

    def find_drift(self, _session: Session, _effect: CrossBoundary) -> ConfigDrifted | None:
        return None

    def answer(self, gate: Gate, _session: Session) -> Answer | None:
        """Answer a gate; None leaves it open."""
        return APPROVING_ANSWERS.get(gate.kind, Answer(choice=gate.default))


def hash_to_fraction(*about: object) -> float:
    """Return a number in [0, 1), always the same for the same arguments."""
    return int.from_bytes(sha256(repr(about).encode()).digest()[:8]) / 2**64
