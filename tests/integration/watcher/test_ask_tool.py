"""The tool `ask` over HTTP: what an agent is offered, who may ask, and what happens to one that waits."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from blueflame.watcher import ask_tool
from blueflame.watcher.ask_tool import NO_ANSWER, AskTool
from support.hook_servers import WatchedAttempt, run_hook_server
from support.wardens import wait_until

QUESTION = {"question": "Which store?", "guess": "SQLite", "options": ["SQLite", "a file"]}
HEAD = "POST /mcp HTTP/1.1\r\nContent-Length: {}\r\n\r\n"


class Desk:
    """A watched attempt whose agent may ask."""

    def __init__(self, watched: WatchedAttempt, left: int = 2, wait: float = 0.0) -> None:
        self.watched, self.asked = watched, list[Mapping[str, Any]]()
        self.tool = AskTool(left, wait, self.asked.append)
        watched.server.ask_tool = self.tool

    def send(self, method: str, **params: object) -> Any:  # noqa: ANN401 (plain JSON)
        reply = self.watched.post(build_message(method, **params), HEAD)
        return json.loads(reply.partition(b"\r\n\r\n")[2])

    def begin(self, question: object = QUESTION) -> socket.socket:
        """Ask, and wait until the agent waits."""
        body = build_message("tools/call", name="ask", arguments=question, _meta={"progressToken": 5})
        line = socket.create_connection(("127.0.0.1", self.watched.port), timeout=10)
        line.sendall(HEAD.format(len(body)).encode() + body)
        self.turn_until(lambda: self.tool.waits)
        return line

    def turn_until(self, condition: Any) -> None:  # noqa: ANN401 (any function without arguments)
        def turn() -> bool:
            self.watched.poll_loop.wait(0.01)
            return bool(condition())

        wait_until(turn, "the server has turned")

    def read(self, line: socket.socket) -> str:
        return self.watched.during(lambda: b"".join(iter(lambda: line.recv(65536), b""))).decode()


def build_message(method: str, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).encode()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with run_hook_server(tmp_path / "work") as watched:
        yield Desk(watched)


def test_the_handshake_offers_one_tool(desk: Desk) -> None:
    begun = desk.send("initialize", protocolVersion="2025-11-25")["result"]
    assert begun["protocolVersion"] == "2025-11-25"
    (tool,) = desk.send("tools/list")["result"]["tools"]
    assert tool["name"] == "ask"
    assert tool["inputSchema"]["required"] == ["question", "guess"]
    assert desk.send("server/discover")["error"]["code"] == -32601
    note = desk.watched.post(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}', HEAD)
    assert note.startswith(b"HTTP/1.1 202")


def test_a_question_waits_and_its_answer_ends_the_stream(desk: Desk) -> None:
    with desk.begin() as line:
        assert desk.asked == [QUESTION]
        assert desk.tool.answer("a file\nplease")
        printed = desk.read(line)
    assert "text/event-stream" in printed
    data = json.loads(printed.rpartition("data: ")[2])
    assert data["id"] == 7
    assert data["result"]["content"] == [{"type": "text", "text": "a file\nplease"}]
    assert not desk.tool.waits
    assert not desk.tool.answer("again")


def test_one_question_waits_at_a_time_and_each_counts(desk: Desk) -> None:
    with desk.begin() as line:
        other = desk.send("tools/call", name="ask", arguments=QUESTION)["result"]
        assert other["isError"]
        assert "one at a time" in other["content"][0]["text"]
        desk.tool.answer("yes")
        desk.read(line)
    with desk.begin() as line:
        desk.tool.answer("yes")
        desk.read(line)
    last = desk.send("tools/call", name="ask", arguments=QUESTION)["result"]
    assert "no more questions" in last["content"][0]["text"]
    assert len(desk.asked) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (None, "object"),
        ({}, "must be a text"),
        ({"question": " "}, "must be a text"),
        ({"question": "a", "guess": 1}, "guess"),
        ({"question": "a", "options": [1]}, "options"),
        ({"question": "a", "rm": "-rf"}, "is unknown"),
    ],
)
def test_what_is_no_question_is_refused_with_the_reason(desk: Desk, arguments: object, words: str) -> None:
    refused = desk.send("tools/call", name="ask", arguments=arguments)["result"]
    assert refused["isError"]
    assert words in refused["content"][0]["text"]
    assert desk.send("tools/call", name="shell", arguments=QUESTION)["result"]["isError"]
    assert desk.asked == []


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b"[" * 100_000])
def test_hostile_bodies_get_an_error_and_ask_nothing(desk: Desk, body: bytes) -> None:
    assert b'"error"' in desk.watched.post(body, HEAD)
    assert desk.asked == []


def test_an_agent_that_closes_its_connection_waits_no_longer(desk: Desk) -> None:
    desk.begin().close()
    desk.turn_until(lambda: not desk.tool.waits)
    assert not desk.tool.answer("too late")


def test_a_waiting_agent_gets_heartbeats_and_survives_other_requests(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask_tool, "HEARTBEAT_SECONDS", 0.0)
    monkeypatch.setattr("blueflame.watcher.server.CONNECTION_TIMEOUT", 0.0)
    with desk.begin() as line:
        desk.tool.check_time()
        desk.send("ping")
        assert desk.tool.waits
        desk.tool.answer("yes")
        first, _, last = desk.read(line).partition("data: ")[2].partition("\n\n")
    assert json.loads(first)["method"] == "notifications/progress"
    assert json.loads(first)["params"]["progressToken"] == 5
    assert json.loads(last.partition("data: ")[2])["result"]["content"][0]["text"] == "yes"


def test_a_wait_that_is_over_is_answered_without_an_orchestrator(tmp_path: Path) -> None:
    with run_hook_server(tmp_path / "work") as watched:
        desk, began = Desk(watched, wait=0.001), monotonic()
        with desk.begin() as line:
            desk.turn_until(lambda: monotonic() - began > 0.001)
            desk.tool.check_time()
            assert not desk.tool.waits
            assert NO_ANSWER in desk.read(line)


def test_an_agent_that_ends_its_call_and_asks_the_same_again_waits_on_and_it_counts_once(desk: Desk) -> None:
    desk.begin().close()
    desk.turn_until(lambda: not desk.tool.waits)
    with desk.begin() as line:
        assert desk.tool.answer("a file")
        assert "a file" in desk.read(line)
    assert (desk.asked, desk.tool.left) == ([QUESTION], 1)
    with desk.begin():
        assert desk.tool.left == 0


def test_an_answer_between_two_calls_is_given_to_the_second(desk: Desk) -> None:
    desk.begin().close()
    desk.turn_until(lambda: not desk.tool.waits)
    assert not desk.tool.answer("a file")
    given = desk.send("tools/call", name="ask", arguments=QUESTION)["result"]
    assert given == {"content": [{"type": "text", "text": "a file"}], "isError": False}
    assert len(desk.asked) == 1


def test_without_the_tool_there_is_no_such_place(tmp_path: Path) -> None:
    with run_hook_server(tmp_path / "work") as watched:
        assert watched.post(build_message("tools/list"), HEAD).startswith(b"HTTP/1.1 404")


def test_a_question_is_no_answer_to_a_hook(desk: Desk) -> None:
    """A body that would allow nothing at /hook allows nothing at /mcp either."""
    assert b"X-Blueflame-Decision: allow" not in desk.watched.post(build_message("tools/list"), HEAD)
