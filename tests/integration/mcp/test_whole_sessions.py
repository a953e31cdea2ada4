"""A whole session from an MCP client: the person decides in a dialog, and the work is done in processes of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.command_line import configure, task, write
from support.mcp_clients import Conversation, Person, choose, connect, converse
from support.repositories import run_git

MAX_TOKENS = 3_000
CHARS_PER_TOKEN = 3  # JSON has short words: a cautious figure


@pytest.fixture
def project(repo: Path) -> Path:
    """A repository whose agents play a script that its configuration names."""
    steps = [{"write": {"path": "src/1.txt", "text": "eins\n"}}, {"commit": "feat({task}): write it"}]
    script = {"planner": [{"plan": [task(1)]}], "defaults": {"worker": steps}}
    write(repo.parent / "script.yaml", script)
    configure(repo, {"runtimes": {"scripted": {"script": "../script.yaml"}}})
    return repo


@pytest.mark.slow
def test_a_person_decides_in_dialogs_and_the_work_lands(project: Path, tmp_path: Path) -> None:
    """In the older protocol; test_subagents.py has one in the newer, and test_answers.py has dialogs in both."""
    person = Person(choose("approve"), choose("approve"))
    results: list[Any] = []

    async def story() -> None:
        async with connect(project / "blueflame.yaml", tmp_path / "calls", era="legacy", person=person) as mine:
            results.append(await mine.call("size", request="Write one"))
            started = await mine.call("start", request="Write one", tier=3)
            results.append(started)
            results.append(await mine.until("'plan'"))
            results.append(await answer(mine, "plan"))
            results.append(await mine.until("'changeset-"))
            gate = results[-1]["gates"][0]["id"]
            results.append(await mine.call("show", item=gate))
            results.append(await answer(mine, gate))
            results.append(await mine.until("'completed'"))
            assert results[-1]["session"] == started["session"]
            journal = (await mine.call("log"))["text"]
            assert "runs the session, started by prüfer␛[31m 1 (MCP), for " in journal
            assert journal.count("in a dialog of prüfer␛[31m 1 (MCP)") == len(person.asked)

    converse(story())
    assert run_git(project, "show", "main:src/1.txt") == "eins\n"
    assert "Задача 1" in person.asked[0]
    assert "src/1.txt" in person.asked[1]
    read = json.dumps(results, ensure_ascii=False)
    assert len(read) / CHARS_PER_TOKEN < MAX_TOKENS, f"{len(read)} characters"


async def answer(mine: Conversation, gate: str) -> dict[str, Any]:
    reply = await mine.call("answer", gate=gate)
    assert reply["answered"], reply
    return reply
