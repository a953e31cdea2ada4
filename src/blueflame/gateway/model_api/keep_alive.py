"""A client that hears nothing for minutes takes the line for dead: claude 2.1.325 asks once more after six, then fails.

So whoever waits for a stream is given its beginning, and a word now and then that every client passes over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine

from blueflame.gateway.model_api.backoff import WaitTimes
from blueflame.gateway.model_api.call import ProviderCall
from blueflame.gateway.model_api.client import AgentConnection
from blueflame.gateway.model_api.errors import format_ping

EVENT_STREAM_HEADERS = (("content-type", b"text/event-stream"), ("cache-control", b"no-cache"))


async def wait_with_pings(
    waiting: Coroutine[object, object, None], call: ProviderCall, agent: AgentConnection, pace: WaitTimes
) -> None:
    """Wait, and keep the agent's client quiet meanwhile. One that wants no stream can be told nothing."""
    work = asyncio.ensure_future(waiting)
    try:
        while not work.done():
            quiet = pace.ping if agent.begun else max(0.0, call.began + pace.soothe - time.monotonic())
            await asyncio.wait((work,), timeout=quiet)
            if work.done():
                break
            if not agent.begun and not call.streams:
                await asyncio.wait((work,))
                break
            await _send_ping(call, agent)
        work.result()
    finally:
        work.cancel()


async def _send_ping(call: ProviderCall, agent: AgentConnection) -> None:
    if not agent.begun:
        agent.start_response(200, EVENT_STREAM_HEADERS, final=False)
    await agent.send_piece(format_ping(call.wire))
