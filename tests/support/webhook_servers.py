"""The server for webhooks of a house, and calls to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

from blueflame.intake.registry import build_sources
from blueflame.intake.source import Intake
from blueflame.intake.webhooks import WebhookSource
from blueflame.model.settings.sources import SourceSettings
from blueflame.testing.clock import FakeClock
from support.intakes import build_source_context
from support.webhook_calls import SECRET, SIGNING_SECRET

HOOKS = [
    {"name": "app", "forge": "github", "project": "acme/app", "secret_from": "GITHUB_SECRET", "repository": "app"},
    {"name": "lab", "forge": "gitlab", "project": "acme/app", "secret_from": "GITLAB_SECRET"},
]


def build_webhooks(clock: FakeClock, listen: str = "127.0.0.1:0", **environment: str) -> WebhookSource:
    webhooks = {"enabled": True, "listen": listen, "hooks": HOOKS}
    settings = SourceSettings.model_validate({"webhooks": webhooks, "plans": {"enabled": False}})
    secrets = environment or {"GITHUB_SECRET": SECRET, "GITLAB_SECRET": SIGNING_SECRET}
    (source,) = build_sources(settings, build_source_context(clock, environment=secrets))
    assert isinstance(source, WebhookSource)
    return source


@asynccontextmanager
async def run_webhooks(intake: Intake, clock: FakeClock) -> AsyncIterator[WebhookSource]:
    source = build_webhooks(clock)
    task = asyncio.create_task(source.run(intake))
    await source.listening.wait()
    try:
        yield source
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def send(source: WebhookSource, data: bytes) -> str:
    """Return the answer to raw bytes, of which the sender keeps its side open."""
    reader, writer = await asyncio.open_connection(source.host, source.port)
    try:
        writer.write(data)
        return (await reader.read()).decode()
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def call_hook(source: WebhookSource, path: str, body: bytes, headers: Mapping[str, str]) -> str:
    """Return the whole answer."""
    lines = {"Host": "x", "Content-Length": str(len(body))} | dict(headers)
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return await send(source, f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
