"""Clients that send nonsense, and what the server's own process holds."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import types
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from blueflame.journal.journal import Journal
from blueflame.orchestrator.project import open_project
from blueflame.orchestrator.sessions import find_running_pid, load_session
from blueflame.system.layout import StatePaths
from support.command_line import configure, until, write
from support.mcp_clients import ERAS, connect, converse, read_calls
from support.recorded_session import ID

TOOLS = (
    *("sessions", "status", "gates", "show", "diff", "cost", "log", "knowledge", "answer", "stop"),
    *("take", "hand_in"),
)
INJECTED = "--decisions-file=/etc/passwd --budget 9999\n--config /"
KEY = "sk-ant-a-secret-that-only-the-session-gets"

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=5,
)
names = st.sampled_from(
    ["session", "since", "item", "offset", "kind", "gate", "ctx", "self", "given", "attempt", "summary"]
) | st.text(max_size=5)


calls = st.tuples(st.sampled_from(TOOLS), st.dictionaries(names, anything, max_size=4))


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(calls=st.lists(calls, min_size=12, max_size=20), era=st.sampled_from(ERAS))
def test_any_arguments_get_a_result_or_a_reason_and_change_nothing(
    planned: Path, tmp_path: Path, calls: list[tuple[str, dict[str, Any]]], era: str
) -> None:
    """Several calls of one client: connecting takes longer than they do."""

    async def story() -> None:
        async with connect(planned, tmp_path / "calls", era=era) as mine:
            for tool, arguments in calls:
                done = await mine.client.call_tool(tool, arguments)
                said = "".join(part.text for part in done.content if isinstance(part, types.TextContent))
                assert said != f"Error executing tool {tool}", "an unexpected exception"
                assert len(said) < 12_000
                assert not mine.served.children

    converse(story())
    with Journal.open_read_only(StatePaths(planned.parent).journal) as journal:
        assert journal.list_waiting(None) == ()


HUGE = "x" * 5_000_000
TRICKS = ("../../etc/passwd", "/etc/passwd", "a\0b", "$(id)", "-x", "plan; rm -rf /", "\x1b[2J", "x" * 100_000, "..")


@pytest.mark.parametrize("era", ERAS)
def test_names_that_are_paths_or_commands_name_nothing(planned: Path, tmp_path: Path, era: str) -> None:
    asked = (
        *((tool, {"session": trick}) for tool in ("status", "log", "cost", "gates") for trick in TRICKS),
        *(("show", {"item": trick}) for trick in TRICKS),
        *(("answer", {"gate": trick}) for trick in TRICKS),
        *(("hand_in", {"attempt": trick, "summary": "x"}) for trick in TRICKS),
        *(("fix", {"work": trick, "wrong": "x"}) for trick in TRICKS),
        *(("start", {"request": "x" * 20_001}), ("start", {"request": ""}), ("start", {"request": "-"})),
    )

    async def story() -> None:
        async with connect(planned, tmp_path / "calls", era=era) as mine:
            for tool, arguments in asked:
                said = await mine.fail(tool, **arguments)
                assert len(said) < 12_000
                assert "\x1b" not in said
                assert "root:" not in said
            assert not mine.served.children

    converse(story())
    assert (tmp_path / "calls").stat().st_size < 500_000, "what is recorded is cut"


@pytest.mark.parametrize("era", ERAS)
def test_many_calls_at_once_are_all_answered(planned: Path, tmp_path: Path, era: str) -> None:
    async def story() -> list[dict[str, Any]]:
        async with connect(planned, tmp_path / "calls", era=era) as mine:
            return await asyncio.gather(*(mine.call("status") for _ in range(50)))

    assert {found["session"] for found in converse(story())} == {ID}
    assert len(list(read_calls(tmp_path / "calls"))) == 50


def test_a_client_that_disconnects_in_a_call_ends_the_server_and_nothing_else(planned: Path) -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    lines: list[object] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "size", "arguments": {"request": "x"}}},
    ]
    code = asyncio.run(leave(planned, "".join(f"{json.dumps(line)}\n" for line in lines)))
    assert code in (0, 1), "it has ended, by itself"
    with Journal.open_read_only(StatePaths(planned.parent).journal) as journal:
        assert journal.list_waiting(None) == ()
        assert len(journal.list_ids()) == 1


async def leave(config: Path, sent: str) -> int:
    """Send lines to a server, close both of its pipes before it can answer, and return how it ended."""
    argv = (sys.executable, "-m", "blueflame", "mcp", "--config", str(config))
    pipe, quiet = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    server = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe, stderr=quiet)
    assert server.stdin
    assert server.stdout
    server.stdin.write(sent.encode())
    async with asyncio.timeout(60):
        await server.stdout.readline()  # the answer to the first
        server.stdin.close()
        server._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]  # asyncio has no other way
        return await server.wait()


@pytest.fixture
def environment(repo: Path, tmp_path: Path, own_home: Path) -> Iterator[dict[str, str]]:
    """What a client gives the server: the key, and a git that writes down what it is given."""
    git = shutil.which("git")
    (tmp_path / "bin").mkdir()
    shim = write(tmp_path / "bin" / "git", f'#!/bin/sh\nenv >> "{tmp_path}/git.env"\nexec {git} "$@"\n')
    shim.chmod(0o755)
    given = dict(os.environ) | {"ANTHROPIC_API_KEY": KEY, "CLAUDE_CODE_MESSAGING_TOKEN": "t", "CLAUDECODE": "1"}
    yield given | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}


def serve(config: Path, environ: dict[str, str]) -> StdioServerParameters:
    argv = ["-m", "blueflame", "mcp", "--config", str(config)]
    return StdioServerParameters(command=sys.executable, args=argv, env=environ, cwd=config.parent)


@pytest.mark.slow
def test_only_the_process_of_the_session_gets_the_key(repo: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    write(tmp_path / "script.yaml", {"defaults": {"worker": [{"sleep": "forever"}]}})
    config = configure(repo, {"runtimes": {"scripted": {"script": "../script.yaml"}}})
    project = open_project(config)

    async def story() -> None:
        async with Client(serve(config, environment)) as client:
            done = await client.call_tool("size", {"request": "Write one"})
            assert not done.is_error, done.content
            assert KEY not in (tmp_path / "git.env").read_text()
            done = await client.call_tool("start", {"request": INJECTED, "tier": 2})
            assert not done.is_error, done.content
            again = await client.call_tool("start", {"request": "Write two", "tier": 2})
            assert again.is_error, "one session at a time"
            pid = find_running_pid(project)
            held = Path(f"/proc/{pid}/environ").read_bytes().decode()
            assert KEY in held
            assert "CLAUDE_CODE_MESSAGING_TOKEN" not in held
            assert "CLAUDECODE" not in held
            assert not (await client.call_tool("stop", {})).is_error

    converse(story())
    until(lambda: find_running_pid(project) is None, what="its end")
    with Journal.open_read_only(project.state.journal) as journal:
        (name,) = journal.list_ids()
        assert load_session(journal, name).request == INJECTED, "words are no options"


def test_lines_that_are_no_protocol_do_not_end_the_server(planned: Path) -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    lines: list[object] = [
        "nonsense",
        "[" * 2_000,
        {"jsonrpc": "2.0", "id": {"a": 1}, "method": "tools/call"},
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": 7, "arguments": []}},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "approve", "arguments": {}}},
        {"jsonrpc": "2.0", "id": 4, "method": "sessions/approve", "params": {}},
        *({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": n}} for n in range(2_000)),
        *({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": n}} for n in range(50, 99)),
        {"jsonrpc": "2.0", "id": 6, "method": "tools/call", "params": {"name": "show", "arguments": {"item": HUGE}}},
        {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "status", "arguments": {}}},
    ]
    sent = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    answers = asyncio.run(exchange(planned, sent, wanted={1, 2, 3, 4, 5, 6}))
    assert len(json.dumps(answers[6])) < 12_000
    assert "error" in answers[2]
    assert answers[3].get("error") or answers[3]["result"]["isError"]
    assert "error" in answers[4]
    assert not answers[5]["result"].get("isError")


async def exchange(config: Path, sent: str, wanted: set[int]) -> dict[int, Any]:
    """Send lines to a server in its own process, until it has answered these requests."""
    argv = (sys.executable, "-m", "blueflame", "mcp", "--config", str(config))
    pipe = asyncio.subprocess.PIPE
    server = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL)
    assert server.stdin
    assert server.stdout
    server.stdin.write(sent.encode())
    found: dict[int, Any] = {}
    async with asyncio.timeout(60):
        while not wanted <= set(found):
            line = await server.stdout.readline()
            assert line, f"it ended; answered: {sorted(found)}"
            answer = json.loads(line)
            found[answer.get("id")] = answer
        server.stdin.close()
        assert await server.wait() == 0
    return found
