"""The tracked files of a project, and what is in those that describe it."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from blueflame.git.command import try_git
from blueflame.lazy_dataclass import dataclass
from blueflame.system.files import parse_json_object

MAX_CHARS = 500_000


def is_on_path(program: str) -> bool:
    return shutil.which(program) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFiles:
    """The files below one folder of a repository; names are relative to that folder."""

    root: Path
    files: tuple[str, ...]
    is_installed: Callable[[str], bool] = is_on_path

    def has(self, *names: str) -> bool:
        return any(name in self.files for name in names)

    def find(self, pattern: str) -> tuple[str, ...]:
        """The files whose whole name matches, the shallowest first."""
        wanted = re.compile(pattern)
        found = [file for file in self.files if wanted.fullmatch(file)]
        return tuple(sorted(found, key=lambda file: (file.count("/"), file)))

    def read_text(self, *names: str) -> str:
        """The text of all of them; empty for one that is not tracked, not a plain file, or not text."""
        return "\n".join(text for name in names if (text := self._read_file(name)))

    def read_toml(self, name: str) -> dict[str, Any]:
        try:
            return tomllib.loads(self._read_file(name))
        except (tomllib.TOMLDecodeError, RecursionError):
            return {}  # a broken file of the project is not our problem to report

    def read_json(self, name: str) -> dict[str, Any]:
        return parse_json_object(self._read_file(name)) or {}

    def narrow(self, folder: str) -> ProjectFiles:
        """The files below `folder`, as a project of its own."""
        if not folder:
            return self
        start = f"{folder}/"
        below = tuple(file.removeprefix(start) for file in self.files if file.startswith(start))
        return replace(self, root=self.root / folder, files=below)

    def is_ignored(self, name: str) -> bool:
        """Whether git ignores a file or folder of that name."""
        return try_git(self.root, "check-ignore", "-q", "--", name).code == 0

    def _read_file(self, name: str) -> str:
        path = self.root / name
        if name not in self.files or path.is_symlink() or not path.is_file():
            return ""
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(MAX_CHARS)


def as_dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def list_folders_with(files: Iterable[str], names: Iterable[str]) -> Iterator[str]:
    """The folders that hold a file of one of these names, the shallowest first; "" is the top."""
    wanted = frozenset(names)
    found = {str(PurePosixPath(file).parent) for file in files if PurePosixPath(file).name in wanted}
    yield from sorted((folder.removeprefix(".") if folder == "." else folder for folder in found), key=_by_depth)


def _by_depth(folder: str) -> tuple[int, str]:
    return (folder.count("/") + 1 if folder else 0, folder)
