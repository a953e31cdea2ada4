"""Puts what a box needs into the attempt's folder, and says how it is to be started."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from blueflame.model.errors import Refused, WorldError
from blueflame.model.sandbox import TMP, MountKind, SandboxLevel, SandboxSpec
from blueflame.sandbox import seccomp
from blueflame.sandbox.bwrap import build_bwrap_argv, build_rlimits, build_seatbelt_profile, is_below
from blueflame.sandbox.probe import find_bubblewrap
from blueflame.sandbox.root_fs import build_own_files, copy_settings, write_file
from blueflame.system.files import build_file_error

IS_MACOS = sys.platform == "darwin"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedSandbox:
    """For launch.json."""

    sandbox: Mapping[str, Any] | None  # None at level off
    env: Mapping[str, str]
    limits: Mapping[str, int]
    memory_mb: int
    processes: int
    min_free_disk_mb: int
    mounts: Mapping[str, str]  # where the private places inside are outside

    def build_launch_keys(self) -> dict[str, Any]:
        """The keys of launch.json that are about the box; env and limits are the order's own."""
        numbers = {
            "memory_mb": self.memory_mb,
            "processes": self.processes,
            "min_free_disk_mb": self.min_free_disk_mb,
        }
        return {**({"sandbox": dict(self.sandbox)} if self.sandbox else {}), **numbers}


def prepare_sandbox(box: SandboxSpec, folder: Path) -> PreparedSandbox:
    """May be done again after a crash: what is there stays, what is ours is written anew."""
    folder = Path(os.path.realpath(folder))
    try:
        sandbox = None if box.level is SandboxLevel.OFF else _prepare_walls(box, folder)
    except OSError as e:
        raise build_file_error("prepare the sandbox in", folder, e) from e
    return PreparedSandbox(
        sandbox=sandbox,
        env=_build_environment(box, folder),
        limits=build_rlimits(box.bounds),
        memory_mb=box.bounds.memory_mb,
        processes=box.bounds.processes,
        min_free_disk_mb=box.bounds.min_free_disk_mb,
        mounts={} if sandbox is None else {box.home: str(folder / "home"), TMP: str(folder / "tmp")},
    )


def _prepare_walls(box: SandboxSpec, folder: Path) -> dict[str, Any]:
    for place in (folder / "home", folder / "tmp"):
        _make_private_folder(place)
    _make_links(box, folder / "home")
    _make_mount_points(box)
    files = next(Path(mount.source).parent for mount in box.mounts if mount.target == "/etc")
    if not (files / "ready").exists():
        _write_files.cache_clear()
    _write_files(files, tuple(_list_etc_mounts(box)), user=box.user, uid=box.uid, gid=box.gid, home=box.home)
    if IS_MACOS:
        profile = folder / "profile.sb"
        write_file(profile, build_seatbelt_profile(box).encode())
        return {"argv": ["/usr/bin/sandbox-exec", "-f", str(profile)], "seccomp": None, "net": box.network.value}
    argv = list(build_bwrap_argv(box, find_bubblewrap()))
    return {"argv": argv, "seccomp": _find_filter(files) if box.seccomp else None, "net": box.network.value}


@lru_cache(maxsize=16)
def _write_files(
    files: Path, mounted: tuple[tuple[str, bool], ...], *, user: str, uid: int, gid: int, home: str
) -> None:
    """Our own etc and the filter, once in the life of a process: it takes longer than the box itself."""
    _make_private_folder(files)
    write_file(files / "empty", b"")
    write_file(files / "filter.bpf", seccomp.build_program(platform.machine()) if _has_filter() else b"")
    for name, text in build_own_files(user=user, uid=uid, gid=gid, home=home).items():
        write_file(files / "etc" / name, text.encode())
    copy_settings(files / "etc")
    for name, is_folder in mounted:
        place = files / "etc" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        _make_mount_point(place, is_folder=is_folder)
    write_file(files / "ready", b"")


def _list_etc_mounts(box: SandboxSpec) -> Iterator[tuple[str, bool]]:
    for mount in box.mounts:
        if mount.target.startswith("/etc/"):
            yield mount.target.removeprefix("/etc/"), _is_folder(mount.kind, mount.source)


def _has_filter() -> bool:
    return platform.machine().lower() in seccomp.ARCHITECTURES


def _find_filter(files: Path) -> str:
    if not _has_filter():
        raise Refused(
            f"there is no filter of system calls for {platform.machine()} machines yet; "
            "write `sandbox: {level: off}` into blueflame.yaml if you accept agents without walls"
        )
    return str(files / "filter.bpf")


def _build_environment(box: SandboxSpec, folder: Path) -> dict[str, str]:
    env = dict(box.environment)
    if IS_MACOS and box.level is not SandboxLevel.OFF:  # no mounts there: the private places are where they are
        env |= {"HOME": str(folder / "home"), **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(folder / "tmp"))}
    return env


def _make_private_folder(place: Path) -> None:
    """Ours alone: what an agent writes there is no business of other people on the machine."""
    place.mkdir(parents=True, exist_ok=True)
    if not stat.S_ISDIR(place.lstat().st_mode):
        raise WorldError(f"{place} is not a folder, but something in its place; remove it and start again")
    place.chmod(0o700)


def _make_links(box: SandboxSpec, home: Path) -> None:
    for name, to in box.links:
        at = home / name
        if _is_clear(home, at.parent) and not os.path.lexists(at):
            at.parent.mkdir(parents=True, exist_ok=True)
            at.symlink_to(to)


def _is_clear(home: Path, folder: Path) -> bool:
    """No link on the way that an agent has put there in an earlier life of the box."""
    return os.path.realpath(folder) == str(folder) and folder.is_relative_to(home)


def _make_mount_points(box: SandboxSpec) -> None:
    """In places that the box can write to, before anybody inside can put a link there (sandbox/bwrap.arranged)."""
    writable = [mount for mount in box.mounts if mount.kind is MountKind.RW and mount.source != mount.target]
    for mount in box.mounts:
        for above in writable:
            rest = mount.target[len(above.target) :].strip("/")
            if mount.target != above.target and is_below(mount.target, above.target) and "/" not in rest:
                _make_mount_point(Path(above.source, rest), is_folder=_is_folder(mount.kind, mount.source))


def _is_folder(kind: MountKind, source: str) -> bool:
    return kind in (MountKind.EMPTY, MountKind.TMPFS) or Path(source).is_dir()


def _make_mount_point(path: Path, *, is_folder: bool) -> None:
    if not os.path.lexists(path):
        path.mkdir() if is_folder else path.touch()
    mode = path.lstat().st_mode
    if not (stat.S_ISDIR(mode) if is_folder else stat.S_ISREG(mode)):
        raise WorldError(f"{path} must be a plain {'folder' if is_folder else 'file'}; remove it and start again")


@contextmanager
def make_temporary_folder() -> Iterator[Path]:
    """Ours alone, and gone at the end. Not tempfile's own: before Python 3.11.8 its removal changes the permissions of
    whatever a link in there leads to."""
    folder = Path(tempfile.mkdtemp(prefix="blueflame-"))
    try:
        yield folder
    finally:
        remove_tree(folder)


def remove_tree(folder: Path) -> None:
    """Also folders that were made unwritable; links are removed, not followed."""
    for place, names, _ in os.walk(folder, onerror=None):
        for name in names:
            below = Path(place, name)
            if not below.is_symlink():
                with suppress(OSError):
                    below.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)
