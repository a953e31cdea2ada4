"""Wait for a process of ours to end, or end it: time is up, it is silent, it takes too much, nobody watches it, a wish.

An agent in a box is asked to end by signals to the processes inside, never to the box itself: bubblewrap that ends
takes everything along at once, and the agent would have no time to commit its work.
"""

from __future__ import annotations

import os
import signal
import time

from blueflame.warden.attempt_folder import read_json, touch_file
from blueflame.warden.process_tree import LINUX, list_descendants, signal_group, signal_groups, signal_processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from blueflame.warden.gateway_process import GatewayProcess
    from blueflame.warden.launch_file import LaunchFile
    from blueflame.warden.output import Spool
    from blueflame.warden.resource_limits import ResourceMonitor
    from blueflame.warden.spawn import ChildProcess
    from blueflame.warden.status import StatusFile
    from blueflame.warden.wakeup import PollLoop
    from blueflame.watcher.server import HookServer

POLL_SECONDS = 0.25  # seconds between two looks at output, clock and cancel file when no signal comes
LEFTOVER_GRACE = 2.0  # for what an agent that ended by itself left running
KILL_TIMEOUT = 10.0  # a process that the kernel cannot kill is reported, not waited for


FATAL_SIGNALS = frozenset(range(1, 32)) - {
    17,
    18,
    19,
    20,
    21,
    22,
    23,
    28,
}  # signals that end a process unless it minds them


class SupervisedAttempt:
    """What the watching needs at hand."""

    __slots__ = ("asker", "bell", "denied_at", "folder", "gateway", "launch", "pressure", "spool", "status")

    def __init__(self, folder: str, launch: LaunchFile, bell: PollLoop, spool: Spool, status: StatusFile) -> None:
        self.folder = folder
        self.launch = launch
        self.bell = bell
        self.spool = spool
        self.status = status
        self.pressure: ResourceMonitor | None = None
        self.gateway: GatewayProcess | None = None
        self.asker: HookServer | None = None
        self.denied_at: float | None = None  # when we heard that no further model call is answered


class ProcessEnding:
    """How the watched process ended: its wait status (None: it could not even be killed), why, and who is left.

    A box cannot die of its program's signal n and exits with 128+n instead, which is read back as the signal. A program
    that exits with such a number by itself looks the same; nothing that bubblewrap tells would part the two.
    """

    __slots__ = ("boxed", "detail", "left", "reason", "status")

    def __init__(
        self,
        reason: str,
        detail: str = "",
        status: int | None = None,
        left: list[int] | None = None,
        *,
        boxed: bool = False,
    ) -> None:
        self.reason = reason
        self.detail = detail
        self.status = status
        self.left = left or []
        self.boxed = boxed

    @property
    def exit_code(self) -> int | None:
        exited = self.status is not None and os.WIFEXITED(self.status) and self.signal is None
        return os.WEXITSTATUS(self.status) if self.status is not None and exited else None

    @property
    def signal(self) -> int | None:
        if self.status is None:
            return None
        if os.WIFSIGNALED(self.status):
            return os.WTERMSIG(self.status)
        told = os.WEXITSTATUS(self.status) - 128
        return told if self.boxed and told in FATAL_SIGNALS else None


def read_cancel_request(ward: SupervisedAttempt) -> tuple[str, float] | None:
    """The reason and the grace, from the cancel file; from a bare signal when there is none."""
    try:
        wish = read_json(f"{ward.folder}/cancel")
        return str(wish.get("reason") or "cancelled"), float(wish.get("grace", ward.launch.grace))
    except FileNotFoundError:
        pass
    except (OSError, ValueError, TypeError):  # the wish is clear, its wording is not
        return "cancelled", ward.launch.grace
    if not ward.bell.stops:
        return None
    return "the warden was asked to stop by a signal", ward.launch.grace if ward.bell.stops == 1 else 0.0


def supervise_child(
    ward: SupervisedAttempt, child: ChildProcess, *, timeout: float, limits_output: bool
) -> ProcessEnding:
    """Until the child has ended. Whatever else it started may still run then, unless it had to be ended.

    While it waits for its model its clocks stand still: that is nobody's slowness.
    """
    pid = child.pid
    looked = time.monotonic()
    deadline = looked + timeout if timeout else None
    while True:
        status, _ = reap_children(pid)
        ward.spool.look()
        looked, held = _update_held_time(ward, looked)
        deadline = None if deadline is None else deadline + held
        if status is not None:
            return _explain_exit(ward, status, boxed=child.boxed)
        why = _find_stop_reason(ward, deadline, limits_output=limits_output)
        if why is not None:
            reason, detail = why
            ended, left = end_processes(ward, pid, ward.launch.grace, boxed=child.boxed)
            return ProcessEnding(reason, detail, ended, left, boxed=child.boxed)
        ward.status.tell(ward.spool)
        ward.bell.wait(_compute_wait(ward, deadline))


def _update_held_time(ward: SupervisedAttempt, looked: float) -> tuple[float, float]:
    """When we look now, and how much of the time since `looked` does not count."""
    now = time.monotonic()
    gateway = ward.gateway
    if gateway is None:
        return now, 0.0
    gateway.hear()
    parked = gateway.parked or {}
    if bool(parked) != bool(ward.status.parked):
        touch_file(ward.launch.signal)
    held = now - looked if parked and ward.status.parked else 0.0
    ward.status.parked = parked
    ward.status.held += held
    ward.spool.grew_at += held
    return now, held


def _explain_exit(ward: SupervisedAttempt, status: int, *, boxed: bool) -> ProcessEnding:
    """By itself; unless the kernel has killed it for its memory, or it failed since its model answers no more."""
    killed = ward.pressure.killed_for_memory() if ward.pressure is not None else None
    denied = _find_model_refusal(ward) if status != 0 else None
    reason, detail = killed or denied or ("exited", "")
    return ProcessEnding(reason, detail, status, boxed=boxed)


def _find_model_refusal(ward: SupervisedAttempt) -> tuple[str, str] | None:
    gateway = ward.gateway
    if gateway is None:
        return None
    gateway.hear()
    if gateway.refused is not None:
        return "budget", str(gateway.refused.get("words", ""))
    if gateway.gave_up is not None:
        return "outage", str(gateway.gave_up.get("reason", ""))
    return None


def _check_model_refusal(ward: SupervisedAttempt) -> tuple[str, str] | None:
    """It has the grace to end by itself once no further model call is answered."""
    denied = _find_model_refusal(ward)
    if denied is None:
        return None
    now = time.monotonic()
    ward.denied_at = now if ward.denied_at is None else ward.denied_at
    return denied if now - ward.denied_at >= ward.launch.grace else None


def _find_stop_reason(
    ward: SupervisedAttempt, deadline: float | None, *, limits_output: bool
) -> tuple[str, str] | None:
    wish = read_cancel_request(ward)
    if wish is not None:
        return "cancelled", wish[0]
    if deadline is not None and time.monotonic() >= deadline:
        return "timeout", "its time was up"
    if ward.asker is not None and ward.asker.problem:
        return "unwatched", ward.asker.problem
    if ward.gateway is not None and ward.gateway.problem:
        return "unwatched", f"its gateway broke: {ward.gateway.problem}"
    pressed = ward.pressure.why_stop() if ward.pressure is not None else None
    if pressed is not None or not limits_output:
        return pressed
    denied = _check_model_refusal(ward)
    if denied is not None:
        return denied
    launch = ward.launch
    if launch.max_output and ward.spool.size > launch.max_output:
        return "output", f"it wrote {ward.spool.size} bytes of output, more than the {launch.max_output} allowed"
    if launch.silence and ward.spool.silent_for() >= launch.silence:
        return "silent", f"no output for {launch.silence:g} seconds"
    return None


def _compute_wait(ward: SupervisedAttempt, deadline: float | None) -> float:
    waits = [POLL_SECONDS]
    if deadline is not None:
        waits.append(deadline - time.monotonic())
    if ward.launch.silence:
        waits.append(ward.launch.silence - ward.spool.silent_for())
    return max(0.005, min(waits))


def reap_children(wanted: int | None) -> tuple[int | None, bool]:
    """Collect all who ended; tells the wanted one's status, and whether any child is left at all."""
    status = None
    while True:
        try:
            pid, ended = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status, False
        if pid == 0:
            return status, True
        if pid == wanted:
            status = ended


def end_leftovers(ward: SupervisedAttempt) -> list[int]:
    """After the agent's own end: daemons, background jobs, whoever left its session. Usually nobody."""
    _, any_left = reap_children(None)
    if not LINUX and ward.status.agent is not None:
        signal_group(ward.status.agent, signal.SIGKILL)  # all we can name there: what stayed in the agent's group
    if not any_left:
        return []
    return end_processes(ward, None, min(ward.launch.grace, LEFTOVER_GRACE))[1]


def end_processes(
    ward: SupervisedAttempt, leader: int | None, grace: float, *, boxed: bool = False
) -> tuple[int | None, list[int]]:
    """TERM, grace, KILL for everything below us. Gives the leader's wait status and the pids that would not die."""
    ward.status.tell(ward.spool, "stopping")
    _terminate_processes(leader, boxed=boxed)
    status, any_left = _wait_for_exits(ward, leader, grace)
    give_up = time.monotonic() + KILL_TIMEOUT
    while any_left and time.monotonic() < give_up:
        _kill_processes(leader if status is None else None)
        ward.bell.wait(0.02)
        ended, any_left = reap_children(leader)
        status = ended if ended is not None else status
    return status, [member.pid for member in list_descendants({os.getpid()})] if any_left else []


def _terminate_processes(leader: int | None, *, boxed: bool) -> None:
    """TERM once to each: some programs take a second one as the word to drop everything."""
    if leader is not None and not boxed:
        signal_group(leader, signal.SIGTERM)
    members = list_descendants({os.getpid()})
    already = [member for member in members if member.pid == leader or (not boxed and member.group == leader)]
    signal_processes([member for member in members if member not in already], signal.SIGTERM)
    signal_processes(members, signal.SIGCONT)  # who is stopped cannot hear


def _wait_for_exits(ward: SupervisedAttempt, leader: int | None, grace: float) -> tuple[int | None, bool]:
    began = time.monotonic()
    status, any_left = reap_children(leader)
    while any_left:
        wish = read_cancel_request(ward)
        allowed = grace if wish is None else min(grace, wish[1])  # a later wish may be in more of a hurry
        remaining = began + allowed - time.monotonic()
        if remaining <= 0 or (not LINUX and status is not None):
            break
        ward.bell.wait(min(remaining, POLL_SECONDS))
        ended, any_left = reap_children(leader)
        status = ended if ended is not None else status
    return status, any_left


def _kill_processes(leader: int | None) -> None:
    if leader is not None:
        signal_group(leader, signal.SIGKILL)
    members = list_descendants({os.getpid()})
    signal_groups(members, signal.SIGKILL)
    signal_processes(members, signal.SIGKILL)
