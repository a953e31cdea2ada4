"""A house under load: many repositories and queued requests, real sessions with scripted agents, one pool.

What counts: that every request ends and no repository is left behind, the memory of the house and of each
orchestrator, and how soon an answer takes effect.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import psutil

from benchmarks import Figure, Report
from blueflame.dispatch.state import replay_house
from blueflame.house.repository import WatchedRepository, list_open_gates
from blueflame.journal.house import HouseJournal
from blueflame.journal.journal import Journal
from blueflame.model.event import GateAnswered
from blueflame.model.house.arrival import IncomingAnswer, IncomingRequest, Sender, Trust
from blueflame.model.house.event import RequestEnded, RequestReceived
from blueflame.orchestrator.project import open_project
from blueflame.orchestrator.trust import list_needed, trust_settings
from blueflame.system.layout import HousePaths
from blueflame.system.wakeups import send_wakeup

REPOSITORIES, REQUESTS, AGENTS = 20, 200, 8
SMALL = {"REPOSITORIES": 1, "REQUESTS": 1, "AGENTS": 1}
ALICE = Sender(name="alice", trust=Trust.OWNER, address="terminal:alice")
CONFIG = {
    "schema_version": 2,
    "project": {"name": "load"},
    "runtimes": {"scripted": {"script": "play.json"}},
    "roles": {name: {"runtime": "scripted"} for name in ("planner", "worker", "validator", "merger", "lead")},
    "permissions": {"allowed_paths": ["src/**"]},
    "sandbox": {"level": "off"},
    "validation": {"secrets": {"scanner": "builtin"}},
    "planning": {"workflow": "direct", "triage": "off"},
}


def run() -> Report:
    before = os.environ.get("XDG_STATE_HOME")
    with tempfile.TemporaryDirectory(prefix="blueflame-house-") as folder:
        os.environ["XDG_STATE_HOME"] = str(Path(folder) / "state")  # trust is given here, and goes with it
        try:
            return _measure(Path(folder))
        finally:
            del os.environ["XDG_STATE_HOME"]
            if before is not None:
                os.environ["XDG_STATE_HOME"] = before


def _measure(root: Path) -> Report:
    names = [f"r{n:02d}" for n in range(REPOSITORIES)]
    for name in names:
        _make_repository(root / name)
    paths = HousePaths(root / "house")
    paths.root.mkdir()
    places = "".join(f"  {name}: {{path: {root / name}}}\n" for name in names)
    limits = f"pool: {{agents: {AGENTS}}}\nlimits: {{requests_per_hour: 10000, sessions: {AGENTS}}}\n"
    paths.config.write_text(f"version: 1\npeople: {{alice: {{trust: owner}}}}\n{limits}repositories:\n{places}")
    asked = [
        IncomingRequest(
            source="load",
            key=str(n),
            sender=ALICE,
            at=time.time(),
            text=f"Add note {n}",
            repository=names[n % len(names)],
        )
        for n in range(REQUESTS)
    ]
    with HouseJournal.open(paths.journal) as journal:
        journal.receive("load", asked)
        argv = [sys.executable, "-m", "blueflame", "serve", "--house", str(paths.root)]
        with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as house:
            try:
                peaks, answered = _answer_all(house.pid, journal, paths, {name: root / name for name in names})
                cpu = sum(psutil.Process(house.pid).cpu_times()[:2])
            finally:
                house.terminate()
        events = journal.read_after(0, 1_000_000)
    received = {each.stream: each.event.repository for each in events if isinstance(each.event, RequestReceived)}
    ended = [received[each.stream] for each in events if isinstance(each.event, RequestEnded)]
    first_half = ended[: len(ended) // 2]
    fewest = min((first_half.count(name) for name in names), default=0)
    waits = sorted(_find_waits(root, answered))
    return Report(
        name="house",
        about=f"{REPOSITORIES} repositories, {REQUESTS} requests, {AGENTS} agents of the pool",
        figures=(
            Figure(name="requests without an end", value=float(REQUESTS - len(ended)), unit="", aim=0),
            Figure(name="memory of the house at most", value=peaks.house, unit="MB", aim=250),
            Figure(name="memory of an orchestrator at most", value=peaks.orchestrator, unit="MB", aim=250),
            Figure(name="an answer takes effect, median", value=waits[len(waits) // 2], unit="s", aim=1.0),
            Figure(name="an answer takes effect, 19 of 20", value=waits[len(waits) * 19 // 20], unit="s", aim=1.0),
            Figure(name="processor time of the house for a request", value=cpu / REQUESTS, unit="s"),
            Figure(name="requests of the slowest repository in the first half", value=float(fewest), unit=""),
        ),
    )


def _make_repository(path: Path) -> None:
    (path / "src").mkdir(parents=True)
    (path / "src" / "a.txt").write_text("a\n")
    (path / "blueflame.yaml").write_text(json.dumps(CONFIG))
    (path / "play.json").write_text('{"schema_version": 1}')
    who = (("config", "user.name", "Load"), ("config", "user.email", "load@example.org"))
    for words in (("init", "-q", "-b", "main"), *who, ("add", "-A"), ("commit", "-q", "-m", "Begin")):
        subprocess.run(["git", *words], cwd=path, check=True)
    project = open_project(path / "blueflame.yaml")
    trust_settings(project, list_needed(project))


class _Peaks(NamedTuple):
    """The most memory that was seen, in MB."""

    house: float = 0.0
    orchestrator: float = 0.0

    def look(self, house: int, watched: list[WatchedRepository]) -> _Peaks:
        running = [_read_memory(each.pid) for each in watched if each.pid is not None]
        return _Peaks(max(self.house, _read_memory(house)), max([self.orchestrator, *running]))


def _read_memory(pid: int) -> float:
    try:
        return float(psutil.Process(pid).memory_info().rss) / 2**20
    except psutil.NoSuchProcess:
        return 0.0


def _answer_all(
    pid: int, journal: HouseJournal, paths: HousePaths, repositories: dict[str, Path]
) -> tuple[_Peaks, dict[tuple[str, str, str], float]]:
    """Approve each gate through the house until all requests have ended; the peaks of memory, and when each was."""
    watched = [WatchedRepository(name, path / "blueflame.yaml") for name, path in repositories.items()]
    answered: dict[tuple[str, str, str], float] = {}
    peaks = _Peaks()
    while True:
        is_waiting, house = bool(journal.list_waiting(limit=1)), replay_house(journal.read_open_streams())
        if not (is_waiting or house.requests):
            return peaks, answered
        for each in watched:
            each.look()
        peaks = peaks.look(pid, watched)
        for gate in () if is_waiting else list_open_gates(house, watched):
            known = (gate.repository, gate.session, gate.gate.id)
            if known not in answered:
                answered[known] = time.time()
                answer = IncomingAnswer(
                    source="load",
                    key="/".join(known),
                    sender=ALICE,
                    at=time.time(),
                    repository=gate.repository,
                    session=gate.session,
                    gate=gate.gate.id,
                    choice="approve",
                )
                journal.receive("load", [answer])
                send_wakeup(paths.signals, "arrival")
        time.sleep(0.1)


def _find_waits(root: Path, answered: dict[tuple[str, str, str], float]) -> list[float]:
    """How long each answer took from the house's door to the session's journal."""
    waits = []
    for (name, session, gate), asked_at in answered.items():
        with Journal.open_read_only(root / name / ".blueflame" / "journal.db") as journal:
            for entry in journal.read_events_of(session, [GateAnswered]):
                if isinstance(entry.event, GateAnswered) and entry.event.gate == gate:
                    waits.append(entry.at - asked_at)
    return waits
