"""How a performance is disturbed, and brought to its end all the same."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blueflame.journal.journal import Journal, SessionInfo
from blueflame.system import flock
from blueflame.warden import process_tree as tree
from crash.fork_server import Forge
from crash.scenario import Theatre

WAYS_TO_ASK = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, None)
IN_GOOD_ORDER = (0, 6, 130, -signal.SIGTERM, -signal.SIGHUP)  # the last three: before it had begun to listen
KILLED = -signal.SIGKILL
ENDED = 2  # what `resume` says when there is nothing left to resume
PATIENCE = 60.0
LOOKS = 0.3  # seconds that we look for a warden to kill
LOSSES = 3  # without blame
MOST = 400  # of anything in one round: whoever needs more does not come to an end


def until(condition: Callable[[], object], what: str) -> None:
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up, f"waited in vain until {what}"
        time.sleep(0.01)


@dataclass(slots=True)
class Toll:
    kills: int = 0
    struck: Counter[str] = field(default_factory=Counter)  # wardens killed, by what they were for

    @property
    def wardens(self) -> int:
        return self.struck.total()


def start_or_resume(theatre: Theatre) -> str:
    return "run" if _session(theatre) is None else "resume"


def has_ended(theatre: Theatre) -> bool:
    session = _session(theatre)
    return session is not None and session.ended is not None


def _session(theatre: Theatre) -> SessionInfo | None:
    path = theatre.root / ".blueflame" / "journal.db"
    if not path.exists():
        return None
    with Journal.read_only(path) as journal:
        return next(iter(journal.sessions()), None)


def finish(forge: Forge, theatre: Theatre) -> None:
    """Undisturbed from here on."""
    if not has_ended(theatre):
        code = forge.run(theatre, start_or_resume(theatre))
        assert code == 0, f"exit code {code}: {theatre.log.read_text()[-3000:]}"


def kill_after_every_event(forge: Forge, theatre: Theatre) -> int:
    """Each orchestrator writes to the journal that it is there, then once more, and is killed right after it."""
    for kills in range(MOST):
        verb = start_or_resume(theatre)
        code = forge.run(theatre, verb, {"after_append": {"times": 1 if verb == "run" else 2}})
        if code != KILLED:
            assert code in (0, ENDED), f"exit code {code}: {theatre.log.read_text()[-3000:]}"
            return kills
    raise AssertionError(f"{theatre.home.name} does not come to an end")


def kill_at(forge: Forge, theatre: Theatre, faults: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Each orchestrator has the next of the faults in it; tells which of them were met."""
    met = []
    for fault in faults:
        if has_ended(theatre):
            break
        if forge.run(theatre, start_or_resume(theatre), fault) == KILLED:
            met.append(fault)
    finish(forge, theatre)
    return met


def kill_at_random(
    forge: Forge, theatre: Theatre, dice: random.Random, *, most: int, wardens: float, asks: bool = False
) -> Toll:
    """Every 30 to 600 ms, up to `most` times; `wardens` is how likely one of them is killed along with it.

    With `asks`, some are first asked to stop, and killed while they do.
    """
    toll = Toll()
    while toll.kills < most and not has_ended(theatre):
        orchestrator = forge.start(theatre, start_or_resume(theatre))
        code = orchestrator.wait(dice.uniform(0.03, 0.6))
        if asks and code is None and (number := dice.choice(WAYS_TO_ASK)):
            forge.signal(orchestrator.pid, number)
            code = orchestrator.wait(dice.choice((0.0, 0.02, 0.1, 0.5)))
        if dice.random() < wardens:
            kill_a_warden(theatre, dice, toll.struck)
        if code is None and orchestrator.kill():
            toll.kills += 1
        else:
            code = orchestrator.end()
            assert code in (IN_GOOD_ORDER if asks else (0,)), f"{code}: {theatre.log.read_text()[-3000:]}"
    finish(forge, theatre)
    return toll


def kill_a_warden(theatre: Theatre, dice: random.Random, struck: Counter[str]) -> None:
    """One that is alive, if there soon is any; known by pid and start time, so nobody else can be hit.

    What was struck three times is spared: what always vanishes counts as failed, and that is not what is tried here.
    """
    give_up = time.monotonic() + LOOKS
    while not (living := _living_wardens(theatre, struck)) and time.monotonic() < give_up:
        time.sleep(0.005)
    if living:
        purpose = dice.choice(sorted(living))
        tree.signal_process(living[purpose], signal.SIGKILL)
        struck[purpose] += 1


def _living_wardens(theatre: Theatre, struck: Counter[str]) -> dict[str, tree.ProcessInfo]:
    """By what they are for: session, subject and role, without the number of the attempt."""
    purposes = {lock.parent.name.rpartition(".")[0]: lock for lock in sorted(_locks(theatre))}
    found = {purpose: _warden(lock) for purpose, lock in purposes.items() if struck[purpose] < LOSSES}
    return {purpose: warden for purpose, warden in found.items() if warden is not None}


def _locks(theatre: Theatre) -> Iterable[Path]:
    return (theatre.root / ".blueflame" / "attempts").glob("*/lock")


def _warden(lock: Path) -> tree.ProcessInfo | None:
    words = (flock.read_lock_holder(lock) or "").split()
    if len(words) < 2 or not all(word.isdigit() for word in words[:2]):
        return None
    found = tree.read_process(int(words[0]))
    return found if found is not None and found.start_time == int(words[1]) else None
