"""The command line: one entry point and one error boundary."""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click

from blueflame import __version__
from blueflame.cli.command_table import LazyCommandGroup
from blueflame.cli.output import CLOSED, DISK_FULL, open_closed_streams, print_text
from blueflame.model.errors import BlueFlameError
from blueflame.model.exit_codes import ExitCode
from blueflame.system.files import find_current_folder

ROOM_FIX = "end other programs, or raise 'ulimit -u' and 'ulimit -v'; then run 'blueflame resume'"
DISCONNECTED = frozenset({errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT, errno.EHOSTDOWN})
REINSTALL_FIX = "put it back or install it again, then run 'blueflame resume'"
NO_TEMPORARY_FOLDER = "No usable temporary directory"  # what Python's tempfile says
ENVIRONMENT_ERRNOS = frozenset({*DISK_FULL, *DISCONNECTED, errno.EROFS, errno.EACCES, errno.EPERM})
"""What no code of ours can cause: the disk and its permissions."""
GARBAGE_THRESHOLD = 200_000  # objects, more than a session's start makes: searching 50,000 for garbage took 12 to 45 ms


VERSION_HELP = "Show the version and its commit, and exit."


def _show_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        from blueflame.git.repository import read_own_commit

        commit = read_own_commit()
        print_text(f"blueflame {__version__}{f' ({commit})' if commit else ''}")
        context.exit()


@click.group(
    "blueflame",
    cls=LazyCommandGroup,
    epilog="Run 'blueflame COMMAND --help' for more about a command.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version", "-V", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help=VERSION_HELP
)
def blueflame() -> None:
    """A deterministic foreman for teams of AI coding agents."""


def run(argv: Sequence[str]) -> int:
    """Run one command line inside the error boundary and return its exit code."""
    try:
        find_current_folder()
        result = blueflame.main(list(argv) or ["--help"], prog_name="blueflame", standalone_mode=False)
    except BlueFlameError as error:
        if error.exit_code == ExitCode.INTERNAL:
            return _report_bug(error, argv)
        _print_error(str(error))
        return error.exit_code
    except click.ClickException as error:
        return _report_usage_error(error)
    except (KeyboardInterrupt, click.Abort):
        return ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the one boundary: anything else is our bug
        if _wraps_interrupt(error):
            return ExitCode.INTERRUPTED
        if isinstance(error, OSError) and error.errno in DISK_FULL and error.filename is None:
            _print_error(f"cannot write the output: {error.strerror}. Free some space, or write it elsewhere")
            return ExitCode.WORLD
        if isinstance(error, OSError) and error.errno in ENVIRONMENT_ERRNOS and error.filename:
            _print_error(f"cannot use {error.filename}: {error.strerror}; fix that, then run 'blueflame resume'")
            return ExitCode.WORLD
        if isinstance(error, FileNotFoundError) and NO_TEMPORARY_FOLDER in str(error):
            _print_error(f"{error.strerror}. Free some space, or set TMPDIR to a folder with room")
            return ExitCode.WORLD
        if isinstance(error, MemoryError) or "can't start new thread" in str(error):
            _print_error(f"the machine has no room: {str(error) or 'out of memory'}; {ROOM_FIX}")
            return ExitCode.WORLD
        if isinstance(error, ModuleNotFoundError):
            _print_error(f"the installation in {sys.prefix} is incomplete: {error}; {REINSTALL_FIX}")
            return ExitCode.WORLD
        if isinstance(error, OSError) and error.errno in CLOSED and error.filename is None:
            return ExitCode.WORLD  # the pipe or terminal is gone, and with it the place for a message
        return _report_bug(error, argv)
    return result if isinstance(result, int) else ExitCode.OK


def main() -> NoReturn:
    gc.set_threshold(GARBAGE_THRESHOLD)
    open_closed_streams()
    _use_utf8()
    os.umask(os.umask(0o077) & 0o077)  # one that denies us our own files would make every agent fail
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # inherited as ignored, it hides how our children ended
    code = run(sys.argv[1:])
    gc.freeze()  # Python would search all modules for garbage before it ends, for 100 ms
    sys.exit(code)


def _use_utf8() -> None:
    """Start again in Python's UTF-8 mode if the locale has another encoding; only the terminal keeps that one.

    Else the same file has another name here than in the journal, in trust records and for wardens.
    """
    if sys.getfilesystemencoding() != "utf-8" and sys.executable:
        os.environ.setdefault("PYTHONIOENCODING", f"{sys.stdout.encoding}:backslashreplace")
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606 (no shell is wanted)


def _print_error(message: str) -> None:
    print_text(f"blueflame: {message}", err=True)


def _wraps_interrupt(error: Exception) -> bool:
    """Whether Ctrl-C came while pydantic built or wrote a model: it keeps only the exception's name, in its text."""
    return type(error).__name__ in ("SchemaError", "PydanticSerializationError") and "KeyboardInterrupt" in str(error)


def _report_usage_error(error: click.ClickException) -> int:
    """Print click's errors in our form."""
    message = error.format_message()
    if isinstance(error, click.exceptions.NoArgsIsHelpError):  # a command group without a subcommand
        print_text(message)
        return ExitCode.OK
    context = error.ctx if isinstance(error, click.UsageError) else None
    where = context.command_path if context else "blueflame"
    _print_error(f"{message.rstrip('.')}\n  See '{where} --help'.")
    return ExitCode.USAGE


def _report_bug(error: Exception, argv: Sequence[str]) -> int:
    from blueflame.system.crash_log import write_crash_log

    log = write_crash_log(error, argv, start=Path.cwd())
    _print_error(f"internal error: {type(error).__name__}: {error}")
    print_text(f"  Details in {log}; please report them." if log else "  No crash log could be written.", err=True)
    return ExitCode.INTERNAL
