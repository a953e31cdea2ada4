"""Processes that are with us for a while: started aside, looked at, and ended before we go on."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from blueflame.model.errors import ProcessFailed


@dataclass(frozen=True, slots=True)
class BackgroundProcess:
    """In a session of its own, of which it is the first."""

    _process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait(self, seconds: float) -> bool:
        """Whether it has ended by then."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return not self.is_running

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        """It alone, at once."""
        self._process.kill()
        self._process.wait()

    def kill_group(self) -> None:
        """With its whole group, when it has not ended already."""
        if self.is_running:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()


def start_background(
    argv: Sequence[str],
    *,
    log: Path | None = None,
    env: Mapping[str, str] | None = None,
    handles: Sequence[int] = (),
) -> BackgroundProcess:
    """Without input, its output in `log`; `handles` are open files of ours that it gets. Raises ProcessFailed."""
    sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if log else os.open(os.devnull, os.O_WRONLY)
    try:
        started = subprocess.Popen(
            argv,
            cwd="/",
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
            pass_fds=handles,
        )
    except OSError as e:
        raise ProcessFailed(f"cannot run {argv[0]}: {e.strerror}") from e
    finally:
        os.close(sink)
    return BackgroundProcess(started)
