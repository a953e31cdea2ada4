"""Client of an agent that speaks the Agent Client Protocol: a separate program, in the agent's sandbox.

    python client.py ORDERS.json < prompt

It starts the agent's command, sends it the prompt, and answers its permission requests by asking the hook. It offers
neither files nor terminals of its own, so an agent does everything itself, inside the sandbox. It prints what happens,
one JSON object per line: `say`, `action`, `error` and, at the end, `finished`.

Not every agent asks before everything it does: the hook is asked about such calls afterwards. If it refuses one, the
agent is stopped, and the attempt shows what was done.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, cast

from acp import PROTOCOL_VERSION, Client, RequestError, spawn_agent_process, text_block
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    FileSystemCapabilities,
    Implementation,
    PermissionOption,
    RequestPermissionResponse,
    ToolCallUpdate,
)

from blueflame.lazy_dataclass import dataclass
from blueflame.model.audit import compute_input_digest
from blueflame.policy.dialects import ToolUse
from blueflame.policy.dialects.acp import AcpCall, is_missing_tool, translate_acp_call, update_call
from blueflame.session.attempt_verdict import SHELL_SIGNAL_BASE, classify_failure_words

SETTLE_TIMEOUT = 2.0  # seconds for an agent to send the rest of the call that it asks about
MAX_LINE_BYTES = 64 * 1024 * 1024  # bytes of one message
ASKING_MODES = ("default", "build", "ask", "manual")
LAX_MODES = re.compile(r"bypass|yolo|auto|accept|dontask|never|full", re.IGNORECASE)
END_STATUSES = ("completed", "failed")
MAX_QUESTIONS = 5  # to a hook that is killed each time
SETTLE_TURNS = 100  # of the event loop, for messages that were read before the end of the turn
CLAUDE_BRIDGE_OPTIONS = {"claudeCode": {"options": {"settingSources": [], "strictMcpConfig": True}}}
"""For Claude's bridge, ignored by others: else a repository's settings could allow calls without asking."""


@dataclass(frozen=True, slots=True)
class HookQuestion:
    """One question to the hook."""

    use: ToolUse
    name: str
    allowed: bool


@dataclass(slots=True)
class TrackedCall:
    """One call of the agent: what is known about it, and what the hook was asked about it."""

    known: AcpCall = field(default_factory=AcpCall)
    asked: list[HookQuestion] = field(default_factory=list)
    questions: int = 0  # with those that got no answer
    reported: bool = False


class AcpClient:
    """The protocol's client, without the optional services (files, terminals)."""

    def __init__(self, cwd: str, hook: str) -> None:
        self._cwd = cwd
        self._hook = hook
        self._calls: dict[str, TrackedCall] = {}
        self._news = asyncio.Condition()
        self._message = ""  # id of the message that `_pieces` belongs to
        self._pieces: list[str] = []
        self._in_progress = 0  # messages that are being handled
        self.broke = ""  # why the agent is stopped
        self.stop = asyncio.Event()

    # --- messages from the agent ---

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:  # noqa: ANN401, ARG002 (the protocol's)
        fields = update.model_dump(exclude_none=True)
        match fields.get("session_update"):
            case "agent_message_chunk":
                self._collect_text(fields)
            case "tool_call" | "tool_call_update" as kind:
                if kind == "tool_call":
                    self.flush_text()
                self._in_progress += 1
                try:
                    await self._track_call(fields)
                finally:
                    self._in_progress -= 1
                    async with self._news:
                        self._news.notify_all()
            case "current_mode_update" if LAX_MODES.search(str(fields.get("current_mode_id"))):
                self._stop_agent(f"it went into the mode {fields.get('current_mode_id')}, in which it does not ask")

    async def request_permission(
        self,
        session_id: str,  # noqa: ARG002 (there is one)
        tool_call: ToolCallUpdate,
        options: list[PermissionOption],
        **_: Any,  # noqa: ANN401 (what later versions add)
    ) -> RequestPermissionResponse:
        name = tool_call.tool_call_id
        uses = await self._wait_for_uses(name, tool_call.model_dump(exclude_none=True))
        allowed = bool(uses) and all([await self._ask_hook(name, use) for use in uses])
        wanted = "allow_once" if allowed else "reject_once"
        chosen = next((option for option in options if option.kind == wanted), None)
        if chosen is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen.option_id))

    # --- handling ---

    def _collect_text(self, fields: Mapping[str, Any]) -> None:
        content = fields.get("content")
        text = content.get("text") if isinstance(content, Mapping) else None
        if not isinstance(text, str) or not text:
            return
        message = str(fields.get("message_id") or "")
        if message != self._message:
            self.flush_text()
        self._message = message
        self._pieces.append(text)

    def flush_text(self) -> None:
        """Print the whole message: calls that end in the middle of it must not split it."""
        if self._pieces:
            _write_line(type="say", text="".join(self._pieces))
            self._pieces.clear()

    async def _track_call(self, fields: Mapping[str, Any]) -> None:
        name = str(fields.get("tool_call_id") or "")
        call = self._calls.setdefault(name, TrackedCall())
        async with self._news:
            call.known = replace(update_call(call.known, fields), announced=True)
            self._news.notify_all()
        if fields.get("status") in END_STATUSES and not call.reported:
            call.reported = True
            await self._finish_call(name, call, done=fields["status"] == "completed")

    async def wait_until_settled(self) -> None:
        """Wait until all messages are handled: the end of the turn may arrive before the hook was asked about its last
        call."""
        for _ in range(SETTLE_TURNS):
            await asyncio.sleep(0)
        async with self._news:
            await self._news.wait_for(lambda: not self._in_progress)

    async def _wait_for_uses(self, name: str, fields: Mapping[str, Any]) -> tuple[ToolUse, ...]:
        """Return the tool uses of a call once the agent has described it; empty when it does not."""
        call = self._calls.setdefault(name, TrackedCall())
        known = update_call(call.known, fields)

        def is_described() -> bool:
            nonlocal known
            known = update_call(call.known, fields)
            # an agent that announces its calls names a command's folder only in the announcement
            has_folder = known.kind != "execute" or not call.known.announced or "command" in call.known.input
            return has_folder and translate_acp_call(known, self._cwd) is not None

        async with self._news:
            try:
                async with asyncio.timeout(SETTLE_TIMEOUT):
                    await self._news.wait_for(is_described)
            except TimeoutError:
                _write_line(
                    type="error", text=f"it asked about {known.name or known.title!r} without describing the call"
                )
                return ()
            call.known = known
        return translate_acp_call(known, self._cwd) or ()

    async def _ask_hook(self, name: str, use: ToolUse) -> bool:
        call = self._calls[name]
        if any(asked.use == use and asked.allowed for asked in call.asked):
            return True
        for _ in range(MAX_QUESTIONS):
            own = f"{name}#{call.questions}" if call.questions else name
            call.questions += 1
            code, why = await self._run_hook(own, use)
            if code >= 0:  # else it was killed, and no one has decided
                break
        allowed = code == 0
        call.asked.append(HookQuestion(use, own, allowed))
        if not allowed:
            _write_line(type="error", text=f"refused: {why.decode('utf-8', 'replace').strip()[:1000]}")
        return allowed

    async def _run_hook(self, name: str, use: ToolUse) -> tuple[int, bytes]:
        """Return its exit code, or the negative number of the signal that ended it, and its reason."""
        question = {
            "hook_event_name": "PreToolUse",
            "tool_name": use.tool,
            "tool_input": dict(use.input),
            "cwd": use.folder or self._cwd,
            "tool_use_id": name,
        }
        hook = await asyncio.create_subprocess_exec(
            self._hook, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        _, why = await hook.communicate(json.dumps(question).encode())
        return await hook.wait(), why

    async def _finish_call(self, name: str, call: TrackedCall, *, done: bool) -> None:
        """Print what was done. Ask the hook now about uses that the agent did not ask about."""
        if is_missing_tool(call.known):
            return
        before = len(call.asked)
        for use in translate_acp_call(call.known, self._cwd) or (ToolUse(call.known.name or "a nameless tool", {}),):
            if (done or not call.asked) and not any(asked.use == use for asked in call.asked):
                await self._ask_hook(name, use)
        for asked in call.asked:
            self._write_action(asked, done=done)
        refused = next((asked for asked in call.asked[before:] if not asked.allowed), None)
        if done and refused is not None:
            self._stop_agent(
                f"it did something without asking that is refused: {refused.use.tool} {_find_target(refused.use)}"
            )

    def _write_action(self, asked: HookQuestion, *, done: bool) -> None:
        _write_line(
            type="action",
            tool=asked.use.tool,
            target=_find_target(asked.use)[:500],
            call=asked.name,
            digest=compute_input_digest(dict(asked.use.input)),
            denied=not asked.allowed and not done,
        )

    def _stop_agent(self, reason: str) -> None:
        self.broke = self.broke or reason
        self.stop.set()

    def close(self) -> None:
        """Print the last text, and the calls that did not end."""
        self.flush_text()
        for call in self._calls.values():
            if not call.reported:
                for asked in call.asked:
                    self._write_action(asked, done=False)


def _find_target(use: ToolUse) -> str:
    return next((str(use.input[name]) for name in ("file_path", "command", "pattern", "url") if name in use.input), "")


def _write_line(**fields: object) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


class ProgramEnded(Exception):
    """The agent's program ended before the protocol allows it; `code` is what a shell would exit with."""

    def __init__(self, code: int) -> None:
        super().__init__(f"its program ended {f'by signal {-code}' if code < 0 else f'with exit code {code}'}")
        self.code = SHELL_SIGNAL_BASE - code if code < 0 else code or 1


async def run_agent(orders: Mapping[str, Any], prompt: str) -> tuple[str, str]:
    """Run it to its end. Return the kind of failure ("" for none), and a detail. Raises ProgramEnded."""
    client = AcpClient(orders["cwd"], os.environ["BLUEFLAME_HOOK"])
    transport = {"limit": MAX_LINE_BYTES, "stderr": None}  # its errors are ours
    where = {"env": dict(os.environ), "cwd": orders["cwd"], "transport_kwargs": transport}
    code: int | None = None
    try:
        async with spawn_agent_process(cast("Client", client), *orders["argv"], **where) as (agent, program):
            try:
                session = await _open_session(agent, orders)
                await _select_asking_mode(agent, session)
                await _select_model(agent, session, orders.get("model", ""))
                return await _send_prompt(agent, session.session_id, client, prompt)
            except RequestError as e:
                detail = f"{e} {e.data or ''}".strip()[:1000]
                return classify_failure_words(detail), detail
            except (OSError, EOFError):
                async with asyncio.timeout(SETTLE_TIMEOUT):  # for its end, after that of its output
                    code = await program.wait()
                raise
            finally:
                client.close()
    except (OSError, EOFError):  # the library may raise another one when it closes the connection
        if code is not None:
            raise ProgramEnded(code) from None
        raise


async def _open_session(agent: Any, orders: Mapping[str, Any]) -> Any:  # noqa: ANN401 (the library has no name for it)
    nothing = ClientCapabilities(fs=FileSystemCapabilities(read_text_file=False, write_text_file=False), terminal=False)
    us = Implementation(name="blueflame", version="1")
    await agent.initialize(protocol_version=PROTOCOL_VERSION, client_capabilities=nothing, client_info=us)
    return await agent.new_session(cwd=orders["cwd"], mcp_servers=[], **CLAUDE_BRIDGE_OPTIONS)


async def _select_asking_mode(agent: Any, session: Any) -> None:  # noqa: ANN401
    """Switch to a mode in which it asks, whatever the repository's settings are."""
    modes = session.modes
    if modes is None or modes.current_mode_id in ASKING_MODES:
        return
    asking = next((mode.id for mode in modes.available_modes if mode.id in ASKING_MODES), None)
    if asking is not None:
        await agent.set_session_mode(session_id=session.session_id, mode_id=asking)
    elif LAX_MODES.search(modes.current_mode_id):
        raise RequestError(-32000, f"it is in the mode {modes.current_mode_id} and has none in which it asks")


async def _select_model(agent: Any, session: Any, model: str) -> None:  # noqa: ANN401
    """Choose the model, if the agent lets its client choose; else its command line or variables name it."""
    for option in session.config_options or ():
        found = option.model_dump()
        offered = [each.get("value") for each in found.get("options") or () if isinstance(each, dict)]
        if found.get("id") == "model" and model in offered and found.get("current_value") != model:
            await agent.set_config_option(config_id="model", session_id=session.session_id, value=model)


async def _send_prompt(agent: Any, session: str, client: AcpClient, prompt: str) -> tuple[str, str]:  # noqa: ANN401
    prompting = asyncio.ensure_future(agent.prompt(session_id=session, prompt=[text_block(prompt)]))
    stopping = asyncio.ensure_future(client.stop.wait())
    await asyncio.wait((prompting, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if prompting.done():
        await client.wait_until_settled()
    if client.broke:
        prompting.cancel()
        await agent.cancel(session_id=session)
        return "error", client.broke
    reason = (await prompting).stop_reason
    return ("", "") if reason == "end_turn" else ("error", f"it stopped because of {reason}")


def remove_path(place: Path) -> None:
    """Remove settings that a setup command may have written."""
    if place.is_symlink() or place.is_file():
        place.unlink()
    elif place.exists():
        shutil.rmtree(place)


def drop_traceback(record: logging.LogRecord) -> bool:
    """Keep one line of what the library logs: after it nothing of the agent's own words would be shown."""
    if record.exc_info:
        record.msg, record.args = f"{record.getMessage()}: {record.exc_info[1]}", ()
        record.exc_info = None
    return True


def main(argv: list[str]) -> int:
    orders, code = json.loads(Path(argv[0]).read_text(encoding="utf-8")), 1
    log = logging.StreamHandler()
    log.addFilter(drop_traceback)
    logging.basicConfig(format="%(message)s", handlers=[log])
    try:
        for name in orders.get("without", ()):
            remove_path(Path.home() / name)
        failure, detail = asyncio.run(run_agent(orders, sys.stdin.read()))
    except (OSError, EOFError, ValueError) as e:  # it could not be started, or has ended
        failure, detail = "error", f"the connection to the agent failed: {e}"
    except ProgramEnded as e:
        failure, detail, code = "error", str(e), e.code
    _write_line(type="finished", failure=failure, detail=detail)
    return code if failure else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
