"""RSS and Atom: each new item is a request that a person decides about."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from blueflame.config.house import load_feeds
from blueflame.dispatch.feeds import (
    FeedItem,
    FeedState,
    dump_state,
    find_keywords,
    find_poll_time,
    format_item_request,
    format_time,
    is_due,
    parse_state,
    record_failure,
    record_success,
    take_new_items,
)
from blueflame.intake import parse_feed
from blueflame.intake.fetch import FetchedPage, FetchFailed, PageFetcher
from blueflame.intake.source import Clock, Intake, SourceContext, SourceProbe, parse_cursor, repeat_steps
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import ConfigError, ProcessFailed, Refused
from blueflame.model.house.arrival import IncomingRequest, Sender, Trust
from blueflame.model.settings.sources import FeedSettings, SourceSettings
from blueflame.system.process import run_capped
from blueflame.text.format import format_count
from blueflame.text.sanitize import clean_line, shorten_line

KIND = "feeds"
PARSE_TIMEOUT = 60.0  # its own limit is CPU time; this one is for a machine that is very busy
MAX_PARSED_BYTES = 16_000_000
ROOT_ELEMENT = re.compile(rb"<(rss|feed|rdf:RDF)\b", re.IGNORECASE)
OK, NOT_MODIFIED, GONE = 200, 304, 410


def parse_feed_body(body: bytes) -> tuple[FeedItem, ...]:
    """Parse in a child process with limits. Raises FetchFailed."""
    root = ROOT_ELEMENT.search(body)
    if b"<!ENTITY" in body[: root.start() if root else None]:  # the limits would end it, too, after seconds
        raise FetchFailed("the feed declares entities, which only attacks do; it is not parsed")
    argv = (sys.executable, "-I", "-m", parse_feed.__name__)
    try:
        done = run_capped(*argv, cwd=Path("/"), env={}, stdin=body, max_bytes=MAX_PARSED_BYTES, timeout=PARSE_TIMEOUT)
        found = json.loads(done.out) if done.code == 0 and not done.truncated else None
    except (ProcessFailed, ValueError):
        found = None
    if found is None:
        raise FetchFailed("the feed could not be parsed within the limits of time and memory")
    if not found["version"]:
        raise FetchFailed("the page is not a feed; correct the address")
    return tuple(FeedItem(**item) for item in found["items"])


@dataclass(frozen=True, slots=True)
class FeedSource:
    settings: FeedSettings
    repository: str
    fetcher: PageFetcher
    clock: Clock

    @property
    def name(self) -> str:
        return f"{KIND}/{self.settings.name}"

    async def run(self, intake: Intake) -> None:
        await repeat_steps(self.step, intake, self.clock)

    async def step(self, intake: Intake) -> float:
        """Fetch when it is due. The new items and the state in which they are seen are one transaction."""
        state = parse_state(parse_cursor(intake.read_cursor(self.name)), self.settings.url)
        if state.is_gone:
            return 3_600.0
        if is_due(state, self.settings.poll_interval, self.settings.name, self.clock.now()):
            arrivals, state = await self._poll(intake, state)
            intake.receive(self.name, arrivals, cursor=json.dumps(dump_state(state)))
        return max(1.0, state.next_at - self.clock.now())

    async def _poll(self, intake: Intake, state: FeedState) -> tuple[list[IncomingRequest], FeedState]:
        now = self.clock.now()
        next_at = find_poll_time(self.settings.poll_interval, self.settings.name, now)
        page = None
        try:
            page = await self._fetch(state)
            if page.status == GONE:
                intake.warn(self.name, "the feed has ended (410 Gone) and is not fetched again: remove it")
                return [], replace(state, is_gone=True)
            if page.status == NOT_MODIFIED:
                return [], replace(state, failures=0, next_at=next_at)
            if page.status != OK:
                raise self._build_status_error(page.status)
            items = await asyncio.to_thread(parse_feed_body, page.body)
        except FetchFailed as error:
            retry_after = page.headers.get("retry-after", "") if page and page.status in (429, 503) else ""
            state = record_failure(state, now, next_at, retry_after)
            intake.warn(self.name, str(error))
            return [], state
        new, state = take_new_items(state, items)
        state = record_success(state, page.headers, page.moved_to, next_at)
        return [self._build_request(key, item, now) for key, item in new], state

    async def _fetch(self, state: FeedState) -> FetchedPage:
        validators = {"If-None-Match": state.etag, "If-Modified-Since": state.modified}
        return await self.fetcher.fetch(state.url, {name: value for name, value in validators.items() if value})

    def _build_request(self, key: str, item: FeedItem, now: float) -> IncomingRequest:
        settings = self.settings
        return IncomingRequest(
            source=KIND,
            key=f"{settings.name}:{key}",
            sender=Sender(name=settings.name, trust=Trust.FEED, address=f"feed:{settings.name}"),
            at=now,
            text=format_item_request(item, settings.name, settings.processor),
            repository=self.repository,
            title=shorten_line(item.title or item.link, 120),
            origin=clean_line(item.link),
            matched=find_keywords(item, settings.notify_on_match.keywords),
        )

    def _build_status_error(self, status: int) -> FetchFailed:
        fix = "the feed has ended: remove it" if status == GONE else "correct the address, or wait until it works again"
        return FetchFailed(f"{self.settings.url.partition('?')[0]} answers with status {status}; {fix}")

    async def probe(self) -> SourceProbe:
        try:
            page = await self._fetch(FeedState(url=self.settings.url))
            if page.status != OK:
                raise self._build_status_error(page.status)
            items = await asyncio.to_thread(parse_feed_body, page.body)
        except FetchFailed as error:
            return SourceProbe(False, str(error))
        at = find_poll_time(self.settings.poll_interval, self.settings.name, self.clock.now())
        return SourceProbe(True, f"{format_count(len(items), 'item')}; next fetched at {format_time(at)}")


def build_feed_sources(settings: SourceSettings, context: SourceContext) -> tuple[FeedSource, ...]:
    feeds = [*_read_feeds_file(settings, context.folder), *settings.feeds.feeds]
    if twice := next((feed.name for feed in feeds if [each.name for each in feeds].count(feed.name) > 1), None):
        raise ConfigError("the feeds cannot be used:", [f"the name {twice} is given twice; give each its own"])
    if feeds and find_spec("feedparser") is None:
        raise Refused("feeds need feedparser: pip install 'blueflame[feeds]'")
    fetcher = PageFetcher(private=settings.feeds.private_addresses)
    return tuple(
        FeedSource(
            feed,
            context.find_repository(feed.repository or settings.feeds.repository, f"the feed {feed.name}"),
            fetcher,
            context.clock,
        )
        for feed in feeds
    )


def _read_feeds_file(settings: SourceSettings, folder: Path) -> Iterable[FeedSettings]:
    path = folder / settings.feeds.file
    if "file" not in settings.feeds.model_fields_set and not path.exists():
        return ()
    return load_feeds(path).feeds
