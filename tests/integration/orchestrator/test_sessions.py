"""Messages to a session, whose process may be gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from blueflame.journal.journal import REFUSED, WAITING, Journal
from blueflame.model.event import SessionEnded
from blueflame.orchestrator.project import Project
from blueflame.orchestrator.sessions import send_and_wait
from support.command_line import configure
from support.recorded_session import ID, Story


@pytest.mark.parametrize(("ended", "state", "words"), [(False, WAITING, ""), (True, REFUSED, "it came too late")])
def test_a_message_waits_for_the_next_process_unless_the_session_has_ended(
    repo: Path, ended: bool, state: str, words: str
) -> None:
    project = Project(configure(repo))
    project.state.state.mkdir()
    story = Story().planned()
    if ended:
        story.tell(SessionEnded(outcome="stopped"))
    with Journal.open(project.state.journal) as journal:
        for entry in story.recorded:
            journal.append(ID, entry.seq - 1, [entry.event], entry.at)

    reply = send_and_wait(project, ID, "answer", {"gate": "plan", "choice": "approve"})

    assert reply.state == state
    assert words in reply.reply
