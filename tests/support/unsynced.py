"""Nothing is synced to the disk by the tests' processes and their forks: only a power cut would show the difference.

A session of two tasks syncs 230 times, which all workers wait for at the same disk. Programs of their own sync, except
the git that we run: it has a variable for tests.
"""

from __future__ import annotations

import os
import sqlite3
from functools import partial

import pytest

from blueflame.git import command

UNSYNCED_GIT = {**command.FIXED_VARIABLES, "GIT_TEST_FSYNC": "0"}


class UnsyncedConnection(sqlite3.Connection):
    """For writers that begin their transactions themselves, as journal and memory do."""

    def execute(self, sql: str, parameters: object = (), /) -> sqlite3.Cursor:
        if sql in ("PRAGMA journal_mode = WAL", "BEGIN IMMEDIATE"):
            super().execute("PRAGMA synchronous = OFF")
        return super().execute(sql, parameters)  # type: ignore[arg-type]  # typeshed has no public name for it


def drop_syncs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(os, "fsync", lambda _handle: None)
    patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=UnsyncedConnection))
    patch.setattr(command, "FIXED_VARIABLES", UNSYNCED_GIT)
