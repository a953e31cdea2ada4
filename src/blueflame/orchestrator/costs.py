"""The costs of a session: one entry per attempt, from the journal or, while it runs, from its usage log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from blueflame.model.activity import HealthReport
from blueflame.model.attempt import AttemptRecord
from blueflame.model.event import JournalEntry
from blueflame.model.spend import NO_SPEND
from blueflame.orchestrator.project import Project
from blueflame.session.accounts import UNKNOWN_MODEL, CostEntry, split_by_model
from blueflame.session.replay import replay
from blueflame.session.state import Session
from blueflame.system.clock import find_local_day
from blueflame.telemetry.usage import read_metered_usage


def read_costs(
    project: Project, events: Sequence[JournalEntry], *, now: float, models: bool = True
) -> tuple[CostEntry, ...]:
    """Read the costs of a session; running agents count with what they have used so far."""
    found = replay(events)
    checkups: Mapping[str, HealthReport] = {}
    if found.live:
        from blueflame.orchestrator.wiring import probe_agents  # late: it loads the settings and the runtimes

        checkups = probe_agents(project, found)
    return list_costs(found, project.state.attempts, checkups, now=now, models=models)


def list_costs(
    session: Session, attempts: Path, checkups: Mapping[str, HealthReport], *, now: float, models: bool = True
) -> tuple[CostEntry, ...]:
    """Return the costs in the order of the attempts. Without `models` the usage logs of ended attempts are not read."""
    records = sorted(session.attempts.values(), key=lambda record: (record.intended_at, record.attempt.id))
    return tuple(_build_entry(record, attempts, checkups, now=now, models=models) for record in records)


def _build_entry(
    record: AttemptRecord, attempts: Path, checkups: Mapping[str, HealthReport], *, now: float, models: bool
) -> CostEntry:
    attempt, ended = record.attempt, record.ended
    metered = read_metered_usage(attempts / attempt.id, ended=ended is not None) if models or ended is None else None
    has_meter = metered is not None and metered.calls > 0
    if ended is not None:
        spend = ended.spend
    elif metered is not None and has_meter:
        spend = metered.spend
    else:
        found = checkups.get(attempt.id)
        spend = found.spend if found is not None else NO_SPEND
    return CostEntry(
        session=attempt.session,
        attempt=attempt.id,
        agent=attempt.agent_id,
        role=attempt.role,
        subject=attempt.subject,
        n=attempt.n,
        day=find_local_day(record.ended_at if record.ended_at is not None else now).date,
        ending=ended.ending.value if ended is not None else "",
        spend=spend,
        by_model=split_by_model(metered.by_model if metered else {}, spend, attempt.model or UNKNOWN_MODEL),
        metered=has_meter,
        unpriced=metered.unpriced if metered else (),
        incomplete=metered.incomplete if metered else 0,
        damaged=metered.damaged if metered and ended is not None else 0,
    )
