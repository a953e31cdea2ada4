"""A gate at the terminal: the view, the choices, and the note or edit that a choice needs."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from math import isfinite
from pathlib import Path

from rich.console import Console, RenderableType
from rich.text import Text

from blueflame.cli.console import build_columns
from blueflame.cli.render.diff import render_diff, show_in_pager
from blueflame.documents.plans import format_plan, read_plan
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import PlanError, ProcessFailed
from blueflame.model.gate import Answer, Gate, GateKind, Option
from blueflame.model.task import Task
from blueflame.session.gates.edits import EDIT_CHOICES, build_edit_payload, find_edit_problems
from blueflame.system.terminal import Keyboard, find_editor, run_in_terminal
from blueflame.text.marks import BAD
from blueflame.text.sanitize import clean_line, clean_text


@dataclass(frozen=True, slots=True, kw_only=True)
class GateContext:
    """What the prompt shows and needs besides the gate."""

    view: RenderableType = ""
    diff: Callable[[], str] | None = None  # read only on `view`
    tasks: tuple[Task, ...] = ()  # what `edit` edits
    problems_of: Callable[[Sequence[Task]], Sequence[str]] = lambda _tasks: ()


DISPLAY_NAMES = {"replan": "re-plan"}
VIEW = Option("view", "view the diff")
HELP = ("?", "help")
BACK = "-"

NOTE_QUESTIONS = {
    (GateKind.CHANGESET, "reject"): "Rejection reason",
    (GateKind.PLAN, "replan"): "Notes for the planner",
    (GateKind.SESSION, "replan"): "Notes for the planner",
    (GateKind.ESCALATION, "retry"): "Note for the agent",
    (GateKind.ESCALATION, "reassign"): "role=, model= or runtime=, then a note for the agent",
    (GateKind.BUDGET, "raise"): "New limit (0 = no limit)",
    (GateKind.CLARIFICATION, "answer"): "Your answer",
}

EDIT_HEAD = """\
# Change the plan, save the file and leave the editor. What you write is checked before it is used.
# Leave it as it is to go back to the question.
"""
EXAMPLE = """\
# There is no plan yet. Write it like this:
#
# tasks:
#   - id: task-001
#     title: Add a health check
#     description: Answer GET /health with 200 and the version.
#     priority: 1
#     cohesion_group: api
#     dependencies: []
#     file_locks: [src/health.py]
"""


class GatePrompt:
    """Asks a person at this terminal, one gate at a time; cancel `ask` when another terminal answered first."""

    def __init__(self, console: Console, keyboard: Keyboard | None = None) -> None:
        self._console = console
        self._keyboard = keyboard or Keyboard()

    async def ask(self, gate: Gate, context: GateContext) -> Answer:
        self._keyboard.discard_typed()
        self._console.print()
        if context.view:
            self._console.print(context.view)
            self._console.print()
        if gate.kind is not GateKind.CHANGESET or not context.view:  # its view has the title already
            self._console.print(Text(clean_line(gate.title), "head"))
        try:
            while (answer := await self._ask_once(gate, context)) is None:
                pass
        except asyncio.CancelledError:
            self._keyboard.discard_typed()  # half an answer must not answer the next gate
            self._console.print()
            raise
        self._console.print()
        return answer

    def report_answered_elsewhere(self, answer: Answer) -> None:
        self._console.print(
            Text(f"Answered elsewhere: {clean_text(answer.choice)}, by {clean_line(answer.by)}.", "quiet")
        )

    async def _ask_once(self, gate: Gate, context: GateContext) -> Answer | None:
        """Ask once; None asks again."""
        offered = list_offers(gate, context)
        typed = await self._prompt(format_choices(offered) + "? ")
        option = find_choice(typed, offered)
        if typed.lower() in HELP:
            self._print_help(offered)
        elif option is None:
            self._complain(typed, offered)
        elif option is VIEW:
            await self._view(context)
        elif option.name in EDIT_CHOICES:
            return await self._edit(gate, context, option.name)
        elif option.needs_note:
            return await self._ask_note(gate, option)
        else:
            return Answer(choice=option.name)
        return None

    async def _prompt(self, question: str) -> str:
        self._console.print(Text(question, "key"), end="", soft_wrap=True)
        self._console.file.flush()
        return await self._keyboard.read_line()

    def _print_help(self, offered: Sequence[Option]) -> None:
        rows = [(Text(_format_choice(option), "key"), option.label) for option in offered]
        self._console.print(build_columns(rows))
        self._console.print(
            Text("  Ctrl-D or Ctrl-C leaves the question open: 'blueflame resume' asks it again.", "quiet")
        )

    def _complain(self, typed: str, offered: Sequence[Option]) -> None:
        if typed:  # an empty line is not a mistake
            keys = ", ".join(option.key for option in offered)
            self._console.print(Text(f"  Unknown choice {typed!r}. Type one of {keys}, or ? for help.", "warn"))

    async def _view(self, context: GateContext) -> None:
        assert context.diff is not None, "view is offered only where there is a diff"
        diff = await asyncio.to_thread(context.diff)
        await show_in_pager(render_diff(diff or "(no difference)"), self._console)

    async def _ask_note(self, gate: Gate, option: Option) -> Answer | None:
        question = NOTE_QUESTIONS.get((gate.kind, option.name), "Why")
        while (typed := await self._prompt(f"{question}: > ")) != BACK:
            if (problem := _check_note(gate, option, typed)) is None:
                return Answer(choice=option.name, note=typed)
            self._console.print(Text(f"  {problem} {BACK} goes back to the choices.", "warn"))
        return None

    async def _edit(self, gate: Gate, context: GateContext, choice: str) -> Answer | None:
        """Edit a copy until it is valid or given up; the plan itself is never changed."""
        with tempfile.TemporaryDirectory(prefix="blueflame-") as folder:
            copy = Path(folder) / "tasks.yaml"
            text = EDIT_HEAD + ("" if context.tasks else EXAMPLE) + format_plan(context.tasks)
            copy.write_text(text, encoding="utf-8", errors="surrogateescape")
            while True:
                problems = await self._edit_and_check(copy, gate, context)
                if problems is None:
                    return None
                if not problems:
                    return Answer(choice=choice, payload=build_edit_payload(read_plan(copy)))
                self._console.print(Text("The edited plan is invalid:", "bad"))
                self._console.print(build_columns([(Text(BAD, "bad"), clean_text(problem)) for problem in problems]))
                if not await self._ask_again():
                    self._console.print(Text("Given up: the plan is unchanged.", "quiet"))
                    return None

    async def _edit_and_check(self, copy: Path, gate: Gate, context: GateContext) -> Sequence[str] | None:
        """Open the editor once. None if it failed or nothing was changed."""
        try:
            code = await run_in_terminal([*find_editor(), str(copy)], cwd=copy.parent)
        except ProcessFailed as error:
            self._console.print(Text(str(error), "bad"))
            return None
        if code:
            self._console.print(Text(f"The editor ended with exit code {code}: the plan is unchanged.", "warn"))
            return None
        try:
            tasks = read_plan(copy)
        except PlanError as error:
            return [problem.replace(f"{copy.parent}/", "") for problem in error.problems]
        if tasks == context.tasks:
            self._console.print(Text("No changes.", "quiet"))
            return None
        return [*find_edit_problems(gate, tasks), *context.problems_of(tasks)]

    async def _ask_again(self) -> bool:
        while True:
            typed = (await self._prompt("(e)dit again / (g)ive up? ")).lower()
            if typed in ("e", "edit", "g", "give up"):
                return typed.startswith("e")


def list_offers(gate: Gate, context: GateContext) -> tuple[Option, ...]:
    """The gate's options, and `view` if there is a diff; the last option stays last."""
    if context.diff is None:
        return gate.options
    return (*gate.options[:-1], VIEW, *gate.options[-1:])


def format_choices(offered: Sequence[Option]) -> str:
    return " / ".join(_format_choice(option) for option in offered)


def _format_choice(option: Option) -> str:
    name = "view diff" if option is VIEW else DISPLAY_NAMES.get(option.name, option.name)
    at = option.letter
    return f"{name[:at]}({name[at]}){name[at + 1 :]}"


def find_choice(typed: str, offered: Sequence[Option]) -> Option | None:
    """By its letter or name, in any case."""
    word = typed.lower().replace("-", "")
    return next((option for option in offered if word in (option.key, option.name)), None)


def _check_note(gate: Gate, option: Option, typed: str) -> str | None:
    if not typed:
        return "Must not be empty."
    if (gate.kind, option.name) != (GateKind.BUDGET, "raise"):
        return None
    try:
        limit = float(typed.lstrip("$").replace(",", "").replace("_", ""))
    except ValueError:
        return "Must be a number such as 25 or 12.50."
    return None if limit >= 0 and isfinite(limit) else "Must not be negative."
