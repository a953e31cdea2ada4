"""The sessions of a repository, one row each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from blueflame.lazy_dataclass import dataclass
from blueflame.session.landed_work import LandedWork, count_landed_work
from blueflame.session.state import Session
from blueflame.text.format import format_count
from blueflame.views.parts import pick


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    session: str
    request: str
    outcome: str  # "" while it has not ended
    running: bool
    gates: int  # that are open
    opened_at: float
    last_at: float
    base_branch: str
    work: LandedWork
    cost_micro_usd: int
    tokens: int

    @property
    def state(self) -> str:
        if self.outcome:
            return self.outcome.replace("_", " ")
        if self.gates:
            return f"{format_count(self.gates, 'open gate')}{'' if self.running else ', not running'}"
        return "running" if self.running else "unfinished"


def build_session_row(session: Session, *, running: bool) -> SessionRow:
    return SessionRow(
        session=session.id,
        request=session.request,
        outcome=session.outcome,
        running=running and not session.ended,
        gates=0 if session.ended else len(session.open_gates),
        opened_at=session.opened_at,
        last_at=session.last_at,
        base_branch=session.base_branch,
        work=count_landed_work(session),
        cost_micro_usd=session.spend.micro_usd,
        tokens=session.spend.tokens,
    )


def build_sessions_json(rows: Sequence[SessionRow]) -> dict[str, Any]:
    return {
        "sessions": [
            {
                "session": row.session,
                "request": row.request,
                "outcome": row.outcome or None,
                **pick(row, "running gates opened_at last_at base_branch"),
                "tasks": row.work.tasks,
                "landed": row.work.landed,
                "cost_usd": row.cost_micro_usd / 1e6,
                "tokens": row.tokens,
            }
            for row in rows
        ]
    }
