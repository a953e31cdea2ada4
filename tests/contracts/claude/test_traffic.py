"""Which hosts it connects to."""

from __future__ import annotations

import re
import shutil
import socket
import threading

import pytest

from support.claude_cli import SEALED, STREAM, ClaudeRunner

FLAGS = [*STREAM, *SEALED, "--permission-mode", "acceptEdits"]


def test_it_asks_only_the_base_url_and_only_for_messages(claude: ClaudeRunner) -> None:
    """A proxy for everything that is not on this machine gets no request."""
    heard: list[bytes] = []
    with claude.network.listen() as proxy:

        def listen() -> None:
            while True:
                try:
                    connection, _ = proxy.accept()
                except OSError:
                    return
                with connection:
                    connection.settimeout(5)
                    heard.append(connection.recv(4096))

        listener = threading.Thread(target=listen)
        listener.start()
        address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        env = {"HTTPS_PROXY": address, "HTTP_PROXY": address, "NO_PROXY": "127.0.0.1"}
        ran = claude.run({"tool": {"shell": "true"}}, {"text": "done"}, flags=FLAGS, env=env)
        proxy.shutdown(socket.SHUT_RDWR)
        listener.join()
    assert heard == []
    assert ran.code == 0
    assert {asked.path for asked in ran.asked} == {"/v1/messages?beta=true"}


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_it_connects_to_the_base_url_alone(claude: ClaudeRunner) -> None:
    with claude.place({"text": "done"}) as place:
        log = place.root / "connects"
        place.run(*FLAGS, wrap=["strace", "-f", "-qq", "-e", "trace=connect,sendto", "-o", str(log)])
        port = place.model.url.rpartition(":")[2]
        found = re.findall(r"sin6?_port=htons\((\d+)\).*?inet_(?:addr|pton)\(.*?\"([^\"]+)\"", log.read_text())
    assert set(found) == {(port, "127.0.0.1")}


def test_the_base_url_may_have_a_path_and_the_token_may_be_a_bearer(claude: ClaudeRunner) -> None:
    """Use the path of one API on a gateway that serves several."""
    with claude.place({"text": "done"}) as place:
        place.env = {
            "ANTHROPIC_BASE_URL": f"{place.model.url}/anthropic",
            "ANTHROPIC_API_KEY": None,
            "ANTHROPIC_AUTH_TOKEN": "token-of-the-gateway",
        }
        ran = place.run(*FLAGS)
    asked = ran.asked[0]
    assert asked.path == "/anthropic/v1/messages?beta=true"
    assert asked.headers["authorization"] == "Bearer token-of-the-gateway"
    assert "x-api-key" not in asked.headers


def test_without_a_credential_it_sends_no_request(claude: ClaudeRunner) -> None:
    ran = claude.run({"text": "done"}, flags=FLAGS, env={"ANTHROPIC_API_KEY": None})
    assert (ran.code, ran.asked, ran.result["is_error"]) == (1, (), True)
    assert "Not logged in" in ran.result["result"]
