"""Find what a project's commands need from the machine: interpreters, versions, packages.

Everything is mounted read-only at its own path, so that paths in a virtual environment or a shim stay valid.
"""

# ruff: noqa: PTH110, PTH112, PTH113 (os.path returns False where pathlib raises: in folders without permission)
from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path

from blueflame.lazy_dataclass import dataclass
from blueflame.model.sandbox import Mount
from blueflame.sandbox.bwrap import is_below
from blueflame.sandbox.mount_finder import MountFinder
from blueflame.sandbox.root_fs import list_system_mounts
from blueflame.sandbox.toolchain_table import CERTIFICATE_VARIABLES, TOOLCHAIN_FOLDERS, ToolchainFolder

VENV_FOLDERS = (".venv", "venv", "env", ".tox", ".nox")
SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
EDITABLE_PATTERNS = ("*.pth", "__editable__*.py", "*.egg-link")
MAX_TEXT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchains:
    mounts: tuple[Mount, ...] = ()
    path: tuple[str, ...] = SYSTEM_PATH
    variables: Mapping[str, str] = field(default_factory=dict)  # for read-only folders
    links: tuple[tuple[str, str], ...] = ()  # in the private home: name and target
    editable: tuple[str, ...] = ()  # folders of the repository that an environment has installed in place
    notes: tuple[str, ...] = ()


def find_toolchains(
    environ: Mapping[str, str], *, repo_root: Path | None, home: Path, ours: bool = False
) -> Toolchains:
    """`ours`: also the Python that runs Blue Flame, for scripted agents. Takes about 20 ms: keep the result."""
    finder = MountFinder(home, list_system_mounts(Path("/"), network=False))
    environments = list(_find_environments(environ, repo_root))
    for known in TOOLCHAIN_FOLDERS:
        _add_toolchain(finder, known, environ, home)
    for environment in environments:
        _add_environment(finder, environment)
    if repo_root is not None:
        _add_node_modules(finder, repo_root)
    if ours:
        _add_own_python(finder)
    _add_certificates(finder, environ)
    path = tuple(_build_path(finder, environ.get("PATH", ""), repo_root))
    for folder in SYSTEM_PATH[:4]:
        finder.follow_all(folder)
    return Toolchains(
        mounts=tuple(finder.found.values()),
        path=path,
        variables=dict(_list_variables(finder, environ, home)),
        links=tuple(_list_links(finder, environ, home)),
        editable=tuple(_find_editable(environments, repo_root)) if repo_root else (),
        notes=tuple(dict.fromkeys(finder.notes)),
    )


def _find_environments(environ: Mapping[str, str], repo_root: Path | None) -> Iterator[Path]:
    active = environ.get("VIRTUAL_ENV", "")
    folders = [Path(active)] if active.startswith("/") else []
    folders += [repo_root / name for name in VENV_FOLDERS] if repo_root else []
    for folder in dict.fromkeys(folders):
        if os.path.isfile(folder / "pyvenv.cfg"):
            yield folder
        elif folder.name in (".tox", ".nox") and os.path.isdir(folder):
            yield from sorted(each.parent for each in folder.glob("*/pyvenv.cfg"))


def _add_environment(finder: MountFinder, folder: Path) -> None:
    """Add it with the Python it was made from."""
    finder.add(folder, "the project's virtual environment")
    for line in _read_text(folder / "pyvenv.cfg").splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "home" and value.strip().startswith("/"):
            base = os.path.realpath(value.strip())
            if not finder.is_inside(base):
                finder.add_programs(base, "the Python of the virtual environment")
    finder.follow_all(str(folder / "bin"))


def _add_toolchain(finder: MountFinder, known: ToolchainFolder, environ: Mapping[str, str], home: Path) -> None:
    for folder in _list_folders(known, environ, home):
        if known.marks and not any(_find_first(folder, mark) for mark in known.marks):
            continue
        for part in known.parts:
            shown = folder / part if part else folder
            if os.path.exists(shown):
                finder.add(shown, known.why)


def _list_folders(known: ToolchainFolder, environ: Mapping[str, str], home: Path) -> Iterator[Path]:
    for name in known.folders:
        if name.startswith("$"):
            value = environ.get(name[1:], "")
            if value.startswith("/"):
                yield Path(os.path.normpath(value))
        else:
            yield home / name


def _add_node_modules(finder: MountFinder, repo_root: Path) -> None:
    """Node searches the folders above, so a checkout below the repository finds these packages."""
    folder = repo_root / "node_modules"
    if os.path.isdir(folder) and finder.add(folder, "the project's packages, for checkouts without their own"):
        finder.follow_all(str(folder / ".bin"))


def _add_own_python(finder: MountFinder) -> None:
    finder.add_programs(str(Path(sys.executable).parent), "runs scripted agents")
    for prefix in (sys.prefix, sys.base_prefix):
        finder.add(prefix, "runs scripted agents")
    finder.follow(sys.executable)
    finder.add(Path(__file__).parents[1] / "agents", "the scripted agent")


def _add_certificates(finder: MountFinder, environ: Mapping[str, str]) -> None:
    for name in CERTIFICATE_VARIABLES:
        path = environ.get(name, "")
        if path.startswith("/") and not finder.is_inside(os.path.normpath(path)) and os.path.isfile(path):
            text = _read_text(Path(path))
            if "CERTIFICATE-----" in text and "PRIVATE KEY" not in text:
                finder.add(path, f"certificates that ${name} names")


def _build_path(finder: MountFinder, written: str, repo_root: Path | None) -> Iterator[str]:
    """Keep the person's PATH, without entries that other users can write to or that do not exist inside."""
    kept: list[str] = []
    for entry in dict.fromkeys(written.split(os.pathsep)):
        problem = _find_path_problem(entry, finder, repo_root)
        if problem:
            finder.notes.append(f"PATH: {entry or 'an empty entry'} is left out: {problem}")
        elif os.path.isdir(entry):
            folder = os.path.normpath(entry)
            if not finder.is_inside(folder):
                finder.add_programs(folder, "programs on your PATH")
            if finder.is_inside(folder):
                finder.follow_all(folder)
                kept.append(folder)
    yield from dict.fromkeys((*kept, *SYSTEM_PATH))


def _find_path_problem(entry: str, finder: MountFinder, repo_root: Path | None) -> str:
    if not entry.startswith("/"):
        return "it is not absolute"
    try:
        mode = Path(entry).stat().st_mode
    except OSError:
        return ""  # does not exist
    if mode & stat.S_IWOTH:
        return "every user can write to it"
    if (
        repo_root
        and is_below(os.path.normpath(entry), str(repo_root))
        and not finder.is_inside(os.path.normpath(entry))
    ):
        return "it is in the repository: only the checkout exists inside"
    return ""


def _list_variables(finder: MountFinder, environ: Mapping[str, str], home: Path) -> Iterator[tuple[str, str]]:
    """Point tools that would search the private home to the read-only folders."""

    def at(variable: str, default: str, part: str = "") -> str | None:
        folder = environ.get(variable, "")
        path = os.path.normpath(Path(folder if folder.startswith("/") else home / default) / part)
        return path if finder.is_inside(path) else None

    if rustup := at("RUSTUP_HOME", ".rustup", "toolchains"):
        yield "RUSTUP_HOME", str(Path(rustup).parent)
    if pyenv := at("PYENV_ROOT", ".pyenv"):
        yield "PYENV_ROOT", pyenv
    if modules := at("GOMODCACHE", "go/pkg/mod") or at("GOPATH", "go", "pkg/mod"):
        yield "GOPROXY", f"file://{modules}/cache/download"
        yield "GOSUMDB", "off"  # go.sum still holds; the checksum server cannot be reached
    if os.path.isdir(home / ".local/lib") and finder.is_inside(str(home / ".local/lib")):
        yield "PYTHONUSERBASE", str(home / ".local")
    if maven := at("", ".m2/repository"):
        yield "MAVEN_ARGS", f"-Dmaven.repo.local.tail={maven}"
    if at("", ".gradle/caches/modules-2"):
        yield "GRADLE_RO_DEP_CACHE", str(home / ".gradle/caches")
    if nuget := at("", ".nuget/packages"):
        yield "NUGET_FALLBACK_PACKAGES", nuget
    for variable, default in (("PLAYWRIGHT_BROWSERS_PATH", ".cache/ms-playwright"), ("VOLTA_HOME", ".volta")):
        if place := at(variable, default):
            yield variable, place


def _list_links(finder: MountFinder, environ: Mapping[str, str], home: Path) -> Iterator[tuple[str, str]]:
    cargo = environ.get("CARGO_HOME", "")
    for part in ("registry", "git"):
        place = str((Path(cargo) if cargo.startswith("/") else home / ".cargo") / part)
        if finder.is_inside(place):
            yield f".cargo/{part}", place


def _find_editable(environments: Iterable[Path], repo_root: Path) -> Iterator[str]:
    """Find the repository's folders that editable installs lead to; inside they lead to the checkout."""
    root = str(repo_root)
    named = re.compile(re.escape(root) + r"(/[^'\"\n\r;]*)?(?=['\"\n\r;]|$)")
    found = set()
    for folder in environments:
        for pattern in EDITABLE_PATTERNS:
            for note in sorted(folder.glob(f"lib/python3*/site-packages/{pattern}")):
                found |= {os.path.normpath(match[1] or "/").strip("/") for match in named.finditer(_read_text(note))}
    yield from sorted(found)


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MAX_TEXT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _find_first(folder: Path, pattern: str) -> Path | None:
    try:
        return next(folder.glob(pattern), None)
    except PermissionError:
        return None
