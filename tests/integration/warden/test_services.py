"""Agents behind watcher and gateway, under a real warden: without canary, watcher or listener no agent starts."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.hook_servers import build_watch
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
from support.wardens import read_outcome, wait_until, write_launch
from support.wardens import run_warden as run_open

PORT, GATEWAY = 61130, 61128
QUESTION = '{"hook_event_name":"PreToolUse","tool_name":"Read","tool_input":{"file_path":"README.md"},"cwd":"%s"}'


@pytest.fixture(params=list_users())
def who(request: pytest.FixtureRequest) -> SystemUser:
    return find_user(request.param)


@pytest.fixture
def folder() -> Iterator[Path]:
    with make_shared_folder() as place:
        place.parent.chmod(0o777)
        yield place


def watched(folder: Path, hook: str = "", **changes: object) -> dict[str, Any]:
    """Build the watch options, in a folder that root, other users and the sandbox can read."""
    watch = build_watch(folder)
    state = Path(watch["policy"]).parent
    for place in (state, *state.rglob("*")):
        place.chmod(0o777)
    script = folder / "hook.sh"
    if hook:
        script.write_text(hook)
    else:
        shutil.copy(watch["hook"], script)
    script.chmod(0o755)
    return {**watch, "port": PORT, "hook": str(script), **changes}


def asking(folder: Path) -> tuple[str, str, str]:
    (folder / "question").write_text(QUESTION % folder)
    (folder / "README.md").write_text("hello")
    return "sh", "-c", "./hook.sh < question; echo $? $BLUEFLAME_HOOK_PORT"


def test_an_agent_in_a_sandbox_reaches_the_hook_server(who: SystemUser, folder: Path) -> None:
    ended = run_warden_as(who, write_sandboxed_launch(folder, *asking(folder), net="doors", watch=watched(folder)))

    assert (ended["reason"], ended["detail"], ended["exit_code"]) == ("exited", "", 0)
    assert read_stdout(folder).splitlines()[-1] == f"0 {PORT}"
    assert ended["watch"]["proven"] is True
    assert ended["watch"]["lines"] == 2  # the canary, and one call


def test_without_a_sandbox_the_warden_listens_on_a_free_port(folder: Path) -> None:
    ended = run_open(write_launch(folder, *asking(folder), watch=watched(folder)))

    assert (ended["reason"], ended["detail"], ended["exit_code"]) == ("exited", "", 0)
    code, port = read_stdout(folder).splitlines()[-1].split()
    assert code == "0"
    assert int(port) != PORT
    assert ended["watch"]["lines"] == 2


def test_an_agent_whose_calls_the_disk_does_not_record_is_lost_and_not_blamed(folder: Path) -> None:
    """They are refused, so it fails; that is not its doing."""
    full = watched(folder) | {"audit": "/dev/full"}
    ended = run_open(write_launch(folder, *asking(folder), watch=full))

    assert ended["reason"] == "lost"
    assert "/dev/full cannot be written: No space left on device" in ended["detail"]


@pytest.mark.parametrize(
    "hook",
    ["#!/bin/sh\nexit 0\n", "#!/bin/sh\nexit 1\n", "#!/bin/sh\nkill -9 $$\n", "#!/no/such/interpreter\n"],
    ids=["allows", "fails", "dies", "cannot be run"],
)
def test_a_hook_that_does_not_refuse_the_canary_keeps_the_agent_from_running(
    who: SystemUser, folder: Path, hook: str
) -> None:
    ended = run_warden_as(who, write_sandboxed_launch(folder, "touch", "ran", net="doors", watch=watched(folder, hook)))

    assert (ended["reason"], ended["exit_code"]) == ("unwatched", 126)
    assert ended["detail"] == "the canary call was not refused by the watcher"
    assert ended["watch"]["hindrance"] == ended["detail"], "that is not the doing of an agent that did not run"
    assert not (folder / "ran").exists()


def test_a_hook_that_is_missing_keeps_the_agent_from_running(who: SystemUser, folder: Path) -> None:
    ended = run_warden_as(
        who,
        write_sandboxed_launch(folder, "touch", "ran", net="doors", watch=watched(folder) | {"hook": "/no/such/hook"}),
    )

    assert ended["reason"] == "unwatched"
    assert not (folder / "ran").exists()


def test_a_hook_that_refuses_without_asking_the_watcher_does_not_count(who: SystemUser, folder: Path) -> None:
    ended = run_warden_as(
        who, write_sandboxed_launch(folder, "true", net="doors", watch=watched(folder, "#!/bin/sh\nexit 2\n"))
    )

    assert ended["reason"] == "unwatched"
    assert "canary call never arrived" in ended["detail"]


@pytest.mark.parametrize("code", [125, 126, 127])
def test_an_agents_own_exit_code_is_not_taken_for_the_entrys(who: SystemUser, folder: Path, code: int) -> None:
    ended = run_warden_as(
        who, write_sandboxed_launch(folder, "sh", "-c", f"exit {code}", net="doors", watch=watched(folder))
    )

    assert (ended["reason"], ended["exit_code"]) == ("exited", code)


def test_a_watcher_that_cannot_write_its_log_starts_nothing(folder: Path) -> None:
    watch = watched(folder, audit=str(folder / "launch.json" / "x.jsonl"))

    ended = run_open(write_launch(folder, "touch", "ran", watch=watch))

    assert ended["reason"] == "spawn_failed"
    assert "the watcher does not work" in ended["detail"]
    assert not (folder / "ran").exists()


def test_setup_steps_have_no_hook(who: SystemUser, folder: Path) -> None:
    steps = [{"shell": "echo ${BLUEFLAME_HOOK_PORT-none}"}]

    ended = run_warden_as(who, write_sandboxed_launch(folder, "true", net="doors", watch=watched(folder), setup=steps))

    assert (ended["reason"], ended["setup_output"]) == ("exited", "none\n")


def test_no_socket_of_the_canary_reaches_the_agent(who: SystemUser, folder: Path) -> None:
    ended = run_warden_as(
        who, write_sandboxed_launch(folder, "sh", "-c", "echo $(ls /proc/self/fd)", net="doors", watch=watched(folder))
    )

    assert ended["reason"] == "exited"
    assert read_stdout(folder) == "0 1 2 3\n"  # the last is what ls itself reads


def test_a_watcher_is_there_while_the_agent_has_its_grace(who: SystemUser, folder: Path) -> None:
    """What it does after TERM to save its work is watched as well."""
    _, _, ask = asking(folder)
    saves = f"trap '{ask} > late; exit 0' TERM; echo > up; while :; do sleep 0.05; done"
    with running_warden_as(
        who, write_sandboxed_launch(folder, "sh", "-c", saves, net="doors", watch=watched(folder), grace=30)
    ) as warden:
        wait_until((folder / "up").exists, "it is up")
        (folder / "cancel").write_text("{}")
        assert warden.wait(20) == 0

    assert read_outcome(folder)["reason"] == "cancelled"
    assert (folder / "late").read_text().splitlines()[-1] == f"0 {PORT}"


# --- the gateway ---

TALK = (
    "exec 3<>/dev/tcp/127.0.0.1/$BLUEFLAME_GATEWAY_PORT; printf 'CONNECT {host} HTTP/1.1\\r\\n\\r\\n' >&3; head -1 <&3"
)


def test_a_sandbox_with_a_gateway_reaches_it_and_nothing_past_it(who: SystemUser, folder: Path) -> None:
    gateway = {"port": GATEWAY, "hosts": ["example.org"]}
    talk = TALK.format(host="example.com:443")

    ended = run_warden_as(who, write_sandboxed_launch(folder, "bash", "-c", talk, net="doors", gateway=gateway))

    assert ended["reason"] == "exited"
    assert read_stdout(folder).startswith("HTTP/1.1 403")


def test_every_step_has_its_own_listener_of_the_one_gateway(who: SystemUser, folder: Path) -> None:
    gateway = {"port": GATEWAY, "hosts": ["example.org"]}
    talk = TALK.format(host="example.com:443")
    steps = [{"argv": ["bash", "-c", talk]}, {"argv": ["bash", "-c", talk]}]

    ended = run_warden_as(
        who, write_sandboxed_launch(folder, "bash", "-c", talk, net="doors", gateway=gateway, setup=steps)
    )

    assert ended["reason"] == "exited"
    assert ended["setup_output"].count("HTTP/1.1 403") == 2
    assert len((folder / "gateway.jsonl").read_text().splitlines()) == 3


def test_registries_are_open_to_setup_and_shut_to_the_agent(who: SystemUser, folder: Path) -> None:
    gateway = {"port": GATEWAY, "hosts": ["example.org"], "registries": ["registry.example.net"]}
    ask = "exec 3<>/dev/tcp/127.0.0.1/$BLUEFLAME_GATEWAY_PORT; printf 'GET / HTTP/1.1\\r\\n\\r\\n' >&3; cat <&3"
    steps = [{"argv": ["bash", "-c", ask]}]

    ended = run_warden_as(
        who, write_sandboxed_launch(folder, "bash", "-c", ask, net="doors", gateway=gateway, setup=steps)
    )

    assert "registry.example.net" in ended["setup_output"]
    assert "example.org" in read_stdout(folder)
    assert "registry.example.net" not in read_stdout(folder)


def test_the_gateway_is_named_in_the_environment(who: SystemUser, folder: Path) -> None:
    run_warden_as(who, write_sandboxed_launch(folder, "env", net="doors", gateway={"port": GATEWAY, "hosts": []}))

    env = dict(line.split("=", 1) for line in read_stdout(folder).splitlines())
    names = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy")
    assert {env[name] for name in names} == {f"http://127.0.0.1:{GATEWAY}"}
    assert env["NO_PROXY"] == env["no_proxy"] == "localhost,127.0.0.1,::1"
    assert env["BLUEFLAME_GATEWAY_PORT"] == str(GATEWAY)


def test_without_a_sandbox_the_gateway_has_a_free_port(folder: Path) -> None:
    talk = TALK.format(host="example.org:443") + "; echo $BLUEFLAME_GATEWAY_PORT"

    ended = run_open(write_launch(folder, "bash", "-c", talk, gateway={"port": GATEWAY, "hosts": []}))

    first, port = read_stdout(folder).splitlines()
    assert (ended["reason"], first[:12]) == ("exited", "HTTP/1.1 403")
    assert int(port) != GATEWAY


def test_a_gateway_that_dies_ends_the_attempt(who: SystemUser, folder: Path) -> None:
    with running_warden_as(
        who, write_sandboxed_launch(folder, "sleep", "600", net="doors", gateway={"port": GATEWAY, "hosts": []})
    ) as warden:
        wait_until(lambda: gateways(folder), "the gateway is there")
        wait_until((folder / "status.json").exists, "it works")
        for pid in gateways(folder):
            os.kill(pid, 9)
        assert warden.wait(20) == 0

    assert read_outcome(folder)["reason"] == "lost"
    assert "gateway" in read_outcome(folder)["detail"]


def test_nothing_of_the_gateway_is_left(who: SystemUser, folder: Path) -> None:
    run_warden_as(who, write_sandboxed_launch(folder, "true", net="doors", gateway={"port": GATEWAY, "hosts": []}))

    assert gateways(folder) == []


def gateways(folder: Path) -> list[int]:
    """Find the process that writes the gateway's log."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "fd" / "2").readlink() == folder / "gateway.log":
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def test_the_same_ports_may_be_in_use_outside(who: SystemUser, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        watch = watched(folder, port=taken.getsockname()[1])
        ended = run_warden_as(who, write_sandboxed_launch(folder, "true", net="doors", watch=watch))

    assert (ended["reason"], ended["detail"]) == ("exited", "")


def test_two_listeners_on_one_port_are_refused_before_anything_runs(who: SystemUser, folder: Path) -> None:
    walls: dict[str, Any] = {"watch": watched(folder), "gateway": {"port": PORT, "hosts": []}}
    ended = run_warden_as(who, write_sandboxed_launch(folder, "touch", "ran", net="doors", **walls))

    assert ended["reason"] == "spawn_failed"
    assert "Address already in use" in ended["detail"]
    assert not (folder / "ran").exists()
