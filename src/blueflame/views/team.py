"""The team: each seat with its role, its domain and its work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from blueflame.lazy_dataclass import dataclass
from blueflame.model.attempt import Attempt
from blueflame.model.memory import MemoryRecord
from blueflame.model.seat import Seat
from blueflame.session.state import Session
from blueflame.session.team.conversations import measure_conversation
from blueflame.session.team.seats import add_up_seats, learn_seats, sum_seat_work


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamRow:
    seat: Seat
    works_on: str = ""  # the task of its running attempt
    context_tasks: int = 0  # of its conversation, if its next task can continue it
    context_tokens: int = 0


def build_team(records: Iterable[MemoryRecord], session: Session | None) -> tuple[TeamRow, ...]:
    """Build a row for each seat. `session`: the newest; memory may not have all of it yet."""
    if session is None:
        return tuple(TeamRow(seat=seat) for seat in learn_seats(records))
    earlier = learn_seats(record for record in records if record.origin.session != session.id)
    begun = (Seat(name=seat.name, role=seat.role, domain=seat.domain) for seat in session.seats.values())
    busy = {attempt.seat: attempt.subject for attempt in session.live.values()}
    team = add_up_seats([*earlier, *sum_seat_work(session), *begun])
    return tuple(_build_row(session, seat, busy.get(seat.name, "")) for seat in team)


def _build_row(session: Session, seat: Seat, works_on: str) -> TeamRow:
    tasks, tokens = measure_conversation(session, seat.name)
    return TeamRow(seat=seat, works_on=works_on, context_tasks=tasks, context_tokens=tokens)


def build_team_json(rows: Iterable[TeamRow]) -> dict[str, Any]:
    return {
        "seats": [
            {
                "seat": row.seat.name,
                "role": row.seat.role,
                "domain": row.seat.domain,
                "tasks": sum(row.seat.tasks.values()),
                "domains": [{"domain": name, "tasks": count} for name, count in sorted(row.seat.tasks.items())],
                "landed": row.seat.landed,
                "first_time": row.seat.first_time,
                "last_at": row.seat.last_at or None,
                "works_on": row.works_on or None,
                "conversation": _build_conversation_json(row),
            }
            for row in rows
        ]
    }


def _build_conversation_json(row: TeamRow) -> dict[str, int] | None:
    return {"tasks": row.context_tasks, "tokens": row.context_tokens} if row.context_tasks else None


def build_allocation_json(attempt: Attempt) -> dict[str, Any]:
    given = attempt.allocation
    return {
        "seat": given.seat if given else None,
        "seat_reason": given.reason if given else None,
        "domain": given.domain if given else None,
        "continues": (given.continues or None) if given else None,
    }
