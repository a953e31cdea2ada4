"""What the house knows of a session: its open gates, how it ended or stopped, what it cost. Folded from its events.

Not the session itself: that has an index for every decision, and the house decides nothing in it.
"""

from __future__ import annotations

from dataclasses import field

from blueflame.lazy_dataclass import dataclass
from blueflame.model.event import (
    AttemptEnded,
    GateAnswered,
    GateOpened,
    GateWithdrawn,
    JournalEntry,
    OrchestratorStarted,
    OrchestratorStopped,
    SessionEnded,
    SessionOpened,
)
from blueflame.model.gate import Answer, Gate

RESUMED_REASONS = ("stopped by SIGTERM", "stopped by the house")  # no person decided to: the next house continues it


@dataclass(slots=True)
class SessionWatch:
    id: str
    seq: int = 0  # of the last event that was applied
    request_id: str = ""
    request: str = ""
    opened_at: float = 0.0
    last_at: float = 0.0
    gates: dict[str, tuple[Gate, float]] = field(default_factory=dict)  # open ones, and when they were opened
    answers: dict[str, Answer] = field(default_factory=dict)  # of gates that were answered
    ended: str = ""  # the outcome
    reason: str = ""  # of the end, or of the stop
    stopped: bool = False  # in good order, since the last process began
    micro_usd: int = 0

    def apply(self, entry: JournalEntry) -> None:
        self.seq, self.last_at = entry.seq, entry.at
        match entry.event:
            case SessionOpened(request_id=request_id, request=request):
                self.request_id, self.request, self.opened_at = request_id, request, entry.at
            case OrchestratorStarted():
                self.stopped, self.reason = False, ""
            case OrchestratorStopped(reason=reason):
                self.stopped, self.reason = True, reason
            case SessionEnded(outcome=outcome, reason=reason):
                self.ended, self.reason = outcome, reason
                self.gates.clear()
            case GateOpened(gate=gate):
                self.gates[gate.id] = (gate, entry.at)
            case GateAnswered(gate=name, answer=answer):
                self.gates.pop(name, None)
                self.answers[name] = answer
            case GateWithdrawn(gate=name):
                self.gates.pop(name, None)
            case AttemptEnded(ended=ended):
                self.micro_usd += ended.spend.micro_usd

    @property
    def is_stopped_by_person(self) -> bool:
        return self.stopped and self.reason not in RESUMED_REASONS
