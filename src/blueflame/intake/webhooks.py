"""A small HTTP server for calls of GitHub and GitLab: one request, one answer, close.

A call is answered after its request was received durably: the forge sends again what was not answered.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import suppress
from dataclasses import field

from blueflame.config.house import read_secret
from blueflame.dispatch.forge_issues import Identify
from blueflame.dispatch.webhooks import CallRefused, WebhookRules, check_signature, parse_call, read_call
from blueflame.intake.source import Clock, Intake, SourceContext, SourceProbe
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import ConfigError, WorldError
from blueflame.model.settings.sources import SourceSettings, WebhookSettings
from blueflame.system.http import (
    MAX_HEAD_BYTES,
    RequestHead,
    RequestRefused,
    format_json_response,
    format_refusal,
    parse_head,
)

KIND = "webhooks"
MAX_CALL_BYTES = 1_000_000
MAX_CONNECTIONS = 32
READ_TIMEOUT, LINGER_SECONDS = 10.0, 1.0
HOOK_PATH = "/hooks/"
PORT_FIXES = {
    errno.EADDRINUSE: "choose another port",
    errno.EACCES: "choose a port of 1024 or above",
}


@dataclass(slots=True)
class WebhookSource:
    host: str
    port: int
    hooks: dict[str, WebhookRules]
    identify: Identify
    clock: Clock
    listening: asyncio.Event = field(default_factory=asyncio.Event)
    _open: int = 0

    @property
    def name(self) -> str:
        return KIND

    async def run(self, intake: Intake) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(intake, reader, writer)

        try:
            server = await asyncio.start_server(serve, self.host, self.port, limit=MAX_HEAD_BYTES)
        except OSError as error:
            raise WorldError(self._explain_port(error)) from error
        async with server:
            self.port = server.sockets[0].getsockname()[1]
            self.listening.set()
            await server.serve_forever()

    async def _serve(self, intake: Intake, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                answer = await self._answer(intake, reader)
                writer.write(answer)
                writer.write_eof()
            async with asyncio.timeout(LINGER_SECONDS):  # a reset would take the answer from who still sends
                while await reader.read(MAX_HEAD_BYTES):
                    pass
        except (OSError, EOFError):  # cut off, or too slow; a forge sends it again
            pass
        finally:
            self._open -= 1
            writer.transport.abort()

    async def _answer(self, intake: Intake, reader: asyncio.StreamReader) -> bytes:
        try:
            if self._open > MAX_CONNECTIONS:
                raise RequestRefused(503, "too_many", "too many connections: try again")
            head = await _read_head(reader)
            hook = self._find_hook(head)
            body = await reader.readexactly(_read_length(head))
            return format_json_response(202, {"received": self._receive(intake, hook, head, body)}, phrase="Accepted")
        except RequestRefused as refused:
            return format_refusal(refused)
        except CallRefused as refused:
            return format_refusal(RequestRefused(403, "refused", str(refused)))
        except WorldError:  # the disk is full: the forge sends it again
            return format_refusal(RequestRefused(503, "not_received", "it could not be stored: send it again"))

    def _find_hook(self, head: RequestHead) -> WebhookRules:
        path = head.target.partition("?")[0]
        hook = self.hooks.get(path.removeprefix(HOOK_PATH)) if path.startswith(HOOK_PATH) else None
        if hook is None:
            raise RequestRefused(404, "no_such_hook", "there is no such hook")
        if head.method != "POST":
            raise RequestRefused(405, "not_a_call", "hooks are called with POST")
        return hook

    def _receive(self, intake: Intake, hook: WebhookRules, head: RequestHead, body: bytes) -> bool:
        """Judge the raw bytes before they are parsed; keep the request before it is answered."""
        headers = {name: value for name, value in head.headers if len(head.get_all(name)) == 1}
        check_signature(hook, headers, body, self.clock.now())
        request = read_call(hook, parse_call(body), self.identify, self.clock.now())
        if request is not None:
            intake.receive(self.name, [request])
        return request is not None

    def _explain_port(self, error: OSError) -> str:
        fix = PORT_FIXES.get(error.errno or 0, "write an address of this machine")
        return (
            f"cannot listen at {self.host}:{self.port}: {error.strerror or error};"
            f" {fix} under sources.webhooks.listen in house.yaml"
        )

    async def probe(self) -> SourceProbe:
        """Try the port: it is free, or the house listens there."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as found:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                found.bind((self.host, self.port))
            except OSError as error:
                if await self._is_ours():
                    return SourceProbe(True, f"the house listens at {self.host}:{self.port}")
                return SourceProbe(False, self._explain_port(error))
        return SourceProbe(True, f"{self.host}:{self.port} is free; {', '.join(sorted(self.hooks))} would be served")

    async def _is_ours(self) -> bool:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(2):
                reader, writer = await asyncio.open_connection(self.host, self.port)
                try:
                    writer.write(b"GET /hooks/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    return b"no_such_hook" in await reader.read(2_000)
                finally:
                    writer.transport.abort()
        return False


async def _read_head(reader: asyncio.StreamReader) -> RequestHead:
    try:
        return parse_head(await reader.readuntil(b"\r\n\r\n"))
    except asyncio.LimitOverrunError:
        raise RequestRefused(431, "head_too_large", "the head of the request is too large") from None


def _read_length(head: RequestHead) -> int:
    if head.get_all("transfer-encoding") or not head.get_all("content-length"):
        raise RequestRefused(411, "length_required", "send a Content-Length, and no chunks")
    length = head.read_content_length()
    if length > MAX_CALL_BYTES:
        raise RequestRefused(413, "too_large", f"at most {MAX_CALL_BYTES} bytes are read")
    return length


def build_webhook_sources(settings: SourceSettings, context: SourceContext) -> tuple[WebhookSource, ...]:
    if not settings.webhooks.enabled:
        return ()
    if not settings.webhooks.hooks:
        raise ConfigError("webhooks cannot be served:", ["sources.webhooks.hooks is empty; name who may call"])
    host, _, port = settings.webhooks.listen.rpartition(":")
    hooks = {hook.name: _build_rules(hook, context) for hook in settings.webhooks.hooks}
    return (WebhookSource(host.strip("[]"), int(port), hooks, context.identify, context.clock),)


def _build_rules(hook: WebhookSettings, context: SourceContext) -> WebhookRules:
    key = f"sources.webhooks.hooks, {hook.name}: secret_from"
    secret = read_secret(context.environment, hook.secret_from, key=key, what="the secret of the webhook")
    return WebhookRules(
        forge=hook.forge,
        project=hook.project,
        label=hook.label,
        command=hook.command,
        repository=context.find_repository(hook.repository, f"sources.webhooks, {hook.name}"),
        secret=secret,
    )
