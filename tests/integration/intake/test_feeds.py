"""Feeds: fetched from a real server, parsed in the real child, with a clock that the test advances."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path

import pytest

from blueflame.intake.feeds import FeedSource, parse_feed_body
from blueflame.intake.registry import build_sources
from blueflame.model.errors import ConfigError, Refused
from blueflame.model.house.arrival import Trust
from blueflame.model.settings.sources import SourceSettings
from blueflame.testing.clock import FakeClock
from support.feed_servers import (
    FeedServer,
    format_item,
    format_response,
    format_rss,
    run_feed_server,
)
from support.intakes import Killed, KilledDesk, build_source_context, open_intake

HALF_HOUR = 1_800.0


def build_feed(server: FeedServer, clock: FakeClock, path: str = "/feed", **changes: object) -> FeedSource:
    entry = {"name": "tech-news", "url": server.build_url(path), "repository": "app"} | changes
    feeds = {"feeds": [entry], "private_addresses": ["127.0.0.1"]}
    settings = SourceSettings.model_validate({"feeds": feeds, "plans": {"enabled": False}})
    (source,) = build_sources(settings, build_source_context(clock))
    assert isinstance(source, FeedSource)
    return source


def with_server(play: Callable[[FeedServer, FakeClock, KilledDesk], Coroutine[None, None, None]]) -> None:
    async def run() -> None:
        async with run_feed_server() as server:
            await play(server, FakeClock(), open_intake())

    asyncio.run(run())


def test_new_items_become_requests_that_never_start_work_by_themselves() -> None:
    async def play(server: FeedServer, clock: FakeClock, intake: KilledDesk) -> None:
        source = build_feed(server, clock, processor="changelog", notify_on_match={"keywords": ["AI", "LLM"]})
        server.pages["/feed"] = format_response(body=format_rss(format_item("old")))
        assert 0 < await source.step(intake) <= HALF_HOUR + 120
        assert intake.requests == []
        new = (
            format_item("v2", "AI release") + "<description>&lt;p&gt;Fixes&lt;script&gt;x&lt;/script&gt;</description>"
        )
        server.pages["/feed"] = format_response(body=format_rss(new, format_item("old")))
        clock.advance(HALF_HOUR + 120)
        await source.step(intake)
        (request,) = intake.requests
        assert request.sender.trust is Trust.FEED
        assert (request.title, request.matched, request.repository) == ("AI release", ("AI",), "app")
        assert request.origin == "https://example.com/v2"
        assert "release notes" in request.text
        assert "> Fixes" in request.text
        assert "script" not in request.text

    with_server(play)


def test_a_feed_is_fetched_only_when_it_is_due_and_with_its_validators() -> None:
    async def play(server: FeedServer, clock: FakeClock, intake: KilledDesk) -> None:
        server.pages["/feed"] = format_response(body=format_rss(), ETag='W/"1"', Last_Modified="Mon, 02 Feb 2026")
        await build_feed(server, clock).step(intake)
        clock.advance(60)
        await build_feed(server, clock).step(intake)  # the house was restarted
        assert len(server.requests) == 1
        server.pages["/feed"] = format_response(304)
        clock.advance(HALF_HOUR + 120)
        await build_feed(server, clock).step(intake)
        _, headers = server.requests[1]
        assert (headers["If-None-Match"], headers["If-Modified-Since"]) == ('W/"1"', "Mon, 02 Feb 2026")
        assert intake.warnings == []

    with_server(play)


def test_a_permanent_redirect_is_kept_and_a_gone_feed_is_not_fetched_again() -> None:
    async def play(server: FeedServer, clock: FakeClock, intake: KilledDesk) -> None:
        server.pages |= {"/feed": format_response(301, Location="/new"), "/new": format_response(body=format_rss())}
        source = build_feed(server, clock)
        await source.step(intake)
        server.pages["/new"] = format_response(410)
        for _ in range(3):
            clock.advance(HALF_HOUR + 120)
            await source.step(intake)
        assert [path for path, _ in server.requests] == ["/feed", "/new", "/new"]
        assert intake.warnings == [
            ("feeds/tech-news", "the feed has ended (410 Gone) and is not fetched again: remove it")
        ]

    with_server(play)


def test_a_server_that_asks_to_wait_is_left_alone() -> None:
    async def play(server: FeedServer, clock: FakeClock, intake: KilledDesk) -> None:
        server.pages["/feed"] = format_response(429, Retry_After="7200")
        source = build_feed(server, clock)
        assert await source.step(intake) == 7_200
        clock.advance(7_000)
        await source.step(intake)
        assert len(server.requests) == 1
        assert intake.warnings[0][1].partition(";")[0].endswith("answers with status 429")

    with_server(play)


def test_items_without_a_guid_and_a_feed_that_is_cut_off_are_read_as_far_as_possible() -> None:
    whole = format_rss("<title>One</title><link>https://example.com/1</link>", "<title>Two</title>")
    one, two = parse_feed_body(whole)
    assert (one.guid, one.link, two.link) == ("", "https://example.com/1", "")
    assert parse_feed_body(whole[:-60])[0].title == "One"


def test_no_more_than_500_items_are_read() -> None:
    assert len(parse_feed_body(format_rss(*(f"<guid>{n}</guid>" for n in range(2_000))))) == 500


def test_killed_between_fetch_and_receive_nothing_is_lost_and_nothing_comes_twice() -> None:
    async def play(server: FeedServer, clock: FakeClock, intake: KilledDesk) -> None:
        server.pages["/feed"] = format_response(body=format_rss(format_item("old")), ETag='"1"')
        await build_feed(server, clock).step(intake)
        server.pages["/feed"] = format_response(body=format_rss(format_item("new"), format_item("old")), ETag='"2"')
        clock.advance(HALF_HOUR + 120)
        for dies_in in (0, None, None):
            intake.dies_in = dies_in
            with suppress(Killed):
                await build_feed(server, clock).step(intake)
        assert [request.title for request in intake.requests] == ["new"]
        assert server.requests[2][1]["If-None-Match"] == '"1"'  # the validators did not outrun the items

    with_server(play)


def test_the_probe_says_what_a_feed_has_and_what_is_wrong_with_it() -> None:
    async def play(server: FeedServer, clock: FakeClock, _intake: KilledDesk) -> None:
        server.pages |= {"/feed": format_response(body=format_rss(format_item("a"))), "/page": format_response(500)}
        good, bad = await build_feed(server, clock).probe(), await build_feed(server, clock, "/page").probe()
        assert good.works
        assert good.text.startswith("1 item; next fetched at 2026-")
        assert not bad.works
        assert "status 500" in bad.text

    with_server(play)


FEEDS_FILE = """\
feeds:
  - name: "tech-news"
    url: "https://example.com/rss/tech.xml"
    poll_interval: "*/30 * * * *"   # Every 30 minutes
    processor: "summarize"          # How to handle
    notify_on_match:
      keywords: ["AI", "Claude", "LLM"]

  - name: "github-releases"
    url: "https://github.com/anthropics/claude-code/releases.atom"
    poll_interval: "0 */2 * * *"      # Every 2 hours
    processor: "changelog"
"""


def list_feeds(folder: Path, settings: object = None) -> list[str]:
    given = SourceSettings.model_validate({"feeds": settings or {}, "plans": {"enabled": False}})
    return [source.name for source in build_sources(given, build_source_context(FakeClock(), folder))]


def test_the_feeds_file_is_read_beside_house_yaml(tmp_path: Path) -> None:
    assert list_feeds(tmp_path) == []
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "rss.feeds.yml").write_text(FEEDS_FILE)
    assert list_feeds(tmp_path) == ["feeds/tech-news", "feeds/github-releases"]


def test_every_problem_of_the_feeds_file_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "feeds.yml").write_text(FEEDS_FILE.replace("https://example", "http://example").replace("*/2", "*/x"))
    with pytest.raises(ConfigError) as failed:
        list_feeds(tmp_path, {"file": "feeds.yml"})
    assert [problem.split(":")[1] for problem in failed.value.problems] == ["3", "11"]
    with pytest.raises(ConfigError, match=r"there is no other.yml"):
        list_feeds(tmp_path, {"file": "other.yml"})
    (tmp_path / "feeds.yml").write_text(FEEDS_FILE)
    twice = {"file": "feeds.yml", "feeds": [{"name": "tech-news", "url": "https://example.com"}]}
    with pytest.raises(ConfigError, match="tech-news is given twice"):
        list_feeds(tmp_path, twice)


def test_without_the_parser_feeds_are_refused_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "feedparser", None)
    (tmp_path / "feeds.yml").write_text(FEEDS_FILE)
    with pytest.raises(Refused, match=r"pip install 'blueflame\[feeds\]'"):
        list_feeds(tmp_path, {"file": "feeds.yml"})
