"""What all parts of the house share: its journal and state, its repositories, its people, and how it records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from blueflame.config.house import LoadedHouse
from blueflame.dispatch.people import People, find_sender
from blueflame.dispatch.state import House, replay_house
from blueflame.house.desk import HouseDesk
from blueflame.house.repository import WatchedRepository
from blueflame.journal.house import HouseJournal, Settlement
from blueflame.model.house.arrival import Sender, Trust
from blueflame.model.house.event import HouseEntry, HouseEvent
from blueflame.model.settings.chat import PersonSettings
from blueflame.model.settings.house import HouseSettings
from blueflame.system.clock import SystemClock
from blueflame.system.layout import HousePaths

TERMINAL = "terminal"


class HouseCore:
    def __init__(
        self,
        loaded: LoadedHouse,
        paths: HousePaths,
        journal: HouseJournal,
        *,
        environ: Mapping[str, str],
        login: str,
        wake: Callable[[], None],
    ) -> None:
        self.settings = loaded.settings
        self.paths = paths
        self.journal = journal
        self.environ = environ  # of the processes of sessions
        self.people = add_operator(self.settings.people, login)
        self.clock = SystemClock()
        self.state: House = replay_house(journal.read_open_streams())
        self.repositories = {
            name: WatchedRepository(name, loaded.find_config(each)) for name, each in self.settings.repositories.items()
        }
        self.desk = HouseDesk(journal, wake)

    def record(self, stream: str, *events: HouseEvent, settles: Iterable[Settlement] = ()) -> tuple[HouseEntry, ...]:
        """Append events of one stream, apply them and wake the faces."""
        entries = self.journal.append([(stream, event) for event in events], self.clock.now(), settles=tuple(settles))
        for entry in entries:
            self.state.apply(entry)
        self.desk.announce()
        return entries


def is_kept_id(source: str, key: str) -> bool:
    """Whether a terminal chose the id of a request: the person has it before a house takes the request."""
    return source == TERMINAL and key.startswith("req-")


class RequestIds:
    """The ids that are taken, asked one by one: of requests, and of those that terminals handed in."""

    def __init__(self, journal: HouseJournal) -> None:
        self._journal = journal

    def __contains__(self, name: object) -> bool:
        return self._journal.has_stream(str(name)) or self._journal.find_fate(TERMINAL, str(name)) is not None


def add_operator(people: People, login: str) -> People:
    """The people of house.yaml, and the user whose house it is: they can do everything here anyway."""
    if find_sender(people, f"{TERMINAL}:{login}") is not None:
        return people
    return {**people, login: PersonSettings(trust="owner", terminal=login)}


def identify_terminal(settings: HouseSettings, login: str) -> Sender:
    """The person at a terminal of this machine."""
    address = f"{TERMINAL}:{login}"
    found = find_sender(add_operator(settings.people, login), address)
    return found or Sender(name=login, trust=Trust.OWNER, address=address)
