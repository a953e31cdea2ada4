"""How a command at a terminal talks to a house: it hands in arrivals as sources do, and reads what became of them."""

from __future__ import annotations

import getpass
import os
import time
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from blueflame.config.house import LoadedHouse, load_house
from blueflame.house.core import TERMINAL, identify_terminal
from blueflame.journal.house import ArrivalFate, HouseJournal
from blueflame.model.errors import UsageError
from blueflame.model.house.arrival import Arrival, Sender
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
            journal.receive(TERMINAL, [arrival])
            send_wakeup(self.paths.signals, "arrival")
            until = time.monotonic() + REPLY_TIMEOUT
            while True:
                fate = journal.find_fate(arrival.source, arrival.key)
                assert fate is not None, "it was just received"
                if fate.settled or self.find_pid() is None or time.monotonic() > until:
                    return fate
                time.sleep(POLL_SECONDS)  # another process answers through the journal: polling is the only way


def open_house(folder: Path | None) -> HouseClient:
    paths = HousePaths(find_house_folder(os.environ, folder))
    return HouseClient(load_house(paths.config), paths)


def build_common(client: HouseClient) -> dict[str, Any]:
    """The fields that all arrivals of a terminal have; each command line is an arrival of its own."""
    return {"source": TERMINAL, "key": uuid4().hex, "sender": client.sender, "at": time.time()}
