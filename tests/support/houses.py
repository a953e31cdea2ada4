"""A real house over real repositories with scripted agents, served as a process and asked through its journal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from blueflame.dispatch.state import RequestRecord, fold_request, replay_house
from blueflame.house.repository import WatchedRepository, list_open_gates
from blueflame.journal.house import ArrivalFate, HouseJournal
from blueflame.journal.journal import Journal
from blueflame.model.event import SessionOpened
from blueflame.model.house.arrival import Arrival, IncomingAnswer, IncomingRequest, Sender, Trust
from blueflame.model.house.event import HouseEntry, OpenGate
from blueflame.model.limits import Limits
from blueflame.model.workflow import Workflow
from blueflame.orchestrator.project import open_project
from blueflame.orchestrator.sessions import find_running_pid
from blueflame.system.layout import HousePaths
from blueflame.system.wakeups import send_wakeup
from support.command_line import trust
from support.repositories import make_repository, run_git

T = TypeVar("T")
PATIENCE = 240.0  # a whole session, on a busy machine
OWNER = Sender(name="alice", trust=Trust.OWNER, address="terminal:alice")
OPENED = SessionOpened(
    session="ses-1",
    request="do it",
    project="p",
    base_branch="main",
    base_sha="a" * 40,
    workflow=Workflow(name="waves"),
    limits=Limits(),
    request_id="req-1",
)
HOUSE_YAML = "version: 1\npeople:\n  alice: {trust: owner}\n  bob: {trust: member, telegram: 7}\n"


def make_served_repository(path: Path, **sections: object) -> Path:
    """A repository in which one scripted agent does what is asked for."""
    make_repository(path)
    settings = {
        "schema_version": 2,
        "project": {"name": path.name},
        "runtimes": {"scripted": {"script": "play.json"}},
        "roles": {name: {"runtime": "scripted"} for name in ("planner", "worker", "validator", "merger", "lead")},
        "permissions": {"allowed_paths": ["src/**"], "bash_rules": {"allowed_commands": ["*"], "blocked_patterns": []}},
        "sandbox": {"level": "off"},
        "validation": {"secrets": {"scanner": "builtin"}},
        "planning": {"workflow": "direct", "triage": "off"},
    } | sections
    (path / "blueflame.yaml").write_text(json.dumps(settings))
    (path / "play.json").write_text(json.dumps({"schema_version": 1}))
    run_git(path, "add", "-A")
    run_git(path, "commit", "-q", "-m", "Configure")
    trust(path / "blueflame.yaml")
    return path


@dataclass
class HouseStage:
    root: Path
    names: tuple[str, ...]
    keys: int = 0
    answered: set[tuple[str, str, str]] = field(default_factory=set)

    @property
    def paths(self) -> HousePaths:
        return HousePaths(self.root / "the house")

    def write(self, extra: str = "", missing: Sequence[str] = (), people: str = HOUSE_YAML) -> None:
        self.paths.root.mkdir(exist_ok=True)
        places = "".join(f"  {name}: {{path: ../{name}}}\n" for name in (*self.names, *missing))
        self.paths.config.write_text(f"{people}repositories:\n{places}{extra}")

    @contextmanager
    def serve(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """Serve until the block ends; a house that was killed in it is not killed again."""
        with (self.root / "serve.log").open("ab") as log:
            argv = [sys.executable, "-m", "blueflame", "serve", "--house", str(self.paths.root), *words]
            process = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=dict(os.environ))
            try:
                yield process
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(60)

    def hand_in(self, *arrivals: Arrival) -> None:
        with HouseJournal.open(self.paths.journal) as journal:
            journal.receive("test", arrivals)
        send_wakeup(self.paths.signals, "arrival")

    def ask(self, text: str, **fields: object) -> IncomingRequest:
        self.keys += 1
        request = IncomingRequest(
            source="test", key=str(self.keys), sender=OWNER, at=time.time(), text=text, repository=self.names[0]
        )
        request = replace(request, **fields)  # type: ignore[arg-type] # fields of the request
        self.hand_in(request)
        return request

    def find_fate(self, arrival: Arrival) -> ArrivalFate | None:
        with HouseJournal.open_read_only(self.paths.journal) as journal:
            return journal.find_fate(arrival.source, arrival.key)

    def find_request(self, arrival: Arrival) -> RequestRecord | None:
        with HouseJournal.open_read_only(self.paths.journal) as journal:
            fate = journal.find_fate(arrival.source, arrival.key)
            return fold_request(journal.read_stream(fate.stream)) if fate is not None and fate.stream else None

    def read_events(self) -> tuple[HouseEntry, ...]:
        with HouseJournal.open_read_only(self.paths.journal) as journal:
            return journal.read_after(0, 100_000)

    def list_events(self, kind: type[T]) -> list[T]:
        return [each.event for each in self.read_events() if isinstance(each.event, kind)]

    def list_gates(self) -> tuple[OpenGate, ...]:
        watched = [WatchedRepository(name, self.root / name / "blueflame.yaml") for name in self.names]
        for each in watched:
            each.look()
        with HouseJournal.open_read_only(self.paths.journal) as journal:
            return tuple(list_open_gates(replay_house(journal.read_open_streams()), watched))

    def approve_all(self) -> None:
        """Answer every open gate once, as a person through the house."""
        for each in self.list_gates():
            known = (each.repository, each.session, each.gate.id)
            if known not in self.answered:
                self.answered.add(known)
                self.hand_in(self.build_answer(each))

    def build_answer(self, found: OpenGate, choice: str = "", sender: Sender = OWNER) -> IncomingAnswer:
        self.keys += 1
        usual = "start" if found.gate.kind.value == "request" else "approve"
        return IncomingAnswer(
            source="test",
            key=f"answer-{self.keys}",
            sender=sender,
            at=time.time(),
            repository=found.repository,
            session=found.session,
            gate=found.gate.id,
            choice=choice or usual,
        )

    def list_sessions(self, name: str) -> list[SessionOpened]:
        """The sessions of a repository, oldest first."""
        path = self.root / name / ".blueflame" / "journal.db"
        if not path.exists():
            return []
        with Journal.open_read_only(path) as journal:
            opened = [journal.read_events_of(each, [SessionOpened])[0].event for each in reversed(journal.list_ids())]
        return [each for each in opened if isinstance(each, SessionOpened)]

    def until(self, true: Callable[[], T], what: str, patience: float = PATIENCE) -> T:
        """Wait for other processes, answering the gates that they open meanwhile is up to the caller."""
        end = time.monotonic() + patience
        while not (found := true()):
            if time.monotonic() > end:
                raise AssertionError(f"{what} did not come about\n{self._describe()}")
            time.sleep(0.1)
        return found

    def _describe(self) -> str:
        """What the house and its sessions wrote: why what was waited for did not come."""
        logs = [self.root / "serve.log", *(self.root / name / ".blueflame/logs/background.log" for name in self.names)]
        written = [f"{path}:\n{path.read_text('utf-8', 'replace')[-2000:]}" for path in logs if path.exists()]
        return "\n".join([*written, *(str(each.event) for each in self.read_events())])


@contextmanager
def make_house(root: Path, *names: str, **sections: object) -> Iterator[HouseStage]:
    """A house over new repositories; sessions that are left in them are ended with the block."""
    for name in names:
        make_served_repository(root / name, **sections)
    stage = HouseStage(root, names)
    stage.write()
    HouseJournal.open(stage.paths.journal).close()
    try:
        yield stage
    finally:
        for name in names:
            end_session(root / name)


def end_session(repository: Path) -> None:
    """End the orchestrator that runs there, and its agents with it."""
    project = open_project(repository / "blueflame.yaml")
    end = time.monotonic() + PATIENCE
    while (pid := find_running_pid(project)) is not None and time.monotonic() < end:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        time.sleep(0.2)
