"""What one question to the watcher costs, as the agent sees it, beside what a process costs at all and other hooks."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter

import blueflame
from benchmarks import Figure, Report
from blueflame.agents.hook import find_hook
from blueflame.model.policy import CANARY
from blueflame.model.settings.permissions import PermissionSettings, ValidationSettings
from blueflame.policy.compile import compile_policy
from blueflame.watcher.policy_file import find_shfmt, save_policy

ROUNDS = 200
SMALL = {"ROUNDS": 2}
SOURCE = str(Path(blueflame.__file__).parents[1])
SERVER = """
import json, socket, sys
sys.path.insert(0, sys.argv[1])
from blueflame.watcher.server import HookServer
from blueflame.warden.poll_loop import PollLoop
poll_loop, listener = PollLoop(), socket.create_server(("127.0.0.1", 0), backlog=128)
server = HookServer(json.loads(sys.argv[2]), listener, "ses-1.task-001.worker.1", poll_loop)
print(listener.getsockname()[1], flush=True)
while not poll_loop.stops:
    poll_loop.wait(1)
"""
JQ_HOOK = """#!/bin/bash
path=$(jq -r '.tool_input.file_path // empty')
case $path in *.env*) echo "blocked" >&2; exit 2 ;; esac
exit 0
"""
PYTHON_HOOK = """
import json, sys
call = json.load(sys.stdin)
sys.exit(2 if ".env" in call["tool_input"].get("file_path", "") else 0)
"""


def run() -> Report:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder).resolve()
        with _start_watcher(place) as port:
            took = _measure_times(_build_contestants(place, port))
    figures = [figure for name, times in took.items() for figure in _build_figures(name, times)]
    for word, pick in (("least", min), ("median", median)):
        hook, floor = pick(took[HOOK]), pick(took[FLOOR])
        figures.append(
            Figure(name=f"hook.sh over (2x the floor + 2 ms), {word}", value=hook / (2 * floor + 2), unit="x", aim=1.0)
        )
        figures += [
            Figure(name=f"hook.sh over {name}, {word}", value=hook / pick(took[name]), unit="x", aim=1.0)
            for name in OTHERS
            if name in took
        ]
    about = f"milliseconds for one decision about a call of 450 bytes, {ROUNDS} rounds of all of them in turn"
    return Report(name="watcher", about=about, figures=tuple(figures))


FLOOR = "floor: posix_spawn of /bin/true"
HOOK = "hook.sh: an edit"
OTHERS = ("bash and jq", "plain Python")


def _build_figures(name: str, times: list[float]) -> Iterator[Figure]:
    ranked = sorted(times)
    yield Figure(name=f"{name}, min", value=ranked[0], unit="ms")
    yield Figure(name=f"{name}, p50", value=median(ranked), unit="ms")
    yield Figure(name=f"{name}, p95", value=ranked[int(len(ranked) * 0.95)], unit="ms")


def _measure_times(contestants: dict[str, Callable[[], None]]) -> dict[str, list[float]]:
    """In turn, so that whatever else the machine does hits all alike."""
    took: dict[str, list[float]] = {name: [] for name in contestants}
    for n in range(ROUNDS + 5):
        for name, contest in contestants.items():
            begun = perf_counter()
            contest()
            if n >= 5:  # the first rounds only warm up
                took[name].append((perf_counter() - begun) * 1000)
    return took


def _build_contestants(place: Path, port: int) -> dict[str, Callable[[], None]]:
    hook, jq, python = str(find_hook()), place / "jq.sh", place / "hook.py"
    jq.write_text(JQ_HOOK)
    jq.chmod(0o755)
    python.write_text(PYTHON_HOOK)
    edit = _build_edit(place)
    unseen = count()
    env = {"PATH": os.environ["PATH"], "BLUEFLAME_HOOK_PORT": str(port)}
    return {
        FLOOR: lambda: _spawn_hook(["/bin/true"], b"", env),
        HOOK: lambda: _spawn_hook([hook], edit, env),
        "hook.sh: a command seen before": lambda: _spawn_hook([hook], _build_command(place, "git status --short"), env),
        "hook.sh: a command never seen": lambda: _spawn_hook(
            [hook], _build_command(place, f"git log -{next(unseen)}"), env
        ),
        "a resident agent's own POST": lambda: _post_question(port, edit),
        "plain Python": lambda: _spawn_hook([sys.executable, str(python)], edit, env),
        **({"bash and jq": lambda: _spawn_hook([str(jq)], edit, env)} if shutil.which("jq") else {}),
    }


def _build_edit(place: Path) -> bytes:
    call = {"file_path": str(place / "work" / "src" / "app.py"), "content": "x"}
    call["content"] *= 450 - len(_build_question(place, "Write", call))
    return _build_question(place, "Write", call)


def _build_command(place: Path, command: str) -> bytes:
    return _build_question(place, "Bash", {"command": command})


def _build_question(place: Path, tool: str, given: object) -> bytes:
    asked = {
        "session_id": "x" * 36,
        "hook_event_name": "PreToolUse",
        "tool_name": tool,
        "tool_input": given,
        "tool_use_id": "toolu_01",
        "cwd": str(place / "work"),
    }
    return json.dumps(asked).encode()


def _spawn_hook(argv: list[str], question: bytes, env: dict[str, str], code: int = 0) -> None:
    """As an agent does it: the question on stdin, the answer on stdout to its end, the exit code."""
    (asked, ask), (answered, answer) = os.pipe(), os.pipe()
    os.write(ask, question)
    os.close(ask)
    pid = os.posix_spawn(
        argv[0], argv, env, file_actions=[(os.POSIX_SPAWN_DUP2, asked, 0), (os.POSIX_SPAWN_DUP2, answer, 1)]
    )
    os.close(asked)
    os.close(answer)
    while os.read(answered, 4096):
        pass
    os.close(answered)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == code, argv


def _post_question(port: int, question: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port)) as asking:
        asking.sendall(b"POST /hook HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(question) + question)
        answer = b""
        while part := asking.recv(4096):
            answer += part
    assert b"Decision: allow" in answer


@contextmanager
def _start_watcher(place: Path) -> Iterator[int]:
    """In a process of its own, started as a warden is."""
    (place / "work" / "src").mkdir(parents=True)
    policy = compile_policy(
        permissions=PermissionSettings(),
        validation=ValidationSettings(),
        role="worker",
        role_settings=None,
        worktree=str(place / "work"),
        scope=("src/",),
    )
    save_policy(policy, place / "policy.json")
    watch = {
        "policy": str(place / "policy.json"),
        "audit": str(place / "audit.jsonl"),
        "hook": str(find_hook()),
        "shfmt": find_shfmt(),
    }
    argv = [sys.executable, "-I", "-S", "-E", "-c", SERVER, SOURCE, json.dumps(watch)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        env = {"BLUEFLAME_HOOK_PORT": str(port)}
        subprocess.run(
            [find_hook()], input=_build_question(place, CANARY, {}), env=env, stderr=subprocess.DEVNULL, check=False
        )
        yield port
        server.terminate()


if __name__ == "__main__":
    from benchmarks.__main__ import format_table

    print(format_table(run()))
