"""Plugins of Claude Code: folders that the configuration names, and the skills in them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def resolve_plugins(given: Iterable[str], root: Path) -> tuple[Path, ...]:
    """Resolve the folders; relative ones start from the configuration's folder."""
    found = (Path(os.path.realpath(root / Path(each).expanduser())) for each in given)
    return tuple(dict.fromkeys(found))


def list_skills(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(each.parent.name for each in (folder / "skills").glob("*/SKILL.md")))
