"""The command line: one entry point and one error boundary."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import typer

from blueflame import __version__
from blueflame.cli.command_table import CONTEXT_SETTINGS, LazyCommandGroup
from blueflame.cli.output import print_text
from blueflame.model.errors import BlueFlameError
from blueflame.model.exit_codes import ExitCode

# older releases of typer depend on click, newer ones contain it; the name is the same in both
ClickError: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""An error of one of our files has a filename; without one, standard output could not be written."""

app = typer.Typer(
    cls=LazyCommandGroup,
    name="blueflame",
    subcommand_metavar="COMMAND [ARGS]...",
    help="A deterministic foreman for teams of AI coding agents.",
    epilog="Run 'blueflame COMMAND --help' for more about a command.",
    context_settings=CONTEXT_SETTINGS,
    rich_markup_mode=None,  # rich's help costs 150 ms before the first word
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print_text(f"blueflame {__version__}")
        raise typer.Exit


@app.callback()
def blueflame(
    version: bool = typer.Option(
        False, "--version", "-V", help="Show the version and exit.", callback=_show_version, is_eager=True
    ),
) -> None:
    """A deterministic foreman for teams of AI coding agents."""


def run(argv: Sequence[str]) -> int:
    """Run one command line inside the error boundary and return its exit code."""
    try:
        result = typer.main.get_command(app).main(
            args=list(argv) or ["--help"], prog_name="blueflame", standalone_mode=False
        )
    except BlueFlameError as error:
        if error.exit_code == ExitCode.INTERNAL:
            return _report_bug(error, argv)
        _print_error(str(error))
        return error.exit_code
    except ClickError as error:
        return _report_usage_error(error)
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the one boundary: anything else is our bug
        if isinstance(error, OSError) and error.errno in DISK_FULL and error.filename is None:
            _print_error(f"cannot write the output: {error.strerror}. Free some space, or write it elsewhere")
            return ExitCode.WORLD
        return _report_bug(error, argv)
    return result if isinstance(result, int) else ExitCode.OK


def main() -> NoReturn:
    sys.exit(run(sys.argv[1:]))


def _print_error(message: str) -> None:
    print_text(f"blueflame: {message}", err=True)


def _report_usage_error(error: Exception) -> int:
    """Print click's errors in our form."""
    if type(error).__name__ == "NoArgsIsHelpError":  # a command group without a subcommand
        print_text(str(error))
        return ExitCode.OK
    context = getattr(error, "ctx", None)
    where = context.command_path if context else "blueflame"
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    _print_error(f"{message.rstrip('.')}\n  See '{where} --help'.")
    return ExitCode.USAGE


def _report_bug(error: Exception, argv: Sequence[str]) -> int:
    from blueflame.system.crash_log import write_crash_log

    log = write_crash_log(error, argv, start=Path.cwd())
    _print_error(f"internal error: {type(error).__name__}: {error}")
    print_text(f"  Details in {log}; please report them." if log else "  No crash log could be written.", err=True)
    return ExitCode.INTERNAL
