"""Small, full and read-only disks for tests, by real mounts."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(place: Path, megabytes: int, *, files: int = 10_000) -> Iterator[None]:
    """A disk of its own at `place`, with room for so much."""
    place.mkdir(parents=True, exist_ok=True)
    _mount("-t", "tmpfs", "-o", f"size={megabytes}m,nr_inodes={files}", "tmpfs", str(place))
    try:
        yield
    finally:
        _unmount(place)


@contextmanager
def ext4(place: Path, megabytes: int = 16) -> Iterator[None]:
    """A disk with that file system at `place`, in a file beside it."""
    place.mkdir()
    image = place.with_name(f"{place.name}.img")
    image.touch()
    os.truncate(image, megabytes << 20)
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("there is no mkfs.ext4 here")
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    _mount("-o", "loop", str(image), str(place))
    try:
        yield
    finally:
        _unmount(place)


@contextmanager
def bound(source: Path, place: Path) -> Iterator[None]:
    """The file or folder at `place` too, which nothing can replace meanwhile."""
    if not place.exists():
        place.mkdir(parents=True)
    _mount("--bind", str(source), str(place))
    try:
        yield
    finally:
        _unmount(place)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """For root by a mount: what is open for writing already stays so."""
    if os.geteuid() != 0:
        modes = {path: path.stat().st_mode for path in (folder, *folder.rglob("*"))}
        for path, mode in modes.items():
            path.chmod(mode & ~0o222)
        yield
        for path, mode in modes.items():
            path.chmod(mode)
        return
    with tempfile.TemporaryDirectory() as aside:  # made read-only there: nothing may be open while it becomes so
        _mount("--bind", str(folder), aside)
        _mount("-o", "remount,bind,ro", aside)
        _mount("--bind", aside, str(folder))
        try:
            yield
        finally:
            _unmount(folder)
            _unmount(Path(aside))


@contextmanager
def immutable(folder: Path) -> Iterator[None]:
    """As a person or a tool locks a folder; its mode stays as it was."""
    if os.geteuid() or subprocess.run(["chattr", "+i", str(folder)], capture_output=True, check=False).returncode:
        pytest.skip("no attribute can be set here")
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", str(folder)], check=True)


def fill(path: Path) -> None:
    """Fill the disk to the last byte."""
    with path.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue


def _mount(*argv: str) -> None:
    if os.geteuid() or subprocess.run(["mount", *argv], capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")


def _unmount(place: Path) -> None:
    subprocess.run(["umount", "--lazy", str(place)], check=True)
