"""A client that hears nothing for minutes takes the line for dead: claude 2.1.325 asks once more after six, then fails.

So whoever waits for a stream is given its beginning, and a word now and then that every client passes over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine

from blueflame.gateway.model_api.backoff import Pace
from blueflame.gateway.model_api.call import Call
from blueflame.gateway.model_api.client import Agent
from blueflame.gateway.model_api.errors import ping_of

EVENTS = (("content-type", b"text/event-stream"), ("cache-control", b"no-cache"))


async def soothed(waiting: Coroutine[object, object, None], call: Call, agent: Agent, pace: Pace) -> None:
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
            await _ping(call, agent)
        work.result()
    finally:
        work.cancel()


async def _ping(call: Call, agent: Agent) -> None:
    if not agent.begun:
        agent.begin(200, EVENTS, final=False)
    await agent.say(ping_of(call.wire))
