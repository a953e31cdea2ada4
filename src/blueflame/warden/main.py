"""Run one attempt from its start to its recorded end, independent of the process that started it.

Lock the folder. If the attempt has ended, exit; if it was started by a warden that died, end its processes and record
"lost"; otherwise mark the start, start the services, run setup steps and agent, end all processes, write the outcome.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import sys
import time

from blueflame.system.proc import read_boot_id
from blueflame.warden import attempt_folder as record
from blueflame.warden.attempt_folder import StatusFile
from blueflame.warden.cgroup import count_outside_refusals
from blueflame.warden.entry_script import EXIT_CANARY_FAILED
from blueflame.warden.launch_file import DEFAULT_GRACE_SECONDS, CannotStart, LaunchStep, read_launch
from blueflame.warden.output import Spool, open_log
from blueflame.warden.poll_loop import PollLoop
from blueflame.warden.process_tree import adopt_orphans, read_process
from blueflame.warden.services import admit_child, start_services, stop_services
from blueflame.warden.spawn import start_program
from blueflame.warden.supervise import (
    ProcessEnding,
    SupervisedAttempt,
    end_leftovers,
    end_processes,
    note_free_disk,
    read_cancel_request,
    supervise_child,
    wait_in_doubt,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from blueflame.warden.spawn import ChildProcess

EXIT_RECORDED = 0  # outcome.json exists
EXIT_USAGE = 64
EXIT_UNRECORDED = 74  # the folder is gone or not writable
EXIT_LOCKED = 75  # another warden holds the lock; nothing was changed
MAX_TAIL_BYTES = 4000
SURVEY_TIMEOUT = 30.0
SURVEY_PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)
FULL = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m blueflame.warden DIR", file=sys.stderr)
        return EXIT_USAGE
    poll_loop = PollLoop()
    folder = os.path.realpath(arguments[0])
    try:
        return _run_locked(folder, poll_loop)
    except OSError as e:
        print(f"warden of {folder}: {e}", file=sys.stderr)
        return EXIT_UNRECORDED


def _run_locked(folder: str, poll_loop: PollLoop) -> int:
    status = StatusFile(folder)
    lock = record.take_lock(folder, status.format_lock_note(folder.rpartition("/")[2]))
    if lock is None:
        return EXIT_LOCKED
    if record.has_outcome(folder):
        return EXIT_RECORDED
    outcome = _run_attempt(folder, poll_loop, status)
    if not record.write_outcome(folder, outcome, poll_loop):
        return EXIT_UNRECORDED
    record.touch_file(str(record.read_json_or_empty(f"{folder}/launch.json").get("signal", "")))
    return EXIT_RECORDED


def _run_attempt(folder: str, poll_loop: PollLoop, status: StatusFile) -> dict[str, Any]:
    cookie = os.urandom(16).hex()
    me = {"pid": os.getpid(), "start_time": status.start_time, "boot_id": status.boot}
    began = {**me, "at": time.time(), "cookie": cookie}
    if not record.claim_start(folder, began):
        return _end_lost_attempt(folder, poll_loop, status)
    try:
        launch = read_launch(folder)
    except CannotStart as e:
        return _build_outcome(folder, status, stage="setup", ending=ProcessEnding("spawn_failed", str(e)))
    try:
        record.reserve_outcome(folder)
        spool = Spool(folder, poll_loop if launch.sandbox or launch.watch else None)
        attempt = SupervisedAttempt(folder, launch, poll_loop, spool, status)
    except OSError as e:
        unready = ProcessEnding("spawn_failed", f"cannot prepare to run it: {e}")
        return _build_outcome(folder, status, stage="setup", ending=unready)
    failure = _start_services(attempt)
    if failure is not None:
        return _finish_attempt(attempt, "setup", failure, time.monotonic())
    return _run_steps(attempt, cookie)


def _start_services(attempt: SupervisedAttempt) -> ProcessEnding | None:
    try:
        short = start_services(attempt)  # before adopt_orphans: the gateway must not become our child
        adopt_orphans()
    except CannotStart as e:
        return ProcessEnding("spawn_failed", str(e))
    except OSError as e:
        return ProcessEnding("spawn_failed", f"cannot prepare to run it: {e}")
    return None if short is None else ProcessEnding(*short)


def _end_lost_attempt(folder: str, poll_loop: PollLoop, status: StatusFile) -> dict[str, Any]:
    from blueflame.warden.orphans import end_orphans, is_copy

    status.started_at = float(record.read_json_or_empty(f"{folder}/started").get("at", status.started_at))
    if is_copy(folder, poll_loop):
        why = "its folder was copied while it ran; it was left to the session that has started it"
        return _build_outcome(folder, status, stage="agent", ending=ProcessEnding("lost", why))
    try:
        grace = read_launch(folder).grace
    except CannotStart:
        grace = DEFAULT_GRACE_SECONDS
    found, left = end_orphans(folder, grace, poll_loop)
    why = "its outcome.json was damaged" if record.was_damaged(folder) else "its warden vanished"
    detail = f"{why}; {found} of its processes were still running and were ended"
    return _build_outcome(folder, status, stage="agent", ending=ProcessEnding("lost", detail, left=left))


def _run_steps(attempt: SupervisedAttempt, cookie: str) -> dict[str, Any]:
    clock = time.monotonic()
    for step in attempt.launch.setup:
        ending = _run_setup_step(attempt, step, cookie)
        if ending is not None:
            return _finish_attempt(attempt, "setup", ending, clock, step=step.name)
    if attempt.launch.setup and (missed := _run_survey(attempt, cookie, "before")) is not None:
        return _finish_attempt(attempt, "setup", ProcessEnding(*missed), clock)
    ending = _run_agent(attempt, cookie)
    wait_in_doubt(attempt, ending)
    if ending.reason == "exited":
        missed = _survey_finished_work(attempt, cookie)
        if missed is not None:
            ending.reason, ending.detail = missed
    elif ending.reason != "spawn_failed":
        _run_survey(attempt, cookie, "after")
    return _finish_attempt(attempt, "agent", ending, clock)


def _survey_finished_work(attempt: SupervisedAttempt, cookie: str) -> tuple[str, str] | None:
    """Try again for some seconds, and as long as the disk is full: without a survey, work that is done and paid for
    would have to be done again."""
    pauses = list(SURVEY_PAUSES)
    while True:
        missed = _run_survey(attempt, cookie, "after")
        cancel = read_cancel_request(attempt)
        if missed is None or cancel is not None:
            return missed and cancel and ("cancelled", cancel[0])
        full = next((words for words in FULL if words in missed[1]), "")
        if missed[0] == "cancelled" or not (pauses or full):
            return missed
        if full:
            record.report_hindrance(attempt.folder, full)
        attempt.poll_loop.pause(pauses.pop(0) if pauses else SURVEY_PAUSES[-1])


def _run_survey(attempt: SupervisedAttempt, cookie: str, when: str) -> tuple[str, str] | None:
    """Run git status in a sandbox; on failure there is no survey file. Return why it was not the agent's, else None.

    Without a sandbox it runs only before the agent, which could make git run code of its own.
    """
    if not attempt.launch.survey or (when == "after" and attempt.launch.sandbox is None):
        return None
    if attempt.poll_loop.stops:
        return "cancelled", "the warden was asked to stop by a signal"
    draft = f"{attempt.folder}/survey-{when}.draft"
    try:
        out = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        log = open_log(f"{attempt.folder}/survey.log")
        try:
            child = _start_child(
                attempt, attempt.launch.survey, cookie=cookie, stdin="/dev/null", output=(out, log), log="survey.log"
            )
        finally:
            os.close(out)
            os.close(log)
        with contextlib.closing(child):
            ending = supervise_child(attempt, child, timeout=SURVEY_TIMEOUT, limits_output=False)
        if ending.reason == "exited" and ending.status == 0:
            os.replace(draft, f"{attempt.folder}/survey-{when}")  # noqa: PTH105 (pathlib's imports would cost some 10 ms)
    except (OSError, CannotStart) as e:
        return "spawn_failed", f"git status could not be run {when} it: {e}"
    if ending.reason == "cancelled":
        return ending.reason, ending.detail
    return ("lost", f"git status {when} it: {ending.detail}") if ending.reason == "lost" else None


def _run_setup_step(attempt: SupervisedAttempt, step: LaunchStep, cookie: str) -> ProcessEnding | None:
    """Return None on success. Background processes that the step started stay: the agent may need them.

    In a sandbox nothing stays: each step's sandbox ends with it.
    """
    attempt.status.update(attempt.spool, "setup")
    cancel = read_cancel_request(attempt)
    if cancel is not None:
        return ProcessEnding("cancelled", cancel[0])
    try:
        log = open_log(f"{attempt.folder}/setup.log")
    except OSError as e:
        return ProcessEnding("setup_failed", f"setup step {step.name} cannot be logged: {e}")
    try:
        child = _start_child(
            attempt, step.argv, cookie=cookie, stdin="/dev/null", output=(log, log), log="setup.log", is_setup=True
        )
    except CannotStart as e:
        return _explain_failed_start(attempt, "setup_failed", f"setup step {step.name}: {e}")
    finally:
        os.close(log)
    with contextlib.closing(child):
        ending = supervise_child(attempt, child, timeout=step.timeout, limits_output=False)
    if ending.reason == "timeout":
        ending.reason, ending.detail = "setup_failed", f"setup step {step.name} took longer than {step.timeout:g} s"
    elif ending.reason == "exited" and ending.status != 0:
        ending.reason, ending.detail = "setup_failed", f"setup step {step.name} failed"
    return None if ending.reason == "exited" else ending


def _run_agent(attempt: SupervisedAttempt, cookie: str) -> ProcessEnding:
    cancel = read_cancel_request(attempt)
    if cancel is not None:
        return ProcessEnding("cancelled", cancel[0])
    if attempt.launch.terminal is None:
        return _run_agent_with(attempt, cookie, attempt.launch.stdin)
    from blueflame.warden.pty import AgentTerminal

    try:
        terminal = AgentTerminal(attempt.folder, attempt.launch.terminal, attempt.poll_loop)
    except OSError as e:
        return ProcessEnding("spawn_failed", f"cannot open a terminal for it: {e}")
    with contextlib.closing(terminal):
        return _run_agent_with(attempt, cookie, terminal.handle)


def _run_agent_with(attempt: SupervisedAttempt, cookie: str, stdin: str | int) -> ProcessEnding:
    launch, is_watched = attempt.launch, attempt.launch.watch is not None
    try:
        child = _start_child(
            attempt,
            launch.argv,
            cookie=cookie,
            stdin=stdin,
            output=attempt.spool.handles,
            log="stderr.log",
            is_watched=is_watched,
            is_agent=True,
        )
    except CannotStart as e:
        return _explain_failed_start(attempt, "spawn_failed", str(e))
    attempt.status.agent = child.pid
    record.touch_file(launch.signal)
    attempt.spool.grew_at = time.monotonic()  # the setup's time is not the agent's silence
    attempt.status.update(attempt.spool, "working")
    with contextlib.closing(child):
        ending = supervise_child(attempt, child, timeout=launch.timeout, limits_output=True)
        if is_watched and ending.reason == "exited" and not child.has_passed_canary():
            ending.reason, ending.detail = "unwatched", _explain_unwatched(ending.exit_code)
            if attempt.hook_server is not None:  # nothing of the agent has run
                attempt.hook_server.hinder(ending.detail)
    return ending


def _explain_unwatched(exit_code: int | None) -> str:
    if exit_code == EXIT_CANARY_FAILED:
        return "the canary call was not refused by the watcher"
    return "it ended before the canary call was refused by the watcher"


def _explain_failed_start(attempt: SupervisedAttempt, reason: str, detail: str) -> ProcessEnding:
    cancel = read_cancel_request(attempt)
    return ProcessEnding(reason, detail) if cancel is None else ProcessEnding("cancelled", cancel[0])


def _start_child(
    attempt: SupervisedAttempt,
    argv: list[str],
    *,
    cookie: str,
    stdin: str | int,
    output: tuple[int, int],
    log: str,
    is_watched: bool = False,
    is_agent: bool = False,
    is_setup: bool = False,
) -> ChildProcess:
    """Start `argv`; what it wrote to `log` (an error of bubblewrap) becomes part of the reason if it fails."""

    def record_identity(child: ChildProcess) -> None:
        seen = read_process(child.pid)
        identity = {"pid": child.pid, "start_time": seen.start_time if seen else 0, "boot_id": read_boot_id()}
        record.write_json(f"{attempt.folder}/agent.json", identity)
        admit_child(attempt, child, setup=is_setup)

    def is_cancelled() -> bool:
        attempt.poll_loop.wait(0)
        return read_cancel_request(attempt) is not None

    attempt.spool.drain()
    before = record.read_size(f"{attempt.folder}/{log}")
    try:
        return start_program(
            argv,
            attempt.launch,
            stdin=stdin,
            output=output,
            cookie=cookie,
            watched=is_watched,
            terminal=isinstance(stdin, int),
            agent=is_agent,
            admit=record_identity,
            is_cancelled=is_cancelled,
        )
    except CannotStart as e:
        attempt.spool.drain()
        printed = record.read_tail(f"{attempt.folder}/{log}", MAX_TAIL_BYTES, before).strip()
        raise CannotStart(f"{e}: {printed}" if printed else str(e)) from e


def _finish_attempt(
    attempt: SupervisedAttempt, stage: str, ending: ProcessEnding, clock: float, step: str = ""
) -> dict[str, Any]:
    elapsed = time.monotonic() - clock
    note_free_disk(attempt)
    if stage == "setup":
        ending.left = ending.left or end_processes(attempt, None, attempt.launch.grace)[1]
    else:
        ending.left = ending.left or end_leftovers(attempt)
    cause, refused = _find_cause(attempt), _count_refused_forks(attempt)
    unanswered = str((attempt.gateway.unanswered or {}).get("reason", "")) if attempt.gateway is not None else ""
    guarded = stop_services(attempt)
    watcher = attempt.hook_server
    if watcher is not None and watcher.is_disk_at_fault and ending.reason in ("exited", "unwatched"):
        ending.reason, ending.detail = "lost", watcher.problem
    elif watcher is not None and watcher.problem and ending.reason == "exited":
        ending.reason, ending.detail = "unwatched", watcher.problem
    attempt.spool.finish(attempt.launch.max_output)
    attempt.status.update(attempt.spool, "ended")
    outcome = _build_outcome(attempt.folder, attempt.status, stage=stage, ending=ending, step=step, seconds=elapsed)
    found = {"cause": cause, "unanswered": unanswered, "free_disk": attempt.free_disk, "refused_forks": refused}
    return {**outcome, **found, **guarded}


def _count_refused_forks(attempt: SupervisedAttempt) -> int:
    """Count the processes that a limit of others kept from starting."""
    group = attempt.monitor.group if attempt.monitor is not None else None
    inside = group.count_refusals_by_others(attempt.launch.processes) if group is not None else 0
    return inside + count_outside_refusals() - attempt.refusals_before


def _find_cause(attempt: SupervisedAttempt) -> str:
    """Return whose budget is used up, or why the model was unavailable for too long; "" if neither."""
    gateway = attempt.gateway
    if gateway is None:
        return ""
    gateway.read_messages()
    refused, gave_up = gateway.refused or {}, gateway.gave_up or gateway.unanswered or {}
    return str(refused.get("budget") or gave_up.get("kind") or "")


def _build_outcome(
    folder: str, status: StatusFile, *, stage: str, ending: ProcessEnding, step: str = "", seconds: float = 0.0
) -> dict[str, Any]:
    used, waited = resource.getrusage(resource.RUSAGE_CHILDREN), min(status.held, seconds)
    return {
        "attempt": folder.rpartition("/")[2],
        "stage": stage,
        "step": step,
        "exit_code": ending.exit_code,
        "signal": ending.signal,
        "reason": ending.reason,
        "detail": ending.detail,
        "started_at": status.started_at,
        "ended_at": time.time(),
        "seconds": round(seconds - waited, 3),
        "waited": round(waited, 3),
        "rusage": {"cpu": round(used.ru_utime + used.ru_stime, 3), "max_rss": _convert_to_bytes(used.ru_maxrss)},
        "setup_output": record.read_tail(f"{folder}/setup.log", MAX_TAIL_BYTES),
        "left_running": ending.left,
    }


def _convert_to_bytes(max_rss: int) -> int:
    return max_rss if sys.platform == "darwin" else max_rss * 1024
