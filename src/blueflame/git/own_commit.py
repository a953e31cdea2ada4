"""The commit that this Blue Flame was built from."""

from __future__ import annotations

from pathlib import Path

import blueflame
from blueflame.git.command import try_git
from blueflame.model.errors import BlueFlameError


def read_own_commit() -> str:
    """Return its short id: written into the package when it was built, or that of the source tree; else empty."""
    package = Path(blueflame.__file__).parent
    written, source = package / "commit.txt", package.parents[1]
    if written.is_file():
        return written.read_text(encoding="ascii").strip()
    if not (source / ".git").exists():
        return ""
    try:
        done = try_git(source, "rev-parse", "--short=10", "HEAD")
    except BlueFlameError:  # no git
        return ""
    return done.out.strip() if done.code == 0 else ""
