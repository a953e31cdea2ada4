"""Questions asked through a real pseudo-terminal, answered with typed keys."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import subprocess
import sys
import termios
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest

from blueflame.cli.console import make_console
from blueflame.cli.gates.answerers import DecisionsAnswerer, WaitingAnswerer
from blueflame.cli.gates.prompt import GateContext, GatePrompt, find_choice, format_choices, list_offers
from blueflame.documents.decisions import load_decisions
from blueflame.model.errors import NoAnswer
from blueflame.model.event import GateAnswered
from blueflame.model.gate import FORMS, Answer, Gate, GateKind
from blueflame.session.gates.edits import parse_edit_payload
from blueflame.session.gates.questions import open_budget_gate
from blueflame.system.terminal import Keyboard, TerminalGone
from support.recorded_session import TASKS, Story

PATIENCE = 60.0


def gate(kind: GateKind, subject: str = "it") -> Gate:
    return Gate(id="g-1", kind=kind, subject=subject, title="Что делать?", options=FORMS[kind].options, default="quit")


class Typist:
    """The person's side of the terminal: sees the screen, types keys."""

    def __init__(self, master: int, slave: int) -> None:
        self.master, self.slave = master, slave
        self.screen = ""
        self._seen = 0
        self._news = asyncio.Event()
        asyncio.get_running_loop().add_reader(master, self._look)

    def _look(self) -> None:
        with suppress(OSError):  # the other side has ended
            self.screen += os.read(self.master, 4096).decode("utf-8", "replace")
        self._news.set()

    async def sees(self, text: str) -> None:
        """Wait until the text appears after what was already waited for."""
        async with asyncio.timeout(PATIENCE):
            while text not in self.screen[self._seen :]:
                self._news.clear()
                await self._news.wait()
        self._seen = self.screen.index(text, self._seen) + len(text)

    def types(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    async def insists(self, keys: str, text: str) -> None:
        """Type the same again until it is heard: less drops keys for a while after an interrupt."""
        async with asyncio.timeout(PATIENCE):
            while text not in self.screen[self._seen :]:
                self._news.clear()
                self.types(keys)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._news.wait(), 0.5)
        await self.sees(text)

    async def answers(self, prompt: str, keys: str) -> None:
        await self.sees(prompt)
        self.types(f"{keys}\n")


@asynccontextmanager
async def terminal() -> AsyncIterator[tuple[Typist, GatePrompt]]:
    master, slave = pty.openpty()
    screen = os.fdopen(os.dup(slave), "w", encoding="utf-8")
    typist = Typist(master, slave)
    try:
        yield typist, GatePrompt(make_console(file=screen, width=80), Keyboard(slave))
    finally:
        asyncio.get_running_loop().remove_reader(master)
        screen.close()
        os.close(master)
        os.close(slave)


Script = Sequence[tuple[str, str]]


def converse(kind: GateKind, script: Script, context: GateContext | None = None) -> tuple[Answer, str]:
    """Ask, answer by the script, give the answer and all that was on the screen."""

    async def talk() -> tuple[Answer, str]:
        async with terminal() as (typist, answerer):
            asking = asyncio.create_task(answerer.ask(gate(kind), context or GateContext(tasks=TASKS)))
            for prompt, keys in script:
                await typist.answers(prompt, keys)
            async with asyncio.timeout(PATIENCE):
                return await asking, typist.screen

    return asyncio.run(talk())


PLAN_CHOICES = "(a)pprove / (e)dit / (r)e-plan / (s)ingle / (q)uit? "
CHANGESET_CHOICES = "(a)pprove / (r)eject / (v)iew diff / (s)kip? "


@pytest.mark.parametrize("keys", ["a", "A", "approve", "  Approve "])
def test_a_letter_or_the_whole_word_answers(keys: str) -> None:
    answer, screen = converse(GateKind.PLAN, [(PLAN_CHOICES, keys)])
    assert answer == Answer(choice="approve")
    assert "Что делать?" in screen


@pytest.mark.parametrize("keys", ["re-plan", "replan", "R"])
def test_replan_is_understood_however_it_is_spelled(keys: str) -> None:
    answer, _ = converse(GateKind.PLAN, [(PLAN_CHOICES, keys), ("Notes for the planner: > ", "поменьше задач")])
    assert answer == Answer(choice="replan", note="поменьше задач")


def test_an_empty_line_asks_again_and_takes_no_default() -> None:
    answer, screen = converse(GateKind.SESSION, [("(s)top? ", ""), ("(s)top? ", "stop")])
    assert answer.choice == "stop"
    assert screen.count("(c)ontinue / (r)e-plan / (s)top? ") == 2


def test_an_unknown_choice_gets_the_list_of_choices() -> None:
    answer, _ = converse(
        GateKind.PLAN,
        [(PLAN_CHOICES, "yes"), ("Unknown choice 'yes'. Type one of a, e, r, s, q", ""), (PLAN_CHOICES, "q")],
    )
    assert answer.choice == "quit"


def test_help_explains_every_choice() -> None:
    _, screen = converse(GateKind.DRIFT, [("? ", "?"), ("blueflame resume", ""), ("(s)top? ", "k")])
    for option in FORMS[GateKind.DRIFT].options:
        assert option.label in screen


def test_a_reason_is_asked_until_it_is_given() -> None:
    answer, _ = converse(
        GateKind.CHANGESET,
        [
            ("? ", "r"),
            ("Rejection reason: > ", ""),
            ("Must not be empty", ""),
            ("reason: > ", ""),
            ("> ", "нет тестов"),
        ],
    )
    assert answer == Answer(choice="reject", note="нет тестов")


def test_a_dash_goes_back_to_the_choices() -> None:
    answer, _ = converse(GateKind.CHANGESET, [("? ", "reject"), ("reason: > ", "-"), ("(s)kip? ", "s")])
    assert answer.choice == "skip"


def test_a_raise_needs_a_number() -> None:
    script = [
        ("? ", "r"),
        ("New limit", "much"),
        ("Must be a number", ""),
        ("> ", ""),
        ("> ", "-5"),
        ("not be negative", ""),
    ]
    answer, _ = converse(GateKind.BUDGET, [*script, ("> ", ""), ("> ", "$1,250.50")])
    assert answer == Answer(choice="raise", note="$1,250.50")


def test_the_diff_is_shown_and_the_question_comes_back() -> None:
    context = GateContext(diff=lambda: "diff --git a/x b/x\n+новая \x1b]0;evil\x07 строка\n")
    answer, screen = converse(GateKind.CHANGESET, [(CHANGESET_CHOICES, "v"), (CHANGESET_CHOICES, "a")], context)
    assert answer.choice == "approve"
    assert "+новая ␛]0;evil␇ строка" in screen
    assert "\x1b]0;" not in screen


def test_what_was_typed_before_the_question_does_not_answer_it() -> None:
    async def talk() -> Answer:
        async with terminal() as (typist, answerer):
            typist.types("a\n")
            await typist.sees("a")  # echoed: it is in the terminal's queue
            asking = asyncio.create_task(answerer.ask(gate(GateKind.PLAN), GateContext()))
            await typist.answers(PLAN_CHOICES, "q")
            return await asking

    assert asyncio.run(talk()).choice == "quit"


@pytest.mark.parametrize("how", ["ctrl-d", "closed"])
def test_a_terminal_that_ends_leaves_the_question_open(how: str) -> None:
    async def talk() -> None:
        async with terminal() as (typist, answerer):
            asking = asyncio.create_task(answerer.ask(gate(GateKind.PLAN), GateContext()))
            await typist.sees(PLAN_CHOICES)
            if how == "ctrl-d":
                typist.types("\x04")
            else:
                asyncio.get_running_loop().remove_reader(typist.master)
                os.dup2(os.open(os.devnull, os.O_RDWR), typist.master)
            with pytest.raises(TerminalGone, match="blueflame resume"):
                await asking

    asyncio.run(talk())


def test_an_answer_from_elsewhere_ends_the_question_and_spoils_no_other() -> None:
    async def talk() -> tuple[Answer, str]:
        async with terminal() as (typist, answerer):
            asking = asyncio.create_task(answerer.ask(gate(GateKind.PLAN), GateContext()))
            await typist.sees(PLAN_CHOICES)
            typist.types("half an ans")
            await typist.sees("half an ans")
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            answerer.report_answered_elsewhere(Answer(choice="approve", by="Ада, tty2"))
            await typist.sees("Answered elsewhere: approve, by Ада, tty2.")
            asking = asyncio.create_task(answerer.ask(gate(GateKind.SESSION), GateContext()))
            await typist.answers("(s)top? ", "c")
            return await asking, typist.screen

    answer, _ = asyncio.run(talk())
    assert answer.choice == "continue"


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """An $EDITOR with a space in its path that does one thing after the other, once each time it is opened."""

    def use(*actions: str) -> None:
        program = tmp_path / "мой editor"
        program.write_text(
            f"#!{sys.executable}\n"
            "import pathlib, sys\n"
            f"turn = pathlib.Path({str(tmp_path / 'turn')!r})\n"
            "n = int(turn.read_text()) if turn.exists() else 0\n"
            "turn.write_text(str(n + 1))\n"
            "path = pathlib.Path(sys.argv[-1])\n"
            "text = path.read_text()\n"
            f"exec({list(actions)!r}[n])\n"
            "path.write_text(text)\n"
        )
        program.chmod(0o755)
        monkeypatch.setenv("EDITOR", f"'{program}' --wait")

    return use


RENAME = "text = text.replace('Add auth tests', 'Проверить вход')"


def test_an_edit_is_read_back_as_tasks(editor: Callable[..., None]) -> None:
    editor(RENAME)
    answer, _ = converse(GateKind.PLAN, [(PLAN_CHOICES, "e")])
    assert [task.title for task in parse_edit_payload(answer.payload)] == [
        TASKS[0].title,
        "Проверить вход",
        TASKS[2].title,
    ]


def test_a_broken_edit_can_be_corrected(editor: Callable[..., None]) -> None:
    editor(
        "text = text.replace('priority: 1', 'priority: high')", "text = text.replace('priority: high', 'priority: 7')"
    )
    answer, screen = converse(GateKind.PLAN, [(PLAN_CHOICES, "e"), ("(g)ive up? ", "e")])
    assert parse_edit_payload(answer.payload)[0].priority == 7
    assert re.search(r"tasks.yaml:\d+: task-001: priority must be", screen)


def test_an_edit_can_be_given_up(editor: Callable[..., None]) -> None:
    editor("text = 'tasks: ['")
    answer, screen = converse(
        GateKind.PLAN, [(PLAN_CHOICES, "e"), ("(g)ive up? ", "x"), ("up? ", "g"), (PLAN_CHOICES, "a")]
    )
    assert answer == Answer(choice="approve")
    assert "the plan is unchanged" in screen


def test_an_edit_against_the_rules_is_not_taken(editor: Callable[..., None]) -> None:
    editor(RENAME, RENAME)
    context = GateContext(tasks=TASKS, problems_of=lambda tasks: [f"{len(tasks)} tasks are too many"])
    answer, screen = converse(GateKind.PLAN, [(PLAN_CHOICES, "e"), ("(g)ive up? ", "g"), (PLAN_CHOICES, "q")], context)
    assert answer.choice == "quit"
    assert "3 tasks are too many" in screen


@pytest.mark.parametrize(
    ("action", "said"), [("pass", "No changes."), ("sys.exit(3)", "The editor ended with exit code 3")]
)
def test_an_edit_that_did_nothing_returns_to_the_choices(editor: Callable[..., None], action: str, said: str) -> None:
    editor(action)
    answer, _ = converse(GateKind.PLAN, [(PLAN_CHOICES, "e"), (said, ""), (PLAN_CHOICES, "a")])
    assert answer.choice == "approve"


def test_a_missing_editor_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "/nowhere/ed")
    answer, _ = converse(GateKind.PLAN, [(PLAN_CHOICES, "e"), ("cannot start '/nowhere/ed'", ""), (PLAN_CHOICES, "a")])
    assert answer.choice == "approve"


def test_an_editor_opened_without_a_plan_shows_how_one_is_written(editor: Callable[..., None]) -> None:
    editor("text = text.replace('tasks: []', '').replace('\\n# ', '\\n').split('Write it like this:')[1][2:]")
    answer, _ = converse(GateKind.PLAN, [(PLAN_CHOICES, "e")], GateContext())
    assert parse_edit_payload(answer.payload)[0].title == "Add a health check"


def test_viewing_goes_before_the_way_out_and_only_where_there_is_a_diff() -> None:
    changeset = gate(GateKind.CHANGESET)
    assert format_choices(list_offers(changeset, GateContext())) == "(a)pprove / (r)eject / (s)kip"
    assert find_choice("v", list_offers(changeset, GateContext())) is None
    assert find_choice("view", list_offers(changeset, GateContext(diff=str))) is not None


@pytest.mark.parametrize("kind", list(GateKind))
def test_the_keys_of_a_gate_differ(kind: GateKind) -> None:
    keys = [option.key for option in list_offers(gate(kind), GateContext(diff=str))]
    assert len(set(keys)) == len(keys)


# the answerers that a session is given


def test_a_session_is_answered_from_decisions(tmp_path: Path) -> None:
    path = tmp_path / "d.yaml"
    path.write_text("plan: [approve]\n")
    answerer = DecisionsAnswerer(load_decisions(path))
    story = Story().planned()
    plan = story.session.open_gates["plan"]
    answer = asyncio.run(answerer.ask(plan, story.session, ""))
    assert answer == Answer(choice="approve", by="decisions:plan[0]")
    story.tell(GateAnswered(gate="plan", answer=answer))
    with pytest.raises(NoAnswer):
        asyncio.run(answerer.ask(plan, story.session, ""))


def test_without_a_person_the_gate_is_named_and_waits(capsys: pytest.CaptureFixture[str]) -> None:
    story = Story().planned()

    async def wait() -> None:
        asking = asyncio.create_task(
            WaitingAnswerer(make_console()).ask(story.session.open_gates["plan"], story.session, "")
        )
        await asyncio.sleep(0)
        assert not asking.done()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(wait())
    assert "blueflame answer plan approve|edit|replan|quit" in capsys.readouterr().out


def test_without_a_person_a_session_without_money_stops(capsys: pytest.CaptureFixture[str]) -> None:
    story = Story().planned()
    gate = open_budget_gate(story.session).gate
    answer = asyncio.run(WaitingAnswerer(make_console()).ask(gate, story.session, ""))
    assert (answer.choice, answer.by) == ("stop", "default")
    assert "No terminal to raise it at: stopping." in capsys.readouterr().out


DRIVER = """
import asyncio, os, sys
os.close(os.open(os.ttyname(0), os.O_RDWR))  # a session's leader that opens a terminal gets it for its own
from blueflame.cli.gates.answerers import TerminalAnswerer
from blueflame.cli.live.view import LiveFrame
from blueflame.cli.console import make_console
sys.path.insert(0, {tests!r})
from support.recorded_session import Story

async def main():
    story = Story().reviewing()
    console = make_console()
    frame = LiveFrame(console)
    frame.see(story.session, story.recorded)
    (gate,) = story.session.open_gates.values()
    diff = "".join(f"+line {{n}}\\n" for n in range(500))
    answer = await TerminalAnswerer(console, frame, lambda s, g: lambda: diff).ask(gate, story.session, "")
    frame.close()
    console.print("ANSWER", answer.choice, answer.note, soft_wrap=True)

asyncio.run(main())
"""


@contextmanager
def at_a_real_terminal(script: str, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A program in the foreground of a terminal of its own, as a shell would start it."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 80))
    env = {**os.environ, "TERM": "xterm", "LESSHISTFILE": "-"}
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=env,
        cwd=tmp_path,
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield child, master
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()
        os.close(master)


def test_a_pager_gets_the_terminal_and_ctrl_c_in_it_does_not_end_the_session(tmp_path: Path) -> None:
    """D-10: the pager leafs, an interrupt reaches only the pager, and the question comes back."""
    script = DRIVER.format(tests=str(Path(__file__).parents[2]))

    async def talk() -> str:
        with at_a_real_terminal(script, tmp_path) as (child, master):
            typist = Typist(master, master)
            try:
                await typist.answers(CHANGESET_CHOICES, "v")
                await typist.sees("+line 5")
                typist.types("\x03")
                await typist.insists("G", "+line 499")
                typist.types("q")
                await typist.answers(CHANGESET_CHOICES, "r")
                await typist.answers("reason: > ", "docs first")
                await typist.sees("ANSWER reject docs first")
            finally:
                asyncio.get_running_loop().remove_reader(master)
            assert child.wait(PATIENCE) == 0
            return typist.screen

    screen = asyncio.run(talk())
    screen = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen)
    assert "Changeset 1/2: [auth] Add JWT" in screen
    assert "→ [auth] rejected, re-queued with your reason: task-001, task-002" in screen
