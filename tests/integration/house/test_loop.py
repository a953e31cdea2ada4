"""Steps of the house over requests of before, without a session's process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from blueflame.config.house import load_house
from blueflame.dispatch.state import fold_request
from blueflame.house.core import HouseCore
from blueflame.house.loop import HouseLoop
from blueflame.journal.house import HouseJournal
from blueflame.model.errors import JournalError
from blueflame.model.house.arrival import IncomingRequest
from blueflame.model.house.event import (
    CancelRequested,
    HouseEvent,
    RequestQueued,
    RequestReceived,
    RequestState,
    SessionFound,
    StartIntended,
)
from support.houses import OWNER, HouseStage

ASKED = IncomingRequest(source="test", key="1", sender=OWNER, at=1.0, text="Add a note", repository="shop")
QUEUED = (RequestReceived(request=ASKED, repository="shop"), RequestQueued())
RUNNING = (*QUEUED, StartIntended(), SessionFound(session="ses-1"))
CANCELLED = CancelRequested(by="alice")


@pytest.mark.parametrize(
    ("repository", "events", "state"),
    [
        ("removed", QUEUED, RequestState.REFUSED),
        ("removed", (*QUEUED, StartIntended()), RequestState.REFUSED),
        ("removed", RUNNING, RequestState.STOPPED),
        ("removed", (*RUNNING, CANCELLED), RequestState.CANCELLED),
        ("removed", (*QUEUED, StartIntended(), CANCELLED), RequestState.CANCELLED),
        ("deleted", QUEUED, RequestState.QUEUED),
        ("deleted", RUNNING, RequestState.RUNNING),
        ("deleted", (*RUNNING, CANCELLED), RequestState.CANCELLED),
    ],
)
def test_a_request_of_a_repository_that_is_gone(
    tmp_path: Path, repository: str, events: tuple[HouseEvent, ...], state: RequestState
) -> None:
    """Removed from house.yaml, or its folder deleted: it takes no slot for ever and can be cancelled."""
    stage = HouseStage(tmp_path, ("shop",) if repository == "deleted" else ())
    stage.write()
    loaded = load_house(stage.paths.config)
    with HouseJournal.open(stage.paths.journal) as house:
        house.append([("req-1", each) for each in events], 1.0)
        loop = HouseLoop(lambda wake: HouseCore(loaded, stage.paths, house, environ={}, login="alice", wake=wake))
        asyncio.run(loop.step())
        asyncio.run(loop.step())
        record = fold_request(house.read_stream("req-1"))
    assert record is not None
    assert record.state is state
    assert ("removed from house.yaml" in record.problem) == (repository == "removed" and not record.cancelled_by)


def test_a_house_notices_a_deleted_wal_although_it_has_nothing_to_write(tmp_path: Path) -> None:
    stage = HouseStage(tmp_path, ())
    stage.write()
    loaded = load_house(stage.paths.config)
    with HouseJournal.open(stage.paths.journal) as house:
        loop = HouseLoop(lambda wake: HouseCore(loaded, stage.paths, house, environ={}, login="alice", wake=wake))
        asyncio.run(loop.step())
        stage.paths.journal.with_name("house.db-wal").unlink()
        with pytest.raises(JournalError, match="saved there again"):
            asyncio.run(loop.step())
