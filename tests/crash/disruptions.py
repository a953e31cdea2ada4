"""Disturb a session, and finish it."""

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
from blueflame.model.event import GateOpened
from blueflame.model.exit_codes import ExitCode
from blueflame.model.gate import GateKind
from blueflame.system import flock
from blueflame.warden import process_tree as tree
from crash.expectations import find_processes
from crash.fork_server import ForkServer
from crash.scenario import Scenario

WAYS_TO_ASK = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, None)
IN_GOOD_ORDER = (0, 6, 130, -signal.SIGTERM, -signal.SIGHUP)  # the last three: before it had begun to listen
KILLED = -signal.SIGKILL
ENDED = 2  # what `resume` says when there is nothing left to resume
PATIENCE = 60.0
LOOKS = 0.3  # seconds that we look for a warden to kill
AFTER_PROGRESS = 0.75  # of the kills
MOST = 400  # of anything in one round: more means that it does not end


def wait_until(condition: Callable[[], object], what: str) -> None:
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up, f"timed out waiting until {what}"
        time.sleep(0.01)


@dataclass(slots=True)
class KillCount:
    kills: int = 0
    struck: Counter[str] = field(default_factory=Counter)  # wardens killed, by what they were for

    @property
    def wardens(self) -> int:
        return self.struck.total()


def start_or_resume(scenario: Scenario) -> str:
    return "run" if _find_session(scenario) is None else "resume"


def has_ended(scenario: Scenario) -> bool:
    session = _find_session(scenario)
    return session is not None and session.ended is not None


def _find_session(scenario: Scenario) -> SessionInfo | None:
    path = scenario.root / ".blueflame" / "journal.db"
    if not path.exists():
        return None
    with Journal.open_read_only(path) as journal:
        return next(iter(journal.list_sessions()), None)


def _count_events(scenario: Scenario) -> int:
    session = _find_session(scenario)
    if session is None:
        return 0
    with Journal.open_read_only(scenario.root / ".blueflame" / "journal.db") as journal:
        return len(journal.read_events(session.id))


def finish_session(fork_server: ForkServer, scenario: Scenario) -> None:
    """Run to the end without further faults. The first run may find that it has to ask about earlier losses."""
    if not has_ended(scenario):
        code = fork_server.run(scenario, start_or_resume(scenario))
        if code and _asks_about_losses(scenario, code):
            code = fork_server.run(scenario, "resume")
        assert code == 0, f"exit code {code}: {scenario.log.read_text()[-3000:]}"


def _asks_about_losses(scenario: Scenario, code: int) -> bool:
    """Whether it stopped since attempts at one task were lost eight times in a row: the decisions have no answer."""
    session = _find_session(scenario)
    if session is None or code != ExitCode.WORLD:
        return False
    with Journal.open_read_only(scenario.root / ".blueflame" / "journal.db") as journal:
        gates = [each.event.gate for each in journal.read_events(session.id) if isinstance(each.event, GateOpened)]
    return gates[-1].kind is GateKind.ENVIRONMENT and gates[-1].evidence["cause"] == "lost"


def kill_after_every_event(fork_server: ForkServer, scenario: Scenario) -> int:
    """Kill each orchestrator after its second write to the journal, of which the first records its start."""
    for kills in range(MOST):
        verb = start_or_resume(scenario)
        code = fork_server.run(scenario, verb, {"after_append": {"times": 1 if verb == "run" else 2}})
        if code != KILLED:
            assert code in (0, ENDED), f"exit code {code}: {scenario.log.read_text()[-3000:]}"
            return kills
    raise AssertionError(f"{scenario.home.name} does not come to an end")


def kill_at(
    fork_server: ForkServer, scenario: Scenario, faults: Iterable[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Run an orchestrator with each of the faults; return those that occurred."""
    met = []
    for fault in faults:
        if has_ended(scenario):
            break
        if fork_server.run(scenario, start_or_resume(scenario), fault) == KILLED:
            met.append(fault)
    finish_session(fork_server, scenario)
    return met


def kill_at_random(
    fork_server: ForkServer, scenario: Scenario, dice: random.Random, *, most: int, wardens: float, asks: bool = False
) -> KillCount:
    """Kill every 30 to 600 ms, up to `most` times; `wardens` is the probability that a warden is killed, too.

    Three of four only after they have recorded something: on a busy machine most would not come that far.
    With `asks`, some are first asked to stop, and killed while they do.
    """
    toll = KillCount()
    while toll.kills < most and not has_ended(scenario):
        orchestrator = fork_server.start(scenario, start_or_resume(scenario))
        if dice.random() < AFTER_PROGRESS:
            orchestrator.await_progress()
        code = orchestrator.wait(dice.uniform(0.03, 0.6))
        if asks and code is None and (number := dice.choice(WAYS_TO_ASK)):
            fork_server.signal(orchestrator.pid, number)
            code = orchestrator.wait(dice.choice((0.0, 0.02, 0.1, 0.5)))
        if dice.random() < wardens:
            kill_a_warden(scenario, dice, toll.struck)
        if code is None and orchestrator.kill():
            toll.kills += 1
        else:
            code = orchestrator.end()
            assert code in (IN_GOOD_ORDER if asks else (0,)), f"{code}: {scenario.log.read_text()[-3000:]}"
    finish_session(fork_server, scenario)
    return toll


def kill_everything_at_random(
    fork_server: ForkServer, scenario: Scenario, dice: random.Random, *, most: int
) -> KillCount:
    """Kill every process of the session at once, after some events: orchestrator, wardens, agents, git, gateways."""
    toll = KillCount()
    while toll.kills < most and not has_ended(scenario):
        wanted = _count_events(scenario) + dice.randint(1, 12)
        orchestrator = fork_server.start(scenario, start_or_resume(scenario))
        while orchestrator.wait(0.005) is None and _count_events(scenario) < wanted:
            pass
        code = orchestrator.wait(dice.choice((0.0, 0.01, 0.05, 0.2)))
        _kill_everything(scenario, dice)
        toll.struck |= Counter(_list_unfinished(scenario))
        if code is None:
            toll.kills += orchestrator.end() == KILLED
        else:
            assert code == 0 or _asks_about_losses(scenario, code), f"{code}: {scenario.log.read_text()[-3000:]}"
    finish_session(fork_server, scenario)
    return toll


def _list_unfinished(scenario: Scenario) -> list[str]:
    """List the attempts and commands that were started and did not end: when all is killed, their wardens were."""
    started = (scenario.root / ".blueflame" / "attempts").glob("*/started")
    return [path.parent.name for path in started if not (path.parent / "outcome.json").exists()]


def _kill_everything(scenario: Scenario, dice: random.Random) -> None:
    """Kill in any order, and again until none is left: one may have been started meanwhile.

    All are stopped first, so that none can react to the death of another: power fails for all of them at once.
    """
    give_up = time.monotonic() + PATIENCE
    stopped: set[tuple[int, int]] = set()
    while fresh := [each for each in find_processes(scenario) if (each.pid, each.start_time) not in stopped]:
        assert time.monotonic() < give_up, f"cannot be stopped: {[each.pid for each in fresh]}"
        for each in fresh:
            tree.signal_process(each, signal.SIGSTOP)
            stopped.add((each.pid, each.start_time))
    while found := find_processes(scenario):
        assert time.monotonic() < give_up, f"cannot be killed: {[each.pid for each in found]}"
        dice.shuffle(found)
        for each in found:
            tree.signal_process(each, signal.SIGKILL)
        time.sleep(0.002)


def kill_a_warden(scenario: Scenario, dice: random.Random, struck: Counter[str]) -> None:
    """Kill one that is alive, if there soon is one; identified by pid and start time, so no other process is hit."""
    give_up = time.monotonic() + LOOKS
    while not (living := _list_living_wardens(scenario)) and time.monotonic() < give_up:
        time.sleep(0.005)
    if living:
        purpose = dice.choice(sorted(living))
        tree.signal_process(living[purpose], signal.SIGKILL)
        struck[purpose] += 1


def _list_living_wardens(scenario: Scenario) -> dict[str, tree.ProcessInfo]:
    """Living wardens by session, subject and role, without the number of the attempt."""
    purposes = {lock.parent.name.rpartition(".")[0]: lock for lock in sorted(_list_locks(scenario))}
    found = {purpose: _find_warden(lock) for purpose, lock in purposes.items()}
    return {purpose: warden for purpose, warden in found.items() if warden is not None}


def _list_locks(scenario: Scenario) -> Iterable[Path]:
    return (scenario.root / ".blueflame" / "attempts").glob("*/lock")


def _find_warden(lock: Path) -> tree.ProcessInfo | None:
    words = (flock.read_lock_holder(lock) or "").split()
    if len(words) < 2 or not all(word.isdigit() for word in words[:2]):
        return None
    found = tree.read_process(int(words[0]))
    return found if found is not None and found.start_time == int(words[1]) else None
