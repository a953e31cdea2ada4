"""Serve one call to a model: token, endpoint, budget, provider (with retries), answer, usage log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from blueflame.billing.usage import Usage, UsageReader
from blueflame.gateway.access_log import AccessEntry
from blueflame.gateway.model_api.asked import parse_request, read_call
from blueflame.gateway.model_api.backoff import AccountWait, WaitExceeded, WaitTimes
from blueflame.gateway.model_api.body import BodyMemory, BrokenMessage, read_body
from blueflame.gateway.model_api.budget import BudgetReservation, OpenCall
from blueflame.gateway.model_api.client import (
    DRAIN_SECONDS_AT_END,
    AgentConnection,
    AgentDisconnected,
    ProviderCall,
    watch_agent,
)
from blueflame.gateway.model_api.connections import ProviderConnections, ProviderUnreachable
from blueflame.gateway.model_api.endpoints import ENDPOINTS, EndpointKind, ModelRoute
from blueflame.gateway.model_api.errors import (
    BUDGET_STATUS,
    describe_dearer_model,
    format_error_body,
    format_error_event,
    format_error_response,
)
from blueflame.gateway.model_api.failures import (
    ACCOUNT_KINDS,
    LOGIN,
    NETWORK,
    REFUSED,
    UNSUPPORTED,
    ProviderFailure,
    classify_failure,
    find_foreign_answer,
)
from blueflame.gateway.model_api.features import check_features
from blueflame.gateway.model_api.request import (
    LoginUnusable,
    check_query,
    check_token,
    format_provider_request,
    prepare_body,
)
from blueflame.gateway.model_api.response import ProviderAnswer, read_whole_body
from blueflame.gateway.model_api.status_events import StatusReporter
from blueflame.gateway.model_api.streaming import EVENT_STREAM_HEADERS, AnswerCopy, stream_to_agent, wait_with_pings
from blueflame.gateway.model_api.usage_log import PriceList, UsageLog
from blueflame.gateway.options import ModelOptions, ProviderApi
from blueflame.gateway.relay import GatewayTimeouts, Stream, send_last_bytes
from blueflame.system.http import RequestHead, RequestRefused

if TYPE_CHECKING:
    from blueflame.gateway.cassette.file import CassettePlayer, CassetteRecorder

MAX_ERROR_BYTES = 64 * 1024
MAX_FREE_CALLS = 500  # of one attempt
MAX_LOOK_SECONDS = 1.0  # between two looks whether a provider is silent
EMPTY_OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
JSON_HEADERS = (("content-type", b"application/json"),)


class ModelHandler:
    """Serves the agent's calls to a model. Created inside the running loop."""

    def __init__(
        self,
        options: ModelOptions,
        usage_log: UsageLog,
        folder: str,
        reporter: StatusReporter,
        *,
        timeouts: GatewayTimeouts,
        wait_times: WaitTimes | None = None,
    ) -> None:
        self._options = options
        self._usage_log = usage_log
        self._reporter = reporter
        self._timeouts = timeouts
        self._prices = PriceList(options)
        self._budget = BudgetReservation(options.budgets, self._prices, reporter, warn=options.warn)
        self._wait_times = wait_times or WaitTimes()
        self._rate_limit = AccountWait(options, folder, reporter, self._wait_times)
        self._connections = ProviderConnections(timeouts, tls=any(api.upstream.tls for api in options.apis.values()))
        self._bodies = BodyMemory()
        self._free_calls = 0
        self._closes = False
        self._agents: set[AgentConnection] = set()
        self._calls: set[ProviderCall] = set()
        self._recorder, self._player = _open_cassettes(options)

    async def close(self) -> None:
        """End waiting calls; give those being answered a moment to report their usage."""
        self._closes = True
        for agent in list(self._agents):
            agent.limit_remaining(DRAIN_SECONDS_AT_END)
        give_up = time.monotonic() + 2 * DRAIN_SECONDS_AT_END  # each call has its own limit; this one is for all
        while self._calls and time.monotonic() < give_up:
            await asyncio.sleep(0.005)
        self._connections.close()

    async def handle_request(self, head: RequestHead, route: ModelRoute, client: Stream, entry: AccessEntry) -> None:
        entry.kind, entry.details = "model", ""
        try:
            await self._serve_call(head, route, client, entry)
        except RequestRefused as e:
            entry.set_decision("block", e.rule, e.words)
            await send_last_bytes(client, format_error_response(route.api, e.status, e.words), self._timeouts)

    async def _serve_call(self, head: RequestHead, route: ModelRoute, client: Stream, entry: AccessEntry) -> None:
        kind = route.endpoint.kind if route.endpoint is not None else None
        if kind is EndpointKind.OURS:
            entry.set_decision("allow", "page", "")
            await send_last_bytes(client, EMPTY_OK, self._timeouts)
            return
        check_token(head, route, self._options.token)
        api = self._options.apis.get(route.api)
        if api is None or kind is None:
            raise RequestRefused(
                404, "no_such_endpoint", _describe_unknown_endpoint(route, head, known=api is not None)
            )
        entry.host, entry.port = api.upstream.host, api.upstream.port
        check_query(route)
        metered = kind is EndpointKind.METERED
        if not metered:
            self._count_free_call()
        with self._bodies.hold() as take:
            call = self._read_call(head, route, api, await read_body(client, head, take), entry)
            entry.set_decision("allow", route.api, "")
            async with watch_agent(client, head.version, self._agents) as agent:
                if self._closes:
                    agent.limit_remaining(0.0)
                await (self._run_metered(call, agent) if metered else self._run_call(call, agent))
                entry.down = agent.down

    def _read_call(
        self, head: RequestHead, route: ModelRoute, api: ProviderApi, body: bytes, entry: AccessEntry
    ) -> ProviderCall:
        """Check what the call asks for. Raises RequestRefused."""
        entry.up = len(body)
        content = parse_request(head, body) if head.method == "POST" else {}
        check_features(content, route.api, web_search=self._options.web_search, allowed=self._options.features)
        asked = read_call(content, route.model)
        if content and self._prices.is_dearer(asked.model):
            raise RequestRefused(403, "model_not_allowed", describe_dearer_model(asked.model, self._options.models))
        return ProviderCall(
            route=route,
            head=head,
            api=api,
            asked=body,
            body=prepare_body(route, body, content),
            open_call=OpenCall(asked, len(body)),
            entry=entry,
        )

    def _count_free_call(self) -> None:
        self._free_calls += 1
        if self._free_calls > MAX_FREE_CALLS:
            raise RequestRefused(403, "too_many_calls", f"more than {MAX_FREE_CALLS} calls that are free of charge")

    def _refuse_if_unrecorded(self) -> None:
        if self._usage_log.problem:
            raise RequestRefused(403, "record_full", f"no more calls are served: {self._usage_log.problem}")

    async def _run_metered(self, call: ProviderCall, agent: AgentConnection) -> None:
        self._refuse_if_unrecorded()
        self._calls.add(call)
        try:
            if not self._budget.try_reserve(call.open_call):
                await agent.run_while_connected(self._budget.wait_to_reserve(call.open_call))
            await self._run_call(call, agent)
        except RequestRefused as e:
            call.status, call.refused = e.status, e.rule
            raise
        except AgentDisconnected:
            call.refused = "left"  # before its turn
        finally:
            self._settle_call(call, agent)
            self._calls.discard(call)

    async def _run_call(self, call: ProviderCall, agent: AgentConnection) -> None:
        """Ask the provider until there is an answer to send, or the wait is exceeded."""
        try:
            if self._player is not None:
                await self._send_recorded(call, agent)
            else:
                await self._ask_until_answered(call, agent)
        except WaitExceeded as e:
            call.refused = "gave_up"
            call.entry.set_decision("error", e.failure.kind, e.failure.reason)
            # its program may know another way to ask, without what is not supported
            await self._send_error(call, agent, e.failure, final=e.failure.kind != UNSUPPORTED)
        except AgentDisconnected:
            call.entry.details = "cut off: the agent disconnected, or its attempt ended"
            agent.abort()
        except BrokenMessage as e:
            call.entry.details = f"cut off: {e}"
            call.broken = str(e)
            if call.wire:
                self._settle_call(call, agent)  # before the agent sees it, and may end
            agent.abort()
        except RequestRefused as e:
            if not agent.begun:
                raise
            call.status, call.refused = e.status, e.rule
            await self._send_error_event(call, agent, b"", e.words)
        finally:
            self._rate_limit.stop_waiting(call.wait)

    async def _ask_until_answered(self, call: ProviderCall, agent: AgentConnection) -> None:
        while True:
            if call.wire and not self._rate_limit.is_clear():
                await self._wait_with_pings(call, agent, self._rate_limit.wait_for_shared_limit(call.wait))
            async with agent.limit_after_disconnect(), self._watch_silence(call, agent), self._renew_record(call):
                found = await self._ask_provider(call)
                if isinstance(found, ProviderAnswer):
                    self._rate_limit.stop_waiting(call.wait)
                    await self._send_answer(call, agent, found)
                    return
            if found.kind == REFUSED or not call.wire:  # a limit of a free endpoint says nothing about calls to a model
                await self._send_error(call, agent, found, final=False)
                return
            if found.kind in ACCOUNT_KINDS:
                raise self._rate_limit.refuse_account(found, call.open_call.asked.model)
            await self._wait_with_pings(call, agent, self._rate_limit.wait_for_retry(call.wait, found))

    @asynccontextmanager
    async def _watch_silence(self, call: ProviderCall, agent: AgentConnection) -> AsyncIterator[None]:
        """Report a provider that sends nothing for long: the agent waits for it meanwhile."""
        limit = self._find_silence_limit(call)
        watching = asyncio.ensure_future(self._report_silence(call, agent, limit)) if limit else None
        try:
            yield
        finally:
            if watching is not None:
                watching.cancel()
                self._reporter.report_heard(id(call))

    def _find_silence_limit(self, call: ProviderCall) -> float:
        """0: none. An answer that is not streamed is silent until its end: only the attempt's own limits count then."""
        own, usual = self._options.silence, self._wait_times.silence
        return min(own or usual, usual) if call.streams else own * bool(call.wire)

    async def _report_silence(self, call: ProviderCall, agent: AgentConnection, limit: float) -> None:
        seen, since = agent.down, time.monotonic()
        failure = ProviderFailure(NETWORK, f"{call.api.upstream.host} has sent nothing for {limit:g} seconds")
        while True:
            is_silent = agent.down == seen and not agent.is_blocked  # an agent that does not read
            if is_silent:
                self._reporter.report_quiet(id(call), since, limit)
                if time.monotonic() - since >= limit:
                    call.broken = failure.reason
                    self._rate_limit.report_silence(call.wait, failure)
            else:
                self._reporter.report_heard(id(call))
                seen, since = agent.down, time.monotonic() if agent.is_blocked else agent.down_at
                if call.broken:
                    call.broken = ""
                    self._rate_limit.stop_waiting(call.wait)
            await asyncio.sleep(min(limit / 6, MAX_LOOK_SECONDS))

    async def _wait_with_pings(
        self, call: ProviderCall, agent: AgentConnection, waiting: Coroutine[object, object, None]
    ) -> None:
        try:
            await agent.run_while_connected(wait_with_pings(waiting, call, agent, self._wait_times))
        except AgentDisconnected:
            call.refused = "parked"
            raise

    async def _ask_provider(self, call: ProviderCall) -> ProviderAnswer | ProviderFailure:
        try:
            request = format_provider_request(call.head, call.route, call.api, call.body, self._options.features)
        except LoginUnusable as e:
            return ProviderFailure(LOGIN, str(e), status=BUDGET_STATUS)
        call.tries += 1
        call.status, call.sent_at = 0, time.time()
        if call.wire:
            self._record_sent(call, self._wait_times.renewal / 2)
            self._refuse_if_unrecorded()
        found = await self._read_answer(call, request)
        if call.wire and isinstance(found, ProviderFailure):
            self._usage_log.withdraw_sent(call.build_record())  # it may wait for long, or be asked again
        return found

    def _record_sent(self, call: ProviderCall, seconds: float) -> None:
        priced = self._prices.price_usage(call.open_call.estimate_ahead(seconds))
        self._usage_log.write_sent(call.build_record(), priced)

    @asynccontextmanager
    async def _renew_record(self, call: ProviderCall) -> AsyncIterator[None]:
        """Record what the call may have used, each time that it is twice as old: this process may be killed."""
        renewing = asyncio.ensure_future(self._record_by_age(call)) if call.wire else None
        try:
            yield
        finally:
            if renewing is not None:
                renewing.cancel()

    async def _record_by_age(self, call: ProviderCall) -> None:
        age, wait = 0.0, self._wait_times.renewal
        while True:
            await asyncio.sleep(wait)
            age = wait = age + wait
            self._record_sent(call, age)

    async def _read_answer(self, call: ProviderCall, request: bytes) -> ProviderAnswer | ProviderFailure:
        try:
            answer = await self._connections.send_request(call.api.upstream, request, call.head.method)
        except ProviderUnreachable as e:
            return ProviderFailure(NETWORK, str(e))
        call.status = answer.status
        if answer.status < 400:
            foreign = find_foreign_answer(answer) if call.wire else None
            if foreign is not None:
                answer.stream.writer.transport.abort()
            return foreign or answer
        return classify_failure(answer, await self._read_error_body(call, answer), time.time(), call.asked)

    async def _read_error_body(self, call: ProviderCall, answer: ProviderAnswer) -> bytes:
        """Read the body of an error, as far as it arrives."""
        try:
            async with asyncio.timeout(self._timeouts.idle):
                body = await read_whole_body(answer, MAX_ERROR_BYTES)
        except (OSError, TimeoutError):
            answer.stream.writer.transport.abort()
            return b""
        except asyncio.CancelledError:
            answer.stream.writer.transport.abort()
            raise
        self._connections.keep_or_close(call.api.upstream, answer)
        return body

    async def _send_answer(self, call: ProviderCall, agent: AgentConnection, answer: ProviderAnswer) -> None:
        call.first_byte = time.monotonic()
        if call.wire:
            self._rate_limit.record_success(call.sent_at, call.open_call.asked.model)
        if agent.begun and not (
            answer.status == 200 and answer.get_header("content-type").startswith("text/event-stream")
        ):
            body = await self._read_error_body(call, answer)
            await self._send_error_event(call, agent, body, f"the provider answered {answer.status}")
            return
        if not agent.begun:
            agent.start_response(answer.status, answer.headers, final=False)
        copy = self._build_copy(call, answer.get_header("content-encoding").lower())
        with ExitStack() as undo:
            undo.callback(answer.stream.writer.transport.abort)
            await stream_to_agent(answer.iterate_body(), agent, copy, self._timeouts.idle)
            undo.pop_all()
        self._connections.keep_or_close(call.api.upstream, answer)
        if self._recorder is not None and call.wire and answer.status < 300:
            streamed = answer.get_header("content-type").startswith("text/event-stream")
            self._recorder.add(call.wire, call.asked, copy.whole, streamed)
        self._finish_call(call, agent)

    async def _send_recorded(self, call: ProviderCall, agent: AgentConnection) -> None:
        assert self._player is not None
        found = self._player.find_answer(call.wire, call.asked) if call.wire else None
        if found is None:
            raise RequestRefused(
                404, "not_recorded", f"the cassette {self._options.replay} holds no answer to this call"
            )
        call.status, call.tries, call.first_byte = 200, 1, time.monotonic()
        chunks = list(found)
        streamed = not b"".join(chunks)[:64].lstrip().startswith((b"{", b"["))
        agent.start_response(200, EVENT_STREAM_HEADERS if streamed else JSON_HEADERS, final=False)
        await stream_to_agent(_iterate_chunks(chunks), agent, self._build_copy(call, ""), self._timeouts.idle)
        self._finish_call(call, agent)

    async def _send_error(
        self, call: ProviderCall, agent: AgentConnection, failure: ProviderFailure, *, final: bool = True
    ) -> None:
        call.status = failure.status or 503
        if agent.begun:
            await self._send_error_event(call, agent, failure.body, failure.reason)
            return
        if failure.body:
            agent.start_response(call.status, failure.headers, final=final)
            await agent.send_piece(failure.body)
        else:
            agent.start_response(call.status, JSON_HEADERS, final=True)
            await agent.send_piece(format_error_body(call.route.api, call.status, failure.reason))
        self._finish_call(call, agent)

    async def _send_error_event(self, call: ProviderCall, agent: AgentConnection, body: bytes, words: str) -> None:
        """Send an error as an event: the status of the stream has been sent already."""
        await agent.send_piece(format_error_event(call.wire, call.status, body, words))
        self._finish_call(call, agent)

    def _build_copy(self, call: ProviderCall, encoding: str) -> AnswerCopy:
        if call.wire:
            call.open_call.reader = UsageReader(call.wire)
        return AnswerCopy(encoding, call.open_call.reader, kept=self._recorder is not None and bool(call.wire))

    def _finish_call(self, call: ProviderCall, agent: AgentConnection) -> None:
        """Settle before the agent sees the end of the answer and sends its next call."""
        if call.wire:
            self._settle_call(call, agent)
        agent.end_response()

    def _settle_call(self, call: ProviderCall, agent: AgentConnection) -> None:
        """Write the usage to the log and take it off the budgets, once."""
        if call.settled:
            return
        call.settled = True
        usage, is_broken = call.open_call.read_usage(), False
        if call.refused or call.status >= 400:
            usage = replace(usage, complete=True)  # known: nothing was used
        elif not usage.complete:
            usage, is_broken = self._estimate_usage(call, agent), bool(call.broken) or not agent.has_left
        else:
            is_broken = bool(call.broken) and not agent.has_left  # after its figures: its program may fail all the same
        if not usage.model:
            usage = replace(usage, model=call.open_call.asked.model)
        priced = self._prices.price_usage(usage)
        self._budget.settle(call.open_call, priced, is_broken=is_broken)
        if is_broken:
            self._reporter.report_unanswered({"kind": NETWORK, "reason": _describe_broken(call)})
        self._usage_log.write(call.build_record(), priced)

    def _estimate_usage(self, call: ProviderCall, agent: AgentConnection) -> Usage:
        """Estimate a call without figures: at its most, unless the provider ended it while the agent still listened.

        An agent that hangs up could get its output for nothing otherwise.
        """
        if agent.has_left:
            return call.open_call.assume_worst()
        return call.open_call.estimate_broken(time.time() - call.sent_at)


def _describe_broken(call: ProviderCall) -> str:
    if call.open_call.read_usage().invalid:
        return "the model's answer reports a usage that no such call can have"
    why = call.broken or "it ended without the figures that each answer ends with"
    return f"the model's answer was cut off: {why}"


def _describe_unknown_endpoint(route: ModelRoute, head: RequestHead, *, known: bool) -> str:
    if not known:
        return f"the {route.api} API is not available to this attempt: its runtime does not use it"
    paths = ", ".join(
        f"{row.method} {row.path.pattern}" for row in ENDPOINTS[route.api] if row.kind is not EndpointKind.OURS
    )
    return f"{head.method} {route.path[:80]} is not forwarded, since it could not be metered; the endpoints are {paths}"


async def _iterate_chunks(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def _open_cassettes(options: ModelOptions) -> tuple[CassetteRecorder | None, CassettePlayer | None]:
    if not options.record and not options.replay:
        return None, None
    from blueflame.gateway.cassette.file import CassettePlayer, CassetteRecorder

    if options.replay:
        return None, CassettePlayer(options.replay, options.key, options.places)
    return CassetteRecorder(options.record, options.key, options.places), None
