"""Write what a sandbox needs to the attempt's folder, and build its keys of launch.json; remove it afterwards."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import Refused, WorldError
from blueflame.model.sandbox import TMP, MountKind, SandboxLevel, SandboxSpec
from blueflame.sandbox import seccomp
from blueflame.sandbox.bwrap import build_bwrap_argv, build_rlimits, is_below
from blueflame.sandbox.probe import find_bubblewrap
from blueflame.sandbox.root_fs import build_own_files, copy_settings, write_file
from blueflame.system.files import explain_file_errors

BUILDING = Lock()  # agents are prepared in threads, and share the files of the sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedSandbox:
    """The sandbox's part of launch.json."""

    sandbox: Mapping[str, Any] | None  # None at level off
    env: Mapping[str, str]
    limits: Mapping[str, int]
    memory_mb: int
    processes: int
    min_free_disk_mb: int
    mounts: Mapping[str, str]  # private folders and the checkout: path inside to path outside

    def build_launch_keys(self) -> dict[str, Any]:
        """Return the sandbox's keys of launch.json; env and limits belong to the order."""
        numbers = {
            "memory_mb": self.memory_mb,
            "processes": self.processes,
            "min_free_disk_mb": self.min_free_disk_mb,
        }
        return {**({"sandbox": dict(self.sandbox)} if self.sandbox else {}), **numbers}


def prepare_sandbox(spec: SandboxSpec, folder: Path) -> PreparedSandbox:
    """Idempotent, also after a crash: our own files are rewritten, everything else stays."""
    folder = Path(os.path.realpath(folder))
    with explain_file_errors("prepare the sandbox in", folder):
        sandbox = None if spec.level is SandboxLevel.OFF else _prepare_walls(spec, folder)
    return PreparedSandbox(
        sandbox=sandbox,
        env=dict(spec.environment),
        limits=build_rlimits(spec.bounds),
        memory_mb=spec.bounds.memory_mb,
        processes=spec.bounds.processes,
        min_free_disk_mb=spec.bounds.min_free_disk_mb,
        mounts={} if sandbox is None else _list_writable_folders(spec, folder),
    )


def _list_writable_folders(spec: SandboxSpec, folder: Path) -> dict[str, str]:
    checkout = next((mount.source for mount in spec.mounts if mount.target == spec.cwd), spec.cwd)
    return {spec.home: str(_find_home(spec, folder)), TMP: str(folder / "tmp"), spec.cwd: checkout}


def _prepare_walls(spec: SandboxSpec, folder: Path) -> dict[str, Any]:
    home = _find_home(spec, folder)
    for place in (home, folder / "tmp"):
        _make_private_folder(place)
    _make_links(spec, home)
    _make_mount_points(spec)
    files = next(Path(mount.source).parent for mount in spec.mounts if mount.target == "/etc")
    mounted = tuple(
        (mount.target.removeprefix("/etc/"), _is_folder(mount.kind, mount.source))
        for mount in spec.mounts
        if mount.target.startswith("/etc/")
    )
    with BUILDING:
        if not (files / "ready").exists():
            _write_files.cache_clear()
        _write_files(files, mounted, user=spec.user, uid=spec.uid, gid=spec.gid, home=spec.home)
    argv = list(build_bwrap_argv(spec, find_bubblewrap()))
    return {"argv": argv, "seccomp": _find_filter(files) if spec.seccomp else None, "net": spec.network.value}


@lru_cache(maxsize=16)
def _write_files(
    files: Path, mounted: tuple[tuple[str, bool], ...], *, user: str, uid: int, gid: int, home: str
) -> None:
    """Write our own etc and the filter once per process: it takes longer than the sandbox itself."""
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


def _has_filter() -> bool:
    return platform.machine().lower() in seccomp.ARCHITECTURES


def _find_filter(files: Path) -> str:
    if not _has_filter():
        raise Refused(
            f"the sandbox is unavailable: there is no seccomp filter for {platform.machine()}; "
            "write `sandbox: {level: off}` into blueflame.yaml if you accept agents without a sandbox"
        )
    return str(files / "filter.bpf")


def _find_home(spec: SandboxSpec, folder: Path) -> Path:
    """Find the folder that is the home inside; several sandboxes may share one."""
    return next((Path(mount.source) for mount in spec.mounts if mount.target == spec.home), folder / "home")


def _make_private_folder(place: Path) -> None:
    """Make a folder that other users of the machine cannot read."""
    place.mkdir(parents=True, exist_ok=True)
    if not stat.S_ISDIR(place.lstat().st_mode):
        raise WorldError(f"{place} is not a folder: remove it and start again")
    place.chmod(0o700)


def _make_links(spec: SandboxSpec, home: Path) -> None:
    for name, to in spec.links:
        at = home / name
        # an agent may have put a link on the way in an earlier start of the sandbox
        clear = os.path.realpath(at.parent) == str(at.parent) and at.parent.is_relative_to(home)
        if clear and not os.path.lexists(at):
            at.parent.mkdir(parents=True, exist_ok=True)
            at.symlink_to(to)


def _make_mount_points(spec: SandboxSpec) -> None:
    """Create them before a process inside can put a link there (bwrap.arrange_mounts)."""
    writable = [mount for mount in spec.mounts if mount.kind is MountKind.RW and mount.source != mount.target]
    for mount in spec.mounts:
        for above in writable:
            rest = mount.target[len(above.target) :].strip("/")
            if mount.target != above.target and is_below(mount.target, above.target) and "/" not in rest:
                _make_mount_point(Path(above.source, rest), is_folder=_is_folder(mount.kind, mount.source))


def _is_folder(kind: MountKind, source: str) -> bool:
    return kind in (MountKind.EMPTY, MountKind.TMPFS) or Path(source).is_dir()


def _make_mount_point(path: Path, *, is_folder: bool) -> None:
    if not os.path.lexists(path):
        path.mkdir(exist_ok=True) if is_folder else path.touch()
    mode = path.lstat().st_mode
    if not (stat.S_ISDIR(mode) if is_folder else stat.S_ISREG(mode)):
        raise WorldError(f"{path} is not a plain {'folder' if is_folder else 'file'}: remove it and start again")


@contextmanager
def make_temporary_folder() -> Iterator[Path]:
    """Make a private folder and remove it at the end. tempfile.TemporaryDirectory before Python 3.11.8 changes the
    permissions of link targets when it removes them.
    """
    folder = Path(tempfile.mkdtemp(prefix="blueflame-"))
    try:
        yield folder
    finally:
        remove_tree(folder)


def remove_tree(folder: Path) -> None:
    """Also remove folders that are not writable; links are removed, not followed."""
    for place, names, _ in os.walk(folder, onerror=None):
        for name in names:
            below = Path(place, name)
            if not below.is_symlink():
                with suppress(OSError):
                    below.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)
