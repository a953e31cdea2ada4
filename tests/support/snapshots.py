"""Folders that many tests begin with: built once per worker, and put back for each test."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path


class Snapshots:
    """Each folder returns at its own path: journals and checkouts contain paths."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def open(self, name: str, build: Callable[[Path], object]) -> Path:
        """Return the folder as `build` left it; the first test that asks builds it."""
        folder, saved = self._root / name, self._root / f"{name} как было"
        if folder.exists():
            shutil.rmtree(folder)
        if saved.exists():
            _copy(saved, folder)
        else:
            folder.mkdir()
            build(folder)
            _copy(folder, saved)
        return folder


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", "--", str(source), str(target)], check=True)
