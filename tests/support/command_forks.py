"""Commands as processes of their own, without starting Python: forked from the test's process, which has the modules.

Such a command has its own process id, terminal or pipes, environment and signals, and runs the same `main`. It inherits
what the test's process knows, and what a test has replaced there. The demo, a closed pipe, a kill -9
at a terminal, planning in a conversation and agents in tmux (tests/acceptance) start commands as programs.
"""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import sys
import termios
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from typing import NoReturn

from blueflame.cli.main import run
from support.warden_forks import WardenForks

DEFAULT_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGWINCH)


def prepare_fork(
    wardens: WardenForks, words: Sequence[str], env: Mapping[str, str], own_terminal: bool
) -> tuple[list[str], Callable[[], None]]:
    """What Popen needs to run this command in the process that it forks, instead of a program."""
    begin = build_forked_main(partial(run, words), env, kept=wardens.fileno(), own_terminal=own_terminal)
    return ["blueflame", *words], begin


def build_forked_main(
    run: Callable[[], int], env: Mapping[str, str], *, kept: int = 2, own_terminal: bool = False
) -> Callable[[], NoReturn]:
    """What Popen calls in the process that it forks: it never gets to start a program."""

    def begin() -> NoReturn:
        code = 70
        try:
            _become_a_process(kept, env, own_terminal)
            code = run()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)

    return begin


def _become_a_process(kept: int, env: Mapping[str, str], own_terminal: bool) -> None:
    gc.freeze()  # nothing of the tests is collected here: it would close a file that has the same number by now
    os.closerange(3, kept)
    os.closerange(kept + 1, 1024)
    os.environ.clear()
    os.environ.update(env)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    for number in DEFAULT_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    if own_terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    sys.stdin = sys.__stdin__ = TextIOWrapper(BufferedReader(FileIO(0, closefd=False)), encoding="utf-8")  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _open_output(1)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _open_output(2)  # type: ignore[misc]


def _open_output(number: int) -> TextIOWrapper:
    file = BufferedWriter(FileIO(number, "w", closefd=False))
    return TextIOWrapper(file, encoding="utf-8", line_buffering=number == 2 or file.isatty())
