"""What answers a session's gates: the person at this terminal, a decisions file, or another terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from blueflame.cli.gates.prompt import GatePrompt
from blueflame.cli.gates.view import build_gate_context
from blueflame.cli.live.view import LiveView
from blueflame.cli.render.changeset import render_outcome
from blueflame.documents.decisions import DecisionsFile, find_used_entries
from blueflame.model.changeset import ChangesetState
from blueflame.model.gate import Answer, Gate, GateKind
from blueflame.session.state import Session
from blueflame.text.questions import list_choices
from blueflame.text.sanitize import clean_text

FindDiff = Callable[[Session, Gate], Callable[[], str] | None]
"""How to read the diff of a gate; None if it has no diff."""


STATE_AFTER = {
    "approve": ChangesetState.APPROVED,
    "reject": ChangesetState.REJECTED,
    "skip": ChangesetState.SKIPPED,
}


class TerminalAnswerer:
    """Asks the person here; the frame is hidden meanwhile."""

    def __init__(self, console: Console, view: LiveView, diff_of: FindDiff = lambda _session, _gate: None) -> None:
        self._console, self._view, self._diff_of = console, view, diff_of
        self._prompt = GatePrompt(console)

    async def ask(self, gate: Gate, session: Session, objection: str) -> Answer:
        self._view.pause()
        try:
            if objection:
                self._console.print(Text(f"Not accepted: {clean_text(objection)}", "warn"))
            answer = await self._prompt.ask(gate, build_gate_context(session, gate, diff=self._diff_of(session, gate)))
            self._print_outcome(gate, session, answer)
            return answer
        except asyncio.CancelledError:
            if (other := session.answers.get(gate.id)) is not None:
                self._prompt.report_answered_elsewhere(other)
            raise
        finally:
            self._view.resume()

    def _print_outcome(self, gate: Gate, session: Session, answer: Answer) -> None:
        """Print what happens to the changeset's tasks, above the next question."""
        if gate.kind is GateKind.CHANGESET:
            record = replace(session.changesets[gate.subject], state=STATE_AFTER[answer.choice])
            self._console.print(render_outcome(record))
            self._console.print()


class DecisionsAnswerer:
    """Answers from a decisions file. The journal knows which entries were used."""

    def __init__(self, decisions: DecisionsFile) -> None:
        self._decisions = decisions

    async def ask(self, gate: Gate, session: Session, objection: str) -> Answer:  # noqa: ARG002 - the caller judges it
        return self._decisions.find_answer(gate, find_used_entries(session.answers.values()))


class WaitingAnswerer:
    """Without a terminal: print how the gate is answered, then wait. No answer is ever guessed.

    An exhausted budget stops the session instead of waiting, and so does what fails again and again; a resume asks
    again. Where a house asks people, it waits for them.
    """

    def __init__(self, console: Console, *, in_house: bool = False) -> None:
        self._console = console
        self._in_house = in_house

    async def ask(self, gate: Gate, session: Session, objection: str) -> Answer:  # noqa: ARG002 - not shown here
        if gate.kind in (GateKind.BUDGET, GateKind.ENVIRONMENT) and not self._in_house:
            ask = "raise it" if gate.kind is GateKind.BUDGET else "ask"
            self._console.print(Text(f"{clean_text(gate.title)} No terminal to {ask} at: stopping."), soft_wrap=True)
            return Answer(choice="stop", by="default")
        choices = "|".join(option.name for option in gate.options)
        asked = (clean_text(gate.title), *list_choices(gate), f"blueflame answer {gate.id} {choices}")
        self._console.print(Text("Waiting for an answer: " + "\n  ".join(asked)), soft_wrap=True)
        await asyncio.get_running_loop().create_future()
        raise AssertionError("unreachable: this future is never completed")
