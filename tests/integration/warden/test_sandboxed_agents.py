"""Agents in a real sandbox: what they get, how they end, and that nothing outlives it. As root and as a user."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.disks import mounted
from support.small_sandbox import (
    SystemUser,
    build_bwrap_argv,
    build_sandbox_options,
    find_processes_with,
    find_user,
    list_users,
    make_shared_folder,
    read_stdout,
    run_warden_as,
    running_warden_as,
    write_sandboxed_launch,
)
from support.wardens import (
    ENTRY,
    PATIENCE,
    ROOT,
    read_agent_pid,
    read_outcome,
    read_pid,
    read_state,
    start_warden,
    wait_until,
    write_launch,
)

pytestmark = pytest.mark.skipif(os.uname().sysname != "Linux", reason="bubblewrap is for Linux")
ALLOW_ALL = struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)  # one instruction: return SECCOMP_RET_ALLOW

THREE = "0 1 2 3"  # and the folder that ls itself reads


@pytest.fixture(params=list_users())
def who(request: pytest.FixtureRequest) -> SystemUser:
    return find_user(request.param)


@pytest.fixture
def folder() -> Iterator[Path]:
    with make_shared_folder() as place:
        yield place


@pytest.mark.parametrize("net", ["none", "doors", "host"])
def test_an_agent_runs_in_its_sandbox(who: SystemUser, folder: Path, net: str) -> None:
    prompt = folder / "prompt.txt"
    prompt.write_text("слово и дело\n" * 1000)

    ended = run_warden_as(
        who, write_sandboxed_launch(folder, "sh", "-c", "cat; echo oops >&2; exit 3", net=net, stdin=str(prompt))
    )

    assert (ended["reason"], ended["exit_code"], ended["signal"]) == ("exited", 3, None)
    assert read_stdout(folder) == prompt.read_text()
    assert (folder / "stderr.log").read_text() == "oops\n"
    assert ended["left_running"] == []


def test_an_agent_runs_in_a_container_in_which_no_process_has_number_2(folder: Path) -> None:
    """Bubblewrap looks for its child by that number, which it has in the pid namespace of bubblewrap."""
    find_user("ourselves")
    write_sandboxed_launch(folder, "sh", "-c", "exit 3")
    warden = [sys.executable, "-I", "-S", "-E", "-X", "utf8", "-c", ENTRY, str(ROOT), str(folder)]
    container = ["unshare", "-Urpf" if os.geteuid() else "-pf", "--mount-proc", "sh", "-c", 'true & wait; "$@"', "sh"]

    subprocess.run([*container, *warden], check=False)

    ended = read_outcome(folder)
    assert (ended["reason"], ended["exit_code"]) == ("exited", 3)


def test_code_that_an_agent_runs_cannot_write_to_its_output(who: SystemUser, folder: Path) -> None:
    """Such a line would be read as the agent's own: its verdict, or what it cost."""
    forge = "for each in /proc/[0-9]*/fd/[12]; do echo forged > $each; done"

    run_warden_as(who, write_sandboxed_launch(folder, "sh", "-c", f"seen=$( ({forge}) 2>&1 ); echo honest"))

    assert read_stdout(folder) == "honest\n"
    assert (folder / "stderr.log").read_text() == ""


def test_no_file_but_its_own_three_reaches_the_agent(who: SystemUser, folder: Path) -> None:
    seccomp = folder / "filter.bpf"
    seccomp.write_bytes(ALLOW_ALL)
    walls = build_sandbox_options(folder, "--seccomp", "10", net="doors", seccomp=str(seccomp))
    with running_warden_as(
        who,
        write_sandboxed_launch(
            folder, "sh", "-c", "echo $(ls /proc/self/fd); grep Seccomp: /proc/self/status", sandbox=walls
        ),
    ) as warden:
        assert warden.wait(20) == 0

    files, mode = read_stdout(folder).splitlines()
    assert files == THREE
    assert mode.split() == ["Seccomp:", "2"]


def test_an_inherited_file_does_not_reach_the_agent(folder: Path) -> None:
    find_user("ourselves")
    secret = folder / "secret"
    secret.write_text("s3cret")
    leak = os.open(secret, os.O_RDONLY)
    os.set_inheritable(leak, True)
    write_sandboxed_launch(folder, "sh", "-c", "echo $(ls /proc/self/fd)")
    argv = [sys.executable, "-I", "-S", "-E", "-X", "utf8", "-c", ENTRY, str(ROOT), str(folder)]
    try:
        pid = os.posix_spawn(sys.executable, argv, os.environ)
        os.waitpid(pid, 0)
    finally:
        os.close(leak)

    assert read_outcome(folder)["reason"] == "exited"
    assert read_stdout(folder) == f"{THREE}\n"


def test_the_environment_is_that_of_the_launch_file(who: SystemUser, folder: Path) -> None:
    run_warden_as(who, write_sandboxed_launch(folder, "env", env={"PATH": "/usr/bin:/bin", "NAME": "значение"}))

    names = {line.partition("=")[0] for line in read_stdout(folder).splitlines()}
    ours = {"PATH", "NAME", "BLUEFLAME_ATTEMPT", "BLUEFLAME_COOKIE"}
    assert ours <= names <= ours | {"PWD", "OLDPWD", "SHLVL", "_"}  # a shell's own


@pytest.mark.parametrize(
    ("number", "reason"), [(signal.SIGSEGV, "exited"), (signal.SIGKILL, "lost"), (signal.SIGABRT, "exited")]
)
def test_death_by_a_signal_is_recorded_as_such(
    who: SystemUser, folder: Path, number: signal.Signals, reason: str
) -> None:
    ended = run_warden_as(who, write_sandboxed_launch(folder, "sh", "-c", f"kill -{number.value} $$"))

    assert (ended["reason"], ended["exit_code"], ended["signal"]) == (reason, None, number)


def test_an_exit_code_that_is_no_signal_stays_one(who: SystemUser, folder: Path) -> None:
    ended = run_warden_as(who, write_sandboxed_launch(folder, "sh", "-c", "exit 255"))

    assert (ended["exit_code"], ended["signal"]) == (255, None)


def test_a_program_that_is_not_in_the_sandbox_is_a_failed_spawn(who: SystemUser, folder: Path) -> None:
    ended = run_warden_as(who, write_sandboxed_launch(folder, "no-such-program-anywhere"))

    assert ended["reason"] == "spawn_failed"
    assert "cannot run no-such-program-anywhere" in ended["detail"]


def test_a_sandbox_that_cannot_be_set_up_is_a_failed_spawn_with_its_error(who: SystemUser, folder: Path) -> None:
    walls = {
        "argv": [*build_bwrap_argv(folder)[:-1], "--ro-bind", "/no/such/place", "/x", "--"],
        "net": "none",
        "seccomp": None,
    }

    ended = run_warden_as(who, write_sandboxed_launch(folder, "touch", "ran", sandbox=walls))

    assert ended["reason"] == "spawn_failed"
    assert "the sandbox ended before the program could run" in ended["detail"]
    assert "/no/such/place" in ended["detail"]
    assert not (folder / "ran").exists()


def test_a_missing_bubblewrap_is_a_failed_spawn(who: SystemUser, folder: Path) -> None:
    walls = {"argv": ["/no/such/bwrap", "--"], "net": "none", "seccomp": None}

    ended = run_warden_as(who, write_sandboxed_launch(folder, "touch", "ran", sandbox=walls))

    assert (ended["reason"], ended["detail"]) == (
        "spawn_failed",
        "cannot run /no/such/bwrap: No such file or directory",
    )


def test_a_missing_filter_is_a_failed_spawn(who: SystemUser, folder: Path) -> None:
    ended = run_warden_as(
        who,
        write_sandboxed_launch(
            folder, "touch", "ran", sandbox=build_sandbox_options(folder, seccomp="/no/such/filter")
        ),
    )

    assert ended["reason"] == "spawn_failed"
    assert "/no/such/filter" in ended["detail"]


def test_only_our_entry_script_is_sent_go(who: SystemUser, folder: Path) -> None:
    walls = {"argv": ["/bin/sh", "-c", "echo nonsense >&9; exec sleep 600 #"], "net": "none", "seccomp": None}

    ended = run_warden_as(who, write_sandboxed_launch(folder, "touch", "ran", sandbox=walls))

    assert ended["reason"] == "spawn_failed"
    assert "unexpected answer from the entry script" in ended["detail"]


def test_a_sandbox_that_never_gets_ready_can_be_cancelled(who: SystemUser, folder: Path) -> None:
    walls = {"argv": ["/bin/sh", "-c", "echo $$ > pid; exec sleep 600 #"], "net": "none", "seccomp": None}
    with running_warden_as(who, write_sandboxed_launch(folder, "touch", "ran", sandbox=walls, grace=0.2)) as warden:
        read_pid(folder / "pid")
        (folder / "cancel").write_text('{"reason": "enough"}')
        assert warden.wait(20) == 0

    assert (read_outcome(folder)["reason"], read_outcome(folder)["detail"]) == ("cancelled", "enough")


def test_inside_there_is_only_a_loopback_network_and_it_is_up(who: SystemUser, folder: Path) -> None:
    look = "tail -n +3 /proc/net/dev; cat /proc/net/route /proc/net/if_inet6"

    ended = run_warden_as(who, write_sandboxed_launch(folder, "sh", "-c", look, net="doors"))

    devices = [line.split(":")[0].strip() for line in read_stdout(folder).splitlines() if ":" in line]
    assert ended["reason"] == "exited"
    assert devices == ["lo"]
    assert "lo" in read_stdout(folder).splitlines()[-1]


def test_a_service_of_the_machine_is_not_reachable_inside(who: SystemUser, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as service:
        port = service.getsockname()[1]
        run_warden_as(
            who,
            write_sandboxed_launch(
                folder, "bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached", net="doors"
            ),
        )

    assert read_stdout(folder) == ""
    assert "Connection refused" in (folder / "stderr.log").read_text()


# --- ending ---

POLITE = "trap 'echo committed > saved; exit 9' TERM; echo up > up; while :; do sleep 0.05; done"


def test_an_agent_in_a_sandbox_is_asked_and_may_save_its_work(who: SystemUser, folder: Path) -> None:
    with running_warden_as(who, write_sandboxed_launch(folder, "sh", "-c", POLITE, grace=60)) as warden:
        wait_until((folder / "up").exists, "it is up")
        (folder / "cancel").write_text("{}")
        assert warden.wait(20) == 0

    assert (read_outcome(folder)["reason"], read_outcome(folder)["exit_code"]) == ("cancelled", 9)
    assert (folder / "saved").read_text() == "committed\n"


def test_all_processes_in_the_sandbox_get_term_in_every_session(who: SystemUser, folder: Path) -> None:
    (folder / "polite.sh").write_text(POLITE)
    family = "setsid sh polite.sh & trap : TERM; wait; until [ -e saved ]; do sleep 0.05; done"
    with running_warden_as(who, write_sandboxed_launch(folder, "sh", "-c", family, grace=60)) as warden:
        wait_until((folder / "up").exists, "it is up")
        (folder / "cancel").write_text("{}")
        assert warden.wait(20) == 0

    assert (folder / "saved").exists()


def test_an_agent_in_a_sandbox_that_ignores_term_is_killed_after_the_grace(who: SystemUser, folder: Path) -> None:
    deaf = "trap '' TERM; echo up > up; while :; do sleep 0.05; done"
    with running_warden_as(who, write_sandboxed_launch(folder, "sh", "-c", deaf, grace=0.2)) as warden:
        wait_until((folder / "up").exists, "it is up")
        (folder / "cancel").write_text("{}")
        assert warden.wait(20) == 0

    ended = read_outcome(folder)
    assert (ended["reason"], ended["signal"], ended["left_running"]) == ("cancelled", signal.SIGKILL, [])


def test_an_agent_over_its_time_is_ended(who: SystemUser, folder: Path) -> None:
    ended = run_warden_as(who, write_sandboxed_launch(folder, "sleep", "600", timeout=0.3))

    assert (ended["reason"], ended["signal"]) == ("timeout", signal.SIGTERM)


def test_when_the_agent_ends_everything_in_its_sandbox_ends(who: SystemUser, folder: Path) -> None:
    mark = f"mark-{os.urandom(8).hex()}"
    leave = f"env -i setsid sh -c 'sleep 600; : {mark}' >/dev/null 2>&1 & echo $! > up; exit 4"

    ended = run_warden_as(who, write_sandboxed_launch(folder, "sh", "-c", leave))

    assert (ended["exit_code"], ended["left_running"]) == (4, [])
    assert find_processes_with(mark) == []


STRANGER = "env -i setsid sh -c 'echo here > stranger; sleep 600; : {mark}' >/dev/null 2>&1 </dev/null & exec sleep 600"


@pytest.mark.parametrize("net", ["none", "doors"])
def test_when_the_warden_is_killed_the_whole_sandbox_ends(who: SystemUser, folder: Path, net: str) -> None:
    """Even a process with no cookie, no spool and its own session, which without a sandbox could not be found."""
    mark = f"mark-{os.urandom(8).hex()}"
    with running_warden_as(
        who, write_sandboxed_launch(folder, "sh", "-c", STRANGER.format(mark=mark), net=net)
    ) as warden:
        wait_until((folder / "stranger").exists, "the stranger is there")
        assert find_processes_with(mark)
        warden.kill()
        warden.wait()
    wait_until(lambda: not find_processes_with(mark), "no process of the sandbox is left")

    ended = run_warden_as(who, folder)

    assert (ended["reason"], ended["left_running"]) == ("lost", [])


def test_when_the_sandbox_is_killed_everything_inside_ends_and_it_is_recorded(who: SystemUser, folder: Path) -> None:
    mark = f"mark-{os.urandom(8).hex()}"
    with running_warden_as(who, write_sandboxed_launch(folder, "sh", "-c", STRANGER.format(mark=mark))) as warden:
        wait_until((folder / "stranger").exists, "the stranger is there")
        os.kill(read_agent_pid(folder), signal.SIGKILL)
        assert warden.wait(20) == 0

    ended = read_outcome(folder)
    assert (ended["reason"], ended["signal"], ended["left_running"]) == ("lost", signal.SIGKILL, [])
    assert find_processes_with(mark) == []


# --- setup ---


def test_setup_steps_run_in_sandboxes_of_their_own(who: SystemUser, folder: Path) -> None:
    steps = [{"shell": "echo $$ > step; echo prepared; sleep 600 & true"}]

    ended = run_warden_as(who, write_sandboxed_launch(folder, "cat", "step", setup=steps, net="doors"))

    assert (ended["reason"], ended["setup_output"]) == ("exited", "prepared\n")
    assert int(read_stdout(folder)) < 10  # a number in a namespace of its own


def test_a_setup_step_without_its_sandbox_fails_with_the_reason(who: SystemUser, folder: Path) -> None:
    walls = {"argv": [*build_bwrap_argv(folder)[:-1], "--no-such-option", "--"], "net": "none", "seccomp": None}

    ended = run_warden_as(
        who, write_sandboxed_launch(folder, "touch", "ran", sandbox=walls, setup=[{"shell": "touch stepped"}])
    )

    assert (ended["reason"], ended["stage"]) == ("setup_failed", "setup")
    assert "no-such-option" in ended["detail"]
    assert not (folder / "stepped").exists()
    assert not (folder / "ran").exists()


def test_a_setup_step_that_dies_of_a_signal_fails(who: SystemUser, folder: Path) -> None:
    ended = run_warden_as(who, write_sandboxed_launch(folder, "touch", "ran", setup=[{"shell": "kill -SEGV $$"}]))

    assert (ended["reason"], ended["signal"]) == ("setup_failed", signal.SIGSEGV)


# --- the warden itself ---


def test_a_survey_that_is_killed_is_made_again(folder: Path) -> None:
    killed_once = ["sh", "-c", "mkdir begun && kill -KILL $$; echo surveyed"]

    ended = run_warden_as(find_user(list_users()[0]), write_sandboxed_launch(folder, "true", survey=killed_once))

    assert (ended["reason"], ended["exit_code"]) == ("exited", 0)
    assert (folder / "survey-after").read_text() == "surveyed\n"


def test_work_that_cannot_be_surveyed_on_a_full_disk_waits_for_room(folder: Path) -> None:
    """Without a survey it would have to be done again. Why it waits can be read meanwhile."""
    fill = "for size in 65536 512 1; do dd if=/dev/zero bs=$size >> fill 2> /dev/null; done; exit 0"
    with mounted(folder, 1):
        launch = write_sandboxed_launch(folder, "sh", "-c", fill, survey=["echo", "surveyed"])
        with running_warden_as(find_user(list_users()[0]), launch) as warden:
            wait_until((folder / "hindrance").is_symlink, "it waits")
            assert (folder / "hindrance").readlink().name == f"{warden.pid} No space left on device"
            (folder / "fill").unlink()
            assert warden.wait(PATIENCE) == 0

        assert (read_outcome(folder)["reason"], read_outcome(folder)["exit_code"]) == ("exited", 0)
        assert (folder / "survey-after").read_text() == "surveyed\n"


@pytest.mark.parametrize("then", ["kill -KILL $$", "sleep 600"])
def test_a_cancel_while_work_cannot_be_surveyed_ends_the_attempt_as_cancelled(folder: Path, then: str) -> None:
    survey = ["sh", "-c", f"""echo '{{"reason": "enough"}}' > cancel; {then}"""]

    ended = run_warden_as(find_user(list_users()[0]), write_sandboxed_launch(folder, "true", survey=survey))

    assert (ended["reason"], ended["detail"], ended["exit_code"]) == ("cancelled", "enough", 0)


def test_a_warden_that_needs_no_walls_imports_nothing_for_them(folder: Path) -> None:
    write_launch(folder, "true")
    text = (
        "import sys; sys.path.insert(0, sys.argv[1]); from blueflame.warden.main import main; main(sys.argv[2:]); "
        "print([m for m in ('socket', 'subprocess', 'blueflame.warden.namespaces', "
        "'blueflame.watcher.server', 'blueflame.gateway', 'blueflame.warden.resource_limits', 'typing', 'pathlib') "
        "if m in sys.modules])"
    )
    argv = [sys.executable, "-I", "-S", "-E", "-c", text, str(ROOT), str(folder)]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_warden_of_a_sandbox_is_small(folder: Path) -> None:
    find_user("ourselves")
    with start_warden(
        write_sandboxed_launch(folder, "sleep", "600", net="doors", memory_mb=500, processes=100)
    ) as warden:
        wait_until(lambda: read_state(folder) == "working", "it works")
        status = Path(f"/proc/{warden.pid}/status").read_text()
        warden.terminate()
    sizes = {line.split()[0]: line.split()[1] for line in status.splitlines() if line.split()[1:]}
    assert int(sizes["VmHWM:"]) < 20_000
    assert sizes["Threads:"] == "1"


def test_the_agent_is_known_before_it_runs(who: SystemUser, folder: Path) -> None:
    run_warden_as(who, write_sandboxed_launch(folder, "cat", "agent.json"))

    assert json.loads(read_stdout(folder)) == json.loads((folder / "agent.json").read_text())
