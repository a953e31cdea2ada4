"""Whole sessions on a real repository with scripted agents: the repository, the answers, and the result.

Run as a program it is a separate orchestrator: `python sessions.py ROOT HOW.json`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeAlias, TypeVar

from blueflame.documents.plans import parse_tasks
from blueflame.journal.journal import Journal
from blueflame.model.errors import BlueFlameError
from blueflame.model.event import JournalEntry
from blueflame.model.gate import Answer, Gate
from blueflame.model.task import Task
from blueflame.orchestrator.context import NO_CASSETTE, Cassette
from blueflame.orchestrator.lifecycle import execute_session, lock_project, open_session
from blueflame.orchestrator.project import Project, open_project
from blueflame.orchestrator.sessions import find_session, load_session, open_journal, send_to_inbox
from blueflame.orchestrator.wiring import build_context
from blueflame.session.state import Session
from support.command_line import trust_project

Reply: TypeAlias = str | Answer | Callable[[Gate, Session], "str | Answer"]
"""`approve`, `reject: because`, an Answer, or a function that does something and then gives one of them."""

AGREE: Mapping[str, str] = {"plan": "approve", "changeset": "approve", "escalation": "abort"}
LEAN = {  # checks, but no reviewer: for stories that are not about one
    "lean": {"stages": ["plan", "work", "check", "merge"], "barrier": True},
    "lean-flow": {"stages": ["plan", "work", "check", "merge"], "barrier": False},
}
QUICK = ("-c", "maintenance.auto=false")
E = TypeVar("E")


def git(where: Path, *args: str) -> str:
    return subprocess.run(["git", *args], cwd=where, check=True, capture_output=True, text=True).stdout


def task(n: int, *, locks: Sequence[str] | None = None, after: Sequence[int] = (), **fields: object) -> dict[str, Any]:
    """A task as a planner writes it: number 2 has the lock `src/2.txt` by default."""
    return {
        "id": f"task-{n:03d}",
        "title": f"Task {n}",
        "description": f"Do number {n}.",
        "priority": 1,
        "cohesion_group": "main",
        "file_locks": list(locks) if locks is not None else [f"src/{n}.txt"],
        "dependencies": [f"task-{need:03d}" for need in after],
    } | fields


def plan_of(*tasks: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The script of a planner that proposes these tasks."""
    return [{"plan": {"tasks": list(tasks)}}]


def writes(path: str, text: str, *more: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The script of a worker that appends a line to a file and commits it."""
    return [{"append": {"path": path, "text": f"{text}\n"}}, *more, {"commit": text}]


class Answers:
    """Answers by kind of gate, each kind in its own order; an unexpected gate fails the test."""

    def __init__(self, replies: Mapping[str, Sequence[Reply]] | None = None) -> None:
        self._left = {kind: list(given) for kind, given in (replies or {}).items()}
        self.asked: list[Gate] = []
        self.objections: list[str] = []

    async def ask(self, gate: Gate, session: Session, objection: str) -> Answer:
        self.asked.append(gate)
        self.objections += [objection] if objection else []
        left = self._left.get(gate.kind.value, [])
        reply: Reply = left.pop(0) if left else AGREE.get(gate.kind.value, "")
        if callable(reply):
            reply = reply(gate, session)
        if reply == "wait":
            await asyncio.get_running_loop().create_future()
        assert len(self.objections) < 50, f"the same answer again and again: {self.objections[-1]}"
        assert reply, f"unexpected gate {gate.id} ({gate.title}): {dict(gate.evidence)}"
        return reply if isinstance(reply, Answer) else _answer(reply)


def _answer(text: str) -> Answer:
    choice, _, note = text.partition(": ")
    return Answer(choice=choice, note=note, by="test")


@dataclass
class SessionRun:
    """The result of a session."""

    stage: Stage
    session: Session
    answers: Answers
    warnings: list[str]
    events: list[JournalEntry]

    @property
    def states(self) -> dict[str, str]:
        return {name: record.state.value for name, record in sorted(self.session.tasks.items())}

    @property
    def gates(self) -> list[str]:
        return [gate.id for gate in self.answers.asked]

    def of(self, kind: type[E]) -> list[E]:
        return [recorded.event for recorded in self.events if isinstance(recorded.event, kind)]

    def prompt(self, subject: str, role: str = "worker", n: int = 1) -> str:
        """The input of the agent."""
        return (self.folder(subject, role, n) / "prompt.txt").read_text()

    def folder(self, subject: str, role: str = "worker", n: int = 1) -> Path:
        return self.stage.root / ".blueflame" / "attempts" / f"{self.session.id}.{subject}.{role}.{n}"


@dataclass
class Stage:
    """A repository with a configuration and a script."""

    root: Path
    script: Path
    config: Path
    tasks: list[Mapping[str, Any]] | None = None

    def git(self, *args: str) -> str:
        return git(self.root, *args)

    def head(self, branch: str = "main") -> str:
        return self.git("rev-parse", branch).strip()

    def read(self, path: str, at: str = "main") -> str:
        return self.git("show", f"{at}:{path}")

    def files(self, at: str = "main") -> list[str]:
        return self.git("ls-tree", "-r", "-z", "--name-only", at).split("\0")[:-1]

    def commit(self, path: str, text: str, message: str = "chore(task-000): by hand") -> str:
        """A commit by the person, in their checkout."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self.git("add", "-A")
        self.git(*QUICK, "commit", "-q", "-m", message)
        return self.head("HEAD")

    def configure(self, **sections: object) -> None:
        settings: dict[str, Any] = {
            "schema_version": 2,
            "project": {"name": "sample", "repo": os.path.relpath(self.root, self.config.parent)},
            "roles": {name: {"runtime": "scripted"} for name in ("planner", "worker", "validator", "merger", "lead")},
            "concurrency": {"adaptive": False},
            "limits": {"kill_grace": "1s"},
            "permissions": {
                "allowed_paths": ["src/**", "pkg/**", "docs/**"],
                "bash_rules": {"allowed_commands": ["*"], "blocked_patterns": []},
            },
            # Most stories meet their agents in places outside of a box; test_walled_sessions.py has those about walls.
            "sandbox": {"level": "off"},
            "validation": {"secrets": {"scanner": "builtin"}},  # the other one takes a second for each changeset
            "workflows": LEAN,
            "planning": {"workflow": "lean"},
        }
        for name, section in sections.items():
            known = settings.get(name, {})
            settings[name] = {**known, **section} if isinstance(known, dict) and isinstance(section, dict) else section
        self.config.parent.mkdir(parents=True, exist_ok=True)
        self.config.write_text(json.dumps(settings, indent=1))

    def reconfigure(self, **sections: object) -> None:
        """Change the configuration and commit it."""
        self.configure(**sections)
        if self.config.is_relative_to(self.root):
            self.git("add", "blueflame.yaml")
            self.git(*QUICK, "commit", "-q", "-m", "Configure")

    def play(
        self,
        *tasks: Mapping[str, Any],
        workers: Mapping[int, Any] | None = None,
        validators: Mapping[int, Any] | None = None,
        planner: object = None,
        worker: object = None,
        validator: object = None,
        merger: object = None,
    ) -> None:
        """Write the script: what each agent does; agents that are not named do good work.

        The tasks come from a file unless a planner is given: that saves an attempt.
        """
        self.tasks = list(tasks) if planner is None else None
        script: dict[str, Any] = {"schema_version": 1, "tasks": {}, "defaults": {}}
        script["planner"] = planner if planner is not None else "good"
        for role, given in (("worker", worker), ("validator", validator), ("merger", merger)):
            if given is not None:
                script["defaults"][role] = given
        for role, by_task in (("worker", workers or {}), ("validator", validators or {})):
            for n, part in by_task.items():
                script["tasks"].setdefault(f"task-{n:03d}", {})[role] = part
        self.script.write_text(json.dumps(script, ensure_ascii=False))

    def project(self) -> Project:
        """The person of these stories trusts what is written here."""
        return trust_project(open_project(self.config))

    def run(
        self,
        replies: Mapping[str, Sequence[Reply]] | None = None,
        *,
        request: str = "Make it better",
        workflow: str | None = None,
        tasks: Sequence[Task] | None = None,
        allow_dirty: bool = False,
        observers: Sequence[Any] = (),
        until: Callable[[Session], bool] = lambda _session: False,
        cassette: Cassette = NO_CASSETTE,
    ) -> SessionRun:
        """A new session, from its beginning until it ends or is stopped."""
        project = self.project()
        if tasks is None and self.tasks is not None:
            tasks = parse_tasks({"tasks": self.tasks})
        with lock_project(project) as journal:
            session = open_session(
                project, journal, request=request, workflow=workflow, tasks=tasks, allow_dirty=allow_dirty
            )
            return self._conduct(
                project, journal, session, replies, observers=observers, until=until, cassette=cassette
            )

    def resume(
        self, replies: Mapping[str, Sequence[Reply]] | None = None, *, observers: Sequence[Any] = ()
    ) -> SessionRun:
        project = self.project()
        with lock_project(project) as journal:
            session = load_session(journal, find_session(journal, None))
            return self._conduct(project, journal, session, replies, observers=observers)

    def _conduct(
        self,
        project: Project,
        journal: Journal,
        session: Session,
        replies: Mapping[str, Sequence[Reply]] | None,
        *,
        observers: Sequence[Any],
        until: Callable[[Session], bool] = lambda _session: False,
        cassette: Cassette = NO_CASSETTE,
    ) -> SessionRun:
        answers, warnings = Answers(replies), list[str]()
        script = self.script if self.script.exists() else None
        context = build_context(project, session, script=script, cassette=cassette)
        asyncio.run(
            execute_session(
                context, journal, session, answerer=answers, observers=observers, warn=warnings.append, until=until
            )
        )
        return SessionRun(self, session, answers, warnings, journal.read_events(session.id))

    def post(self, session: Session, kind: str, **body: object) -> int:
        """Send a message as another terminal would."""
        return send_to_inbox(self.project(), session.id, kind, body)

    def look(self) -> tuple[Session, list[JournalEntry]]:
        """The newest session in the journal."""
        with open_journal(self.project()) as journal:
            name = find_session(journal, None)
            return load_session(journal, name), journal.read_events(name)


def make_stage(root: Path, *, config: Path | None = None, **sections: object) -> Stage:
    """Use an existing repository; the configuration is committed unless it is elsewhere."""
    stage = find_stage(root, config=config)
    stage.reconfigure(**sections)
    return stage


def find_stage(root: Path, *, config: Path | None = None) -> Stage:
    """Use a repository that has a configuration."""
    return Stage(root=root, script=root.parent / f"{root.name}.script.yaml", config=config or root / "blueflame.yaml")


class Watcher:
    """Calls a function on every event; the function may send messages, change the repository, raise."""

    def __init__(self, see: Callable[[Session, JournalEntry], None]) -> None:
        self._see = see

    def see(self, session: Session, recorded: Sequence[JournalEntry]) -> None:
        for each in recorded:
            self._see(session, each)


@dataclass
class Fork:
    """A fork of this process, with what is used here of subprocess.Popen."""

    pid: int
    stdout: IO[str]
    code: int | None = None

    def send_signal(self, number: int) -> None:
        if self.code is None:
            os.kill(self.pid, number)

    def wait(self) -> int:
        if self.code is None:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code


@dataclass
class Orchestrator:
    """An orchestrator in its own process; its stdout has one line per event."""

    process: subprocess.Popen[str] | Fork
    seen: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.seen.append(line.rstrip("\n"))
            yield self.seen[-1]

    def until(self, kind: str, times: int = 1) -> str:
        """Read until an event of that kind is recorded."""
        for line in self.lines():
            if line.split(" ")[1:2] == [kind]:
                times -= 1
                if times == 0:
                    return line
        raise AssertionError(f"it ended before {kind}: {self.seen[-5:]}")

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        """Read to the end and return the exit code."""
        list(self.lines())
        code = self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.end()


def start_orchestrator(
    stage: Stage,
    replies: Mapping[str, Sequence[str]] | None = None,
    *,
    resume: bool = False,
    die_after: int = 0,
    env: Mapping[str, str] | None = None,
    program: bool = False,
) -> Orchestrator:
    """A fork of this process, which has all modules imported, unless it is to be a program of its own."""
    how = {
        "config": str(stage.config),
        "script": str(stage.script),
        "replies": dict(replies or {}),
        "resume": resume,
        "die_after": die_after,
    }
    if not program:
        return Orchestrator(_fork_orchestrator(how, env or {}))
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__)), json.dumps(how)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), **(env or {})},  # for support itself
    )
    return Orchestrator(process)


def _fork_orchestrator(how: Mapping[str, Any], env: Mapping[str, str]) -> Fork:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return Fork(pid, os.fdopen(reader, encoding="utf-8"))
    code = 70
    try:
        os.close(reader)
        os.environ.update(env)
        with os.fdopen(writer, "w", encoding="utf-8") as sys.stdout:
            code = _main(how)
    except BaseException:  # noqa: BLE001 (nothing of it may reach the tests' own code)
        traceback.print_exc()
    finally:
        os._exit(code)


def _main(how: Mapping[str, Any]) -> int:
    def tell(_session: Session, recorded: JournalEntry) -> None:
        print(recorded.seq, type(recorded.event).__name__, flush=True)  # noqa: T201 (this is what it is read by)
        if how["die_after"] and recorded.seq >= how["die_after"]:
            os.kill(os.getpid(), signal.SIGKILL)

    config = Path(how["config"])
    stage = Stage(root=config.parent, script=Path(how["script"]), config=config)
    try:
        play = stage.resume if how["resume"] else stage.run
        reported = play(how["replies"], observers=[Watcher(tell)])
    except BlueFlameError as error:
        print("error", type(error).__name__, json.dumps(str(error)), flush=True)  # noqa: T201
        return error.exit_code
    print("outcome", reported.session.outcome or "-", flush=True)  # noqa: T201
    return 0


if __name__ == "__main__":
    raise SystemExit(_main(json.loads(sys.argv[1])))
