"""How the attempt stands, for views: written when something changed, at most once a second, and never relied upon."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from blueflame.warden.attempt_folder import write_json
from blueflame.warden.process_tree import read_boot_id, read_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from blueflame.warden.output import Spool

WRITE_SECONDS = 1.0


class StatusFile:
    __slots__ = (
        *("_told", "_told_at", "_told_parked", "agent", "boot", "held", "parked", "path", "start_time", "started_at"),
        *("state", "state_at"),
    )

    def __init__(self, folder: str) -> None:
        me = read_process(os.getpid())
        self.path = f"{folder}/status.json"
        self.boot = read_boot_id()
        self.start_time = me.start_time if me else 0
        self.started_at = time.time()
        self.state = "starting"  # starting | setup | working | stopping | ended
        self.state_at = self.started_at
        self.agent: int | None = None
        self.parked: dict[str, object] = {}  # why it waits for its model: kind, reason, until, since
        self.held = 0.0  # seconds that it has waited so, in all
        self._told_parked: dict[str, object] = {}
        self._told: tuple[object, ...] = ()
        self._told_at = 0.0

    def format_lock_note(self, attempt: str) -> str:
        """What the lock file says of its holder: `<pid> <start> <RFC3339> <note>`."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.started_at))
        return f"{os.getpid()} {self.start_time} {at} {attempt}"

    def update(self, spool: Spool, state: str = "") -> None:
        changed_state = bool(state) and state != self.state
        if changed_state:
            self.state, self.state_at = state, time.time()
        changed_state = changed_state or self.parked != self._told_parked
        news = (self.state, self.agent, self.parked, spool.heard_at, spool.size)
        now = time.monotonic()
        if news == self._told or (now - self._told_at < WRITE_SECONDS and not changed_state):
            return
        self._told, self._told_at, self._told_parked = news, now, self.parked
        with suppress(OSError):  # a full disk: the lock and the outcome are what counts
            write_json(self.path, self._build_content(spool))

    def _build_content(self, spool: Spool) -> dict[str, object]:
        return {
            "pid": os.getpid(),
            "start_time": self.start_time,
            "boot_id": self.boot,
            "agent_pid": self.agent,
            "state": self.state,
            "state_at": self.state_at,
            "since": self.started_at,
            "at": time.time(),
            "last_output_at": spool.heard_at,
            "output_bytes": spool.size,
            "parked": self.parked,
            "held": round(self.held, 3),
        }
