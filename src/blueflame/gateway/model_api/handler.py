"""One call to a model: token, endpoint, budget, the provider (again and again if need be), the answer, the record."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from blueflame.billing.usage import reader_for
from blueflame.gateway.access_log import Entry
from blueflame.gateway.model_api.backoff import GaveUp, Lot, Pace
from blueflame.gateway.model_api.budget import Flight, Purse
from blueflame.gateway.model_api.call import Call
from blueflame.gateway.model_api.client import READ_ON_AT_THE_END, Agent, Left, listening
from blueflame.gateway.model_api.connections import Connections, Unreachable
from blueflame.gateway.model_api.endpoints import TABLE, Kind, Route
from blueflame.gateway.model_api.errors import Denied, answer_of, body_of, error_event
from blueflame.gateway.model_api.failures import NETWORK, Trouble, is_trouble, trouble_of
from blueflame.gateway.model_api.keep_alive import EVENTS, soothed
from blueflame.gateway.model_api.request import check_token, prepared, request_of
from blueflame.gateway.model_api.request_body import read_body
from blueflame.gateway.model_api.response import Answer, Broken, whole_body
from blueflame.gateway.model_api.status_events import Teller
from blueflame.gateway.model_api.streaming import Copy, pass_on
from blueflame.gateway.model_api.usage_log import Ledger, Prices
from blueflame.gateway.model_options import ModelOrders
from blueflame.gateway.relay import Patience, Side, say
from blueflame.gateway.request import Head

if TYPE_CHECKING:
    from blueflame.gateway.cassette.file import Player, Recorder

LARGEST_ERROR = 64 * 1024
HERE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
JSON = (("content-type", b"application/json"),)


class Door:
    """What the gateway serves its agent's calls to a model with. Made inside the running loop."""

    def __init__(
        self,
        orders: ModelOrders,
        ledger: Ledger,
        attempt: str,
        teller: Teller,
        *,
        patience: Patience,
        pace: Pace | None = None,
    ) -> None:
        self._orders = orders
        self._ledger = ledger
        self._patience = patience
        self._prices = Prices(orders)
        self._purse = Purse(orders.budgets, self._prices, teller)
        self._pace = pace or Pace()
        self._lot = Lot(orders, attempt, teller, self._pace)
        self._connections = Connections(patience, tls=any(api.upstream.tls for api in orders.apis.values()))
        self._closes = False
        self._agents: set[Agent] = set()
        self._calls: set[Call] = set()
        self._recorder, self._player = _cassettes(orders)

    async def close(self) -> None:
        """The attempt ends: who waits leaves, who is being answered has a moment to say what it used."""
        self._closes = True
        for agent in list(self._agents):
            agent.leave(READ_ON_AT_THE_END)
        give_up = time.monotonic() + 2 * READ_ON_AT_THE_END  # each of them has its own limit; none may keep us
        while self._calls and time.monotonic() < give_up:
            await asyncio.sleep(0.005)
        self._connections.close()

    async def answer(self, head: Head, route: Route, client: Side, entry: Entry) -> None:
        entry.kind, entry.details = "model", ""
        try:
            await self._serve(head, route, client, entry)
        except Denied as e:
            entry.note("block", e.rule, e.words)
            await say(client, answer_of(route.api, e.status, e.words), self._patience)

    async def _serve(self, head: Head, route: Route, client: Side, entry: Entry) -> None:
        kind = route.endpoint.kind if route.endpoint is not None else None
        if kind is Kind.OURS:
            entry.note("allow", "page", "")
            await say(client, HERE, self._patience)
            return
        check_token(head, route, self._orders.token)
        api = self._orders.apis.get(route.api)
        if api is None or kind is None:
            raise Denied(404, "no_such_endpoint", _unknown(route, head, known=api is not None))
        entry.host, entry.port = api.upstream.host, api.upstream.port
        asked = await read_body(client, head)
        body = prepared(route, asked) if kind is Kind.METERED else asked
        flight = Flight(asked, route.model)
        call = Call(route=route, head=head, api=api, asked=asked, body=body, flight=flight, entry=entry)
        entry.up = len(asked)
        entry.note("allow", route.api, "")
        async with listening(client, head.version, self._agents) as agent:
            if self._closes:
                agent.leave(0.0)
            await (self._meter(call, agent) if kind is Kind.METERED else self._pass(call, agent))
            entry.down = agent.down

    async def _meter(self, call: Call, agent: Agent) -> None:
        if self._ledger.problem:
            raise Denied(403, "record_full", f"nothing more can be let through: {self._ledger.problem}")
        self._calls.add(call)
        try:
            if not self._purse.admits(call.flight):
                await agent.unless_it_leaves(self._purse.admit(call.flight))
            await self._pass(call, agent)
        except Denied as e:
            call.status, call.refused = e.status, e.rule
            raise
        except Left:
            call.refused = "left"  # before it was its turn
        finally:
            self._settle(call)
            self._calls.discard(call)

    async def _pass(self, call: Call, agent: Agent) -> None:
        """Ask, wait and ask again until there is an answer to pass on, or no patience left."""
        try:
            if self._player is not None:
                await self._replay(call, agent)
            else:
                await self._ask_on(call, agent)
        except GaveUp as e:
            call.refused = "gave_up"
            call.entry.note("error", e.trouble.kind, e.trouble.reason)
            await self._pass_error(call, agent, e.trouble)
        except Left:
            call.entry.details = "cut off: the agent went away, or its attempt ended"
            agent.cut()
        except Broken as e:
            call.entry.details = f"cut off: {e}"
            agent.cut()
        except Denied as e:
            if not agent.begun:
                raise
            call.status, call.refused = e.status, e.rule
            await self._pass_late_error(call, agent, b"", e.words)
        finally:
            self._lot.leave(call.stay)

    async def _ask_on(self, call: Call, agent: Agent) -> None:
        while True:
            if not self._lot.is_clear():
                await self._wait(call, agent, self._lot.clear_road(call.stay))
            async with agent.leash():
                found = await self._try(call)
                if isinstance(found, Answer):
                    self._lot.leave(call.stay)
                    await self._pass_answer(call, agent, found)
                    return
            await self._wait(call, agent, self._lot.wait(call.stay, found))

    async def _wait(self, call: Call, agent: Agent, waiting: Coroutine[object, object, None]) -> None:
        try:
            await agent.unless_it_leaves(soothed(waiting, call, agent, self._pace))
        except Left:
            call.refused = "parked"
            raise

    async def _try(self, call: Call) -> Answer | Trouble:
        request = request_of(call.head, call.route, call.api, call.body)
        call.tries += 1
        call.status, call.sent_at = 0, time.time()
        try:
            answer = await self._connections.ask(call.api.upstream, request, call.head.method)
        except Unreachable as e:
            return Trouble(NETWORK, str(e))
        call.status = answer.status
        if not is_trouble(answer.status):
            return answer
        return trouble_of(answer, await self._whole(call, answer), time.time())

    async def _whole(self, call: Call, answer: Answer) -> bytes:
        """Of an error, as far as it comes."""
        try:
            async with asyncio.timeout(self._patience.idle):
                body = await whole_body(answer, LARGEST_ERROR)
        except (OSError, TimeoutError):
            answer.side.writer.transport.abort()
            return b""
        except asyncio.CancelledError:
            answer.side.writer.transport.abort()
            raise
        self._connections.keep(call.api.upstream, answer)
        return body

    async def _pass_answer(self, call: Call, agent: Agent, answer: Answer) -> None:
        call.first_byte = time.monotonic()
        if answer.status < 400:
            self._lot.got_through(call.sent_at)
        if agent.begun and not (answer.status == 200 and answer.value("content-type").startswith("text/event-stream")):
            body = await self._whole(call, answer)
            await self._pass_late_error(call, agent, body, f"the provider answered {answer.status}")
            return
        if not agent.begun:
            agent.begin(answer.status, answer.headers, final=False)
        copy = self._copy(call, answer.value("content-encoding").lower())
        try:
            await pass_on(answer.pieces(), agent, copy, self._patience.idle)
        except BaseException:
            answer.side.writer.transport.abort()
            raise
        self._connections.keep(call.api.upstream, answer)
        if self._recorder is not None and call.wire and answer.status < 300:
            streamed = answer.value("content-type").startswith("text/event-stream")
            self._recorder.add(call.wire, call.asked, copy.whole, streamed)
        self._finish(call, agent)

    async def _replay(self, call: Call, agent: Agent) -> None:
        assert self._player is not None
        found = self._player.answer(call.wire, call.asked) if call.wire else None
        if found is None:
            raise Denied(404, "not_recorded", f"the cassette {self._orders.replay} holds no answer to this call")
        call.status, call.tries, call.first_byte = 200, 1, time.monotonic()
        chunks = list(found)
        streamed = not b"".join(chunks)[:64].lstrip().startswith((b"{", b"["))
        agent.begin(200, EVENTS if streamed else JSON, final=False)
        await pass_on(_given(chunks), agent, self._copy(call, ""), self._patience.idle)
        self._finish(call, agent)

    async def _pass_error(self, call: Call, agent: Agent, trouble: Trouble) -> None:
        call.status = trouble.status or 503
        if agent.begun:
            await self._pass_late_error(call, agent, trouble.body, trouble.reason)
            return
        if trouble.body:
            agent.begin(call.status, trouble.headers, final=True)
            await agent.say(trouble.body)
        else:
            agent.begin(call.status, JSON, final=True)
            await agent.say(body_of(call.route.api, call.status, trouble.reason))
        self._finish(call, agent)

    async def _pass_late_error(self, call: Call, agent: Agent, body: bytes, words: str) -> None:
        """The client waits for a stream and has had its status: only an event can say it now."""
        await agent.say(error_event(call.wire, call.status, body, words))
        self._finish(call, agent)

    def _copy(self, call: Call, encoding: str) -> Copy:
        if call.wire:
            call.flight.reader = reader_for(call.wire, True)  # what comes decides
        return Copy(encoding, call.flight.reader, kept=self._recorder is not None and bool(call.wire))

    def _finish(self, call: Call, agent: Agent) -> None:
        """The account is settled before the agent knows that the answer is whole and asks again."""
        if call.wire:
            self._settle(call)
        agent.end()

    def _settle(self, call: Call) -> None:
        """Once: what it used goes into the record and off the budgets."""
        if call.settled:
            return
        call.settled = True
        usage = call.flight.now()
        if not usage.model:
            usage = replace(usage, model=call.flight.model)
        if call.refused or call.status >= 400:
            usage = replace(usage, complete=True)  # nothing was used, and that is known
        priced = self._prices.of(usage)
        self._purse.settle(call.flight, priced)
        self._ledger.write(call.line(), priced)


def _unknown(route: Route, head: Head, *, known: bool) -> str:
    if not known:
        return f"this attempt has no way to the {route.api} API; its runtime did not ask for one"
    paths = ", ".join(f"{row.method} {row.path.pattern}" for row in TABLE[route.api] if row.kind is not Kind.OURS)
    return f"{head.method} {route.path[:80]} is not passed on, since it could not be metered; there are {paths}"


async def _given(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def _cassettes(orders: ModelOrders) -> tuple[Recorder | None, Player | None]:
    if not orders.record and not orders.replay:
        return None, None
    from blueflame.gateway.cassette.file import Player, Recorder

    if orders.replay:
        return None, Player(orders.replay, orders.key, orders.places)
    return Recorder(orders.record, orders.key, orders.places), None
