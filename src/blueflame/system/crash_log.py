"""Write a crash log: one file with what a bug report needs."""

from __future__ import annotations

import os
import platform
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from blueflame import __version__


def write_crash_log(error: BaseException, argv: Sequence[str], *, start: Path) -> Path | None:
    """Write the log of an unexpected error to the session's logs, or the temporary folder; None if both fail."""
    name = f"crash-{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}.log"
    for folder in (*_find_log_folder(start), *_find_temporary_folder()):
        try:
            (folder / name).write_text(_format_report(error, argv), encoding="utf-8", errors="backslashreplace")
        except OSError:
            continue  # a full or read-only disk must not hide the error itself
        return folder / name
    return None


def _find_log_folder(start: Path) -> list[Path]:
    """Return the nearest .blueflame/logs at or above start, if any."""
    with suppress(OSError):
        return [logs for folder in (start, *start.parents) if (logs := folder / ".blueflame" / "logs").is_dir()][:1]
    return []


def _find_temporary_folder() -> list[Path]:
    with suppress(OSError):  # no folder can be written
        return [Path(tempfile.gettempdir())]
    return []


def _format_report(error: BaseException, argv: Sequence[str]) -> str:
    # only the verb and the names of options: values may reveal the person's work, and the log is shared
    options = [word.partition("=")[0] for word in argv[1:] if word.startswith("-")]
    return "\n".join(
        [
            "# A bug in Blue Flame",
            "",
            f"- version: {__version__}",
            f"- python: {platform.python_version()} on {platform.platform()}",
            f"- command: blueflame {' '.join([*argv[:1], *options])}".rstrip(),
            f"- error: {type(error).__name__}: {error}",
            "",
            "```",
            "".join(traceback.format_exception(error)).rstrip(),
            "```",
            "",
        ]
    )
