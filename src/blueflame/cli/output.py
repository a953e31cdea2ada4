"""The only way to print text and JSON: nothing an agent wrote reaches the terminal raw."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, TextIO

import click

from blueflame.model.exit_codes import ExitCode
from blueflame.text.sanitize import DANGEROUS, clean_text

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from rich.console import RenderableType

CLOSED = (errno.EPIPE, errno.EIO)  # a pipe, a terminal
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""An error of one of our files has a filename; without one, standard output could not be written."""


class _LastingFile(io.FileIO):
    """A pipe or terminal that may be closed at its other end, or a file on a full disk: what cannot be written is
    dropped."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data) or 0
        except OSError as error:
            if error.errno not in (*CLOSED, *DISK_FULL):
                raise
            return memoryview(data).nbytes


@contextmanager
def outlive_output() -> Iterator[None]:
    """Go on when standard output is closed (`| head -1`, a terminal window) or its disk is full: a session is more than
    its output."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_make_lasting, before)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = before


def open_closed_streams() -> None:
    """Open what the caller has closed (`>&-`): the next file of ours would get its number, and our output with it."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number, so this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 (to the end)


def _flush_or_drop(stream: TextIO) -> None:
    """What cannot be written is dropped: else Python tries it again at its end, and gives its own exit code."""
    try:
        stream.flush()
    except OSError as error:
        if error.errno not in (*CLOSED, *DISK_FULL):
            raise
        number = stream.fileno()
        kept, nowhere = os.dup(number), os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.dup2(nowhere, number)
            stream.flush()
            os.dup2(kept, number)
        finally:
            os.close(kept)
            os.close(nowhere)


def _make_lasting(stream: TextIO) -> TextIO:
    try:
        _flush_or_drop(stream)
        file = _LastingFile(stream.fileno(), "w", closefd=False)
    except (OSError, ValueError):  # a test's buffer, or closed from the beginning
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(file), stream.encoding, stream.errors, line_buffering=getattr(stream, "line_buffering", True)
    )


def print_text(text: str = "", *, err: bool = False, end: bool = True) -> None:
    """A message that no one can read fails nothing; what a command was asked for does."""
    with outlive_output() if err else nullcontext():
        click.echo(clean_text(text), err=err, nl=end)


def print_json(data: object, *, indent: int | None = 2) -> None:
    """JSON for programs; dangerous characters are escaped, because people read it in terminals too."""
    text = json.dumps(data, ensure_ascii=False, indent=indent)
    click.echo(DANGEROUS.sub(_escape, text))


def print_result(result: Mapping[str, object] | RenderableType) -> int:
    """Print what a command found, as JSON for a program, as text or as a view, and return its exit code."""
    if isinstance(result, Mapping):
        print_json(result)
    elif isinstance(result, str):
        print_text(result)
    else:
        from blueflame.cli.console import make_console, print_view  # late: programs that poll need no rich

        print_view(make_console(), result)
    return ExitCode.OK


def _escape(match: re.Match[str]) -> str:
    """Return a JSON escape, so that a reader gets the same string."""
    return f"\\u{ord(match[0]):04x}" if match[0] <= "\uffff" else json.dumps(match[0])[1:-1]
