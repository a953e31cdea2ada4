"""How a command at a terminal talks to a house: it hands in arrivals as sources do, and reads what became of them."""

from __future__ import annotations

import getpass
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from blueflame.config.house import LoadedHouse, load_house
from blueflame.dispatch.state import RequestRecord, fold_request
from blueflame.house.core import TERMINAL, RequestIds, identify_terminal, is_kept_id
from blueflame.journal.house import ArrivalFate, HouseJournal
from blueflame.model.errors import UsageError
from blueflame.model.house.arrival import Arrival, IncomingRequest, Sender
from blueflame.model.house.event import RequestState
from blueflame.model.ids import build_request_id
from blueflame.system import flock
from blueflame.system.layout import HousePaths, find_house_folder
from blueflame.system.wakeups import send_wakeup

REPLY_TIMEOUT = 15.0
POLL_SECONDS = 0.05


class HouseClient(NamedTuple):
    loaded: LoadedHouse
    paths: HousePaths

    @property
    def sender(self) -> Sender:
        return identify_terminal(self.loaded.settings, getpass.getuser())

    def find_pid(self) -> int | None:
        """The pid of the house, if it is served now."""
        held = flock.read_lock_holder(self.paths.lock)
        return int(held.split(" ")[0]) if held and held.split(" ")[0].isdigit() else None

    def find_repository(self, config: Path) -> str:
        """The name of the repository with this configuration file."""
        wanted = config.resolve()
        for name, each in self.loaded.settings.repositories.items():
            if self.loaded.find_config(each).resolve() == wanted:
                return name
        raise UsageError(
            f"{config.parent} is not one of the repositories of {self.paths.config}: add it there under repositories"
        )

    def hand_in(self, arrival: Arrival) -> ArrivalFate:
        """Hand it in, and wait for what became of it; while no house is served, it is kept for the next one."""
        with HouseJournal.open(self.paths.journal) as journal:
            if isinstance(arrival, IncomingRequest):
                arrival = _receive_request(journal, arrival)
            else:
                journal.receive(TERMINAL, [arrival])
            send_wakeup(self.paths.signals, "arrival")
            until = time.monotonic() + REPLY_TIMEOUT
            while True:
                fate = journal.find_fate(arrival.source, arrival.key)
                assert fate is not None, "it was just received"
                if fate.settled:
                    return fate
                if self.find_pid() is None or time.monotonic() > until:
                    return fate._replace(stream=arrival.key if isinstance(arrival, IncomingRequest) else "")
                time.sleep(POLL_SECONDS)  # another process answers through the journal: polling is the only way


def _receive_request(journal: HouseJournal, request: IncomingRequest) -> IncomingRequest:
    """Keep it under an id that no other has: it can be listed and cancelled before a house takes it."""
    while True:
        request = replace(request, key=build_request_id(request.at, RequestIds(journal)))
        if journal.receive(TERMINAL, [request]):
            return request


def list_kept(journal: HouseJournal) -> tuple[RequestRecord, ...]:
    """The requests of terminals that no house has taken yet."""
    waiting = [each.arrival for each in journal.list_waiting()]
    return tuple(
        RequestRecord(
            id=each.key,
            request=each,
            repository=each.repository,
            state=RequestState.RECEIVED,
            received_at=each.at,
            changed_at=each.at,
        )
        for each in waiting
        if isinstance(each, IncomingRequest) and is_kept_id(each.source, each.key)
    )


def find_record(journal: HouseJournal, request: str) -> RequestRecord | None:
    """A request by its id: open, ended, or kept for the house."""
    found = fold_request(journal.read_stream(request))
    return found or next((each for each in list_kept(journal) if each.id == request), None)


def open_house(folder: Path | None) -> HouseClient:
    paths = HousePaths(find_house_folder(os.environ, folder))
    return HouseClient(load_house(paths.config), paths)


def build_common(client: HouseClient) -> dict[str, Any]:
    """The fields that all arrivals of a terminal have; each command line is an arrival of its own."""
    return {"source": TERMINAL, "key": uuid4().hex, "sender": client.sender, "at": time.time()}
