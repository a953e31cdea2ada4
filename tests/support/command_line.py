"""The command line as a person uses it: in this process, as its own process, or at a terminal."""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from blueflame.cli.main import run
from blueflame.model.errors import BlueFlameError, UsageError
from blueflame.model.settings.built_in import BUILT_IN_ROLES
from blueflame.orchestrator.project import Project, open_project
from blueflame.orchestrator.sessions import find_running_pid, find_session, load_session, open_journal
from blueflame.orchestrator.trust import list_needed, trust_settings
from blueflame.views.session import build_session_json
from support.commit_format import COMMIT_PATTERN

MAIN = "from blueflame.cli.main import main; main()"
ON_ITS_TERMINAL = f"import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); {MAIN}"
ESCAPE = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|[()][A-Z0-9]|[=>])")
PATIENCE = 60.0
T = TypeVar("T")

CONFIG: Mapping[str, Any] = {
    "schema_version": 2,
    "project": {"name": "пример", "base_branch": "main"},
    "permissions": {
        "allowed_paths": ["src/**", "docs/**"],
        "bash_rules": {"allowed_commands": ["*"], "blocked_patterns": []},
    },
    "validation": {
        "commit_format": {"pattern": COMMIT_PATTERN},
        "validator_diagnostics": {"commands": ["git rev-parse HEAD"]},
        "secrets": {"scanner": "builtin"},  # the other one takes a second for each changeset
    },
}
YES: Mapping[str, Any] = {
    "plan": ["approve"],
    "changeset": [{"choose": "approve", "repeat": True}],
}


class Said(NamedTuple):
    """The result of a command: its exit code and output."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found


def configure(root: Path, changes: Mapping[str, Any] | None = None, *, trusted: bool = True) -> Path:
    """Write a configuration to the repository, not committed, like `blueflame init`. JSON is YAML too."""
    path = root / "blueflame.yaml"
    given = dict(changes or {})
    roles = {name: {"runtime": "scripted", **given.get("roles", {}).get(name, {})} for name in BUILT_IN_ROLES}
    content = {**CONFIG, **given, "roles": {**given.get("roles", {}), **roles}}
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return trust(path) if trusted else path


def trust(config: Path) -> Path:
    """Agree to what the file asks for, as `blueflame trust --yes` does; one that cannot be used asks for nothing."""
    with suppress(BlueFlameError):
        trust_project(open_project(config))
    return config


def trust_project(project: Project) -> Project:
    with suppress(BlueFlameError):
        trust_settings(project, list_needed(project))
    return project


def write(path: Path, content: Mapping[str, Any] | str) -> Path:
    """Write a file for the command line; a mapping becomes JSON, which is YAML too."""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    path.write_text(text, encoding="utf-8")
    return path


def task(n: int, **fields: object) -> dict[str, Any]:
    return {
        "id": f"task-{n:03d}",
        "title": f"Задача {n}",
        "description": f"Do number {n}.",
        "priority": n,
        "file_locks": [f"src/{n}.txt"],
    } | fields


def until(true: Callable[[], T], *, what: str = "it") -> T:
    """Wait for another process; return the result that is true."""
    end = time.monotonic() + PATIENCE
    while not (found := true()):
        assert time.monotonic() < end, f"{what} did not come about"
        time.sleep(0.03)
    return found


def prepare_program(
    words: Sequence[str], _env: Mapping[str, str], own_terminal: bool
) -> tuple[list[str], Callable[[], None] | None]:
    return [sys.executable, "-c", ON_ITS_TERMINAL if own_terminal else MAIN, *words], None


@dataclass
class CommandStart:
    """How `launched` and `at_terminal` start a command; the fixture `forked_commands` changes it."""

    prepare: Callable[[Sequence[str], Mapping[str, str], bool], tuple[list[str], Callable[[], None] | None]]


START = CommandStart(prepare_program)


@contextmanager
def launched(*argv: object, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a command as its own process, without a terminal; it does not outlive the block."""
    words, begin = START.prepare([*map(str, argv)], os.environ, False)
    process = subprocess.Popen(
        words,
        cwd=cwd,
        text=True,
        preexec_fn=begin,  # noqa: PLW1509 - no other thread holds a lock that it needs
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def finish(process: subprocess.Popen[str]) -> Said:
    out, err = process.communicate(timeout=PATIENCE)
    return Said(process.returncode, out, err)


def call(*argv: object, cwd: Path) -> Said:
    """Run a command as a program, always: it knows nothing of this process."""
    words, _ = prepare_program([*map(str, argv)], os.environ, False)
    done = subprocess.run(
        words, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    return Said(done.returncode, done.stdout, done.stderr)


def here(capsys: pytest.CaptureFixture[str], *argv: object) -> Said:
    """Run a command in this process, which is faster."""
    capsys.readouterr()
    code = run([str(word) for word in argv])
    out, err = capsys.readouterr()
    return Said(code, out, err)


def look(cwd: Path, name: str | None = None) -> dict[str, Any] | None:
    """Return what `blueflame status --json` prints, of the newest session by default; None without a session."""
    project = open_project(start=cwd)
    try:
        with open_journal(project) as journal:
            session = load_session(journal, find_session(journal, name))
    except UsageError:
        return None
    return build_session_json(session, now=time.time()) | {"orchestrator_pid": find_running_pid(project)}


def found_in(cwd: Path, name: str | None = None) -> dict[str, Any]:
    session = look(cwd, name)
    assert session is not None
    return session


@dataclass
class Terminal:
    """A command at its own real terminal, to type at and to close."""

    process: subprocess.Popen[bytes]
    master: int
    seen: str = ""
    decoder: codecs.IncrementalDecoder = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))

    def expect(self, text: str) -> str:
        """Read until the text appears; return everything since the last call, without escape codes."""
        end = time.monotonic() + PATIENCE
        while text not in self.seen:
            assert time.monotonic() < end, f"{text!r} did not come; instead:\n{self.seen}"
            if not self._read():
                assert text in self.seen, f"it ended without {text!r}:\n{self.seen}"
        before, _, self.seen = self.seen.partition(text)
        return before + text

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def close(self) -> None:
        """Close the window: all processes at the terminal get SIGHUP."""
        os.close(self.master)
        self.master = -1

    def end(self) -> int:
        """Wait for its end, reading so that it cannot block."""
        end = time.monotonic() + PATIENCE
        while self.master >= 0 and self._read():
            assert time.monotonic() < end, f"it does not end:\n{self.seen}"
        return self.process.wait(PATIENCE)

    def _read(self) -> bool:
        ready, _, _ = select.select([self.master], [], [], 0.2)
        if not ready:
            return self.process.poll() is None
        try:
            data = os.read(self.master, 65536)
        except OSError:  # EIO: the other side is closed
            return False
        self.seen = ESCAPE.sub("", self.seen + self.decoder.decode(data)).replace("\r", "")
        return bool(data)


def _without_a_size() -> dict[str, str]:
    """Remove variables with the size of another terminal, which would override that of ours."""
    return {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}


@contextmanager
def at_terminal(
    *argv: object, cwd: Path, columns: int = 80, env: Mapping[str, str] | None = None
) -> Iterator[Terminal]:
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    variables = {**_without_a_size(), "TERM": "xterm", **(env or {})}
    words, begin = START.prepare([*map(str, argv)], variables, True)
    process = subprocess.Popen(
        words,
        cwd=cwd,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        env=variables,
        preexec_fn=begin,  # noqa: PLW1509 - no other thread holds a lock that it needs
    )
    os.close(slave)
    terminal = Terminal(process, master)
    with process:
        try:
            yield terminal
        finally:
            process.kill()
            if terminal.master >= 0:
                os.close(terminal.master)
