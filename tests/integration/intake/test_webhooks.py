"""The server for webhooks, called over loopback."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from blueflame.intake.registry import build_sources
from blueflame.intake.webhooks import WebhookSource
from blueflame.model.errors import ConfigError, WorldError
from blueflame.model.settings.sources import SourceSettings
from blueflame.testing.clock import FakeClock
from support.intakes import KilledDesk, build_source_context, open_intake
from support.webhook_calls import (
    SECRET,
    build_github_issue,
    build_gitlab_note,
    dump_call,
    sign_github,
    sign_gitlab,
)
from support.webhook_servers import HOOKS, build_webhooks, call_hook, run_webhooks, send


def with_webhooks(play: Callable[[WebhookSource, KilledDesk], Coroutine[None, None, None]]) -> None:
    async def run() -> None:
        intake, clock = open_intake(), FakeClock()
        async with run_webhooks(intake, clock) as source:
            await play(source, intake)
        await asyncio.sleep(0)

    asyncio.run(run())


def test_genuine_calls_are_received_before_they_are_answered() -> None:
    async def play(source: WebhookSource, intake: KilledDesk) -> None:
        issue = dump_call(build_github_issue())
        note = dump_call(build_gitlab_note())
        assert (await call_hook(source, "/hooks/app", issue, sign_github(issue))).startswith("HTTP/1.1 202 ")
        assert (await call_hook(source, "/hooks/lab", note, sign_gitlab(note, source.clock.now()))).startswith(
            "HTTP/1.1 202 "
        )
        assert [request.key for request in intake.requests] == ["github:acme/app#12", "gitlab:acme/app#12/55"]

    with_webhooks(play)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /hooks/app HTTP/1.1\r\n\r\n", 405),
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"POST /hooks/../app HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 404),
        (b"POST /hooks/app HTTP/1.1\r\n\r\n", 411),
        (b"POST /hooks/app HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (b"POST /hooks/app HTTP/1.1\r\nContent-Length: 1000001\r\n\r\n", 413),
        (b"POST /hooks/app HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
        (b"POST /hooks/app HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
        (b"POST /hooks/app HTTP/1.1\r\n" + b"X: y\r\n" * 20_000, 431),
    ],
)
def test_what_is_not_a_call_gets_its_status(data: bytes, status: int) -> None:
    async def play(source: WebhookSource, intake: KilledDesk) -> None:
        assert (await send(source, data)).startswith(f"HTTP/1.1 {status} ")
        assert intake.requests == []

    with_webhooks(play)


def test_a_caller_that_never_finishes_is_hung_up_on_and_others_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blueflame.intake.webhooks.READ_TIMEOUT", 0.5)

    async def play(source: WebhookSource, intake: KilledDesk) -> None:
        body = dump_call(build_github_issue())
        slow = asyncio.create_task(send(source, b"POST /hooks/app HTTP/1.1\r\n"))
        assert (await call_hook(source, "/hooks/app", body, sign_github(body))).startswith("HTTP/1.1 202 ")
        with suppress(OSError):
            assert await slow == ""

    with_webhooks(play)


def test_what_cannot_be_stored_is_not_acknowledged() -> None:
    async def play(source: WebhookSource, intake: KilledDesk) -> None:
        body = dump_call(build_github_issue())
        intake.journal.close()
        assert (await call_hook(source, "/hooks/app", body, sign_github(body))).startswith("HTTP/1.1 503 ")

    with_webhooks(play)


def test_without_secrets_or_hooks_nothing_is_served() -> None:
    with pytest.raises(ConfigError, match="secret_from: the environment variable GITHUB_SECRET is not set"):
        build_webhooks(FakeClock(), GITLAB_SECRET="x")
    settings = SourceSettings.model_validate({"webhooks": {"enabled": True}})
    with pytest.raises(ConfigError, match="hooks is empty"):
        build_sources(settings, build_source_context(FakeClock()))
    disabled = SourceSettings.model_validate({"webhooks": {"hooks": HOOKS}, "plans": {"enabled": False}})
    assert build_sources(disabled, build_source_context(FakeClock())) == ()


def test_the_probe_knows_a_free_port_our_own_and_that_of_another() -> None:
    async def play(source: WebhookSource, intake: KilledDesk) -> None:
        ours = await source.probe()
        assert (ours.works, "the house listens" in ours.text) == (True, True)
        free = build_webhooks(FakeClock())
        assert (await free.probe()).works
        with socket.create_server(("127.0.0.1", 0)) as other:
            taken = build_webhooks(FakeClock(), f"127.0.0.1:{other.getsockname()[1]}")
            probed = await taken.probe()
            assert not probed.works
            assert "choose another port" in probed.text
            with pytest.raises(WorldError, match="choose another port"):
                await taken.run(intake)

    with_webhooks(play)


def test_secrets_are_in_no_text() -> None:
    source: Any = build_webhooks(FakeClock())
    assert SECRET not in repr(source)
