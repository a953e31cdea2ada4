"""Check and list the mounts that the configuration names and those that the repository needs."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from blueflame.git.repository import list_object_folders
from blueflame.model.errors import Refused
from blueflame.model.sandbox import Mount, MountKind
from blueflame.model.settings.permissions import SandboxSettings
from blueflame.sandbox.bwrap import is_below
from blueflame.sandbox.mount_finder import find_system_folder
from blueflame.system.layout import STATE_FOLDER, find_person_state

KERNEL_FOLDERS = ("/proc", "/sys", "/dev", "/run", "/var/run")
SYSTEM_FOLDERS = ("/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/usr", *KERNEL_FOLDERS)
OBJECT_FOLDER = re.compile(r"[0-9a-f]{2}|pack|info|tmp_.*|.*\.lock")


def check_worktree(worktree: Path, home: Path) -> None:
    """Refuse a worktree that is more than a project: all of it is writable."""
    if not worktree.is_dir():
        raise Refused(f"{worktree} is not a folder; name the folder that the command may write to")
    check_place(worktree, home)


def check_place(worktree: Path, home: Path) -> None:
    """Refuse a place where no sandbox can have a worktree, be it there or not."""
    path = os.path.realpath(worktree)
    if path == "/" or is_below(os.path.realpath(home), path):
        raise Refused(
            f"{path} cannot be writable in a sandbox: it is more than a project; start in the project's folder"
        )
    if place := find_system_folder(path, SYSTEM_FOLDERS):
        raise Refused(
            f"{path} cannot be writable in a sandbox: {place} is the system's there. Move the project to another "
            "folder, for example in your home"
        )


def list_configured_mounts(
    settings: SandboxSettings, repo_root: Path | None, home: Path
) -> tuple[list[Mount], list[str]]:
    """Return the mounts of read_only and writable, and a note for each that does not exist."""
    mounts: list[Mount] = []
    notes: list[str] = []
    for kind, key, names in (
        (MountKind.RO, "read_only", settings.read_only),
        (MountKind.RW, "writable", settings.writable),
    ):
        for name in names:
            path = _expand_path(name, repo_root, home)
            _check_path(path, key, name, repo_root, home)
            if not os.path.lexists(path):
                notes.append(f"sandbox.{key}: {name} does not exist on this machine")
                continue
            real, why = os.path.realpath(path), f"sandbox.{key}"
            mounts += [Mount(kind=kind, source=real, target=each, why=why) for each in dict.fromkeys((path, real))]
    return mounts, notes


def _expand_path(name: str, repo_root: Path | None, home: Path) -> str:
    if name == "~" or name.startswith("~/"):
        return os.path.normpath(f"{home}/{name[1:]}")
    return os.path.normpath(Path(repo_root or Path.cwd()) / name)


def _check_path(path: str, key: str, name: str, repo_root: Path | None, home: Path) -> None:
    for place in dict.fromkeys((path, os.path.realpath(path))):
        problem = _find_problem(place, key, repo_root, Path(os.path.realpath(home)))
        if problem:
            raise Refused(f"sandbox.{key}: {name} cannot be mounted: {problem}; name only the folder that is needed")


def _find_problem(path: str, key: str, repo_root: Path | None, home: Path) -> str:
    if path == "/" or is_below(str(home), path):
        return "it is, or holds, your whole home"
    if find_system_folder(path, KERNEL_FOLDERS):
        return "it belongs to the kernel or to running services"
    if _is_special_file(path):
        return "it is a socket, a pipe or a device, which leads out of the sandbox"
    if STATE_FOLDER in path.split("/"):
        return "it belongs to Blue Flame itself"
    if key != "writable":
        return ""
    if find_system_folder(path, SYSTEM_FOLDERS) or path.count("/") < 2:
        return "it belongs to the system"
    ours = os.path.realpath(find_person_state(os.environ))
    if is_below(path, ours) or is_below(ours, path):
        return "it is, or holds, what you trust on this machine"
    if repo_root is not None and (is_below(str(repo_root), path) or is_below(path, f"{repo_root}/.git")):
        return "it is, or holds, the repository itself, which agents must not change"
    return ""


def _is_special_file(path: str) -> bool:
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISDIR(mode) or stat.S_ISREG(mode))


def list_object_mounts(objects: Path | None) -> Iterator[tuple[str, str]]:
    """List a repository's object folder and its alternates: real path and name."""
    for name in () if objects is None else list_object_folders(objects):
        if not _is_object_folder(Path(name)):
            raise Refused(
                f"{name} cannot be shown to agents: an alternates file of {objects} names it as a folder of git "
                "objects, and it holds other files, too. Move the objects to a folder of their own"
            )
        real = os.path.realpath(name)
        for target in dict.fromkeys((name, real)):
            yield real, target


def _is_object_folder(path: Path) -> bool:
    """An alternates file can name any folder, and all of it is shown."""
    return path.name == "objects" or all(OBJECT_FOLDER.fullmatch(each.name) for each in path.iterdir())
