"""What running agents have said and used so far, read on from where it was left the last time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from blueflame.model.attempt import Attempt
from blueflame.model.spend import NOTHING, Spend
from blueflame.tools.agents.runtime import Runtime, Said, Signal, Used, follow

STEP = 64 * 1024  # bytes: a frame is drawn several times a second, for several agents


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    said: str = ""
    spend: Spend = NOTHING
    offset: int = 0


class Listener:
    """One for each who listens: what it has heard is where it goes on."""

    def __init__(self, runtimes: Mapping[str, Runtime]) -> None:
        self._runtimes = runtimes
        self._heard: dict[str, Heard] = {}

    def hear(self, attempt: Attempt, directory: Path, *, most: int = 1) -> Heard:
        """All so far; of what is new a step, or about `most` bytes: a flood is caught up with bit by bit."""
        heard = self._heard.get(attempt.id, Heard())
        runtime = self._runtimes.get(attempt.runtime)
        goal = heard.offset + most
        while runtime is not None and heard.offset < goal:
            signals, offset = follow(runtime, directory / "stdout.log", heard.offset, step=STEP)
            if offset == heard.offset:
                break
            heard = replace(_taken(heard, signals), offset=offset)
        self._heard[attempt.id] = heard
        return heard

    def forget(self, living: Mapping[str, object]) -> None:
        """Whoever is not among the living says nothing more."""
        self._heard = {name: heard for name, heard in self._heard.items() if name in living}


def _taken(heard: Heard, signals: tuple[Signal, ...]) -> Heard:
    said, spend = heard.said, heard.spend
    for signal in signals:
        if isinstance(signal, Said):
            said = signal.text
        elif isinstance(signal, Used):
            spend = spend + signal.spend
    return Heard(said=said, spend=spend)
