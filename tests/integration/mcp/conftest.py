from __future__ import annotations

from pathlib import Path

import pytest

from blueflame.journal.journal import Journal
from blueflame.system.layout import StatePaths
from support.command_line import configure
from support.recorded_session import ID, Story


@pytest.fixture
def planned(repo: Path) -> Path:
    """A repository with a session that waits for its plan to be approved, and that no process runs."""
    config = configure(repo)
    state = StatePaths(repo)
    state.state.mkdir()
    story = Story().planned()
    with Journal.open(state.journal) as journal:
        for entry in story.recorded:
            journal.append(ID, entry.seq - 1, [entry.event], entry.at)
    return config
