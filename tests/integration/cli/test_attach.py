"""`blueflame attach`: which agent is meant, and what is printed when none can be connected to."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from rich.console import Console

from blueflame.cli.commands.attach import choose_agent, describe_resident
from blueflame.cli.gates.chat import AgentChat, AnswererAfterChat
from blueflame.cli.live.view import choose_view
from blueflame.model.attempt import Attempt
from blueflame.model.errors import BlueFlameError
from blueflame.model.gate import Answer, Gate, GateKind, Option
from blueflame.model.limits import SlotWait
from blueflame.session.state import Session
from support.command_line import YES, configure, here, launched, look, until, write
from support.session_examples import FLOW, Outcomes, begun, task


def attempt(agent: str, subject: str) -> Attempt:
    return Attempt(id=f"ses-1.{subject}.x.1", session="ses-1", subject=subject, role="worker", n=1, agent_id=agent)


PLANNER, ONE, TWO = (
    attempt("planner-aaaa1111", "plan"),
    attempt("worker-abc00001", "task-001"),
    attempt("worker-abd00002", "task-002"),
)
ALL = [PLANNER, ONE, TWO]


@pytest.mark.parametrize(
    ("wanted", "open_ones", "found"),
    [
        (None, [ONE], ONE),
        ("worker-abc00001", [ONE, TWO], ONE),
        ("worker-abd", [ONE, TWO], TWO),
        ("planner", ALL, PLANNER),
        ("task-002", [TWO], TWO),
        (ONE.id, ALL, ONE),
    ],
)
def test_an_agent_is_known_by_its_name_its_beginning_or_its_task(
    wanted: str | None, open_ones: list[Attempt], found: Attempt
) -> None:
    assert choose_agent(wanted, ALL, open_ones) is found


@pytest.mark.parametrize(
    ("wanted", "open_ones", "words"),
    [
        (None, [], "nothing to connect to: no running agent has a terminal"),
        (
            None,
            [ONE, TWO],
            "name an agent: those with a terminal: worker-abc00001 (task-001); worker-abd00002 (task-002)",
        ),
        ("worker-ab", ALL, "'worker-ab' matches more than one running agent: worker-abc00001, worker-abd00002"),
        ("fixer", [ONE], "no running agent 'fixer': those with a terminal: worker-abc00001 (task-001)"),
        (
            "task-001",
            [TWO],
            "worker-abc00001 has no terminal. Use 'blueflame watch' to see what it does",
        ),
    ],
)
def test_an_unknown_agent_gets_the_list_of_agents(wanted: str | None, open_ones: list[Attempt], words: str) -> None:
    with pytest.raises(BlueFlameError, match=re.escape(words)):
        choose_agent(wanted, ALL, open_ones)


def test_an_agent_without_a_terminal_cannot_be_connected_to(
    repo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(repo)
    slow = write(tmp_path / "play.yaml", {"defaults": {"worker": [{"sleep": "forever"}]}})
    decisions = write(tmp_path / "да.yaml", YES)
    words = ("run", "--task", "x", "--workflow", "direct", "--script", slow, "--decisions-file", decisions)
    monkeypatch.chdir(repo)
    with launched(*words, cwd=repo):
        until(lambda: (found := look(repo)) and found["locks"], what="an agent at work")
        said = here(capsys, "attach")
        assert (said.code, said.out) == (3, "")
        assert "no running agent has a terminal" in said.err
        assert "has no terminal" in here(capsys, "attach", "task-001").err
        (row,) = here(capsys, "attach", "--json").json["agents"]
        assert (row["subject"], row["has_terminal"]) == ("task-001", False)
        here(capsys, "stop", "--now")


def test_where_nothing_was_run_there_is_no_agent(
    repo: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(repo)
    monkeypatch.chdir(repo)
    said = here(capsys, "attach", "worker")
    assert said.code == 2
    assert "nothing has been run" in said.err


class Quick:
    async def ask(self, gate: Gate, session: Session, objection: str) -> Answer:
        return Answer(choice="approve")


def test_a_question_waits_until_the_talk_is_over_and_says_so() -> None:
    console = Console(record=True, width=120, quiet=False)
    session = begun(Outcomes()).session
    options = (Option("approve", "approve"),)
    gate = Gate(id="plan", kind=GateKind.PLAN, subject="plan", title="Approve it?", options=options, default="approve")

    async def story() -> Answer:
        conversation = AgentChat(console, choose_view(console, quiet=True))
        await conversation.terminal.acquire()
        asking = asyncio.create_task(AnswererAfterChat(Quick(), conversation, console).ask(gate, session, ""))
        await asyncio.sleep(0)
        assert not asking.done()
        conversation.terminal.release()
        return await asking

    assert asyncio.run(story()).choice == "approve"
    assert "A gate is waiting (Approve it?): Ctrl-] shows it." in console.export_text()


def test_a_window_that_stays_says_what_it_waits_for() -> None:
    world = begun(Outcomes(task(1)), FLOW)
    assert describe_resident(world.session, "worker") == "worker waits for its next task. Ctrl-C closes this window."
    world.session.awaited["worker"] = SlotWait(subject="task-001", reason="", ahead=1, seconds=900.0)
    assert describe_resident(world.session, "worker").startswith(
        "task-001 waits for a worker agent: about 15 min, 1 task ahead."
    )
    world.run()
    assert describe_resident(world.session, "worker-1").startswith(
        "task-001: passed. worker-1 waits for the next session."
    )
