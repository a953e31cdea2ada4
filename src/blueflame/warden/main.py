"""One attempt, from its start to its recorded end. Survives whoever started it.

lock the folder; ended already? good; started by a warden that died? clear up and say "lost";
otherwise: mark the start, raise the guards, setup steps, agent, wait or end it, clear up, outcome.json
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import time

from blueflame.warden import attempt_folder as record
from blueflame.warden.entry_script import EXIT_CANARY_FAILED
from blueflame.warden.launch_file import DEFAULT_GRACE_SECONDS, CannotStart, SetupStep, read_launch
from blueflame.warden.output import Spool, open_log
from blueflame.warden.process_tree import adopt_orphans, read_boot_id, read_process
from blueflame.warden.services import admit_child, start_services, stop_services
from blueflame.warden.spawn import start_program
from blueflame.warden.status import StatusFile
from blueflame.warden.supervise import (
    ProcessEnding,
    SupervisedAttempt,
    end_leftovers,
    end_processes,
    read_cancel_request,
    supervise_child,
)
from blueflame.warden.wakeup import PollLoop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from blueflame.warden.spawn import ChildProcess

EXIT_RECORDED = 0  # outcome.json is there
EXIT_USAGE = 64
EXIT_UNRECORDED = 74  # the folder is gone, or cannot be written: nothing is known for certain
EXIT_LOCKED = 75  # a living warden has the folder; nothing was changed
MAX_TAIL_BYTES = 4000
SURVEY_TIMEOUT = 30.0


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m blueflame.warden DIR", file=sys.stderr)
        return EXIT_USAGE
    bell = PollLoop()
    folder = os.path.realpath(arguments[0])
    try:
        return _run_locked(folder, bell)
    except OSError as e:
        print(f"warden of {folder}: {e}", file=sys.stderr)
        return EXIT_UNRECORDED


def _run_locked(folder: str, bell: PollLoop) -> int:
    status = StatusFile(folder)
    lock = record.take_lock(folder, status.card(folder.rpartition("/")[2]))
    if lock is None:
        return EXIT_LOCKED
    if record.has_outcome(folder):
        return EXIT_RECORDED
    outcome = _run_attempt(folder, bell, status)
    if not record.write_outcome(folder, outcome, bell):
        return EXIT_UNRECORDED
    record.touch_file(str(record.read_json_or_empty(f"{folder}/launch.json").get("signal", "")))
    return EXIT_RECORDED


def _run_attempt(folder: str, bell: PollLoop, status: StatusFile) -> dict[str, Any]:
    cookie = os.urandom(16).hex()
    began = {"pid": os.getpid(), "at": time.time(), "cookie": cookie}
    if not record.claim_start(folder, began):
        return _end_lost_attempt(folder, bell, status)
    try:
        launch = read_launch(folder)
    except CannotStart as e:
        return _build_outcome(folder, status, stage="setup", watched=ProcessEnding("spawn_failed", str(e)))
    try:
        record.reserve_outcome(folder)
        spool = Spool(folder, bell if launch.sandbox or launch.watch else None)
        ward = SupervisedAttempt(folder, launch, bell, spool, status)
    except OSError as e:
        unready = ProcessEnding("spawn_failed", f"cannot prepare to run it: {e}")
        return _build_outcome(folder, status, stage="setup", watched=unready)
    hindered = _start_services(ward)
    if hindered is not None:
        return _finish_attempt(ward, "setup", hindered, time.monotonic())
    return _run_steps(ward, cookie)


def _start_services(ward: SupervisedAttempt) -> ProcessEnding | None:
    try:
        short = start_services(ward)  # before we adopt: the gateway is to be nobody's child
        adopt_orphans()
    except CannotStart as e:
        return ProcessEnding("spawn_failed", str(e))
    except OSError as e:
        return ProcessEnding("spawn_failed", f"cannot prepare to run it: {e}")
    return None if short is None else ProcessEnding(*short)


def _end_lost_attempt(folder: str, bell: PollLoop, status: StatusFile) -> dict[str, Any]:
    from blueflame.warden.orphans import end_orphans

    try:
        grace = read_launch(folder).grace
    except CannotStart:
        grace = DEFAULT_GRACE_SECONDS
    found, left = end_orphans(folder, grace, bell)
    status.started_at = float(record.read_json_or_empty(f"{folder}/started").get("at", status.started_at))
    detail = f"its warden vanished; {found} of its processes were still running and were ended"
    return _build_outcome(folder, status, stage="agent", watched=ProcessEnding("lost", detail, left=left))


def _run_steps(ward: SupervisedAttempt, cookie: str) -> dict[str, Any]:
    clock = time.monotonic()
    for step in ward.launch.setup:
        watched = _run_setup_step(ward, step, cookie)
        if watched is not None:
            return _finish_attempt(ward, "setup", watched, clock, step=step.name)
    if ward.launch.setup:
        _run_survey(ward, cookie, "before")
    watched = _run_agent(ward, cookie)
    if watched.reason != "spawn_failed":
        _run_survey(ward, cookie, "after")
    return _finish_attempt(ward, "agent", watched, clock)


def _run_survey(ward: SupervisedAttempt, cookie: str, when: str) -> None:
    """What the checkout looks like, asked in a box of its own; without an answer there is no file with one."""
    if not ward.launch.survey or ward.bell.stops:
        return
    draft = f"{ward.folder}/survey-{when}.draft"
    try:
        out = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        log = open_log(f"{ward.folder}/survey.log")
        try:
            child = _start_child(
                ward, ward.launch.survey, cookie=cookie, stdin="/dev/null", output=(out, log), log="survey.log"
            )
        finally:
            os.close(out)
            os.close(log)
        with contextlib.closing(child):
            watched = supervise_child(ward, child, timeout=SURVEY_TIMEOUT, limits_output=False)
        if watched.reason == "exited" and watched.status == 0:
            os.replace(draft, f"{ward.folder}/survey-{when}")  # noqa: PTH105 (pathlib's imports would cost some 10 ms)
    except (OSError, CannotStart) as e:
        print(f"warden of {ward.folder}: no survey: {e}", file=sys.stderr)


def _run_setup_step(ward: SupervisedAttempt, step: SetupStep, cookie: str) -> ProcessEnding | None:
    """None when the step went well. What it left running in the background stays: the agent may need it.

    In a box, nothing stays: each step's box ends with it.
    """
    ward.status.tell(ward.spool, "setup")
    wish = read_cancel_request(ward)
    if wish is not None:
        return ProcessEnding("cancelled", wish[0])
    try:
        log = open_log(f"{ward.folder}/setup.log")
    except OSError as e:
        return ProcessEnding("setup_failed", f"setup step {step.name} cannot be logged: {e}")
    try:
        child = _start_child(ward, step.argv, cookie=cookie, stdin="/dev/null", output=(log, log), log="setup.log")
    except CannotStart as e:
        return _explain_failed_start(ward, "setup_failed", f"setup step {step.name}: {e}")
    finally:
        os.close(log)
    with contextlib.closing(child):
        watched = supervise_child(ward, child, timeout=step.timeout, limits_output=False)
    if watched.reason == "timeout":
        watched.reason, watched.detail = "setup_failed", f"setup step {step.name} took longer than {step.timeout:g} s"
    elif watched.reason == "exited" and watched.status != 0:
        watched.reason, watched.detail = "setup_failed", f"setup step {step.name} failed"
    return None if watched.reason == "exited" else watched


def _run_agent(ward: SupervisedAttempt, cookie: str) -> ProcessEnding:
    wish = read_cancel_request(ward)
    if wish is not None:
        return ProcessEnding("cancelled", wish[0])
    if ward.launch.terminal is None:
        return _run_agent_with(ward, cookie, ward.launch.stdin)
    from blueflame.warden.pty import AgentTerminal

    try:
        terminal = AgentTerminal(ward.folder, ward.launch.terminal, ward.bell)
    except OSError as e:
        return ProcessEnding("spawn_failed", f"it can have no terminal: {e}")
    with contextlib.closing(terminal):
        return _run_agent_with(ward, cookie, terminal.handle)


def _run_agent_with(ward: SupervisedAttempt, cookie: str, stdin: str | int) -> ProcessEnding:
    launch, is_watched = ward.launch, ward.launch.watch is not None
    try:
        child = _start_child(
            ward,
            launch.argv,
            cookie=cookie,
            stdin=stdin,
            output=ward.spool.handles,
            log="stderr.log",
            is_watched=is_watched,
            is_agent=True,
        )
    except CannotStart as e:
        return _explain_failed_start(ward, "spawn_failed", str(e))
    ward.status.agent = child.pid
    record.touch_file(launch.signal)
    ward.spool.grew_at = time.monotonic()  # the setup's time is not the agent's silence
    ward.status.tell(ward.spool, "working")
    with contextlib.closing(child):
        watched = supervise_child(ward, child, timeout=launch.timeout, limits_output=True)
        if is_watched and watched.reason == "exited" and not child.passed_canary():
            watched.reason, watched.detail = "unwatched", _explain_unwatched(watched.exit_code)
    return watched


def _explain_unwatched(exit_code: int | None) -> str:
    if exit_code == EXIT_CANARY_FAILED:
        return "the canary call was not refused by the watcher"
    return "it ended before the canary call had shown that the watcher refuses"


def _explain_failed_start(ward: SupervisedAttempt, reason: str, detail: str) -> ProcessEnding:
    wish = read_cancel_request(ward)
    return ProcessEnding(reason, detail) if wish is None else ProcessEnding("cancelled", wish[0])


def _start_child(
    ward: SupervisedAttempt,
    argv: list[str],
    *,
    cookie: str,
    stdin: str | int,
    output: tuple[int, int],
    log: str,
    is_watched: bool = False,
    is_agent: bool = False,
) -> ChildProcess:
    """What was written to `log` (a box that complains) becomes part of the reason why there is no start."""

    def note_down(child: ChildProcess) -> None:
        seen = read_process(child.pid)
        identity = {"pid": child.pid, "start_time": seen.start_time if seen else 0, "boot_id": read_boot_id()}
        record.write_json(f"{ward.folder}/agent.json", identity)
        admit_child(ward, child)

    def hurry() -> bool:
        ward.bell.wait(0)
        return read_cancel_request(ward) is not None

    ward.spool.drain()
    before = record.read_size(f"{ward.folder}/{log}")
    try:
        return start_program(
            argv,
            ward.launch,
            stdin=stdin,
            output=output,
            cookie=cookie,
            watched=is_watched,
            terminal=isinstance(stdin, int),
            agent=is_agent,
            admit=note_down,
            hurry=hurry,
        )
    except CannotStart as e:
        ward.spool.drain()
        said = record.read_tail(f"{ward.folder}/{log}", MAX_TAIL_BYTES, before).strip()
        raise CannotStart(f"{e}: {said}" if said else str(e)) from e


def _finish_attempt(
    ward: SupervisedAttempt, stage: str, watched: ProcessEnding, clock: float, step: str = ""
) -> dict[str, Any]:
    seconds = time.monotonic() - clock
    if stage == "setup":
        watched.left = watched.left or end_processes(ward, None, ward.launch.grace)[1]
    else:
        watched.left = watched.left or end_leftovers(ward)
    cause = _find_cause(ward)
    guarded = stop_services(ward)
    if watched.reason == "exited" and ward.asker is not None and ward.asker.problem:
        watched.reason, watched.detail = "unwatched", ward.asker.problem
    ward.spool.finish(ward.launch.max_output)
    ward.status.tell(ward.spool, "ended")
    outcome = _build_outcome(ward.folder, ward.status, stage=stage, watched=watched, step=step, seconds=seconds)
    return {**outcome, "cause": cause, **guarded}


def _find_cause(ward: SupervisedAttempt) -> str:
    """Whose budget the gateway found used up, or what kept the model away for too long; empty when neither was."""
    gateway = ward.gateway
    if gateway is None:
        return ""
    gateway.hear()
    refused, gave_up = gateway.refused or {}, gateway.gave_up or {}
    return str(refused.get("budget") or gave_up.get("kind") or "")


def _build_outcome(
    folder: str, status: StatusFile, *, stage: str, watched: ProcessEnding, step: str = "", seconds: float = 0.0
) -> dict[str, Any]:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "attempt": folder.rpartition("/")[2],
        "stage": stage,
        "step": step,
        "exit_code": watched.exit_code,
        "signal": watched.signal,
        "reason": watched.reason,
        "detail": watched.detail,
        "started_at": status.started_at,
        "ended_at": time.time(),
        "seconds": round(seconds, 3),
        "rusage": {"cpu": round(used.ru_utime + used.ru_stime, 3), "max_rss": _convert_to_bytes(used.ru_maxrss)},
        "setup_output": record.read_tail(f"{folder}/setup.log", MAX_TAIL_BYTES),
        "left_running": watched.left,
    }


def _convert_to_bytes(max_rss: int) -> int:
    return max_rss if sys.platform == "darwin" else max_rss * 1024
