"""A house for sources: keeps what they receive, as the real one does, in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from blueflame.intake.source import Clock, ServedRepository, SourceContext
from blueflame.model.house.arrival import Arrival, IncomingRequest, Sender, Trust

NOWHERE = Path("/nowhere")
NO_SECRETS: Mapping[str, str] = {}


class Killed(BaseException):
    """The house died before this transaction."""


@dataclass
class MemoryIntake:
    """`dies_in`: so many transactions succeed, and then the house is killed before the next one."""

    arrivals: dict[tuple[str, str], Arrival] = field(default_factory=dict)
    cursors: dict[str, str] = field(default_factory=dict)
    warnings: list[tuple[str, str]] = field(default_factory=list)
    ended: set[tuple[str, str]] = field(default_factory=set)
    dies_in: int | None = None

    def read_cursor(self, source: str) -> str:
        return self.cursors.get(source, "")

    def receive(self, source: str, arrivals: Sequence[Arrival], *, cursor: str | None = None) -> None:
        if self.dies_in == 0:
            raise Killed
        if self.dies_in is not None:
            self.dies_in -= 1
        for arrival in arrivals:
            self.arrivals.setdefault((arrival.source, arrival.key), arrival)
        if cursor is not None:
            self.cursors[source] = cursor

    def is_open(self, source: str, key: str) -> bool:
        return (source, key) in self.arrivals and (source, key) not in self.ended

    def warn(self, source: str, text: str) -> None:
        if (source, text) not in self.warnings:
            self.warnings.append((source, text))

    @property
    def requests(self) -> list[IncomingRequest]:
        return [arrival for arrival in self.arrivals.values() if isinstance(arrival, IncomingRequest)]

    def end_all(self) -> None:
        self.ended |= set(self.arrivals)


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
