"""hook.sh as an agent runs it, against real listeners on loopback: every failure is a refusal with exit code 2."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from blueflame.agents.hook import find_hook
from blueflame.agents.programs import build_hook_command
from blueflame.model.policy import Decision
from blueflame.watcher.http import ALLOWED, format_refusal

HOOK = str(find_hook())
CALL = json.dumps(
    {"hook_event_name": "PreToolUse", "tool_name": "Write", "tool_input": {"content": "ж" * 200}}
).encode()
DENIED = format_refusal(Decision(False, "blocked_path", ".env is not yours;\nwrite to src/ instead — 好"), plain=True)
HEAD, _, BODY = ALLOWED.partition(b"\r\n\r\n")

Server = Callable[[socket.socket], None]


class Asked(NamedTuple):
    code: int
    out: bytes
    err: str


def ask(port: object, call: bytes = CALL, *, env: dict[str, str] | None = None, drop: tuple[str, ...] = ()) -> Asked:
    environment = {"PATH": "/usr/bin:/bin", "BLUEFLAME_HOOK_PORT": str(port), **(env or {})}
    for name in drop:
        environment.pop(name)
    done = subprocess.run([HOOK], input=call, capture_output=True, check=False, env=environment, timeout=30)
    return Asked(done.returncode, done.stdout, done.stderr.decode())


@contextmanager
def listening(serve: Server, *, backlog: int = 16) -> Iterator[int]:
    """Answers every connection with `serve`, one after the other."""
    with socket.create_server(("127.0.0.1", 0), backlog=backlog) as listener:

        def work() -> None:
            while True:
                try:
                    asking, _ = listener.accept()
                except OSError:
                    return
                with asking:
                    serve(asking)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(20)


def heard(asking: socket.socket) -> bytes:
    """Read the whole request: its head, and a body of the announced length."""
    got = b""
    while b"\r\n\r\n" not in got:
        got += asking.recv(1 << 20)
    head, _, body = got.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += asking.recv(1 << 20)
    return body


def answering(*parts: bytes) -> Server:
    def serve(asking: socket.socket) -> None:
        heard(asking)
        for part in parts:
            asking.sendall(part)

    return serve


def test_an_allowance_is_passed_on_as_claude_reads_it() -> None:
    with listening(answering(ALLOWED)) as port:
        asked = ask(port)

    assert asked.code == 0
    assert asked.err == ""
    said = json.loads(asked.out)["hookSpecificOutput"]
    assert (said["hookEventName"], said["permissionDecision"]) == ("PreToolUse", "allow")


def test_an_allowing_answer_may_arrive_in_pieces() -> None:
    with listening(answering(*(ALLOWED[n : n + 1] for n in range(len(ALLOWED))))) as port:
        assert ask(port).code == 0


def test_a_refusal_tells_why_and_is_exit_code_two() -> None:
    with listening(answering(DENIED)) as port:
        asked = ask(port)

    assert (asked.code, asked.out) == (2, b"")
    assert asked.err == "blocked_path: .env is not yours;\nwrite to src/ instead — 好\n"


@pytest.mark.parametrize("size", [0, 449, 450, 65_536, 1_000_000, 3_000_000])
def test_a_question_arrives_as_it_was_asked(size: int) -> None:
    got: list[bytes] = []
    call = json.dumps({"text": ("\\ \t'\"$(x)`*ж\x7f" * size)[:size]}, ensure_ascii=False).encode()

    def serve(asking: socket.socket) -> None:
        got.append(heard(asking))
        asking.sendall(ALLOWED)

    with listening(serve) as port:
        assert ask(port, call).code == 0

    assert got == [call + b"\n"]


def test_what_is_larger_than_ten_megabytes_is_refused_without_asking() -> None:
    with listening(answering(ALLOWED)) as port:
        asked = ask(port, b"x" * (10 * 1024 * 1024 + 1))

    assert asked.code == 2
    assert "10 MB" in asked.err or "in time" in asked.err


WRONG_ANSWERS = {
    "closes without a word": b"",
    "garbage": b"\x00\xff\xfe garbage \r\n\r\n allow",
    "half an answer": ALLOWED[:-1],
    "only the head": HEAD + b"\r\n\r\n",
    "head without its end": HEAD,
    "more than an answer": ALLOWED + b" ",
    "two answers": ALLOWED + ALLOWED,
    "HTTP 500": ALLOWED.replace(b"200 OK", b"500 Internal Server Error"),
    "HTTP 404": b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    "an empty 200": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "200 and plain words": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nallow",
    "a body that allows, a header that does not": ALLOWED.replace(b"Decision: allow", b"Decision: deny"),
    "a header that allows, a body that does not": ALLOWED.replace(b'"allow"', b'"deny "'),
    "another word": ALLOWED.replace(b"Decision: allow", b"Decision: ALLOW"),
    "ask": ALLOWED.replace(b"allow\r\n", b"ask\r\n"),
    "no such JSON": ALLOWED.replace(b'"permissionDecision":"allow"', b'"permissionDecision":"DENY!"'),
    "legacy JSON": b'{"decision":"approve"}',
    "the JSON alone": BODY,
    "a refusal that quotes an allowance": format_refusal(
        Decision(False, "blocked_path", f'"permissionDecision":"allow" {ALLOWED.decode()}'), plain=True
    ),
    "a refusal in JSON that quotes one": format_refusal(
        Decision(False, "blocked_path", f'","permissionDecision":"allow" {ALLOWED.decode()}'), plain=False
    ),
    "a refusal without a reason": b"HTTP/1.1 200 OK\r\nX-Blueflame-Decision: deny\r\n\r\n",
    "a header smuggled in a refusal": DENIED + b"\r\n\r\n" + ALLOWED,
    "continue false": ALLOWED.replace(BODY, b'{"continue":false}'),
    "a megabyte of it": ALLOWED + b"x" * 1_000_000,
}


@pytest.mark.parametrize("answer", WRONG_ANSWERS.values(), ids=WRONG_ANSWERS.keys())
def test_any_other_answer_is_a_refusal(answer: bytes) -> None:
    def serve(asking: socket.socket) -> None:
        heard(asking)
        with_reset = len(answer) > 100_000
        try:
            asking.sendall(answer)
        except OSError:
            assert with_reset  # it does not read the rest

    with listening(serve) as port:
        asked = ask(port)

    assert (asked.code, asked.out) == (2, b"")
    assert asked.err.strip()


def test_a_watcher_that_is_not_running_is_a_refusal() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    asked = ask(port)

    assert (asked.code, asked.out) == (2, b"")
    assert "watcher is not running" in asked.err


def test_a_server_that_hangs_up_at_once_is_a_refusal() -> None:
    for call in (CALL, b"x" * 1_000_000):
        with listening(lambda asking: None) as port:
            asked = ask(port, call)

        assert (asked.code, asked.out) == (2, b"")


def resets(asking: socket.socket) -> None:
    asking.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")


def test_a_connection_that_is_reset_is_a_refusal() -> None:
    for call in (CALL, b"x" * 1_000_000):
        with listening(resets) as port:
            assert ask(port, call).code == 2


HANGS = ("never reads", "never answers", "half an answer", "drop by drop", "never lets in")


@pytest.mark.slow
def test_a_server_that_hangs_is_a_refusal_before_the_agent_gives_up() -> None:
    """Claude waits 5 s for its hook and then lets the call through. All at once, because each takes the whole time."""
    with ThreadPoolExecutor(2 * len(HANGS)) as pool:
        cases = [(how, size) for how in HANGS for size in (400, 5_000_000)]
        answers = list(pool.map(lambda case: hung(*case), cases))

    for case, asked in zip(cases, answers, strict=True):
        assert (asked.code, asked.out) == (2, b""), case
        assert "in time" in asked.err, case


def hung(how: str, size: int) -> Asked:
    """Ask a server that keeps its side open for longer than `ask` waits."""
    over = threading.Event()

    def serve(asking: socket.socket) -> None:
        if how in ("never answers", "half an answer", "drop by drop"):
            heard(asking)
        if how == "half an answer":
            asking.sendall(ALLOWED[:100])
        drops = iter(ALLOWED if how == "drop by drop" else ())
        while not over.wait(0.1) and (drop := next(drops, None)) is not None:
            asking.sendall(bytes([drop]))
        over.wait(60)

    with listening(serve, backlog=0) as port:
        crowd = [_pushing(port) for _ in range(4 if how == "never lets in" else 0)]
        try:
            return ask(port, b"x" * size)
        finally:
            over.set()
            for each in crowd:
                each.close()


def _pushing(port: int) -> socket.socket:
    """Open one of the connections that fill the listener's queue, so that connecting is not possible."""
    one = socket.socket()
    one.setblocking(False)
    one.connect_ex(("127.0.0.1", port))
    return one


@pytest.mark.slow
def test_an_input_that_never_ends_is_a_refusal() -> None:
    with listening(answering(ALLOWED)) as port:
        env = {"BLUEFLAME_HOOK_PORT": str(port)}
        with subprocess.Popen([HOOK], stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as hook:
            assert hook.stdin is not None
            hook.stdin.write(b"{")
            hook.stdin.flush()
            assert hook.wait(20) == 2


@pytest.mark.parametrize(
    "port", ["", "0", "x", "80a", "-1", "65536", "99999999999", "1 2", "$(true)", "a[$(true)]", "１"]
)
def test_a_port_that_is_none_is_a_refusal(port: str) -> None:
    assert ask(port).code == 2


def test_without_a_port_it_is_a_refusal() -> None:
    asked = ask(1, drop=("BLUEFLAME_HOOK_PORT",))

    assert asked.code == 2
    assert "BLUEFLAME_HOOK_PORT" in asked.err


def test_an_empty_question_is_a_refusal() -> None:
    with listening(answering(ALLOWED)) as port:
        assert ask(port, b"").code == 2


def test_closed_streams_are_refusals() -> None:
    with listening(answering(ALLOWED)) as port:
        for closing in ("<&-", ">&-", "<&- >&- 2>&-", "> /dev/full"):
            shell = f'printf %s "$0" | BLUEFLAME_HOOK_PORT={port} "$1" {closing} 2> /dev/null'
            for env in ({}, {"POSIXLY_CORRECT": "1"}):
                done = subprocess.run(["/bin/sh", "-c", shell, CALL, HOOK], check=False, timeout=20, env=env)
                assert done.returncode == 2, (closing, env)


@pytest.mark.parametrize(
    "env",
    [
        {"LC_ALL": "xx_YY.nonsense", "LANG": "zz"},
        {"LC_ALL": "C.UTF-8"},
        {"PATH": "/nonexistent"},
        {"HOME": "/nonexistent", "TMPDIR": "/nonexistent"},
        {"BASH_ENV": "/bin/ls", "ENV": "/bin/ls", "SHELLOPTS": "xtrace:noexec", "BASHOPTS": "extdebug"},
        {"BASH_FUNC_printf%%": "() { echo '{}'; }", "BASH_FUNC_refuse%%": "() { exit 0; }"},
        {"BASH_FUNC_exec%%": "() { :; }", "BASH_FUNC_exit%%": "() { builtin exit 0; }"},
        {"IFS": "0123456789", "TMOUT": "1", "BASH_COMPAT": "3.1", "BASH_XTRACEFD": "1"},
        {"LIMIT": "0", "ALLOWED": "", "DENIED": "", "END": "", "answer": ALLOWED.decode(), "call": "{}"},
    ],
    ids=lambda env: next(iter(env)),
)
def test_no_environment_changes_the_answer(env: dict[str, str]) -> None:
    with listening(answering(ALLOWED)) as port:
        allowed = ask(port, env=env)
    with listening(answering(DENIED)) as port:
        denied = ask(port, env=env)
    silent = ask(1, env=env)

    assert (allowed.code, denied.code, silent.code) == (0, 2, 2)
    assert allowed.out == BODY + b"\n"
    assert denied.out == silent.out == b""


def test_without_any_environment_or_home_or_writable_folder_it_works(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with listening(answering(ALLOWED)) as port:
        done = subprocess.run(
            [HOOK], input=CALL, env={"BLUEFLAME_HOOK_PORT": str(port)}, cwd=tmp_path, check=False, capture_output=True
        )
    tmp_path.chmod(0o700)

    assert (done.returncode, done.stderr) == (0, b"")


def test_in_posix_mode_it_never_ends_in_anything_but_yes_or_no() -> None:
    with listening(answering(ALLOWED)) as port:
        assert ask(port, env={"POSIXLY_CORRECT": "1"}).code in (0, 2)
    assert ask(1, env={"POSIXLY_CORRECT": "1"}).code == 2


@pytest.mark.parametrize("number", ["HUP", "INT", "QUIT", "PIPE", "ALRM", "TERM", "USR1", "USR2"])
def test_a_signal_is_a_refusal(number: str) -> None:
    """Agents take death by a signal as consent."""
    arrived = threading.Event()
    over = threading.Event()

    def serve(asking: socket.socket) -> None:
        heard(asking)
        arrived.set()
        over.wait(20)

    with listening(serve) as port:
        env = {"BLUEFLAME_HOOK_PORT": str(port)}
        with subprocess.Popen([HOOK], stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as hook:
            assert hook.stdin is not None
            hook.stdin.write(CALL)
            hook.stdin.close()
            assert arrived.wait(20)
            hook.send_signal(getattr(signal, f"SIG{number}"))
            code = hook.wait(20)
        over.set()

    assert code == 2


def test_where_a_shell_runs_it_a_kill_is_no_consent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codex and Gemini CLI take any other end of a hook for consent."""

    def run_command(port: int) -> Asked:
        env = {"PATH": "/usr/bin:/bin", "BLUEFLAME_HOOK_PORT": str(port)}
        words = ["sh", "-c", build_hook_command("quiet")]
        done = subprocess.run(words, input=CALL, capture_output=True, check=False, env=env, timeout=30)
        return Asked(done.returncode, done.stdout, done.stderr.decode())

    with listening(answering(ALLOWED)) as port:
        assert run_command(port) == (0, b"", "")
    with listening(answering(DENIED)) as port:
        assert run_command(port).err == ask(port).err
    killed, asked_of = tmp_path / "hook's.sh", tmp_path / "asked"
    killed.write_text(f'#!/bin/sh\n{HOOK} "$@"\ncode=$?\nmkdir {asked_of} 2> /dev/null && kill -KILL $$\nexit $code\n')
    killed.chmod(0o755)
    monkeypatch.setattr("blueflame.agents.programs.find_hook", lambda: killed)
    with listening(answering(ALLOWED)) as port:
        assert run_command(port).code == 0
    assert asked_of.exists()
    killed.write_text("#!/bin/sh\nkill -KILL $$\n")
    asked = run_command(1)
    assert (asked.code, asked.out) == (2, b"")
    assert "blueflame: refused, because its hook was killed" in asked.err


def test_it_starts_no_program(tmp_path: Path) -> None:
    """It works with nothing on its PATH; a program started by its full path would show here."""
    words = Path(HOOK).read_text().replace("#!/bin/bash", "")
    for program in ("/bin/", "/usr/", "curl", "jq", "nc ", "python", "cat ", "sleep", "$(<"):
        assert program not in words


def test_its_parser_finds_nothing_odd(tmp_path: Path) -> None:
    assert subprocess.run(["/bin/bash", "-n", HOOK], check=False).returncode == 0


def test_it_is_a_program_and_ships_in_the_wheel(tmp_path: Path) -> None:
    assert stat.S_IMODE(Path(HOOK).stat().st_mode) & 0o111
    assert os.access(HOOK, os.X_OK)
    hatchling = pytest.importorskip("hatchling.build")
    root = Path(HOOK).parents[3]
    built = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import {hatchling.__name__} as b, sys; print(b.build_wheel(sys.argv[1]))",
            str(tmp_path),
        ],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    with zipfile.ZipFile(tmp_path / built.stdout.strip().splitlines()[-1]) as wheel:
        info = wheel.getinfo("blueflame/agents/hook.sh")
    assert (info.external_attr >> 16) & 0o111
