"""Find the orchestrator and the commands that run in a repository, from locks and files; for any terminal."""

from __future__ import annotations

from collections.abc import Collection

from blueflame.lazy_dataclass import dataclass
from blueflame.orchestrator.engine.interface import AttemptEngine, Running
from blueflame.system import flock
from blueflame.system.files import read_modified_at
from blueflame.system.layout import StatePaths

MAX_MISSED_HEARTBEATS, HEARTBEAT_MARGIN_SECONDS = 2, 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorPresence:
    """The process that holds the repository's lock, since when, and its last heartbeat."""

    pid: int | None  # None: the lock has no note yet
    since: float | None
    last_sign: float
    heartbeat: float

    def is_late(self, now: float) -> bool:
        """Whether it has missed its heartbeats: they come even if nothing happens."""
        return now - self.last_sign > MAX_MISSED_HEARTBEATS * self.heartbeat + HEARTBEAT_MARGIN_SECONDS


def read_presence(places: StatePaths, *, last_event: float, heartbeat: float) -> OrchestratorPresence | None:
    """Return None when no orchestrator runs. Events and heartbeats (which rewrite agents.json) are signs of life."""
    held = flock.read_lock_holder(places.lock)
    if held is None:
        return None
    note = flock.parse_lock_note(held)
    signs = (last_event, read_modified_at(places.agents_file), note.since if note else 0.0)
    return OrchestratorPresence(
        pid=note.pid if note else None,
        since=note.since if note else None,
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
    """Return everything that runs for the session except its agents."""
    found = []
    for name in await engine.list_live(session):
        status = None if name in agents else await engine.inspect(name)
        if isinstance(status, Running):
            command = RunningCommand(
                name=name.removeprefix(f"{session}."),
                pid=status.agent_pid,
                warden_pid=status.pid,
                since=status.since,
                last_output=status.last_output,
            )
            found.append(command)
    return tuple(found)
