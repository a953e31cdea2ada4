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
KEY_OPTION = "@blueflame"  # of a window of ours: what it shows


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


def format_session_name(role: str, *, ad_hoc: bool = False) -> str:
    return f"cc-{'adhoc-' if ad_hoc else ''}{UNSAFE_CHARACTERS.sub('-', role).strip('-') or 'agent'}"


def open_window(session: str, title: str, argv: Sequence[str], *, key: str, cwd: Path) -> TmuxWindow:
    """Open a window in the session of that name in which `argv` runs; it ends with `argv`.

    A session that exists is adopted: what runs there is not touched. So is the window that was opened with this key.
    CLAUDECODE marks what runs below Claude Code, so it is unset.
    """
    words = shlex.join(["env", "-u", "CLAUDECODE", *argv])
    opening = ("-P", "-F", "#{window_index}", "-n", title, "-c", str(cwd))
    size = ("-x", str(COLUMNS), "-y", str(ROWS))
    made = _run("new-session", "-d", "-s", session, *size, *opening, words)
    if made is None:
        if (there := _find_window(session, key)) is not None:
            return TmuxWindow(session, there)
        made = _run("new-window", "-d", "-t", f"={session}:", *opening, words)
    if made is None:
        raise ProcessFailed(f"tmux cannot open a window in its session {session}: see 'tmux list-sessions'")
    window = TmuxWindow(session, int(made[0]))
    _run("set-option", "-w", "-t", f"={session}:{window.window}", KEY_OPTION, key)
    return window


def _find_window(session: str, key: str) -> int | None:
    for line in _run("list-windows", "-t", f"={session}", "-F", f"#{{window_index}} #{{{KEY_OPTION}}}") or ():
        index, _, found = line.partition(" ")
        if found == key:
            return int(index)
    return None


def _run(*words: str) -> list[str] | None:
    """The lines that tmux prints; None if it refuses."""
    done = _find_server().cmd(*words)
    return None if done.returncode else done.stdout


def _find_server() -> Server:
    """Return the server in which the person is, else the default one."""
    from libtmux import Server

    inside = os.environ.get("TMUX", "").partition(",")[0]
    return Server(socket_path=inside) if inside else Server()
