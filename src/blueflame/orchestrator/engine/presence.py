"""Which orchestrator and which commands run in a repository, read from locks and files by any terminal."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from blueflame.orchestrator.engine.interface import AttemptEngine, Running
from blueflame.system import flock
from blueflame.system.files import read_modified_at
from blueflame.system.layout import StatePaths

MAX_MISSED_HEARTBEATS, HEARTBEAT_MARGIN_SECONDS = 2, 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorPresence:
    """Who holds the repository's lock, since when, and when it last gave a sign of life."""

    pid: int | None  # None: the lock has no note yet
    since: float | None
    last_sign: float
    heartbeat: float

    def is_late(self, now: float) -> bool:
        """It should have been heard of by now, even if nothing happened."""
        return now - self.last_sign > MAX_MISSED_HEARTBEATS * self.heartbeat + HEARTBEAT_MARGIN_SECONDS


def read_presence(places: StatePaths, *, last_event: float, heartbeat: float) -> OrchestratorPresence | None:
    """None when no orchestrator runs. Each event and each heartbeat (it renews agents.json) is a sign of life."""
    held = flock.read_lock_holder(places.lock)
    if held is None:
        return None
    card = flock.parse_lock_note(held)
    signs = (last_event, read_modified_at(places.agents_file), card.since if card else 0.0)
    return OrchestratorPresence(
        pid=card.pid if card else None,
        since=card.since if card else None,
        last_sign=max(signs),
        heartbeat=heartbeat,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCommand:
    """A check, a setup or a hook that runs under a warden."""

    name: str
    pid: int | None
    warden_pid: int
    since: float | None
    last_output: float | None


async def find_running_commands(
    engine: AttemptEngine, session: str, agents: Collection[str]
) -> tuple[RunningCommand, ...]:
    """All that runs for the session and is no agent's attempt."""
    found = []
    for name in await engine.live(session):
        standing = None if name in agents else await engine.inspect(name)
        if isinstance(standing, Running):
            found.append(_build_running_command(name.removeprefix(f"{session}."), standing))
    return tuple(found)


def _build_running_command(name: str, running: Running) -> RunningCommand:
    return RunningCommand(
        name=name,
        pid=running.agent_pid,
        warden_pid=running.pid,
        since=running.since,
        last_output=running.last_output,
    )
