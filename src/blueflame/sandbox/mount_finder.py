"""Collect read-only mounts of the machine's tools: each once, no secrets, links followed."""

# ruff: noqa: PTH110, PTH112 (os.path returns False where pathlib raises: in folders without permission)
from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from blueflame.model.sandbox import Mount, MountKind
from blueflame.sandbox.bwrap import is_below
from blueflame.sandbox.toolchain_table import SECRET_PATHS

FORBIDDEN_FOLDERS = ("/proc", "/sys", "/dev", "/run", "/etc", "/boot", "/var/run", "/var/lib/docker", "/lost+found")
PROJECT_FOLDERS = ("/dev/shm", "/usr/app", "/usr/local/src", "/usr/src")  # noqa: S108 - images keep projects there
NIX_SYSTEM = "/run/current-system"  # links into the store, nothing else
PREFIX_MARKS = ("lib", "lib64", "libexec", "pyvenv.cfg", "conda-meta", "include")
PROGRAM_FOLDERS = ("bin", "sbin", "shims", ".bin")
SHEBANG_BYTES = 256


def find_system_folder(path: str, folders: Iterable[str]) -> str:
    """Return which of these folders of the system the path is in; "" where projects are."""
    if any(is_below(path, each) for each in PROJECT_FOLDERS):
        return ""
    return next((each for each in folders if is_below(path, each)), "")


class MountFinder:
    def __init__(self, home: Path, there: Iterable[Mount] = ()) -> None:
        self.home = os.path.realpath(home)
        self.found: dict[str, Mount] = {}
        self.notes: list[str] = []
        self._there = {mount.target for mount in there}
        self._followed = set[str]()

    def is_inside(self, path: str) -> bool:
        return bool(find_system_folder(path, self._there)) or any(step in self.found for step in _list_ancestors(path))

    def add(self, path: str | Path, why: str) -> bool:
        """Mount under the given name and under the real one, which links may lead to."""
        name = os.path.normpath(path)
        real = os.path.realpath(name)
        if not os.access(real, os.R_OK) or (os.path.isdir(real) and not os.access(real, os.X_OK)):
            return False
        for target in dict.fromkeys((name, real)):
            if self.is_inside(target):
                continue
            if self.is_secret(target):
                self.notes.append(f"{target} is not mounted: it is or holds a secret")
                return False
            self.found[target] = Mount(kind=MountKind.RO, source=real, target=target, why=why)
        return True

    def is_secret(self, path: str) -> bool:
        """True for the home and its parents, places of the kernel, credentials and what holds them."""
        if len(Path(path).parts) < 3 or is_below(self.home, path):
            return True
        if find_system_folder(path, FORBIDDEN_FOLDERS) and not is_below(path, NIX_SYSTEM):
            return True
        private = [f"{self.home}/{name}" for name in SECRET_PATHS]
        return any(is_below(path, each) or (is_below(each, path) and os.path.lexists(each)) for each in private)

    def add_programs(self, folder: str, why: str) -> None:
        """Add a folder of programs, with the whole installation where it is recognised as one."""
        prefix = str(Path(folder).parent)
        if not (self._is_prefix(folder, prefix) and self.add(prefix, why)):
            self.add(folder, why)

    def _is_prefix(self, folder: str, prefix: str) -> bool:
        if Path(folder).name not in PROGRAM_FOLDERS or self.is_secret(prefix) or prefix == f"{self.home}/.local":
            return False  # .local/share holds more than programs
        return any(os.path.exists(f"{prefix}/{mark}") for mark in PREFIX_MARKS)

    def follow_all(self, folder: str) -> None:
        """Mount what the programs of a folder lead to, through links or their first line."""
        real = os.path.realpath(folder)
        if not self._is_new(real):  # /bin is /usr/bin on most machines, with a thousand programs
            return
        with suppress(OSError):
            for entry in sorted(os.scandir(real), key=lambda entry: entry.name):
                if entry.is_symlink():
                    if _can_leave_system(entry.path):
                        self.follow(entry.path)
                elif entry.is_file() and (read := _read_interpreter(entry.path)) and self._is_new(read):
                    self._add_linked(read, f"runs {entry.path}")

    def _is_new(self, path: str) -> bool:
        known = path in self._followed
        self._followed.add(path)
        return not known

    def follow(self, link: str) -> None:
        path = link
        for _hop in range(40):  # as many as the kernel follows
            if not self.is_inside(path):
                self._add_linked(path, f"{link} leads there")
            try:
                path = os.path.normpath(Path(path).parent / Path(path).readlink())
            except OSError:  # end of the chain, or broken
                return

    def _add_linked(self, path: str, why: str) -> None:
        real = os.path.realpath(path)
        if not os.path.exists(real) or (self.is_inside(path) and self.is_inside(real)):
            return
        if not self.is_inside(real):
            self._add_target(real, why)
        if path != real and not self.is_inside(path) and not self.is_secret(path):
            self.found[path] = Mount(kind=MountKind.SYMLINK, source=real, target=path, why=why)

    def _add_target(self, real: str, why: str) -> None:
        folder = str(Path(real).parent)
        if self._is_prefix(folder, str(Path(folder).parent)):
            self.add_programs(folder, why)
        else:
            self.add(real, why)


def _read_interpreter(path: str) -> str | None:
    """Return the program that the first line of a script names."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - thousands of them, and pathlib is slow
            first = file.read(SHEBANG_BYTES).partition(b"\n")[0]
    except OSError:
        return None
    words = first[2:].split() if first.startswith(b"#!") else []
    return os.fsdecode(words[0]) if words and words[0].startswith(b"/") else None


def _can_leave_system(link: str) -> bool:
    """False for links to a neighbour or below /usr, as most links of the system are."""
    try:
        to = os.readlink(link)  # noqa: PTH115 - thousands of them, and pathlib is slow
    except OSError:
        return False
    if to.startswith("/etc/alternatives/"):
        with suppress(OSError):
            to = os.readlink(to)  # noqa: PTH115 - as above
    beside = "/" not in to or (to.startswith("../") and to.count("../") == 1 and link.startswith("/usr/"))
    return not (beside or to.startswith("/usr/"))


def _list_ancestors(path: str) -> Iterator[str]:
    while path not in ("", "/"):
        yield path
        path = path.rpartition("/")[0]
