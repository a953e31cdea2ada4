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
from blueflame.warden.entry_script import NO_CANARY
from blueflame.warden.launch_file import GRACE, CannotStart, Step, read_launch
from blueflame.warden.output import Spool, open_log
from blueflame.warden.process_tree import adopt_orphans, boot_id, look
from blueflame.warden.services import admit, dismiss_guards, raise_guards
from blueflame.warden.spawn import start
from blueflame.warden.status import Status
from blueflame.warden.supervise import Ward, Watched, attend, cancel_wish, end_all, end_leftovers
from blueflame.warden.wakeup import Bell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from blueflame.warden.spawn import Child

RECORDED = 0  # outcome.json is there
USAGE = 64
UNRECORDED = 74  # the folder is gone, or cannot be written: nothing is known for certain
ANOTHER = 75  # a living warden has the folder; nothing was changed
TAIL = 4000
SURVEY_TIMEOUT = 30.0


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m blueflame.warden DIR", file=sys.stderr)
        return USAGE
    bell = Bell()
    folder = os.path.realpath(arguments[0])
    try:
        return _guard(folder, bell)
    except OSError as e:
        print(f"warden of {folder}: {e}", file=sys.stderr)
        return UNRECORDED


def _guard(folder: str, bell: Bell) -> int:
    status = Status(folder)
    lock = record.take_lock(folder, status.card(folder.rpartition("/")[2]))
    if lock is None:
        return ANOTHER
    if record.has_outcome(folder):
        return RECORDED
    outcome = _run(folder, bell, status)
    if not record.write_outcome(folder, outcome, bell):
        return UNRECORDED
    record.hint(str(record.read_or_nothing(f"{folder}/launch.json").get("signal", "")))
    return RECORDED


def _run(folder: str, bell: Bell, status: Status) -> dict[str, Any]:
    cookie = os.urandom(16).hex()
    began = {"pid": os.getpid(), "at": time.time(), "cookie": cookie}
    if not record.claim_start(folder, began):
        return _lost(folder, bell, status)
    try:
        launch = read_launch(folder)
    except CannotStart as e:
        return _outcome(folder, status, stage="setup", watched=Watched("spawn_failed", str(e)))
    try:
        record.reserve_outcome(folder)
        spool = Spool(folder, bell if launch.sandbox or launch.watch else None)
        ward = Ward(folder, launch, bell, spool, status)
    except OSError as e:
        unready = Watched("spawn_failed", f"cannot prepare to run it: {e}")
        return _outcome(folder, status, stage="setup", watched=unready)
    hindered = _prepare(ward)
    if hindered is not None:
        return _finish(ward, "setup", hindered, time.monotonic())
    return _carry_out(ward, cookie)


def _prepare(ward: Ward) -> Watched | None:
    try:
        short = raise_guards(ward)  # before we adopt: the gateway is to be nobody's child
        adopt_orphans()
    except CannotStart as e:
        return Watched("spawn_failed", str(e))
    except OSError as e:
        return Watched("spawn_failed", f"cannot prepare to run it: {e}")
    return None if short is None else Watched(*short)


def _lost(folder: str, bell: Bell, status: Status) -> dict[str, Any]:
    from blueflame.warden.orphans import end_orphans

    try:
        grace = read_launch(folder).grace
    except CannotStart:
        grace = GRACE
    found, left = end_orphans(folder, grace, bell)
    status.started_at = float(record.read_or_nothing(f"{folder}/started").get("at", status.started_at))
    detail = f"its warden vanished; {found} of its processes were still running and were ended"
    return _outcome(folder, status, stage="agent", watched=Watched("lost", detail, left=left))


def _carry_out(ward: Ward, cookie: str) -> dict[str, Any]:
    clock = time.monotonic()
    for step in ward.launch.setup:
        watched = _set_up(ward, step, cookie)
        if watched is not None:
            return _finish(ward, "setup", watched, clock, step=step.name)
    if ward.launch.setup:
        _survey(ward, cookie, "before")
    watched = _run_agent(ward, cookie)
    if watched.reason != "spawn_failed":
        _survey(ward, cookie, "after")
    return _finish(ward, "agent", watched, clock)


def _survey(ward: Ward, cookie: str, when: str) -> None:
    """What the checkout looks like, asked in a box of its own; without an answer there is no file with one."""
    if not ward.launch.survey or ward.bell.stops:
        return
    draft = f"{ward.folder}/survey-{when}.draft"
    try:
        out = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        log = open_log(f"{ward.folder}/survey.log")
        try:
            child = _start(
                ward, ward.launch.survey, cookie=cookie, stdin="/dev/null", output=(out, log), log="survey.log"
            )
        finally:
            os.close(out)
            os.close(log)
        with contextlib.closing(child):
            watched = attend(ward, child, timeout=SURVEY_TIMEOUT, limits_output=False)
        if watched.reason == "exited" and watched.status == 0:
            os.replace(draft, f"{ward.folder}/survey-{when}")  # noqa: PTH105 (pathlib's imports would cost some 10 ms)
    except (OSError, CannotStart) as e:
        print(f"warden of {ward.folder}: no survey: {e}", file=sys.stderr)


def _set_up(ward: Ward, step: Step, cookie: str) -> Watched | None:
    """None when the step went well. What it left running in the background stays: the agent may need it.

    In a box, nothing stays: each step's box ends with it.
    """
    ward.status.tell(ward.spool, "setup")
    wish = cancel_wish(ward)
    if wish is not None:
        return Watched("cancelled", wish[0])
    try:
        log = open_log(f"{ward.folder}/setup.log")
    except OSError as e:
        return Watched("setup_failed", f"setup step {step.name} cannot be logged: {e}")
    try:
        child = _start(ward, step.argv, cookie=cookie, stdin="/dev/null", output=(log, log), log="setup.log")
    except CannotStart as e:
        return _not_started(ward, "setup_failed", f"setup step {step.name}: {e}")
    finally:
        os.close(log)
    with contextlib.closing(child):
        watched = attend(ward, child, timeout=step.timeout, limits_output=False)
    if watched.reason == "timeout":
        watched.reason, watched.detail = "setup_failed", f"setup step {step.name} took longer than {step.timeout:g} s"
    elif watched.reason == "exited" and watched.status != 0:
        watched.reason, watched.detail = "setup_failed", f"setup step {step.name} failed"
    return None if watched.reason == "exited" else watched


def _run_agent(ward: Ward, cookie: str) -> Watched:
    wish = cancel_wish(ward)
    if wish is not None:
        return Watched("cancelled", wish[0])
    if ward.launch.terminal is None:
        return _run_with(ward, cookie, ward.launch.stdin)
    from blueflame.warden.pty import Terminal

    try:
        terminal = Terminal(ward.folder, ward.launch.terminal, ward.bell)
    except OSError as e:
        return Watched("spawn_failed", f"it can have no terminal: {e}")
    with contextlib.closing(terminal):
        return _run_with(ward, cookie, terminal.handle)


def _run_with(ward: Ward, cookie: str, stdin: str | int) -> Watched:
    launch, is_watched = ward.launch, ward.launch.watch is not None
    try:
        child = _start(
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
        return _not_started(ward, "spawn_failed", str(e))
    ward.status.agent = child.pid
    record.hint(launch.signal)
    ward.spool.grew_at = time.monotonic()  # the setup's time is not the agent's silence
    ward.status.tell(ward.spool, "working")
    with contextlib.closing(child):
        watched = attend(ward, child, timeout=launch.timeout, limits_output=True)
        if is_watched and watched.reason == "exited" and not child.passed_canary():
            watched.reason, watched.detail = "unwatched", _why_unwatched(watched.exit_code)
    return watched


def _why_unwatched(exit_code: int | None) -> str:
    if exit_code == NO_CANARY:
        return "the canary call was not refused by the watcher"
    return "it ended before the canary call had shown that the watcher refuses"


def _not_started(ward: Ward, reason: str, detail: str) -> Watched:
    wish = cancel_wish(ward)
    return Watched(reason, detail) if wish is None else Watched("cancelled", wish[0])


def _start(
    ward: Ward,
    argv: list[str],
    *,
    cookie: str,
    stdin: str | int,
    output: tuple[int, int],
    log: str,
    is_watched: bool = False,
    is_agent: bool = False,
) -> Child:
    """What was written to `log` (a box that complains) becomes part of the reason why there is no start."""

    def note_down(child: Child) -> None:
        seen = look(child.pid)
        identity = {"pid": child.pid, "start_time": seen.start_time if seen else 0, "boot_id": boot_id()}
        record.write_json(f"{ward.folder}/agent.json", identity)
        admit(ward, child)

    def hurry() -> bool:
        ward.bell.wait(0)
        return cancel_wish(ward) is not None

    ward.spool.drain()
    before = record.size(f"{ward.folder}/{log}")
    try:
        return start(
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
        said = record.tail(f"{ward.folder}/{log}", TAIL, before).strip()
        raise CannotStart(f"{e}: {said}" if said else str(e)) from e


def _finish(ward: Ward, stage: str, watched: Watched, clock: float, step: str = "") -> dict[str, Any]:
    seconds = time.monotonic() - clock
    if stage == "setup":
        watched.left = watched.left or end_all(ward, None, ward.launch.grace)[1]
    else:
        watched.left = watched.left or end_leftovers(ward)
    cause = _cause(ward)
    guarded = dismiss_guards(ward)
    if watched.reason == "exited" and ward.asker is not None and ward.asker.problem:
        watched.reason, watched.detail = "unwatched", ward.asker.problem
    ward.spool.finish(ward.launch.max_output)
    ward.status.tell(ward.spool, "ended")
    outcome = _outcome(ward.folder, ward.status, stage=stage, watched=watched, step=step, seconds=seconds)
    return {**outcome, "cause": cause, **guarded}


def _cause(ward: Ward) -> str:
    """Whose budget the gateway found used up, or what kept the model away for too long; empty when neither was."""
    gateway = ward.gateway
    if gateway is None:
        return ""
    gateway.hear()
    refused, gave_up = gateway.refused or {}, gateway.gave_up or {}
    return str(refused.get("budget") or gave_up.get("kind") or "")


def _outcome(
    folder: str, status: Status, *, stage: str, watched: Watched, step: str = "", seconds: float = 0.0
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
        "rusage": {"cpu": round(used.ru_utime + used.ru_stime, 3), "max_rss": _bytes(used.ru_maxrss)},
        "setup_output": record.tail(f"{folder}/setup.log", TAIL),
        "left_running": watched.left,
    }


def _bytes(max_rss: int) -> int:
    return max_rss if sys.platform == "darwin" else max_rss * 1024
