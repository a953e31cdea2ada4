"""The gateway from inside a real sandbox: the only exit, also for setup steps."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.small_sandbox import (
    SystemUser,
    find_user,
    list_users,
    make_shared_folder,
    read_stdout,
    run_warden_as,
    running_warden_as,
    write_sandboxed_launch,
)
from support.wardens import is_alive, read_state, wait_until

pytestmark = pytest.mark.skipif(os.uname().sysname != "Linux", reason="bubblewrap is for Linux")
GATEWAY = {"port": 61128, "hosts": ["example.org"]}
ASK = """
ask() {
    exec 5<>"/dev/tcp/127.0.0.1/$BLUEFLAME_GATEWAY_PORT"
    printf '%s HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' "$1" >&5
    cat <&5
}
"""


@pytest.fixture(params=list_users())
def who(request: pytest.FixtureRequest) -> SystemUser:
    return find_user(request.param)


@pytest.fixture
def folder() -> Iterator[Path]:
    with make_shared_folder() as folder:
        yield folder


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "gateway.jsonl").read_text().splitlines()]


def gateway_of(folder: Path) -> int:
    """Find the process that writes that log."""
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "fd" / "1").readlink() == folder / "gateway.log":
                return int(entry.name)
        except OSError:
            continue
    return 0


def test_an_agent_and_its_setup_reach_only_the_gateway(who: SystemUser, folder: Path) -> None:
    program = ASK + 'ask "GET /"; ask "CONNECT evil.example:443"; echo "$HTTPS_PROXY"'
    setup = [{"name": "fetch", "argv": ["bash", "-c", ASK + 'ask "CONNECT setup.example:443"']}]

    ended = run_warden_as(
        who, write_sandboxed_launch(folder, "bash", "-c", program, net="doors", gateway=GATEWAY, setup=setup)
    )

    assert (ended["reason"], ended["exit_code"], ended["left_running"]) == ("exited", 0, [])
    assert f'"attempt": "{folder.name}", "hosts": ["example.org"]' in read_stdout(folder)
    assert "HTTP/1.1 403 evil.example is not one of the allowed hosts" in read_stdout(folder)
    assert read_stdout(folder).endswith("http://127.0.0.1:61128\n")
    assert "setup.example is not one" in (folder / "setup.log").read_text()
    assert [line["host"] for line in lines(folder)] == ["setup.example", "", "evil.example"]
    wait_until(lambda: gateway_of(folder) == 0, "the gateway has ended")


def test_the_gateway_ends_with_a_warden_that_is_killed(who: SystemUser, folder: Path) -> None:
    with running_warden_as(who, write_sandboxed_launch(folder, "sleep", "600", net="doors", gateway=GATEWAY)) as warden:
        wait_until(lambda: read_state(folder) == "working", "it works")
        gateway = gateway_of(folder)
        assert gateway
        warden.kill()
        warden.wait()

    wait_until(lambda: not is_alive(gateway), "the gateway has ended")


def test_an_agent_whose_gateway_was_killed_is_ended_and_not_blamed(who: SystemUser, folder: Path) -> None:
    with running_warden_as(who, write_sandboxed_launch(folder, "sleep", "600", net="doors", gateway=GATEWAY)) as warden:
        wait_until(lambda: read_state(folder) == "working", "it works")
        os.kill(gateway_of(folder), signal.SIGKILL)
        assert warden.wait(60) == 0

    ended = json.loads((folder / "outcome.json").read_text())
    assert ended["reason"] == "lost"
    assert "its gateway does not serve: it is gone" in ended["detail"]
