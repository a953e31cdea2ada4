"""Who makes an attempt at a task: the seats of a session, chosen by what they have worked on.

The choice says who, never what or when: tasks are claimed as if there were no seats, and each attempt gets one. A seat
prefers its domain, but no task waits for it: another free seat takes the task, or a new one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from blueflame.model.attempt import AttemptRecord, Duty
from blueflame.model.ids import ROLE_NAME
from blueflame.model.memory import MemoryRecord, SessionSummary
from blueflame.model.seat import Allocation, Seat
from blueflame.model.task import Task, TaskState
from blueflame.paths.domains import find_domain
from blueflame.session.retries import is_blameless
from blueflame.session.state import Session

MAX_SEATS = 200
MAX_DOMAIN_CHARS = 255  # of the name of a folder


def find_task_domain(session: Session, task: Task) -> str:
    return find_domain(task.file_locks, split=session.split_folders, configured=session.limits.domains)


def allocate_seat(session: Session, role: str, duty: Duty, subject: str) -> Allocation:
    """Choose the seat of the next attempt at a task."""
    domain = find_task_domain(session, session.tasks[subject].task)
    team = [seat for seat in session.seats.values() if seat.role == role]
    busy = {attempt.seat for attempt in session.live.values()}
    free = [seat for seat in team if seat.name not in busy]
    for name, reason in _list_earlier(session, role, subject):
        if any(seat.name == name for seat in free):
            return Allocation(seat=name, domain=domain, reason=reason)
    own = [seat for seat in free if seat.domain == domain]
    if own:
        return Allocation(seat=_choose_most_used(own, domain).name, domain=domain, reason=f"its domain is {domain}")
    most = session.limits.workers if duty is Duty.MAKE else session.limits.validators
    if not free or len(team) < most:
        reason = f"new, for {domain}" if not team else f"new, for {domain}: no free seat has that domain"
        return Allocation(seat=_name_new_seat(session, role), domain=domain, reason=reason, is_new=True)
    chosen = _choose_most_used(free, domain)
    return Allocation(seat=chosen.name, domain=domain, reason=_explain_stranger(chosen, domain))


def _list_earlier(session: Session, role: str, subject: str) -> Iterator[tuple[str, str]]:
    """Who did the work before that the attempt is about: an earlier try or stage, or what it fixes."""
    if name := session.seat_of.get((subject, role)):
        yield name, f"it had {subject} before"
    if fix := session.fixes.get(subject):
        yield from ((name, "it made what is fixed") for name in fix.work.seats)


def _choose_most_used(seats: Sequence[Seat], domain: str) -> Seat:
    """Choose the seat that knows the domain best; of equals the one with the least work, then the oldest."""
    return min(seats, key=lambda seat: (-seat.tasks.get(domain, 0), sum(seat.tasks.values())))


def _explain_stranger(seat: Seat, domain: str) -> str:
    known = seat.tasks.get(domain, 0)
    why = f"it has worked on {domain} before" if known else "it is free"
    return f"{why}; its domain is {seat.domain}"


def _name_new_seat(session: Session, role: str) -> str:
    return next(name for n in range(1, len(session.seats) + 2) if (name := f"{role}-{n}") not in session.seats)


def sum_seat_work(session: Session) -> tuple[Seat, ...]:
    """Sum what each seat did in a session. Attempts that prove nothing do not count."""
    worked: dict[tuple[str, str], list[AttemptRecord]] = {}
    for record in session.attempts.values():
        if record.attempt.seat and record.ended is not None and not is_blameless(record.attempt, record.ended):
            worked.setdefault((record.attempt.seat, record.attempt.subject), []).append(record)
    tries = Counter((each.attempt.subject, each.attempt.label) for records in worked.values() for each in records)
    return add_up_seats(_sum_task_work(session, records, tries) for records in worked.values())


def _sum_task_work(session: Session, records: Sequence[AttemptRecord], tries: Counter[tuple[str, str]]) -> Seat:
    """Sum what a seat did for one task. One that made several stages of it made one task."""
    attempt = records[-1].attempt
    seat, task = session.seats[attempt.seat], session.tasks.get(attempt.subject)
    stages = [(each.attempt.subject, each.attempt.label) for each in records]
    newest = any(session.attempts_on[stage] == each.attempt.n for stage, each in zip(stages, records, strict=True))
    has_landed = attempt.duty is Duty.MAKE and newest and task is not None and task.state is TaskState.MERGED
    return Seat(
        name=seat.name,
        role=seat.role,
        domain=seat.domain,
        tasks={attempt.allocation.domain: 1} if attempt.allocation else {},
        landed=int(has_landed),
        first_time=int(has_landed and all(tries[stage] == 1 for stage in stages)),
        last_at=max(each.ended_at or 0.0 for each in records),
    )


def learn_seats(records: Iterable[MemoryRecord]) -> tuple[Seat, ...]:
    """Add up what memory knows of each seat; the first session sets its domain.

    A record can be imported: what cannot be a seat is left out, and so are the last of far too many.
    """
    summaries = [record for record in records if isinstance(record, SessionSummary)]
    ordered = sorted(summaries, key=lambda each: (each.origin.at, each.key))
    return add_up_seats(filter(_is_plausible, (seat for summary in ordered for seat in summary.seats)))[:MAX_SEATS]


def _is_plausible(seat: Seat) -> bool:
    role, _, number = seat.name.rpartition("-")
    named = role == seat.role and ROLE_NAME.fullmatch(role) is not None and re.fullmatch(r"[1-9]\d{0,8}", number)
    counts = (*seat.tasks.values(), seat.landed, seat.first_time)
    return bool(named) and 0 < len(seat.domain) <= MAX_DOMAIN_CHARS and min(counts) >= 0


def add_up_seats(works: Iterable[Seat]) -> tuple[Seat, ...]:
    """Add up what each seat did at several times, given in order; sorted by role and number."""
    found: dict[str, Seat] = {}
    for seat in works:
        found[seat.name] = found[seat.name].add(seat) if seat.name in found else seat
    return tuple(sorted(found.values(), key=lambda seat: (seat.role, _read_number(seat.name), seat.name)))


def _read_number(name: str) -> int:
    found = re.search(r"-(\d{1,9})$", name)
    return int(found[1]) if found else 0
