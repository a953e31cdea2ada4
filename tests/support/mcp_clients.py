"""Clients of the MCP server: the SDK's own, in both eras of the protocol, with a person who answers or does not."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from mcp import types
from mcp.client import Client
from mcp.client.session import ClientRequestContext

from blueflame.cli.commands.mcp import draw_gate
from blueflame.mcp.served import Served
from blueflame.mcp.server import build_server
from blueflame.system.process import BackgroundProcess

ERAS = ("legacy", "auto")
"""`initialize`, and the protocol of 2026-07-28."""

PATIENCE = 60.0
NAME = types.Implementation(name="prüfer\x1b[31m", version="1")
T = TypeVar("T")


class Person:
    """Answers each dialog with the next of the planned answers, and keeps what was asked."""

    def __init__(self, *answers: types.ElicitResult) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def answer(self, context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked.append(params.message)
        return self.answers.pop(0)


def choose(choice: str, note: str = "") -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"choice": choice, "note": note})


class Conversation:
    def __init__(self, client: Client, served: Served) -> None:
        self.client, self.served = client, served

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """Call a tool that succeeds; return its structured result."""
        done = await self.client.call_tool(tool, arguments)
        assert not done.is_error, done.content
        assert isinstance(done.structured_content, dict)
        return done.structured_content

    async def fail(self, tool: str, **arguments: object) -> str:
        """Call a tool that fails; return what it says."""
        done = await self.client.call_tool(tool, arguments)
        assert done.is_error, done.structured_content
        return "".join(part.text for part in done.content if isinstance(part, types.TextContent))

    async def read(self, uri: str) -> Any:  # noqa: ANN401 (parsed JSON)
        (part,) = (await self.client.read_resource(uri)).contents
        assert isinstance(part, types.TextResourceContents)
        return json.loads(part.text)

    async def until(self, state: str) -> dict[str, Any]:
        """Poll the status as a client does, until it shows the state."""
        async with asyncio.timeout(PATIENCE):
            while state not in str(found := await self.call("status")):
                await asyncio.sleep(0.05)
        return found


@asynccontextmanager
async def connect(
    config: Path | None, call_log: Path, *, era: str = "auto", person: Person | None = None
) -> AsyncIterator[Conversation]:
    """Connect a client to a server in this process. What it starts is stopped at the end."""
    served = Served(config=config, environ=dict(os.environ), draw_gate=draw_gate)
    server = build_server(served, call_log)
    callback = person.answer if person else None
    try:
        async with Client(server, mode=era, client_info=NAME, elicitation_callback=callback) as client:
            yield Conversation(client, served)
    finally:
        for child in served.children:
            _end(child)


def _end(child: BackgroundProcess) -> None:
    child.terminate()
    if not child.wait(PATIENCE):
        child.kill_group()


def converse(story: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(story, PATIENCE * 2))


def read_calls(call_log: Path) -> Iterator[dict[str, Any]]:
    yield from (json.loads(line) for line in call_log.read_text(encoding="utf-8").splitlines())
