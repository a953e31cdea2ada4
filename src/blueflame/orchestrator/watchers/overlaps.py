"""Watch running workers for changes to the same file, long before a merge would show them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import combinations
from pathlib import Path

from blueflame.git.blobs import read_blob_sizes, read_blobs
from blueflame.git.live_changes import MAX_FILE_BYTES, IgnoreCache, LiveChange, LiveCheckout
from blueflame.model.attempt import WORKER
from blueflame.model.errors import WorldError
from blueflame.model.event import Event
from blueflame.orchestrator.context import Emit, SessionContext
from blueflame.session.overlaps import FILE, classify_overlap, list_new_overlaps, order_by_start
from blueflame.session.state import Session

POLL_SECONDS = 3.0  # seconds
REST_FACTOR = 20  # it rests so many times as long as it looked: agents need the machine more


class OverlapWatcher:
    """One per orchestrator. An event is in the session soon after, so it is reported once."""

    def __init__(self, context: Callable[[], SessionContext], session: Session, emit: Emit) -> None:
        self._context, self._session, self._emit = context, session, emit
        self._checkouts: dict[str, LiveCheckout] = {}
        self._beyond: set[str] = set()  # attempts whose checkouts cannot be looked at
        self._ignored = IgnoreCache(context().repo)

    async def keep(self) -> None:
        """Until cancelled."""
        rest = POLL_SECONDS
        while True:
            clock = self._context().clock
            await clock.sleep(rest)
            began = clock.monotonic()
            await self.look()
            rest = max(POLL_SECONDS, REST_FACTOR * (clock.monotonic() - began))

    async def look(self) -> None:
        names = self._at_work()
        if len(names) < 2 or self._session.limits.on_overlap == "off":
            return
        touched = await asyncio.to_thread(self._touched, names)
        pairs = [order_by_start(self._session, pair) for pair in combinations(sorted(touched), 2)]
        events: list[Event] = []
        for first, later in pairs:
            common = _find_common(touched[first], touched[later])
            known = self._session.overlaps.get((first, later), {})
            if any(known.get(path, FILE) == FILE for path in common):
                found = await asyncio.to_thread(self._nearness, first, later, common)
                live = first in self._session.live and later in self._session.live
                events += list_new_overlaps(self._session, (first, later), found) if live else ()
        if events:
            self._emit(events)

    def _at_work(self) -> dict[str, tuple[Path, str]]:
        """Workers that have started, with their checkouts and what these are made from."""
        session = self._session
        records = {name: session.attempts[name] for name, attempt in session.live.items() if attempt.role == WORKER}
        self._checkouts = {name: seen for name, seen in self._checkouts.items() if name in records}
        self._beyond &= set(records)
        return {
            name: (Path(record.worktree), record.base)
            for name, record in records.items()
            if record.worktree and record.base and not record.cancel_reason and name not in self._beyond
        }

    def _touched(self, names: Mapping[str, tuple[Path, str]]) -> dict[str, dict[str, LiveChange]]:
        """A checkout that cannot be looked at is left alone from then on: the walls behind this one still stand."""
        found: dict[str, dict[str, LiveChange]] = {}
        for name, (path, base) in names.items():
            try:
                if name not in self._checkouts:
                    self._checkouts[name] = LiveCheckout(self._context().repo, path, base, self._ignored)
                found[name] = self._checkouts[name].find_changes()
            except FileNotFoundError:  # it has just been cleared away
                continue
            except (WorldError, OSError):
                self._beyond.add(name)
        return found

    def _nearness(self, first: str, later: str, common: Mapping[str, tuple[LiveChange, LiveChange]]) -> dict[str, str]:
        texts = self._bases({one.base for one, other in common.values() if one.base == other.base and one.base})
        one, two = self._checkouts[first], self._checkouts[later]
        found: dict[str, str] = {}
        for path, (here, there) in common.items():
            known = here.base == there.base and (not here.base or here.base in texts)
            base = texts.get(here.base)
            found[path] = classify_overlap(base, one.read_text(path), two.read_text(path)) if known else FILE
        return found

    def _bases(self, blobs: set[str]) -> Mapping[str, str]:
        with suppress(WorldError):
            sizes = read_blob_sizes(self._context().repo, sorted(blobs))
            small = {sha: size for sha, size in sizes.items() if size <= MAX_FILE_BYTES}
            read = read_blobs(self._context().repo, small) if small else {}
            return {sha: data.decode("utf-8", "replace") for sha, data in read.items()}
        return {}


def _find_common(
    one: Mapping[str, LiveChange], other: Mapping[str, LiveChange]
) -> dict[str, tuple[LiveChange, LiveChange]]:
    return dict(_find_shared(one, other))


def _find_shared(
    one: Mapping[str, LiveChange], other: Mapping[str, LiveChange]
) -> Iterator[tuple[str, tuple[LiveChange, LiveChange]]]:
    """What both changed, and not to the same."""
    for path in sorted(one.keys() & other.keys()):
        if one[path].now != other[path].now:
            yield path, (one[path], other[path])
