"""Watchers for tests: a real HookServer with a real policy, served in this thread while others ask it."""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from blueflame.agents.hook import find_hook
from blueflame.model.policy import CANARY, Decision, ToolCall
from blueflame.model.settings.permissions import PermissionSettings, ValidationSettings
from blueflame.policy.compile import compile_policy
from blueflame.watcher.policy_file import find_shfmt, save_policy
from blueflame.watcher.server import HookServer

ATTEMPT = "ses-20260101-000000.task-001.worker.1"
TIMEOUT = 30.0

T = TypeVar("T")


class SimplePoller:
    """The part of the warden's poll loop that a watcher needs; the real one takes over the signals of the process."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self.answers: dict[int, Callable[[], None]] = {}

    def register(self, handle: int, answer: Callable[[], None], *, reading: bool = True, writing: bool = False) -> None:
        self.answers[handle] = answer
        self._poll.register(handle, select.POLLIN * reading | select.POLLOUT * writing)

    def unregister(self, handle: int) -> None:
        if self.answers.pop(handle, None) is not None:
            self._poll.unregister(handle)

    def wait(self, seconds: float) -> None:
        for handle, _ in sorted(self._poll.poll(seconds * 1000)):
            if handle in self.answers:
                self.answers[handle]()


class WatchedAttempt:
    """One attempt that is watched."""

    def __init__(
        self,
        folder: Path,
        watch: dict[str, Any],
        decide: Callable[[ToolCall], Decision] | None,
        listener: socket.socket | None = None,
    ) -> None:
        self.poll_loop = SimplePoller()
        self.audit = Path(watch["audit"])
        self.policy = Path(watch["policy"])
        listener = listener or socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = listener.getsockname()[1]
        self.env = {"BLUEFLAME_HOOK_PORT": str(self.port), "BLUEFLAME_HOOK": watch["hook"]}
        self.server = HookServer(watch, listener, ATTEMPT, self.poll_loop, decide=decide)
        self.folder = folder

    def during(self, work: Callable[[], T]) -> T:
        """Answer requests while `work` runs in a thread."""
        done: list[T] = []
        thread = threading.Thread(target=lambda: done.append(work()), daemon=True)
        thread.start()
        give_up = time.monotonic() + TIMEOUT
        while thread.is_alive():
            assert time.monotonic() < give_up, "timed out waiting for the client"
            self.poll_loop.wait(0.01)
        return done[0]

    def post(self, body: bytes, head: str = "POST /hook HTTP/1.1\r\nContent-Length: {}\r\n\r\n") -> bytes:
        return self.during(lambda: send_and_receive(self.port, head.format(len(body)).encode() + body))

    def ask(self, tool: str, **tool_input: object) -> Mapping[str, Any]:
        answer = self.post(build_question(tool, tool_input, cwd=str(self.folder)))
        said: Mapping[str, Any] = json.loads(answer.partition(b"\r\n\r\n")[2])["hookSpecificOutput"]
        return said

    def prove(self) -> None:
        assert self.ask(CANARY)["permissionDecision"] == "deny"

    def lines(self) -> list[dict[str, str]]:
        return [json.loads(line) for line in self.audit.read_text().splitlines()]


def build_question(tool: str, tool_input: object, *, cwd: str, call: str = "toolu_1") -> bytes:
    asked = {
        "hook_event_name": "PreToolUse",
        "tool_name": tool,
        "tool_input": tool_input,
        "cwd": cwd,
        "tool_use_id": call,
    }
    return json.dumps(asked).encode()


def send_and_receive(port: int, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as server_module:
        try:
            server_module.sendall(data)
            return receive_all(server_module)
        except OSError:
            return b""  # closed on us


def receive_all(server_module: socket.socket) -> bytes:
    parts = []
    while part := server_module.recv(65536):
        parts.append(part)
    return b"".join(parts)


def build_watch(
    folder: Path, *, permissions: PermissionSettings | None = None, schema: bool = False, skills: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Build the key "watch" of launch.json for a worker in `folder`, whose task has locked src/."""
    state = folder.parent / "attempt"
    policy = compile_policy(
        permissions=permissions or PermissionSettings(),
        validation=ValidationSettings(),
        role="worker",
        role_settings=None,
        worktree=str(folder.resolve()),
        scope=("src/",),
        schema=schema,
        skills=skills,
    )
    save_policy(policy, state / "policy.json")
    return {
        "policy": str(state / "policy.json"),
        "audit": str(state / "logs" / "worker-0a1b2c3d.audit.jsonl"),
        "agent": "worker-0a1b2c3d",
        "hook": str(find_hook()),
        "shfmt": find_shfmt(),
        "mounts": {},
    }


@contextmanager
def run_hook_server(
    folder: Path,
    *,
    decide: Callable[[ToolCall], Decision] | None = None,
    permissions: PermissionSettings | None = None,
    schema: bool = False,
    skills: tuple[str, ...] = (),
    listener: socket.socket | None = None,
    **changes: object,
) -> Iterator[WatchedAttempt]:
    """Run a hook server; `listener` is in another network, for agents there."""
    given = build_watch(folder, permissions=permissions, schema=schema, skills=skills)
    watch = WatchedAttempt(folder, {**given, **changes}, decide, listener)
    try:
        yield watch
    finally:
        if watch.poll_loop.answers:
            watch.server.close()


MALFORMED_CALLS = {
    "nothing": b"",
    "not JSON": b"{",
    "not UTF-8": b'{"hook_event_name": "\xff"}',
    "a list": b"[]",
    "null": b"null",
    "another event": b'{"hook_event_name":"PostToolUse","tool_name":"Read","tool_input":{},"cwd":"/"}',
    "no tool": b'{"hook_event_name":"PreToolUse","tool_input":{},"cwd":"/"}',
    "a tool that is no text": b'{"hook_event_name":"PreToolUse","tool_name":["Read"],"tool_input":{},"cwd":"/"}',
    "an input that is no object": b'{"hook_event_name":"PreToolUse","tool_name":"Read","tool_input":"x","cwd":"/"}',
    "no folder": b'{"hook_event_name":"PreToolUse","tool_name":"Read","tool_input":{}}',
    "a relative folder": b'{"hook_event_name":"PreToolUse","tool_name":"Read","tool_input":{},"cwd":"src"}',
    "two tools": b'{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_name":"Read","tool_input":{},"cwd":"/"}',
    "two inputs": b'{"hook_event_name":"PreToolUse","tool_name":"Read","tool_input":{"a":1,"a":2},"cwd":"/"}',
    "not a number": b'{"hook_event_name":"PreToolUse","tool_name":"Read","tool_input":{"a":NaN},"cwd":"/"}',
    "too deep": b'{"hook_event_name":"PreToolUse","tool_input":' + b"[" * 100_000,
    "too deep and whole": b'{"hook_event_name":"PreToolUse","cwd":"/","tool_name":"Read","tool_input":{"a":%s}}'
    % (b"[" * 990 + b"]" * 990),
    "a number without end": b'{"hook_event_name":"PreToolUse","tool_name":"Read","cwd":"/","tool_input":{"a":%s}}'
    % (b"9" * 5000),
    "a name without end": build_question("Read", {}, cwd="/", call="9" * 5000),
}
