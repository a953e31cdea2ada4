"""Wardens by the hundred: one process for each test worker forks them, for all orchestrators of its tests.

An orchestrator has such a process of its own (orchestrator/engine/start_warden), but most of those in tests start two
or three wardens, and starting Python takes longer than what scripted agents do.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from blueflame.orchestrator.engine import start_warden
from blueflame.system.process import open_log

UNSYNCED_CODE = f"import os; os.fsync = lambda fd: None; {start_warden.FORK_SERVER_CODE}"  # as support/unsynced.py


class WardenForks:
    """The tests' end of the line to it, which orchestrators share; one that is killed leaves no answer to others."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    def start_warden(self, folder: Path, secrets: Mapping[str, str]) -> int:
        with open_log(folder / "warden.log") as log:
            pid = start_warden.order_warden(self._line, folder, secrets, log.fileno())
        assert pid is not None, "the process that forks the tests' wardens is gone"
        return pid

    def fileno(self) -> int:
        """For a process that starts orchestrators: it passes this on to them."""
        return self._line.fileno()


@contextmanager
def start_warden_forks(log: Path) -> Iterator[WardenForks]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(start_warden, "FORK_SERVER_CODE", UNSYNCED_CODE)
        server = start_warden.start_fork_server(log)
    yield WardenForks(server.line)
    server.close()
