"""Wait for a process of ours to end, or end it: time is up, it is silent, it takes too much, nobody watches it, a wish.

An agent in a box is asked to end by signals to the processes inside, never to the box itself: bubblewrap that ends
takes everything along at once, and the agent would have no time to commit its work.
"""

from __future__ import annotations

import os
import signal
import time

from blueflame.warden.attempt_folder import hint, read_json
from blueflame.warden.process_tree import LINUX, descendants, send_all, send_group, send_groups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from blueflame.warden.gateway_process import Gateway
    from blueflame.warden.launch_file import Launch
    from blueflame.warden.output import Spool
    from blueflame.warden.resource_limits import Pressure
    from blueflame.warden.spawn import Child
    from blueflame.warden.status import Status
    from blueflame.warden.wakeup import Bell
    from blueflame.watcher.server import HookServer

TICK = 0.25  # seconds between two looks at output, clock and cancel file when no signal comes
LEFTOVER_GRACE = 2.0  # for what an agent that ended by itself left running
KILL_PATIENCE = 10.0  # a process that the kernel cannot kill is reported, not waited for


FATAL = frozenset(range(1, 32)) - {17, 18, 19, 20, 21, 22, 23, 28}  # signals that end a process unless it minds them


class Ward:
    """What the watching needs at hand."""

    __slots__ = ("asker", "bell", "denied_at", "folder", "gateway", "launch", "pressure", "spool", "status")

    def __init__(self, folder: str, launch: Launch, bell: Bell, spool: Spool, status: Status) -> None:
        self.folder = folder
        self.launch = launch
        self.bell = bell
        self.spool = spool
        self.status = status
        self.pressure: Pressure | None = None
        self.gateway: Gateway | None = None
        self.asker: HookServer | None = None
        self.denied_at: float | None = None  # when we heard that no further model call is answered


class Watched:
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
        return told if self.boxed and told in FATAL else None


def cancel_wish(ward: Ward) -> tuple[str, float] | None:
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


def attend(ward: Ward, child: Child, *, timeout: float, limits_output: bool) -> Watched:
    """Until the child has ended. Whatever else it started may still run then, unless it had to be ended.

    While it waits for its model its clocks stand still: that is nobody's slowness.
    """
    pid = child.pid
    looked = time.monotonic()
    deadline = looked + timeout if timeout else None
    while True:
        status, _ = reap(pid)
        ward.spool.look()
        looked, held = _held(ward, looked)
        deadline = None if deadline is None else deadline + held
        if status is not None:
            return _exited(ward, status, boxed=child.boxed)
        why = _why_stop(ward, deadline, limits_output=limits_output)
        if why is not None:
            reason, detail = why
            ended, left = end_all(ward, pid, ward.launch.grace, boxed=child.boxed)
            return Watched(reason, detail, ended, left, boxed=child.boxed)
        ward.status.tell(ward.spool)
        ward.bell.wait(_until_next_look(ward, deadline))


def _held(ward: Ward, looked: float) -> tuple[float, float]:
    """When we look now, and how much of the time since `looked` does not count."""
    now = time.monotonic()
    gateway = ward.gateway
    if gateway is None:
        return now, 0.0
    gateway.hear()
    parked = gateway.parked or {}
    if bool(parked) != bool(ward.status.parked):
        hint(ward.launch.signal)
    held = now - looked if parked and ward.status.parked else 0.0
    ward.status.parked = parked
    ward.status.held += held
    ward.spool.grew_at += held
    return now, held


def _exited(ward: Ward, status: int, *, boxed: bool) -> Watched:
    """By itself; unless the kernel has killed it for its memory, or it failed since its model answers no more."""
    killed = ward.pressure.killed_for_memory() if ward.pressure is not None else None
    denied = _denied(ward) if status != 0 else None
    reason, detail = killed or denied or ("exited", "")
    return Watched(reason, detail, status, boxed=boxed)


def _denied(ward: Ward) -> tuple[str, str] | None:
    gateway = ward.gateway
    if gateway is None:
        return None
    gateway.hear()
    if gateway.refused is not None:
        return "budget", str(gateway.refused.get("words", ""))
    if gateway.gave_up is not None:
        return "outage", str(gateway.gave_up.get("reason", ""))
    return None


def _denied_for_too_long(ward: Ward) -> tuple[str, str] | None:
    """It has the grace to end by itself once no further model call is answered."""
    denied = _denied(ward)
    if denied is None:
        return None
    now = time.monotonic()
    ward.denied_at = now if ward.denied_at is None else ward.denied_at
    return denied if now - ward.denied_at >= ward.launch.grace else None


def _why_stop(ward: Ward, deadline: float | None, *, limits_output: bool) -> tuple[str, str] | None:
    wish = cancel_wish(ward)
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
    denied = _denied_for_too_long(ward)
    if denied is not None:
        return denied
    launch = ward.launch
    if launch.max_output and ward.spool.size > launch.max_output:
        return "output", f"it wrote {ward.spool.size} bytes of output, more than the {launch.max_output} allowed"
    if launch.silence and ward.spool.silent_for() >= launch.silence:
        return "silent", f"no output for {launch.silence:g} seconds"
    return None


def _until_next_look(ward: Ward, deadline: float | None) -> float:
    waits = [TICK]
    if deadline is not None:
        waits.append(deadline - time.monotonic())
    if ward.launch.silence:
        waits.append(ward.launch.silence - ward.spool.silent_for())
    return max(0.005, min(waits))


def reap(wanted: int | None) -> tuple[int | None, bool]:
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


def end_leftovers(ward: Ward) -> list[int]:
    """After the agent's own end: daemons, background jobs, whoever left its session. Usually nobody."""
    _, any_left = reap(None)
    if not LINUX and ward.status.agent is not None:
        send_group(ward.status.agent, signal.SIGKILL)  # all we can name there: what stayed in the agent's group
    if not any_left:
        return []
    return end_all(ward, None, min(ward.launch.grace, LEFTOVER_GRACE))[1]


def end_all(ward: Ward, leader: int | None, grace: float, *, boxed: bool = False) -> tuple[int | None, list[int]]:
    """TERM, grace, KILL for everything below us. Gives the leader's wait status and the pids that would not die."""
    ward.status.tell(ward.spool, "stopping")
    _ask(leader, boxed=boxed)
    status, any_left = _wait_for_all(ward, leader, grace)
    give_up = time.monotonic() + KILL_PATIENCE
    while any_left and time.monotonic() < give_up:
        _kill(leader if status is None else None)
        ward.bell.wait(0.02)
        ended, any_left = reap(leader)
        status = ended if ended is not None else status
    return status, [member.pid for member in descendants({os.getpid()})] if any_left else []


def _ask(leader: int | None, *, boxed: bool) -> None:
    """TERM once to each: some programs take a second one as the word to drop everything."""
    if leader is not None and not boxed:
        send_group(leader, signal.SIGTERM)
    members = descendants({os.getpid()})
    already = [member for member in members if member.pid == leader or (not boxed and member.group == leader)]
    send_all([member for member in members if member not in already], signal.SIGTERM)
    send_all(members, signal.SIGCONT)  # who is stopped cannot hear


def _wait_for_all(ward: Ward, leader: int | None, grace: float) -> tuple[int | None, bool]:
    began = time.monotonic()
    status, any_left = reap(leader)
    while any_left:
        wish = cancel_wish(ward)
        allowed = grace if wish is None else min(grace, wish[1])  # a later wish may be in more of a hurry
        remaining = began + allowed - time.monotonic()
        if remaining <= 0 or (not LINUX and status is not None):
            break
        ward.bell.wait(min(remaining, TICK))
        ended, any_left = reap(leader)
        status = ended if ended is not None else status
    return status, any_left


def _kill(leader: int | None) -> None:
    if leader is not None:
        send_group(leader, signal.SIGKILL)
    members = descendants({os.getpid()})
    send_groups(members, signal.SIGKILL)
    send_all(members, signal.SIGKILL)
