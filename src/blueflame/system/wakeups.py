"""Wake other processes by touching a file: "look again". The journal is the truth; a wakeup may be lost."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path

from blueflame.model.errors import WorldError
from blueflame.system.files import explain_file_errors

SIGNAL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
PULSE_SECONDS = 5.0  # the most that a lost wakeup costs
WATCH_LATER_SECONDS = 0.3  # until one begins to watch where something else must start first (the import)


def send_wakeup(folder: Path, name: str) -> None:
    """Wake the processes that watch the folder."""
    if not SIGNAL_NAME.fullmatch(name):
        raise WorldError(f"{name!r} cannot name a signal in {folder}: use letters, digits, dots and dashes")
    with explain_file_errors("signal through", folder / name):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
        os.utime(folder / name)  # a file system with coarse times still sees that something was done to it


async def watch_wakeups(
    folder: Path, *, pulse: float = PULSE_SECONDS, polling: bool = False
) -> AsyncIterator[set[str]]:
    """Yield the names touched since the last time; an empty set every `pulse` seconds, since wakeups may be lost."""
    with explain_file_errors("watch", folder):
        folder.mkdir(parents=True, exist_ok=True)
    async with aclosing(watch_folders(folder, pulse=pulse, polling=polling)) as changes:
        async for paths in changes:
            yield {path.name for path in paths if path != folder}


async def watch_folders(*folders: Path, pulse: float, polling: bool = False) -> AsyncGenerator[set[Path], None]:
    """Yield what changed in these folders, not below them; an empty set every `pulse` seconds."""
    try:
        async with aclosing(_watch_changes(folders, pulse, polling)) as changes:
            async for paths in changes:
                yield paths
    except (OSError, RuntimeError):  # no inotify watches left, or none on this file system
        if polling:
            raise
        async with aclosing(_watch_changes(folders, pulse, True)) as changes:
            async for paths in changes:
                yield paths


async def _watch_changes(folders: Sequence[Path], pulse: float, polling: bool) -> AsyncGenerator[set[Path], None]:
    from watchfiles import awatch  # late: with anyio it takes 60 to 80 ms

    hints = awatch(
        *folders,
        watch_filter=None,
        recursive=False,
        debounce=100,
        step=20,
        rust_timeout=int(pulse * 1000),
        yield_on_timeout=True,
        force_polling=polling or None,  # None leaves it to WATCHFILES_FORCE_POLLING
        poll_delay_ms=200,
    )
    async for changes in hints:
        yield {Path(path) for _, path in changes}
