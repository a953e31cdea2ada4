"""What must be true before a session starts; every reason at once."""

from __future__ import annotations

from collections.abc import Iterator

from blueflame.model.errors import Refused
from blueflame.model.settings import Settings
from blueflame.tools.capacity import room_at
from blueflame.tools.git.repository import Repository, dirty_paths, tracked_size
from blueflame.tools.places import Places

HEADROOM = 2  # a checkout grows: build output, dependencies
SHOWN = 10


def refuse_if_unfit(repo: Repository, places: Places, settings: Settings, *, allow_dirty: bool) -> None:
    reasons = tuple(unfit_reasons(repo, places, settings, allow_dirty=allow_dirty))
    if reasons:
        raise Refused("\n".join([f"a session cannot start in {repo.root}:", *(f"  - {reason}" for reason in reasons)]))


def unfit_reasons(repo: Repository, places: Places, settings: Settings, *, allow_dirty: bool) -> Iterator[str]:
    yield from _dirt(repo, places, allow_dirty)
    yield from _room(repo, places, settings)
    yield from _not_writable(places)


def _dirt(repo: Repository, places: Places, allow_dirty: bool) -> Iterator[str]:
    ours = (".blueflame", str(places.worktrees.name))
    dirty = () if allow_dirty else dirty_paths(repo, ignore=ours)
    if dirty:
        more = f" and {len(dirty) - SHOWN} more" if len(dirty) > SHOWN else ""
        yield (
            f"the checkout is not clean: {', '.join(dirty[:SHOWN])}{more}; agents start from what is committed. "
            "Commit or stash it, or use --allow-dirty to leave it as it is"
        )


def _room(repo: Repository, places: Places, settings: Settings) -> Iterator[str]:
    needed = tracked_size(repo, repo.base_sha) * settings.concurrency.development * HEADROOM
    free = room_at(places.worktrees).disk
    if needed > free:
        yield (
            f"not enough disk for {settings.concurrency.development} checkouts: about {needed >> 20} MB are needed, "
            f"{free >> 20} MB are free; lower concurrency.development or make room"
        )


def _not_writable(places: Places) -> Iterator[str]:
    try:
        places.worktrees.mkdir(parents=True, exist_ok=True)
        probe = places.worktrees / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        yield f"the worktree folder {places.worktrees} cannot be written: {error.strerror}"
