"""Check what must be true before a session starts; all problems are reported at once."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from blueflame.git.command import try_git
from blueflame.git.repository import Repository, find_dirty_paths, measure_tree
from blueflame.git.secret_scan import find_scanner, read_allow_list
from blueflame.model.errors import BlueFlameError, Refused
from blueflame.model.settings import Settings
from blueflame.orchestrator.foreground_sandbox import find_sandbox_problems
from blueflame.sandbox.extra_mounts import check_place
from blueflame.system.disk import FULL_BELOW_BYTES
from blueflame.system.layout import STATE_FOLDER, ProjectPaths
from blueflame.system.machine import measure_free

CHECKOUT_GROWTH = 2  # a checkout grows: build output, dependencies
MAX_PATHS = 10


def check_repository(
    repo: Repository, places: ProjectPaths, settings: Settings, *, allow_dirty: bool, config: Path | None = None
) -> None:
    raise_refusal(repo, tuple(find_blockers(repo, places, settings, allow_dirty=allow_dirty, config=config)))


def raise_refusal(repo: Repository, reasons: Sequence[str]) -> None:
    """Raise Refused with every reason, if there are any."""
    begin = f"a session cannot start in {repo.root}:"
    if len(reasons) == 1:
        raise Refused(f"{begin} {reasons[0]}")
    if reasons:
        raise Refused("\n".join([begin, *(f"  - {reason}" for reason in reasons)]))


def find_blockers(
    repo: Repository, places: ProjectPaths, settings: Settings, *, allow_dirty: bool, config: Path | None = None
) -> Iterator[str]:
    """`config` is the file in use: while it is untracked, as after `blueflame init`, the checkout counts as clean."""
    if (wanted := settings.project.base_branch) != repo.base_branch:
        yield f"the base branch {wanted} does not exist; name one with --base, or correct project.base_branch"
    yield from () if allow_dirty else _check_clean(repo, places, config)
    yield from find_foreign_state(repo, places)
    yield from _check_disk(repo, places, settings)
    yield from _check_writable(places)
    yield from _check_sandbox(places, settings)
    yield from _check_allow_file(repo, settings)


def find_memory_warnings(places: ProjectPaths, settings: Settings) -> Iterator[str]:
    """Warn when memory is short: no reason to refuse, but to be known before agents cost money."""
    concurrency = settings.concurrency
    free, each = measure_free(places.worktrees).memory >> 20, concurrency.adaptive_min_ram_per_agent_mb
    if concurrency.adaptive and free < each * concurrency.development:
        yield (
            f"{free:,} MB of memory are free, {concurrency.development} workers with {each:,} MB each are configured: "
            "fewer are started at once (see concurrency.adaptive_min_ram_per_agent_mb)"
        )


def _check_sandbox(places: ProjectPaths, settings: Settings) -> Iterator[str]:
    """Without its sandbox, a session does not start."""
    level = settings.sandbox.level
    try:
        check_place(places.worktrees, Path.home())
    except Refused as error:
        yield str(error)
    for problem in find_sandbox_problems(level):
        yield f"the sandbox cannot hold level {level}: {problem.words}"


def _check_allow_file(repo: Repository, settings: Settings) -> Iterator[str]:
    secrets = settings.validation.secrets
    try:
        if secrets.enabled:
            read_allow_list(repo, repo.base_sha, secrets.allow_file)
            find_scanner(secrets)
    except BlueFlameError as error:
        yield str(error)


def _check_clean(repo: Repository, places: ProjectPaths, config: Path | None) -> Iterator[str]:
    ours = (STATE_FOLDER, *_relative_to_repo(repo, places.worktrees))
    dirty = find_dirty_paths(repo, ignore=(*ours, *_list_untracked(repo, config)))
    if dirty:
        more = f" and {len(dirty) - MAX_PATHS} more" if len(dirty) > MAX_PATHS else ""
        yield (
            f"the checkout is not clean: {', '.join(dirty[:MAX_PATHS])}{more}; agents start from what is committed. "
            "Commit or stash it, or use --allow-dirty to leave it as it is"
        )


def _list_untracked(repo: Repository, config: Path | None) -> tuple[str, ...]:
    names = _relative_to_repo(repo, config.parent.resolve() / config.name) if config else ()
    return tuple(name for name in names if _is_untracked(repo, name))


def _is_untracked(repo: Repository, name: str) -> bool:
    return try_git(repo.root, "ls-files", "--error-unmatch", "--", f":(literal,top){name}").code != 0


def _relative_to_repo(repo: Repository, path: Path) -> tuple[str, ...]:
    return (path.relative_to(repo.root).as_posix(),) if path.is_relative_to(repo.root) else ()


def refuse_foreign_state(repo: Repository, places: ProjectPaths) -> None:
    raise_refusal(repo, tuple(find_foreign_state(repo, places)))


def find_foreign_state(repo: Repository, places: ProjectPaths) -> Iterator[str]:
    """A repository must not bring its own memory, prices or journal, nor links that lead our files elsewhere."""
    if try_git(repo.root, "ls-files", "-z", "--", f":(icase,top){STATE_FOLDER}").out:
        yield (
            f"git tracks files in {STATE_FOLDER}, which only Blue Flame writes: what is there is not trusted. "
            f"Remove them with `git rm -r {STATE_FOLDER}` and commit; with --cached only if they are your own"
        )
    for path in (places.worktrees, places.tasks_file):
        for name in _list_links(repo, path):
            yield f"git tracks {name}, a link to {(repo.root / name).resolve()}, where {path.name} would be: remove it"


def _list_links(repo: Repository, path: Path) -> Iterator[str]:
    """List the links on the way to a path that the repository brings; one that a person made is theirs."""
    inside = _relative_to_repo(repo, path)
    for name in (part.as_posix() for each in inside for part in (Path(each), *Path(each).parents)):
        if (repo.root / name).is_symlink() and not _is_untracked(repo, name):
            yield name


def _check_disk(repo: Repository, places: ProjectPaths, settings: Settings) -> Iterator[str]:
    trees = measure_tree(repo, repo.base_sha) * settings.concurrency.development * CHECKOUT_GROWTH
    free, spare = measure_free(places.worktrees).disk, settings.sandbox.min_free_disk_mb
    if free >> 20 < spare:
        yield (
            f"the disk is nearly full: {free >> 20} MB are free in {places.worktrees}, {spare} MB must stay free; "
            "free space, or lower sandbox.min_free_disk_mb"
        )
    if (needed := max(trees, FULL_BELOW_BYTES)) > free:
        yield (
            f"not enough disk for {settings.concurrency.development} checkouts: "
            f"about {-(-needed >> 20)} MB are needed, {free >> 20} MB are free in {places.worktrees}; "
            "lower concurrency.development or make room"
        )


def _check_writable(places: ProjectPaths) -> Iterator[str]:
    """Tried with a temporary file in the nearest existing folder, so that a check changes nothing."""
    try:
        nearest = next(folder for folder in (places.worktrees, *places.worktrees.parents) if folder.exists())
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        yield f"the worktree folder {places.worktrees} cannot be written: {error.strerror}"
