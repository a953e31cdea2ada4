"""The gateway as an agent in a real box sees it: the only exit, and the same one for setup steps."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.small_sandbox import Person, boxed, open_to_all, people, person, run, said, started
from support.wardens import alive, state_of, until

pytestmark = pytest.mark.skipif(os.uname().sysname != "Linux", reason="bubblewrap is for Linux")
GATEWAY = {"port": 61128, "hosts": ["example.org"]}
ASK = """
ask() {
    exec 5<>"/dev/tcp/127.0.0.1/$BLUEFLAME_GATEWAY_PORT"
    printf '%s HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' "$1" >&5
    cat <&5
}
"""


@pytest.fixture(params=people())
def who(request: pytest.FixtureRequest) -> Person:
    return person(request.param)


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_to_all() as folder:
        yield folder


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "gateway.jsonl").read_text().splitlines()]


def gateway_of(folder: Path) -> int:
    """Whoever writes that log."""
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "fd" / "1").readlink() == folder / "gateway.log":
                return int(entry.name)
        except OSError:
            continue
    return 0


def test_an_agent_and_its_setup_reach_the_gateway_and_nobody_else(who: Person, folder: Path) -> None:
    program = ASK + 'ask "GET /"; ask "CONNECT evil.example:443"; echo "$HTTPS_PROXY"'
    setup = [{"name": "fetch", "argv": ["bash", "-c", ASK + 'ask "CONNECT setup.example:443"']}]

    ended = run(who, boxed(folder, "bash", "-c", program, net="doors", gateway=GATEWAY, setup=setup))

    assert (ended["reason"], ended["exit_code"], ended["left_running"]) == ("exited", 0, [])
    assert f'"attempt": "{folder.name}", "hosts": ["example.org"]' in said(folder)
    assert "HTTP/1.1 403 evil.example is not one of the allowed hosts" in said(folder)
    assert said(folder).endswith("http://127.0.0.1:61128\n")
    assert "setup.example is not one" in (folder / "setup.log").read_text()
    assert [line["host"] for line in lines(folder)] == ["setup.example", "", "evil.example"]
    until(lambda: gateway_of(folder) == 0, "the gateway has ended")


def test_the_gateway_ends_with_a_warden_that_is_killed(who: Person, folder: Path) -> None:
    with started(who, boxed(folder, "sleep", "600", net="doors", gateway=GATEWAY)) as warden:
        until(lambda: state_of(folder) == "working", "it works")
        gateway = gateway_of(folder)
        assert gateway
        warden.kill()
        warden.wait()

    until(lambda: not alive(gateway), "the gateway has ended")


def test_an_agent_whose_gateway_died_is_ended(who: Person, folder: Path) -> None:
    with started(who, boxed(folder, "sleep", "600", net="doors", gateway=GATEWAY)) as warden:
        until(lambda: state_of(folder) == "working", "it works")
        os.kill(gateway_of(folder), signal.SIGKILL)
        assert warden.wait(60) == 0

    ended = json.loads((folder / "outcome.json").read_text())
    assert ended["reason"] != "exited"
    assert "it ended by itself" in ended["detail"]
