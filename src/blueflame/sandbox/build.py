"""Build the sandbox of an agent, a setup or diagnostic command, or a person's own command, in one way for all."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import Refused
from blueflame.model.sandbox import (
    HOME,
    TMP,
    USER,
    Mount,
    MountKind,
    Network,
    ResourceLimits,
    SandboxLevel,
    SandboxSpec,
)
from blueflame.model.settings.permissions import SandboxSettings
from blueflame.sandbox.bwrap import arrange_mounts, find_nearest_mount, is_below
from blueflame.sandbox.environment import build_inner_environment
from blueflame.sandbox.extra_mounts import check_worktree, list_configured_mounts, list_object_mounts
from blueflame.sandbox.root_fs import list_system_mounts
from blueflame.sandbox.toolchains import Toolchains
from blueflame.system.environment import clean_environment
from blueflame.system.machine import measure_memory_share

UNPRIVILEGED_UID = 1000  # the uid inside when the caller is root: there is no root inside, not even by name
CHECKOUT_PARENTS = ("/work", "/workspace", "/checkout")  # the first in which nothing else of this machine is mounted


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxContext:
    """What all sandboxes of one repository share. `objects` is the main repository's: a checkout's own pointer to it
    can be written by the agent and is never read."""

    settings: SandboxSettings
    environ: Mapping[str, str]
    tools: Toolchains
    home: Path  # the person's
    repo_root: Path | None = None
    objects: Path | None = None
    common: Path | None = None  # for our own files, if sandboxes share them; else each has its own
    agents: int = 1  # that share the machine's memory


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRequest:
    """What one sandbox is for. `shown` files and folders are read-only at their own path; `frozen` files of the
    checkout cannot be changed, `hidden` ones cannot be seen; `pinned` if the sandbox is started more than once, so that
    no process inside can put a link on the way to a frozen file in between. `inside` is where the checkout is mounted
    (`choose_inner_path`); "": at its own path."""

    worktree: Path
    inside: str = ""
    folder: Path  # of the attempt: holds its home, its tmp and our files
    variables: Mapping[str, str] = field(default_factory=dict)
    shown: Sequence[Path] = ()
    frozen: Sequence[str] = ()
    hidden: Sequence[str] = ()
    pinned: bool = True
    hosts: Sequence[str] = ()  # in addition to those of the configuration
    registries: Sequence[str] = ()  # hosts for setup commands only
    home: Path | None = None  # its private home, if other sandboxes share it; else in `folder`
    setup: bool = False  # it runs a setup command: what is offline otherwise may use the registries
    watched: bool = False  # the hook server is reached on the loopback device


def build_sandbox(site: SandboxContext, wanted: SandboxRequest) -> SandboxSpec:
    """Raise Refused for a checkout or a setting that would defeat the sandbox."""
    settings = site.settings
    level = SandboxLevel(settings.level)
    worktree = Path(os.path.realpath(wanted.worktree))
    hosts = tuple(dict.fromkeys((*settings.allowed_hosts, *wanted.hosts)))
    check_worktree(worktree, site.home)
    if level is SandboxLevel.OFF:
        variables = clean_environment(site.environ, allow=settings.environment) | dict(wanted.variables)
        given = tuple(sorted(variables.items()))
        bounds = build_bounds(settings, site.agents)
        return SandboxSpec(
            level=level, cwd=str(worktree), network=Network.HOST, bounds=bounds, environment=given, seccomp=False
        )
    network = _choose_network(settings, wanted, hosts)
    wanted = replace(wanted, inside=wanted.inside or str(worktree))
    home = choose_home(site)
    asked, notes = list_configured_mounts(settings, site.repo_root, site.home)
    mounts = arrange_mounts((*_list_mounts(site, wanted, worktree, home, network), *asked))
    variables = build_inner_environment(
        site.environ,
        site.tools,
        allow=settings.environment,
        user=USER,
        home=home,
        real_home=site.home,
        inside=[mount.target for mount in mounts],
        online=bool(hosts or wanted.setup) or network is Network.HOST,
    )
    root = os.geteuid() == 0
    return SandboxSpec(
        level=level,
        cwd=wanted.inside,
        mounts=mounts,
        network=network,
        hosts=hosts if network is Network.DOORS else (),
        registries=tuple(wanted.registries) if network is Network.DOORS else (),
        bounds=build_bounds(settings, site.agents),
        environment=tuple(sorted((variables | dict(wanted.variables)).items())),
        links=() if hosts or wanted.registries else site.tools.links,  # a setup command fills its own folders
        uid=UNPRIVILEGED_UID if root else os.geteuid(),
        gid=UNPRIVILEGED_UID if root else os.getegid(),
        home=home,
        path=site.tools.path,
        notes=(*site.tools.notes, *notes),
    )


def choose_home(site: SandboxContext) -> str:
    return HOME if not is_below(str(site.home), HOME) else f"/home/{USER}-box"


def choose_inner_path(site: SandboxContext, worktree: Path) -> str:
    """Choose where a checkout is mounted: the same path for each checkout of a repository, because environments and
    build caches hold absolute paths, and without a dotted folder, below which some tools find no files. Without mounts
    it stays where it is."""
    real = os.path.realpath(worktree)
    if SandboxLevel(site.settings.level) is SandboxLevel.OFF:
        return real
    root = site.repo_root or Path(real)
    name = re.sub(r"[^\w.-]+", "-", root.name, flags=re.ASCII).strip(".-") or "project"
    asked, _ = list_configured_mounts(site.settings, site.repo_root, site.home)
    taken = [str(root), str(site.home), *(mount.target for mount in (*site.tools.mounts, *asked))]
    for place in (f"{parent}/{name}" for parent in CHECKOUT_PARENTS):
        if not any(is_below(each, place) or is_below(place, each) for each in taken):
            return place
    return real


def build_bounds(settings: SandboxSettings, agents: int) -> ResourceLimits:
    return ResourceLimits(
        cpu_seconds=settings.max_cpu_seconds,
        file_bytes=settings.max_file_size_mb << 20,
        open_files=settings.max_open_files,
        processes=settings.max_processes,
        memory_mb=settings.max_memory_mb or measure_memory_share(agents),
        min_free_disk_mb=settings.min_free_disk_mb,
    )


def _choose_network(settings: SandboxSettings, wanted: SandboxRequest, hosts: Sequence[str]) -> Network:
    if settings.allow_network:
        return Network.HOST
    return Network.DOORS if wanted.watched or hosts or wanted.registries else Network.NONE


def _find_files_folder(site: SandboxContext, folder: Path) -> Path:
    """Find the folder for our own files: not below home or tmp, which the sandbox can write to."""
    return Path(os.path.realpath(site.common)) if site.common is not None else folder / "box"


def _list_mounts(
    site: SandboxContext, wanted: SandboxRequest, worktree: Path, home: str, network: Network
) -> Iterator[Mount]:
    folder, inside = Path(os.path.realpath(wanted.folder)), wanted.inside
    system = list(list_system_mounts(_find_files_folder(site, folder), network=network is Network.HOST))
    yield from system
    if site.repo_root is not None and find_nearest_mount(str(site.repo_root), system) is not None:
        yield Mount(kind=MountKind.EMPTY, target=str(site.repo_root), why="the repository, in a folder of the system")
    private = Path(os.path.realpath(wanted.home)) if wanted.home is not None else folder / "home"
    yield Mount(kind=MountKind.RW, source=str(private), target=home, why="a private home, empty at first")
    for place in (TMP, "/var/tmp"):  # noqa: S108 - inside
        yield Mount(kind=MountKind.RW, source=str(folder / "tmp"), target=place, why="private temporary files")
    yield from site.tools.mounts
    for objects, target in list_object_mounts(site.objects):
        yield Mount(kind=MountKind.RO, source=objects, target=target, why="the repository's history")
    if site.repo_root is not None and not is_below(str(site.repo_root), str(worktree)):
        yield from _list_editable_mounts(site.tools, site.repo_root, inside)
        yield from _list_package_mounts(site.tools, site.repo_root, worktree, inside)
    yield Mount(kind=MountKind.RW, source=str(worktree), target=inside, why="the checkout")
    if inside == str(worktree) != str(wanted.worktree):
        named = os.path.abspath(wanted.worktree)  # noqa: PTH100 - resolve() would follow the links that make the name
        yield Mount(kind=MountKind.RW, source=str(worktree), target=named, why="the checkout")
    for shown in wanted.shown:
        yield Mount(kind=MountKind.RO, source=os.path.realpath(shown), target=str(shown), why="for the agent")
    yield from _list_frozen_mounts(wanted, worktree)
    yield from _list_hidden_mounts(wanted, worktree, _find_files_folder(site, folder))


def _list_editable_mounts(tools: Toolchains, repo_root: Path, inside: str) -> Iterator[Mount]:
    """Link what an environment has installed from the repository to the checkout."""
    taken = [mount.target for mount in tools.mounts]
    for name in tools.editable:
        names = [name] if name else sorted(each.name for each in repo_root.iterdir() if not each.name.startswith("."))
        for each in names:
            target = f"{repo_root}/{each}"
            if not any(is_below(place, target) or is_below(target, place) for place in (*taken, inside)):
                why = "installed from the repository, taken from the checkout"
                yield Mount(kind=MountKind.SYMLINK, source=f"{inside}/{each}", target=target, why=why)


def _list_package_mounts(tools: Toolchains, repo_root: Path, worktree: Path, inside: str) -> Iterator[Mount]:
    """Mount the repository's node_modules above a checkout that is below it outside, where node searches, too."""
    packages = next((mount for mount in tools.mounts if mount.target == f"{repo_root}/node_modules"), None)
    if packages is not None and inside != str(worktree) and is_below(str(worktree), str(repo_root)):
        yield replace(packages, target=f"{os.path.dirname(inside)}/node_modules")  # noqa: PTH120 - a path inside


def _list_frozen_mounts(wanted: SandboxRequest, worktree: Path) -> Iterator[Mount]:
    for name in sorted(set(wanted.frozen)):
        path = _find_plain_path(worktree, name)
        if path is None:
            continue
        between = [above for above in path.parents if above.is_relative_to(worktree) and above != worktree]
        for above in between if wanted.pinned else ():
            at = _map_inside(above, worktree, wanted.inside)
            yield Mount(kind=MountKind.RW, source=str(above), target=at, why="the checkout; kept in its place")
        at = _map_inside(path, worktree, wanted.inside)
        yield Mount(kind=MountKind.RO, source=str(path), target=at, why="not to be changed")


def _list_hidden_mounts(wanted: SandboxRequest, worktree: Path, files: Path) -> Iterator[Mount]:
    for name in sorted(set(wanted.hidden)):
        path = _find_plain_path(worktree, name)
        if path is None:
            continue
        at = _map_inside(path, worktree, wanted.inside)
        if path.is_dir():
            yield Mount(kind=MountKind.EMPTY, target=at, why="hidden")
        else:
            yield Mount(kind=MountKind.FILE, source=str(files / "empty"), target=at, why="hidden: empty inside")


def _map_inside(path: Path, worktree: Path, inside: str) -> str:
    return f"{inside}/{path.relative_to(worktree)}"


def _find_plain_path(worktree: Path, name: str) -> Path | None:
    """Return None if the path is missing or has a link on the way, which bubblewrap would follow out of the sandbox."""
    path = Path(os.path.normpath(worktree / name))
    if path == worktree or not path.is_relative_to(worktree):
        raise Refused(f"{name} is not in the checkout {worktree}; give a path relative to it")
    return path if os.path.lexists(path) and os.path.realpath(path) == str(path) else None
