"""Open windows on the person's tmux server for agents they want to watch. Needs the extra `tmux` (libtmux)."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from blueflame.model.errors import ProcessFailed

if TYPE_CHECKING:
    from libtmux import Server

UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9_-]+")  # dots and colons are special in tmux
ROWS, COLUMNS = 40, 120  # until a client attaches
MAX_SESSIONS = 1000  # sessions of one name


class TmuxWindow(NamedTuple):
    """Where to find it: `tmux attach -t SESSION`."""

    session: str
    window: int = 0
    pane: int = 0


def find_problems() -> tuple[str, ...]:
    """List why windows cannot be opened."""
    found = []
    if shutil.which("tmux") is None:
        found.append("the program tmux was not found: install it with your system's package manager")
    if find_spec("libtmux") is None:
        found.append("the Python package libtmux is not installed: pip install 'blueflame[tmux]'")
    return tuple(found)


def format_session_name(role: str) -> str:
    return f"cc-{UNSAFE_CHARACTERS.sub('-', role).strip('-') or 'agent'}"


def open_window(wanted: str, argv: Sequence[str], *, cwd: Path) -> TmuxWindow:
    """Open a session of that name (or the next free one) in which `argv` runs; it ends with `argv`.

    CLAUDECODE marks what runs below Claude Code, so it is unset.
    """
    from libtmux.exc import LibTmuxException, TmuxSessionExists

    words = ["env", "-u", "CLAUDECODE", *argv]
    for n in range(1, MAX_SESSIONS):
        name = wanted if n == 1 else f"{wanted}-{n}"
        try:
            _find_server().new_session(
                session_name=name, start_directory=cwd, window_command=shlex.join(words), x=COLUMNS, y=ROWS
            )
        except TmuxSessionExists:
            continue
        except LibTmuxException as e:
            if "duplicate session" in str(e):  # created meanwhile
                continue
            raise ProcessFailed(f"tmux cannot make a session {name}: {e}") from e
        return TmuxWindow(name)
    raise ProcessFailed(
        f"tmux has {MAX_SESSIONS} sessions called {wanted}: end some with 'tmux kill-session -t {wanted}-2'"
    )


def has_session(session: str) -> bool:
    from libtmux.exc import LibTmuxException

    try:
        return _find_server().has_session(session)
    except LibTmuxException:  # no server, no session
        return False


def _find_server() -> Server:
    """Return the server in which the person is, else the default one."""
    from libtmux import Server

    inside = os.environ.get("TMUX", "").partition(",")[0]
    return Server(socket_path=inside) if inside else Server()
