"""Watch running workers for changes to the same file, before a merge would show them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import combinations
from pathlib import Path

from blueflame.git.batch import read_objects
from blueflame.git.blobs import read_blob_sizes
from blueflame.git.untrusted.live_changes import MAX_FILE_BYTES, IgnoreCache, LiveChange, LiveCheckout
from blueflame.model.attempt import Duty
from blueflame.model.errors import WorldError
from blueflame.model.event import Event
from blueflame.orchestrator.context import Emit, SessionContext
from blueflame.session.overlaps import FILE, classify_overlap, list_new_overlaps, order_by_start
from blueflame.session.state import Session

POLL_SECONDS = 3.0
REST_FACTOR = 20  # pause this many times as long as a poll took: agents need the machine more


class OverlapMonitor:
    """One per orchestrator. What the session has recorded is not reported again."""

    def __init__(self, context: Callable[[], SessionContext], session: Session, emit: Emit) -> None:
        self._context, self._session, self._emit = context, session, emit
        self._checkouts: dict[str, LiveCheckout] = {}
        self._unreadable: set[str] = set()  # attempts whose checkouts cannot be read
        self._ignored = IgnoreCache(context().repo)

    async def keep(self) -> None:
        """Run until cancelled."""
        rest = POLL_SECONDS
        while True:
            clock = self._context().clock
            await clock.sleep(rest)
            began = clock.monotonic()
            await self.poll()
            rest = max(POLL_SECONDS, REST_FACTOR * (clock.monotonic() - began))

    async def poll(self) -> None:
        names = self._list_workers()
        if len(names) < 2 or self._session.limits.on_overlap == "off":
            return
        touched = await asyncio.to_thread(self._find_changes, names)
        pairs = [order_by_start(self._session, pair) for pair in combinations(sorted(touched), 2)]
        events: list[Event] = []
        for first, later in pairs:
            common = _find_common(touched[first], touched[later])
            known = self._session.overlaps.get((first, later), {})
            if any(known.get(path, FILE) == FILE for path in common):
                found = await asyncio.to_thread(self._classify, first, later, common)
                live = first in self._session.live and later in self._session.live
                events += list_new_overlaps(self._session, (first, later), found) if live else ()
        if events:
            self._emit(events)

    def _list_workers(self) -> dict[str, tuple[Path, str]]:
        """Started workers, with their checkouts and the commits these were made from."""
        session = self._session
        makers = (name for name, attempt in session.live.items() if attempt.duty is Duty.MAKE)
        records = {name: session.attempts[name] for name in makers}
        self._checkouts = {name: seen for name, seen in self._checkouts.items() if name in records}
        self._unreadable &= set(records)
        return {
            name: (Path(record.worktree), record.base)
            for name, record in records.items()
            if record.worktree and record.base and not record.cancel_reason and name not in self._unreadable
        }

    def _find_changes(self, names: Mapping[str, tuple[Path, str]]) -> dict[str, dict[str, LiveChange]]:
        """Changed files by attempt. A checkout that cannot be read is skipped from then on; merging finds conflicts."""
        found: dict[str, dict[str, LiveChange]] = {}
        for name, (path, base) in names.items():
            try:
                if name not in self._checkouts:
                    self._checkouts[name] = LiveCheckout(self._context().repo, path, base, self._ignored)
                found[name] = self._checkouts[name].find_changes()
            except FileNotFoundError:  # it was just removed
                continue
            except (WorldError, OSError):
                self._unreadable.add(name)
        return found

    def _classify(self, first: str, later: str, common: Mapping[str, tuple[LiveChange, LiveChange]]) -> dict[str, str]:
        texts = self._read_bases({one.base for one, other in common.values() if one.base == other.base and one.base})
        one, two = self._checkouts[first], self._checkouts[later]
        found: dict[str, str] = {}
        for path, (here, there) in common.items():
            known = here.base == there.base and (not here.base or here.base in texts)
            base = texts.get(here.base)
            found[path] = classify_overlap(base, one.read_text(path), two.read_text(path)) if known else FILE
        return found

    def _read_bases(self, blobs: set[str]) -> Mapping[str, str]:
        with suppress(WorldError):
            sizes = read_blob_sizes(self._context().repo, sorted(blobs))
            small = {sha: size for sha, size in sizes.items() if size <= MAX_FILE_BYTES}
            read = read_objects(self._context().repo, small) if small else {}
            return {sha: data.decode("utf-8", "replace") for sha, data in read.items()}
        return {}


def _find_common(
    one: Mapping[str, LiveChange], other: Mapping[str, LiveChange]
) -> dict[str, tuple[LiveChange, LiveChange]]:
    """Files that both changed, and not to the same content."""
    shared = sorted(one.keys() & other.keys())
    return {path: (one[path], other[path]) for path in shared if one[path].now != other[path].now}
