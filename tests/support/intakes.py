"""The house's own intake for sources, which can be killed before any of its transactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from blueflame.house.desk import HouseDesk
from blueflame.intake.source import Clock, ServedRepository, SourceContext
from blueflame.journal.house import HouseJournal, Settlement
from blueflame.model.house.arrival import Arrival, IncomingRequest, Sender, Trust
from blueflame.model.house.event import SourceWarned

NOWHERE = Path("/nowhere")
NO_SECRETS: Mapping[str, str] = {}


class Killed(BaseException):
    """The house died before this transaction."""


class KilledDesk(HouseDesk):
    """`dies_in`: so many transactions succeed, and then the house is killed before the next one."""

    def __init__(self, path: Path) -> None:
        super().__init__(HouseJournal.open(path), lambda: None)
        self.dies_in: int | None = None
        self._ended: list[IncomingRequest] = []

    def receive(
        self,
        source: str,
        arrivals: Sequence[Arrival],
        *,
        cursor: str | None = None,
        notes: Mapping[str, str | None] | None = None,
    ) -> None:
        if self.dies_in == 0:
            raise Killed
        if self.dies_in is not None:
            self.dies_in -= 1
        super().receive(source, arrivals, cursor=cursor, notes=notes)

    @property
    def requests(self) -> list[IncomingRequest]:
        waiting = [each.arrival for each in self.journal.list_waiting(limit=10_000)]
        return [*self._ended, *(each for each in waiting if isinstance(each, IncomingRequest))]

    @property
    def warnings(self) -> list[tuple[str, str]]:
        events = [entry.event for entry in self.journal.read_after(0)]
        return [(event.source, event.text) for event in events if isinstance(event, SourceWarned)]

    def end_all(self) -> None:
        """Let every request end."""
        ended = self.journal.list_waiting(limit=10_000)
        self._ended = self.requests
        self.journal.append((), 0.0, settles=[Settlement(each.id) for each in ended])


@dataclass
class OpenedIntakes:
    folder: Path
    made: list[KilledDesk] = field(default_factory=list)

    def close(self) -> None:
        for desk in self.made:
            desk.journal.close()


OPENED: ContextVar[OpenedIntakes] = ContextVar("opened")
"""Of the test that runs: its fixture closes them."""


def open_intake() -> KilledDesk:
    """Open the intake of a new house."""
    opened = OPENED.get()
    opened.made.append(KilledDesk(opened.folder / f"{len(opened.made)}.db"))
    return opened.made[-1]


def build_source_context(
    clock: Clock, folder: Path = NOWHERE, environment: Mapping[str, str] = NO_SECRETS
) -> SourceContext:
    """A house with the repository `app` in its folder, in which alice is the owner and bob a member."""
    people = {
        "github:alice": Sender(name="alice", trust=Trust.OWNER, address="github:alice"),
        "gitlab:alice": Sender(name="alice", trust=Trust.OWNER, address="gitlab:alice"),
        "github:bob": Sender(name="bob", trust=Trust.MEMBER, address="github:bob"),
    }
    return SourceContext(
        folder=folder,
        repositories={"app": ServedRepository(folder / "app", folder / "app" / "blueflame.yaml")},
        identify=people.get,
        clock=clock,
        environment=environment,
    )
