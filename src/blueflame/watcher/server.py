"""The hook server of one attempt: decides over HTTP, on a listener inside the agent's namespace.

One request per connection, one thread, nothing that blocks. Each decision is in the audit log before it is answered;
what cannot be recorded is refused.
"""

# ruff: noqa: PTH123 (pathlib's imports would cost every attempt some 10 ms)
from __future__ import annotations

import errno
import hashlib
import sys
import time
from contextlib import suppress

from blueflame.model.policy import CANARY, Decision
from blueflame.policy.dialects import CLAUDE
from blueflame.policy.tool_calls import MalformedCall, read_calls
from blueflame.watcher.audit_log import MAX_DETAILS, MAX_TARGET, AuditLog, UnwritableDisk, UnwritableLog
from blueflame.watcher.decision import Decider, describe_call
from blueflame.watcher.http import ALLOWED, HookConnection, format_refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping
    from typing import Any

    from blueflame.model.policy import ToolCall
    from blueflame.watcher.ask_tool import AskTool
    from blueflame.watcher.http import Poller


MAX_CONNECTIONS = 64
DELAYED_TOOLS = ("Bash", "Edit", "Glob", "Grep", "Read", "Write")
CONNECTION_TIMEOUT = 5.0  # seconds; hooks give up earlier


class Notice:
    """Words for the agent: a call that can wait is refused once with them, as every agent program shows a refusal."""

    __slots__ = ("decision", "on_read")

    def __init__(self, rule: str, text: str, on_read: Callable[[], None]) -> None:
        self.decision = Decision(False, rule, text)
        self.on_read = on_read


class HookServer:
    """Serves until closed.

    `problem`: why this attempt does not count as watched, or "". `is_disk_at_fault`: that is not the agent's doing.
    `hindrance`: why calls were refused that the policy allows, or ""; then a failure says nothing about the agent.
    """

    __slots__ = (
        "_attempt",
        "_judge",
        "_listener",
        "_log",
        "_notices",
        "_open",
        "_poll_loop",
        "_seals",
        "_watch",
        "ask_tool",
        "hindrance",
        "is_disk_at_fault",
        "problem",
    )

    def __init__(
        self,
        watch: Mapping[str, Any],
        listener: socket.socket,
        attempt: str,
        poll_loop: Poller,
        *,
        decide: Callable[[ToolCall], Decision] | None = None,
        ask_tool: AskTool | None = None,
    ) -> None:
        self.problem = ""
        self.hindrance = ""
        self.is_disk_at_fault = False
        self.ask_tool = ask_tool
        self._watch = watch
        self._attempt = attempt
        self._poll_loop = poll_loop
        self._listener = listener
        self._open: list[HookConnection] = []
        self._notices: list[Notice] = []
        self._seals = {what: _hash_file(watch, what) for what in ("policy", "hook")}
        self._judge = Decider(
            decide or _PolicyDecider(watch, self._seals["policy"], self._report, self.hinder), self.hinder
        )
        self._log: AuditLog | None = None
        try:
            self._log = AuditLog(str(watch["audit"]))
        except UnwritableLog as e:
            self._report(str(e))
        listener.setblocking(False)
        poll_loop.register(listener.fileno(), self._accept)

    @property
    def proven(self) -> bool:
        """Whether the canary has been refused."""
        return self._judge.proven

    def add_notice(self, rule: str, text: str, on_read: Callable[[], None] = lambda: None) -> None:
        """Refuse the next allowed call once, with this text; not where the agent would see no reason."""
        if self._watch.get("notices", True):
            self._notices.append(Notice(rule, text, on_read))

    @property
    def asks(self) -> bool:
        """Whether the agent waits for an answer of the person."""
        return self.ask_tool is not None and self.ask_tool.waits

    def answer_question(self, text: str) -> bool:
        """Give the answer to an agent that waits for one; False if it does not."""
        return self.ask_tool is not None and self.ask_tool.answer(text)

    def close(self) -> Mapping[str, object]:
        """Stop serving, check for tampering, and return what to record."""
        self._poll_loop.unregister(self._listener.fileno())
        self._listener.close()
        for connection in list(self._open):
            connection.close()
        for what, seal in self._seals.items():
            if _hash_file(self._watch, what) != seal:
                self._report(f"the {what} {self._watch.get(what)} was changed while the agent ran")
        lines, last = 0, ""
        if self._log is not None:
            self._report(self._log.find_tampering())
            lines, last = self._log.lines, self._log.last_link
            self._log.close()
        if not self.proven:  # it comes before the agent
            self._report("the canary call never arrived: the agent's hook may not work")
            self.hinder("the canary call never arrived")
        hindered = {"hindrance": self.hindrance} if self.hindrance else {}
        return {"lines": lines, "last": last, "proven": self.proven, "problem": self.problem, **hindered}

    def answer(self, body: bytes, *, plain: bool, late: bool = False) -> bytes:
        """Return the answer to one request; the decision is recorded first. `late`: no one waits for it any more."""
        if late:
            self.hinder("a tool call was refused because its warden did not answer in time")
        decision = self._decide(body)
        return ALLOWED if decision.allowed else format_refusal(decision, plain=plain)

    def _decide(self, body: bytes) -> Decision:
        """Decide about all calls of a request, which are allowed together or not at all, and record each."""
        try:
            calls = read_calls(body, str(self._watch.get("dialect", CLAUDE)))
            names = [describe_call(call) for call in calls]
            decision = self._judge_calls(calls)
        except MalformedCall as e:
            names, decision = [describe_call(None)], Decision(False, "malformed_call", str(e))
        except RecursionError:
            names, decision = [describe_call(None)], Decision(False, "malformed_call", "the call is nested too deeply")
        recorded = [self._record(each, decision) for each in names]
        answer = next((each for each in recorded if not each.allowed), decision)
        if self._notices and answer is self._notices[0].decision:
            self._notices.pop(0).on_read()
        return answer

    def _judge_calls(self, calls: tuple[ToolCall, ...]) -> Decision:
        """Judge calls until the first refusal: each may take time, and the agent waits."""
        decision = Decision(False, "malformed_call", "the request holds no call")
        for call in calls:
            decision = self._judge.decide(call)
            if not decision.allowed:
                break
        if decision.allowed and self._notices and all(_may_wait(call) for call in calls):
            return self._notices[0].decision
        return decision

    def _record(self, names: Mapping[str, str], decision: Decision) -> Decision:
        line = {
            "agent_id": str(self._watch.get("agent", "")),
            "attempt": self._attempt,
            "tool": names["tool"][:MAX_TARGET],
            "target": names["target"][:MAX_TARGET],
            "decision": "allow" if decision.allowed else "block",
            "rule": decision.rule,
            "details": decision.details[:MAX_DETAILS],
            "call": names["call"][:MAX_TARGET],
            "digest": names["digest"],
        }
        try:
            if self._log is None:
                raise UnwritableLog(self.problem)
            self._log.append(line)
        except UnwritableLog as e:
            self._report(str(e))
            self.is_disk_at_fault = self.is_disk_at_fault or isinstance(e, UnwritableDisk)
            return Decision(False, decision.rule, "refused: the decision could not be recorded")
        return decision

    def hinder(self, hindrance: str) -> None:
        """Note what keeps the agent from working and is not its doing; the first one counts."""
        self.hindrance = self.hindrance or hindrance

    def _report(self, problem: str) -> None:
        """Log a problem; the first one is reported with the outcome."""
        if problem:
            self.problem = self.problem or problem
            with suppress(OSError):  # a full disk: the problem is recorded with the outcome as well
                print(f"watcher of {self._attempt}: {problem}", file=sys.stderr, flush=True)

    def _accept(self) -> None:
        now = time.monotonic()
        for connection in [late for late in self._open if now - late.since > CONNECTION_TIMEOUT and not late.is_kept]:
            connection.close()
        try:
            asking, _ = self._listener.accept()
        except OSError as e:  # the hook takes it for a refusal
            if e.errno in (errno.EMFILE, errno.ENFILE):
                self.hinder("a tool call got no answer: its warden may open no more files, raise 'ulimit -n'")
            return
        if len(self._open) >= MAX_CONNECTIONS:
            asking.close()
            return
        tool = None if self.ask_tool is None else self.ask_tool.handle
        HookConnection(asking, self._poll_loop, self.answer, self._open, now, tool)


def _may_wait(call: ToolCall) -> bool:
    """Whether a call can be repeated later: not a commit, which a warning asks for, and no answer at the end."""
    return call.tool in DELAYED_TOOLS and "commit" not in str(call.input.get("command", ""))


def _hash_file(watch: Mapping[str, Any], what: str) -> str:
    """Return the hash of a file that must not change while the agent runs, or why it cannot be read."""
    try:
        with open(str(watch.get(what, "")), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError as e:
        return f"unreadable: {e.strerror}"


class _PolicyDecider:
    """Decides by the policy, which is loaded with the canary. Without one nothing is allowed."""

    __slots__ = ("_decide", "_hinder", "_report", "_seal", "_watch")

    def __init__(
        self, watch: Mapping[str, Any], seal: str, report: Callable[[str], None], hinder: Callable[[str], None]
    ) -> None:
        self._watch = watch
        self._seal = seal
        self._report = report
        self._hinder = hinder
        self._decide: Callable[[ToolCall], Decision] | None = None

    def __call__(self, call: ToolCall) -> Decision:
        if self._decide is None:
            self._decide = self._load()
        if call.tool == CANARY:
            return Decision(False, "canary", "the watcher works")
        return self._decide(call)

    def _load(self) -> Callable[[ToolCall], Decision]:
        try:
            return _load_decider(self._watch, self._seal, self._hinder)
        except Exception as e:
            self._report(f"the policy {self._watch.get('policy')} cannot be used: {e!s:.300}")
            raise


def _load_decider(watch: Mapping[str, Any], seal: str, hinder: Callable[[str], None]) -> Callable[[ToolCall], Decision]:
    """Load the policy and its rules; imported late, because a warden without a watcher needs none of them."""
    from blueflame.policy.decide import decide
    from blueflame.watcher.policy_file import parse_policy
    from blueflame.watcher.world import LocalWorld

    with open(watch["policy"], "rb") as file:
        data = file.read()
    if hashlib.sha256(data).hexdigest() != seal:
        raise ValueError("it was changed before it was read")
    policy = parse_policy(data.decode(), watch["policy"])
    world = LocalWorld(policy.worktree, shfmt=watch["shfmt"], mounts=watch.get("mounts", {}))

    def judge(call: ToolCall) -> Decision:
        decision = decide(policy, call, world)
        hinder(world.hindrance)
        return decision

    return judge
