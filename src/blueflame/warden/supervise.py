"""Wait until a child ends, or end it: timeout, silence, too much output, no watcher, a cancel request.

An agent in a sandbox is asked to end by signals to the processes inside, never to bubblewrap: when bubblewrap ends,
everything inside dies at once, and the agent would have no time to commit its work.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from blueflame.system.disk import measure_free_disk
from blueflame.warden.attempt_folder import read_json, read_json_or_empty, touch_file, write_json
from blueflame.warden.cgroup import count_outside_refusals
from blueflame.warden.process_tree import (
    LINUX,
    is_program_stopped,
    list_descendants,
    signal_group,
    signal_groups,
    signal_processes,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from blueflame.warden.attempt_folder import StatusFile
    from blueflame.warden.gateway_process import GatewayProcess
    from blueflame.warden.launch_file import LaunchFile
    from blueflame.warden.output import Spool
    from blueflame.warden.poll_loop import PollLoop
    from blueflame.warden.resource_limits import ResourceMonitor
    from blueflame.warden.spawn import ChildProcess
    from blueflame.watcher.server import HookServer

WARNED_SHARE = 0.2  # of the time, when this much is left
MIN_WARNED_TIMEOUT = 60.0  # a shorter limit leaves no time to act on a warning
WHAT_TO_DO = (
    "This is a warning and no refusal of this call: commit what works, or prepare your answer, then continue; repeat"
    " the call if you still need it."
)
POLL_SECONDS = 0.25  # seconds between two checks of output, clock and cancel file
MAX_TURN_SECONDS = 2.0  # between two checks; after more than that, the warden itself did not run
LEFTOVER_GRACE = 2.0  # for processes that an agent left behind
KILL_TIMEOUT = 10.0  # then a process that cannot be killed is reported
ENDS_BY_ITSELF = ("model", "unsupported")  # what an agent is refused for that may know another way to ask


# Signals that end a process that does not handle them: all but CHLD, CONT, STOP, TSTP, TTIN, TTOU, URG and WINCH.
FATAL_SIGNALS = frozenset(range(1, 32)) - {17, 18, 19, 20, 21, 22, 23, 28}
# Signals that a program does not get by its own faults: a person, the kernel without memory or a shutdown sent them.
OUTSIDE_SIGNALS = frozenset({signal.SIGHUP, signal.SIGKILL, signal.SIGTERM})
SHELL_SIGNAL_BASE = 128
REPORT_SECONDS = 5.0  # within which the gateway reports that a silence is the provider's
NOTICE_SECONDS = 2.5  # within which it notices one in the middle of an answer: two looks, a second apart
DOUBT_SECONDS = 0.3  # after a failure: a killer that takes one process after the other may be on its way to us


class SupervisedAttempt:
    """One attempt, with what is needed to supervise it."""

    def __init__(self, folder: str, launch: LaunchFile, poll_loop: PollLoop, spool: Spool, status: StatusFile) -> None:
        self.folder = folder
        self.launch = launch
        self.poll_loop = poll_loop
        self.spool = spool
        self.status = status
        self.monitor: ResourceMonitor | None = None
        self.gateway: GatewayProcess | None = None
        self.hook_server: HookServer | None = None
        self.refusals_before = count_outside_refusals()
        self.free_disk: int | None = None  # the fewest bytes since it began
        self.refused_at: float | None = None  # when the gateway reported that it answers no further call
        self.warned = False  # that its time is nearly over
        self.messages = 0  # of a person, how many were taken from the folder
        self.read_messages = 0  # how many of them the agent has read


class ProcessEnding:
    """How a process ended: its wait status (None: it could not be killed), the reason, and the processes left.

    bubblewrap exits with 128+n when its program died of signal n, which is read back as the signal. A program that
    exits with such a code looks the same; bubblewrap gives no way to distinguish them.
    """

    def __init__(
        self,
        reason: str,
        detail: str = "",
        status: int | None = None,
        left: list[int] | None = None,
        *,
        sandboxed: bool = False,
    ) -> None:
        self.reason = reason
        self.detail = detail
        self.status = status
        self.left = left or []
        self.sandboxed = sandboxed

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
        number = os.WEXITSTATUS(self.status) - 128
        return number if self.sandboxed and number in FATAL_SIGNALS else None

    @property
    def killed_by(self) -> str:
        """The name of the signal if that came from outside, else ""; meaningful where the warden sent none.

        A shell whose program was killed exits with 128+n.
        """
        number = self.signal if self.exit_code is None else self.exit_code - SHELL_SIGNAL_BASE
        return signal.Signals(number).name if number in OUTSIDE_SIGNALS else ""


def read_cancel_request(attempt: SupervisedAttempt) -> tuple[str, float] | None:
    """Return reason and grace from the cancel file, or from a signal to stop without one."""
    path = f"{attempt.folder}/cancel"
    try:
        cancel = read_json(path)
        return str(cancel.get("reason") or "cancelled"), float(cancel.get("grace", attempt.launch.grace))
    except (OSError, ValueError, TypeError):
        if os.path.lexists(path):  # an unreadable one is a request, too
            return "cancelled", attempt.launch.grace
    if not attempt.poll_loop.stops:
        return None
    return "the warden was asked to stop by a signal", attempt.launch.grace if attempt.poll_loop.stops == 1 else 0.0


def supervise_child(
    attempt: SupervisedAttempt, child: ChildProcess, *, timeout: float, limits_output: bool
) -> ProcessEnding:
    """Wait until the child has ended. Other processes that it started may still run, unless it had to be ended.

    The clocks stop while the agent waits for its model or an answer, and while the warden is stopped with it.
    """
    pid = child.pid
    looked = time.monotonic()
    deadline = looked + timeout if timeout else None
    while True:
        status, _ = reap_children(pid)
        attempt.spool.update_size()
        note_free_disk(attempt)
        looked, held = _update_held_time(attempt, looked)
        deadline = None if deadline is None else deadline + held
        if status is not None:
            return _explain_exit(attempt, status, sandboxed=child.sandboxed)
        _warn_of_limits(attempt, deadline, timeout)
        _pass_on_messages(attempt)
        why = _find_stop_reason(attempt, deadline, limits_output=limits_output)
        if why is not None:
            reason, detail = _excuse_stopped(child, *why)
            ended, left = end_processes(attempt, pid, attempt.launch.grace, sandboxed=child.sandboxed)
            return ProcessEnding(reason, detail, ended, left, sandboxed=child.sandboxed)
        attempt.status.update(attempt.spool)
        attempt.poll_loop.wait(_compute_wait(attempt, deadline))


def note_free_disk(attempt: SupervisedAttempt) -> None:
    """A disk that was full for a moment has room again at the end."""
    found = [attempt.free_disk, *map(measure_free_disk, (attempt.folder, attempt.launch.cwd))]  # which may be two
    attempt.free_disk = min((each for each in found if each is not None), default=None)


def _excuse_stopped(child: ChildProcess, reason: str, detail: str) -> tuple[str, str]:
    """One that was stopped could not come to an end by itself: what stopped it is not the task's doing."""
    if reason not in ("timeout", "silent") or not is_program_stopped(child.pid, sandboxed=child.sandboxed):
        return reason, detail
    return "lost", f"it was stopped by a signal that Blue Flame did not send; {detail}; find out what did (kill -STOP)"


def _warn_of_limits(attempt: SupervisedAttempt, deadline: float | None, timeout: float) -> None:
    """Pass warnings on to the agent, once for each limit, while there is time to commit."""
    server, gateway = attempt.hook_server, attempt.gateway
    if server is None:
        return
    if gateway is not None:
        for words in gateway.take_warnings():
            server.add_notice("limit_near", f"{words} {WHAT_TO_DO}")
    words = "" if deadline is None or attempt.warned else describe_time_left(deadline - time.monotonic(), timeout)
    if words:
        attempt.warned = True
        server.add_notice("limit_near", f"{words} {WHAT_TO_DO}")


def _pass_on_messages(attempt: SupervisedAttempt) -> None:
    """Pass on what a person wrote to the agent, in order, each once."""
    if attempt.hook_server is None:
        return
    texts = read_json_or_empty(f"{attempt.folder}/messages").get("texts") or []
    for text in texts[attempt.messages :]:
        if attempt.hook_server.answer_question(str(text)):
            attempt.read_messages += 1
        else:
            attempt.hook_server.add_notice("message", str(text), lambda: _count_read_message(attempt))
    if len(texts) > attempt.messages:
        attempt.messages = len(texts)
        _write_message_counts(attempt)


def _count_read_message(attempt: SupervisedAttempt) -> None:
    attempt.read_messages += 1
    _write_message_counts(attempt)


def _write_message_counts(attempt: SupervisedAttempt) -> None:
    with suppress(OSError):  # a full disk: they are reported as not delivered
        counts = {"taken": attempt.messages, "read": attempt.read_messages}
        write_json(f"{attempt.folder}/messages.counts", counts)


def describe_time_left(left: float, timeout: float) -> str:
    """Describe the time left when that is little, else return ""."""
    if timeout < MIN_WARNED_TIMEOUT or left > timeout * WARNED_SHARE:
        return ""
    return f"About {max(1, round(left / 60))} of your {round(timeout / 60)} minutes are left."


def _update_held_time(attempt: SupervisedAttempt, looked: float) -> tuple[float, float]:
    """Return the time, and how much of the time since `looked` does not count."""
    now, before = time.monotonic(), attempt.status.parked
    waited = [_update_parked(attempt), _update_asking(attempt)]
    held = now - looked if any(waited) else compute_pause(now - looked)
    quiet = _find_quiet(attempt)
    if attempt.status.parked and not before and quiet is not None:
        held = max(held, now - quiet[0])  # what was in doubt so far is the provider's
    attempt.status.held += held
    attempt.spool.grew_at += held
    return now, held


def _update_parked(attempt: SupervisedAttempt) -> bool:
    """Ask the gateway whether the agent waits for its model; True if it did so since the last look."""
    gateway = attempt.gateway
    if gateway is None:
        return False
    gateway.read_messages()
    parked, before = gateway.parked or {}, attempt.status.parked
    if bool(parked) != bool(before):
        touch_file(attempt.launch.signal)
    attempt.status.parked = parked
    return bool(parked and before)


def _find_quiet(attempt: SupervisedAttempt) -> tuple[float, float] | None:
    """Since when its provider sends nothing, and for how long that is usual; None if it sends, or is not asked."""
    quiet = attempt.gateway.quiet if attempt.gateway is not None else None
    return None if quiet is None else (float(quiet["since"]), float(quiet["limit"]))


def extend_limit(until: float, quiet: tuple[float, float] | None) -> float:
    """When a limit of the agent's time ends: while its provider is silent, when that is known to be the provider's.

    Then the silence counts for no one. Once the provider has sent something, the limit is as it was.
    """
    if quiet is None or quiet[0] >= until:
        return until
    since, usual = quiet
    return max(until, since + usual + REPORT_SECONDS)


def find_limit_end(attempt: SupervisedAttempt, until: float) -> float:
    """When a limit ends: a moment later if no silence is known, since one may have begun that is not noticed yet."""
    quiet = _find_quiet(attempt)
    return until + NOTICE_SECONDS if quiet is None and attempt.gateway is not None else extend_limit(until, quiet)


def _update_asking(attempt: SupervisedAttempt) -> bool:
    """Look whether the agent waits for an answer; True if it did so since the last look."""
    server, before = attempt.hook_server, attempt.status.asking_since
    if server is None or server.ask_tool is None:
        return False
    server.ask_tool.check_time()
    attempt.status.asking_since = (before or time.time()) if server.asks else None
    return before is not None and server.asks


def compute_pause(seconds: float) -> float:
    """How much of the time between two turns was a pause of the machine: stopped processes, a frozen container.

    A turn waits for POLL_SECONDS at most. A machine that sleeps needs nothing: the monotonic clock sleeps, too.
    """
    return seconds - POLL_SECONDS if seconds > MAX_TURN_SECONDS else 0.0


def _explain_exit(attempt: SupervisedAttempt, status: int, *, sandboxed: bool) -> ProcessEnding:
    """Return why it exited: by itself, killed for its memory or from outside, or because its model refused to answer.

    A limit that it may have reached is named as well.
    """
    killed = attempt.monitor.check_oom_kills() if attempt.monitor is not None else None
    denied = (_find_model_refusal(attempt) or _check_gateway(attempt)) if status != 0 else None
    reason, detail = killed or denied or ("exited", "")
    ending = ProcessEnding(reason, detail, status, sandboxed=sandboxed)
    if status != 0 and not detail and attempt.monitor is not None:
        ending.detail = attempt.monitor.explain_failure(ending.exit_code, ending.signal)
    if ending.reason == "exited" and ending.killed_by:
        ending.reason, ending.detail = "lost", describe_kill(ending)
    return ending


def wait_in_doubt(attempt: SupervisedAttempt, ending: ProcessEnding) -> None:
    """Wait before a failure is recorded: an agent whose program is killed may end by itself before it is killed, too.

    The warden is next then, and the attempt is lost with it.
    """
    until = time.monotonic() + DOUBT_SECONDS
    while ending.reason == "exited" and ending.status and (left := until - time.monotonic()) > 0:
        attempt.poll_loop.wait(left)
        if attempt.poll_loop.stops:
            ending.reason, ending.detail = "cancelled", "the warden was asked to stop by a signal"


def describe_kill(ending: ProcessEnding) -> str:
    why = f"; {ending.detail}" if ending.detail else ""
    fix = "find out what did: a person, a shutdown, or the kernel for want of memory (journalctl -k)"
    return f"it was ended by {ending.killed_by}, which Blue Flame did not send{why}; {fix}"


def _find_model_refusal(attempt: SupervisedAttempt) -> tuple[str, str] | None:
    gateway = attempt.gateway
    if gateway is None:
        return None
    gateway.read_messages()
    if gateway.refused is not None:
        return "budget", str(gateway.refused.get("words", ""))
    if gateway.gave_up is not None:
        return "account" if gateway.gave_up.get("account") else "outage", str(gateway.gave_up.get("reason", ""))
    return None


def _check_gateway(attempt: SupervisedAttempt) -> tuple[str, str] | None:
    """Return why its gateway does not serve any more. No agent can reach it: one that was killed is not its doing."""
    gateway = attempt.gateway
    if gateway is None or not gateway.problem:
        return None
    reason, state = ("lost", "does not serve") if gateway.killed else ("unwatched", "broke")
    return reason, f"its gateway {state}: {gateway.problem}"


def _check_model_refusal(attempt: SupervisedAttempt) -> tuple[str, str] | None:
    """Return the refusal once the agent has had its grace to end by itself."""
    denied = _find_model_refusal(attempt)
    gave_up = attempt.gateway.gave_up if attempt.gateway is not None else None
    if denied is None or (gave_up or {}).get("kind") in ENDS_BY_ITSELF:
        return None
    now = time.monotonic()
    attempt.refused_at = now if attempt.refused_at is None else attempt.refused_at
    return denied if now - attempt.refused_at >= attempt.launch.grace else None


def _find_stop_reason(
    attempt: SupervisedAttempt, deadline: float | None, *, limits_output: bool
) -> tuple[str, str] | None:
    cancel = read_cancel_request(attempt)
    if cancel is not None:
        return "cancelled", cancel[0]
    if attempt.spool.is_deleted() and not os.path.lexists(attempt.folder):  # deleted, not moved
        return "lost", "its folder was removed: no one can read what it does"
    if deadline is not None and time.monotonic() >= find_limit_end(attempt, deadline):
        return "timeout", "its time was up"
    if attempt.hook_server is not None and attempt.hook_server.problem:
        return "unwatched", attempt.hook_server.problem
    broken = _check_gateway(attempt)
    if broken is not None:
        return broken
    pressed = attempt.monitor.find_violation() if attempt.monitor is not None else None
    if pressed is not None or not limits_output:
        return pressed
    denied = _check_model_refusal(attempt)
    if denied is not None:
        return denied
    launch = attempt.launch
    if launch.max_output and attempt.spool.size > launch.max_output:
        return "output", f"it wrote {attempt.spool.size} bytes of output, more than the {launch.max_output} allowed"
    if launch.silence and time.monotonic() >= find_limit_end(attempt, attempt.spool.grew_at + launch.silence):
        return "silent", f"no output for {launch.silence:g} seconds"
    return None


def _compute_wait(attempt: SupervisedAttempt, deadline: float | None) -> float:
    ends = [] if deadline is None else [deadline]
    if attempt.launch.silence:
        ends.append(attempt.spool.grew_at + attempt.launch.silence)
    now = time.monotonic()
    return max(0.005, min([POLL_SECONDS, *(find_limit_end(attempt, end) - now for end in ends)]))


def reap_children(wanted: int | None) -> tuple[int | None, bool]:
    """Reap all ended children; return the status of `wanted`, and whether any child is left."""
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


def end_leftovers(attempt: SupervisedAttempt) -> list[int]:
    """End daemons and background jobs that the agent left."""
    _, any_left = reap_children(None)
    if not LINUX and attempt.status.agent is not None:
        signal_group(attempt.status.agent, signal.SIGKILL)  # without /proc only the agent's group is known
    if not any_left:
        return []
    return end_processes(attempt, None, min(attempt.launch.grace, LEFTOVER_GRACE))[1]


def end_processes(
    attempt: SupervisedAttempt, leader: int | None, grace: float, *, sandboxed: bool = False
) -> tuple[int | None, list[int]]:
    """Send TERM, wait, send KILL to all descendants. Return the leader's status and the pids still alive."""
    attempt.status.update(attempt.spool, "stopping")
    _terminate_processes(leader, sandboxed=sandboxed)
    status, any_left = _wait_for_exits(attempt, leader, grace)
    give_up = time.monotonic() + KILL_TIMEOUT
    while any_left and time.monotonic() < give_up:
        _kill_processes(leader if status is None else None)
        attempt.poll_loop.wait(0.02)
        ended, any_left = reap_children(leader)
        status = ended if ended is not None else status
    return status, [member.pid for member in list_descendants({os.getpid()})] if any_left else []


def _terminate_processes(leader: int | None, *, sandboxed: bool) -> None:
    """Send TERM once to each: some programs stop at once when they get a second one."""
    if leader is not None and not sandboxed:
        signal_group(leader, signal.SIGTERM)
    members = list_descendants({os.getpid()})
    already = [member for member in members if member.pid == leader or (not sandboxed and member.group == leader)]
    signal_processes([member for member in members if member not in already], signal.SIGTERM)
    signal_processes(members, signal.SIGCONT)  # a stopped process cannot handle TERM


def _wait_for_exits(attempt: SupervisedAttempt, leader: int | None, grace: float) -> tuple[int | None, bool]:
    began = time.monotonic()
    status, any_left = reap_children(leader)
    while any_left:
        cancel = read_cancel_request(attempt)
        allowed = grace if cancel is None else min(grace, cancel[1])  # a later request may have a shorter grace
        remaining = began + allowed - time.monotonic()
        if remaining <= 0 or (not LINUX and status is not None):
            break
        attempt.poll_loop.wait(min(remaining, POLL_SECONDS))
        ended, any_left = reap_children(leader)
        status = ended if ended is not None else status
    return status, any_left


def _kill_processes(leader: int | None) -> None:
    if leader is not None:
        signal_group(leader, signal.SIGKILL)
    members = list_descendants({os.getpid()})
    signal_groups(members, signal.SIGKILL)
    signal_processes(members, signal.SIGKILL)
