"""Folders of plugins that a person names: only from outside of the repository, since agents write in there."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

MANIFEST = ".claude-plugin/plugin.json"


def resolve_plugins(given: Iterable[str], root: Path) -> tuple[Path, ...]:
    """Where they really are; relative ones start from the configuration's folder."""
    found = (Path(os.path.realpath(root / Path(each).expanduser())) for each in given)
    return tuple(dict.fromkeys(found))


def check_plugin(folder: Path, repo: Path | None) -> str:
    """Why it cannot be loaded; nothing when it can."""
    if repo is not None and folder.is_relative_to(os.path.realpath(repo)):
        return (
            f"the plugin {folder} is inside the repository, where agents can change what it tells them; "
            "put it elsewhere and name that folder"
        )
    if not (folder / MANIFEST).is_file():
        return f"{folder} is no plugin: it has no {MANIFEST}; name the folder that has one, or take it out"
    return ""


def list_skills(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(each.parent.name for each in (folder / "skills").glob("*/SKILL.md")))
