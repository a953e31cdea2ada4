"""The person's terminal connected to an agent's."""

from __future__ import annotations

import asyncio
from pathlib import Path

from rich.console import Console
from rich.text import Text

from blueflame.cli.live.view import LiveView
from blueflame.model.attempt import Attempt
from blueflame.model.errors import WorldError
from blueflame.model.gate import Answer, Gate
from blueflame.orchestrator.loop import GateAnswerer
from blueflame.session.state import Session
from blueflame.system.terminal_attach import DetachReason, attach_terminal, wait_for_terminal
from blueflame.text.sanitize import clean_text

LEAVE_HINT = "Ctrl-] detaches and leaves it running."


FINISH_HINT = "To finish, type /exit: the plan is then written and shown for your approval."


def format_greeting(attempt: Attempt) -> str:
    finish = f"\n{FINISH_HINT}" if attempt.interactive else ""
    return f"Connected to {attempt.agent_id}. {LEAVE_HINT}{finish}"


def format_farewell(agent: str, reason: DetachReason) -> str:
    again = f"blueflame attach {agent}"
    return {
        DetachReason.ENDED: f"{agent} has ended.",
        DetachReason.LEFT: f"Detached from {agent}; it keeps running. To reconnect: {again}",
        DetachReason.CLOSED: f"The terminal was closed; {agent} keeps running. To reconnect: {again}",
        DetachReason.LOST: f"The connection to {agent} was lost. To reconnect: {again}",
    }[reason]


class AgentChat:
    """The frame is hidden while the person talks with an agent.

    There is one terminal: a gate waits until it is free, and prints that it waits.
    """

    def __init__(self, console: Console, view: LiveView) -> None:
        self._console, self._view = console, view
        self.terminal = asyncio.Lock()

    async def __call__(self, attempt: Attempt, folder: Path) -> None:
        if not await wait_for_terminal(folder):
            return
        async with self.terminal:
            self._view.pause()
            try:
                self._print(format_greeting(attempt))
                self._print(format_farewell(attempt.agent_id, await attach_terminal(folder)))
            except WorldError as error:  # it ended meanwhile
                self._print(str(error))
            finally:
                self._view.resume()

    def _print(self, text: str) -> None:
        self._console.print(Text(clean_text(text), "quiet"), soft_wrap=True)


class AnswererAfterChat:
    """Asks when the terminal is free."""

    def __init__(self, answerer: GateAnswerer, conversation: AgentChat, console: Console) -> None:
        self._answerer, self._conversation, self._console = answerer, conversation, console

    async def ask(self, gate: Gate, session: Session, objection: str) -> Answer:
        if self._conversation.terminal.locked():
            self._console.print(Text(f"\r\nA gate is waiting ({clean_text(gate.title)}): Ctrl-] shows it.\r\n", "warn"))
        async with self._conversation.terminal:
            return await self._answerer.ask(gate, session, objection)
