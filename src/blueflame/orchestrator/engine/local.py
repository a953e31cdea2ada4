"""Run attempts on this machine, each under a warden process that outlives the orchestrator.

An attempt's folder holds its whole state: the kernel frees `lock` when the warden dies, `started` exists once it was
started, `outcome.json` says how it ended. So after a crash a new engine knows as much as the one that was killed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from blueflame.agents.runtime import AgentOutput, Runtime, read_spool
from blueflame.model.errors import InternalError, ProcessFailed
from blueflame.orchestrator.engine.attempt_status import (
    describe_unwritable,
    find_damage,
    find_hindrance,
    read_status,
)
from blueflame.orchestrator.engine.interface import (
    AttemptSpec,
    AttemptStatus,
    Ended,
    ExitReason,
    LogTail,
    ProcessOutcome,
    Queued,
    Running,
    SetupStep,
    StatusUnknown,
    Unreadable,
    WardenLost,
)
from blueflame.orchestrator.engine.start_warden import start_warden
from blueflame.system.files import build_file_error, explain_file_errors, read_json_object
from blueflame.system.process import read_tail
from blueflame.system.process_identity import (
    ProcessIdentity,
    read_identity,
    read_process_state,
    wait_until_gone,
)
from blueflame.system.process_identity import ProcessState as Alive
from blueflame.text.sanitize import encode_text

ATTEMPT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")
MAX_STARTS = 5  # of a warden that dies before it can record anything: then the machine is at fault, not the agent
PAUSE_SECONDS = 0.05
MAX_PAUSE_SECONDS = 1.0
MAX_UNKNOWN_SECONDS = 15.0  # seconds in all; then it is reported, and after some such times a person is asked
HINDERED_POLL_SECONDS = 1.0


class LocalEngine:
    """Implements `orchestrator/engine/interface.AttemptEngine`."""

    def __init__(self, state_dir: Path) -> None:
        self._attempts = state_dir / "attempts"
        self._signals = state_dir / "signals" / "attempts"
        self._started: dict[str, ProcessIdentity] = {}
        self._secrets: dict[str, Mapping[str, str]] = {}  # for a second start of a warden

    def stage(self, attempt: str) -> Path:
        return self._folder(attempt)

    def mirror(self, attempt: str) -> Path:
        return self._folder(attempt)

    def locate(self, attempt: str) -> str:
        return str(self._folder(attempt))

    def is_submitted(self, attempt: str) -> bool:
        return (self._folder(attempt) / "launch.json").exists()

    def read_file(self, attempt: str, name: str) -> bytes | None:
        path = self._folder(attempt) / name
        with explain_file_errors("read", path), suppress(FileNotFoundError):
            return path.read_bytes()
        return None

    def read_log(self, attempt: str, max_bytes: int) -> LogTail:
        log = self._folder(attempt) / "stdout.log"
        try:
            with log.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:  # it could not even be started
            digest = hashlib.sha256(b"").hexdigest()
        return LogTail(read_tail(log, max_bytes), digest)

    def read_output(self, attempt: str, runtime: Runtime) -> AgentOutput:
        return read_spool(runtime, self._folder(attempt) / "stdout.log")

    def _folder(self, attempt: str) -> Path:
        if not ATTEMPT_NAME.fullmatch(attempt):
            raise InternalError(f"{attempt!r} cannot name an attempt's folder under {self._attempts}")
        return self._attempts / attempt

    async def submit(self, spec: AttemptSpec) -> None:
        folder = self._folder(spec.attempt)
        now = self._look(spec.attempt)
        if isinstance(now, Ended | Running) or self._is_starting(spec.attempt):
            return
        if not isinstance(now, WardenLost):
            _write_launch(folder, spec, signals=self._signals)
        if spec.secrets:
            self._secrets[spec.attempt] = spec.secrets
        self._start_warden(spec.attempt)

    async def cancel(self, attempt: str, reason: str, grace: float | None = None) -> None:
        request = {"reason": reason} if grace is None else {"reason": reason, "grace": grace}
        now = self._look(attempt)
        if isinstance(now, Ended):
            return
        _write_file(self._folder(attempt) / "cancel", json.dumps(request))
        if isinstance(now, WardenLost):
            self._start_warden(attempt)

    def send_messages(self, attempt: str, texts: Sequence[str]) -> None:
        _write_file(self._folder(attempt) / "messages", json.dumps({"texts": list(texts)}))

    def count_read_messages(self, attempt: str) -> int:
        return int(read_json_object(self._folder(attempt) / "messages.counts").get("read", 0))

    def read_questions(self, attempt: str) -> Sequence[Mapping[str, Any]]:
        return read_json_object(self._folder(attempt) / "questions").get("asked") or []

    async def inspect(self, attempt: str) -> AttemptStatus:
        return self._look(attempt)

    async def list_live(self, session: str) -> tuple[str, ...]:
        try:
            names = sorted(os.listdir(self._attempts))  # noqa: PTH208 (names are all we need of thousands of folders)
        except FileNotFoundError:
            return ()
        except OSError as e:
            raise build_file_error("list the attempts in", self._attempts, e) from e
        ours = [name for name in names if name.startswith(f"{session}.") and ATTEMPT_NAME.fullmatch(name)]
        return tuple(name for name in ours if isinstance(self._look(name), Running | Unreadable | WardenLost))

    async def wait(self, attempt: str) -> ProcessOutcome:
        starts, pause, doubted = 0, PAUSE_SECONDS, 0.0
        while not isinstance(now := self._look(attempt), Ended):
            match now:
                case Running():
                    await _wait_for_warden(self._folder(attempt), now.pid, now.start_time)
                case Queued() | WardenLost():
                    if (outcome := self._find_removed(attempt)) is not None:
                        return outcome
                    starts += await self._attend(attempt, starts)
                case Unreadable():
                    if doubted > MAX_UNKNOWN_SECONDS:
                        raise _build_unknown(attempt, now.why)
                    await asyncio.sleep(pause)
                    doubted += pause
                    pause = min(pause * 2, MAX_PAUSE_SECONDS)
        self._secrets.pop(attempt, None)
        return now.outcome

    async def iterate_hints(self) -> AsyncGenerator[str, None]:
        from blueflame.system.wakeups import watch_wakeups

        async for names in watch_wakeups(self._signals):
            for name in sorted(names):
                yield name

    async def _attend(self, attempt: str, starts: int) -> int:
        """It has no warden: wait for one that is starting, or start one. Return how many were started."""
        coming = self._started.get(attempt)
        if coming is not None and read_process_state(coming) is not Alive.DEAD:
            await _wait_for_warden(self._folder(attempt), coming.pid, coming.start_time)
            return 0
        if starts >= MAX_STARTS:
            folder = self._folder(attempt)
            log = read_tail(folder / "warden.log", 2000).strip() or "its log is empty"
            raise ProcessFailed(f"the warden of {attempt} ends before it can record anything ({folder}): {log}")
        await asyncio.sleep(PAUSE_SECONDS * starts)
        self._start_warden(attempt)
        return 1

    def _find_removed(self, attempt: str) -> ProcessOutcome | None:
        """The outcome of an attempt whose folder was removed, after its warden is gone: started again it would differ.

        One that was never submitted is a bug of ours.
        """
        folder = self._folder(attempt)
        if (folder / "launch.json").exists() or (folder / "started").exists() or self._is_starting(attempt):
            return None
        damage = find_damage(folder)
        if attempt not in self._started and not damage:
            raise InternalError(f"attempt {attempt} was never submitted: there is no launch.json in {folder}")
        detail = damage or f"{folder} was removed"
        return ProcessOutcome(attempt=attempt, reason=ExitReason.LOST, detail=detail, was_removed=not damage)

    def _is_starting(self, attempt: str) -> bool:
        known = self._started.get(attempt)
        return known is not None and read_process_state(known) is Alive.ALIVE

    def _start_warden(self, attempt: str) -> None:
        folder = self._folder(attempt)
        _set_damage_aside(folder)
        pid = start_warden(folder, self._secrets.get(attempt, {}))
        known = read_identity(pid)
        if known is not None:
            self._started[attempt] = known

    def _look(self, attempt: str) -> AttemptStatus:
        return read_status(self._folder(attempt))


async def _wait_for_warden(folder: Path, pid: int, start_time: float) -> None:
    """Wait until it is gone. Raise StatusUnknown for one that cannot come to an end without a person.

    Turns are counted and not the clock: a machine that sleeps stops all of us.
    """
    gone = asyncio.ensure_future(wait_until_gone(pid, start_time))
    hindered = 0.0
    try:
        while not (await asyncio.wait({gone}, timeout=HINDERED_POLL_SECONDS))[0]:
            why = find_hindrance(folder, pid) or _try_to_write(folder)
            hindered = hindered + HINDERED_POLL_SECONDS if why else 0.0
            if hindered > MAX_UNKNOWN_SECONDS:
                raise _build_unknown(folder.name, why)
    finally:
        gone.cancel()


def _try_to_write(folder: Path) -> str:
    """Why its folder cannot be written, by trying: after an error of the disk, nothing but a refusal shows it."""
    try:
        os.utime(folder)
    except FileNotFoundError:
        return ""
    except OSError as e:
        return f"{describe_unwritable(folder)} ({e.strerror})"
    return ""


def _build_unknown(attempt: str, why: str) -> StatusUnknown:
    fix = "Nothing was ended or started; fix it, then retry, or run 'blueflame resume'"
    return StatusUnknown(f"the status of attempt {attempt} is unknown: {why}. {fix}")


def _set_damage_aside(folder: Path) -> None:
    """Let the next warden record the loss of an outcome that cannot be read; the agent must not start again."""
    if find_damage(folder):
        (folder / "started").touch()
        (folder / "outcome.json").replace(folder / "outcome.damaged")


def _write_launch(folder: Path, spec: AttemptSpec, *, signals: Path) -> None:
    signals.mkdir(parents=True, exist_ok=True)
    prompt = folder / "prompt.txt"
    _write_file(prompt, spec.prompt)
    launch = {
        "attempt": spec.attempt,
        "argv": list(spec.argv),
        "env": dict(spec.env),
        "cwd": spec.cwd,
        "stdin": str(prompt),
        "setup": [_format_step(step) for step in spec.setup],
        "timeout": spec.timeout,
        "silence": spec.silence,
        "max_output": spec.max_output,
        "grace": spec.grace,
        "limits": dict(spec.limits),
        "signal": str(signals / spec.attempt),
        **spec.walls,
    }
    _write_file(folder / "launch.json", json.dumps(launch, indent=1, sort_keys=True))


def _format_step(step: SetupStep) -> Mapping[str, Any]:
    how = {"shell": step.command} if isinstance(step.command, str) else {"argv": list(step.command)}
    return {"name": step.name, "timeout": step.timeout, **how}


def _write_file(path: Path, text: str) -> None:
    """Write atomically, without fsync: after a power cut the attempt is submitted again from the journal."""
    draft = path.with_name(f"{path.name}.draft")
    with explain_file_errors("write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.touch(mode=0o600)  # an environment may hold secrets
        draft.write_bytes(encode_text(text))
        draft.replace(path)
