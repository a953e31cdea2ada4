"""Work that a subagent of a conversation takes and hands in, and the program that waits for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from blueflame.agents.subagent import SubagentRuntime, hand_in_work, is_waiting, relay, take_work
from blueflame.model.errors import Refused
from blueflame.orchestrator.attempts.model_access import write_home
from support.agent_briefs import build_brief

CHECKOUT, INSIDE = "/home/ада/repo/.trees/worker-1", "/work/repo"


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    folder = tmp_path / "ses-1.task-001.worker.1"
    folder.mkdir()
    brief = build_brief(worktree=INSIDE, prompt=f"Look at {INSIDE}/src.")
    write_home(folder / "home", SubagentRuntime().prepare_launch(brief, directory=folder).home)
    return folder


def test_work_is_taken_once_with_the_place_where_it_is_done(attempt: Path) -> None:
    assert is_waiting(attempt)
    work = take_work(attempt, CHECKOUT)
    assert work is not None
    assert work.checkout == CHECKOUT
    assert f"Look at {CHECKOUT}/src." in work.prompt
    assert INSIDE not in work.prompt
    assert (is_waiting(attempt), take_work(attempt, CHECKOUT)) == (False, None)


def test_what_was_not_taken_or_has_ended_is_not_handed_in(attempt: Path) -> None:
    with pytest.raises(Refused):
        hand_in_work(attempt, "done")
    take_work(attempt, CHECKOUT)
    (attempt / "outcome.json").touch()
    with pytest.raises(Refused):
        hand_in_work(attempt, "done")
    assert take_work(attempt, CHECKOUT) is None


def test_work_without_a_single_watched_call_is_refused(attempt: Path, capsys: pytest.CaptureFixture[str]) -> None:
    take_work(attempt, CHECKOUT)
    hand_in_work(attempt, "done")
    assert relay.main([str(attempt / "home" / relay.FOLDER)]) == 1
    assert "no call of the subagent was watched" in json.loads(capsys.readouterr().out)["text"]


@pytest.mark.parametrize(
    ("given", "placed"),
    [
        ({"file_path": f"{CHECKOUT}/src/1.txt"}, True),
        ({"path": CHECKOUT, "pattern": "x"}, True),
        ({"command": f"cd {CHECKOUT} && git status"}, True),
        ({"command": f"cd '{CHECKOUT}' && git status"}, True),
        ({"command": "git status"}, False),
        ({"command": f"rm x; cd {CHECKOUT}"}, False),
        ({"pattern": CHECKOUT}, False),
        ({"file_path": "/etc/passwd"}, False),
        ([], False),
    ],
)
def test_a_call_counts_as_made_in_the_checkout_if_it_goes_there(given: Any, placed: bool) -> None:  # noqa: ANN401
    call = {"cwd": "/home/ада/repo", "tool_input": given}
    assert relay.place_call(call, CHECKOUT)["cwd"] == (CHECKOUT if placed else "/home/ада/repo")
