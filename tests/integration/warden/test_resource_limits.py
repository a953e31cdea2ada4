"""Memory, processes and disk: limited by a control group, or by the warden without one."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from blueflame.warden import cgroup
from blueflame.warden.launch_file import LaunchFile
from blueflame.warden.resource_limits import ResourceMonitor, read_free_mb
from support.small_sandbox import (
    SystemUser,
    find_user,
    list_users,
    make_shared_folder,
    run_warden_as,
    running_warden_as,
    write_sandboxed_launch,
)
from support.wardens import read_outcome, read_pid, wait_until, write_launch
from support.wardens import run_warden as run_open

HUNGRY = "import time; kept = bytearray(b'x') * (400 << 20); print('full', flush=True); time.sleep(600)"
CROWD = "import os, time\nfor _ in range(80):\n    if not os.fork(): time.sleep(600)\ntime.sleep(600)"
BOMB = "import os, time\nwhile True:\n  try: os.fork()\n  except OSError: time.sleep(0.01)"
PYTHON = ("/usr/bin/python3", "-I", "-S", "-c")


@pytest.fixture(params=list_users())
def who(request: pytest.FixtureRequest) -> SystemUser:
    if not os.access(PYTHON[0], os.X_OK):
        pytest.skip(f"{PYTHON[0]} is not there")
    return find_user(request.param)


@pytest.fixture
def folder() -> Iterator[Path]:
    with make_shared_folder() as place:
        yield place


def groups_of(folder: Path) -> list[str]:
    return [path for path in cgroup.find_leftover_cgroups(str(folder)) if Path(path).exists()]


@pytest.mark.parametrize(("own", "outer", "ours"), [(32, 400, True), (400, 32, False)])
def test_a_kill_for_want_of_memory_is_only_ours_if_our_limit_was_reached(own: int, outer: int, ours: bool) -> None:
    """The kernel kills members of our group for a narrower group above it, too, and counts them in ours."""
    around = cgroup.create_cgroup("around", memory_mb=outer, processes=0)
    if around is None or not around.has_memory_limit:
        pytest.skip("no control group for memory can be made here")
    inner = Path(around.paths[0], "inner")
    try:
        inner.mkdir()
        limit = next(name for name in ("memory.limit_in_bytes", "memory.max") if (inner / name).exists())
        (inner / limit).write_text(str(own << 20))
        group = cgroup.Cgroup((str(inner),), memory_path=str(inner), pids_path="")
        enter = f"echo $$ > '{inner}/cgroup.procs'; exec {PYTHON[0]} -I -S -c 'bytearray(100 << 20)'"
        assert subprocess.run(["sh", "-c", enter], check=False).returncode == -signal.SIGKILL
        assert bool(group.count_oom_kills()) is ours
    finally:
        cgroup.remove_cgroups((str(inner),))
        around.remove()


def test_an_agent_that_takes_too_much_memory_is_ended(who: SystemUser, folder: Path) -> None:
    ended = run_warden_as(who, write_sandboxed_launch(folder, *PYTHON, HUNGRY, memory_mb=200))

    assert ended["reason"] == "memory"
    assert "200 MB" in ended["detail"]
    assert ended["left_running"] == []
    assert groups_of(folder) == []


def test_an_agent_within_its_memory_is_not_ended(who: SystemUser, folder: Path) -> None:
    ended = run_warden_as(
        who, write_sandboxed_launch(folder, *PYTHON, "kept = bytearray(b'x') * (50 << 20)", memory_mb=400, processes=50)
    )

    assert (ended["reason"], ended["exit_code"]) == ("exited", 0)


def test_memory_that_a_setup_step_takes_counts_too(who: SystemUser, folder: Path) -> None:
    step = {"argv": [*PYTHON, HUNGRY], "name": "hungry"}
    ended = run_warden_as(who, write_sandboxed_launch(folder, "touch", "ran", memory_mb=200, setup=[step]))

    assert (ended["reason"], ended["stage"], ended["step"]) == ("memory", "setup", "hungry")
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("net", ["none", "doors"])
def test_an_agent_with_too_many_processes_is_ended(who: SystemUser, folder: Path, net: str) -> None:
    ended = run_warden_as(who, write_sandboxed_launch(folder, *PYTHON, CROWD, net=net, processes=70))

    assert ended["reason"] == "processes"
    assert "more than the 70 allowed" in ended["detail"]
    assert ended["left_running"] == []


def test_a_file_that_grows_past_its_limit_is_named_as_the_cause(who: SystemUser, folder: Path) -> None:
    script = "head -c 2000000 /dev/zero >large"
    limits = {"fsize": 1 << 20}
    launch = write_sandboxed_launch(folder, "/bin/sh", "-c", script, limits=limits, memory_mb=500)
    ended = run_warden_as(who, launch)

    assert ended["reason"] == "exited"
    assert ended["detail"] == ("file size limit 1 MB reached: it wrote a larger file; raise sandbox.max_file_size_mb")


def test_processes_that_could_not_be_started_are_named_as_the_cause(folder: Path) -> None:
    if not cgroup.probe_cgroups()[1]:
        pytest.skip("there are no control groups here")
    group = cgroup.create_cgroup("refused", memory_mb=0, processes=2, folder=str(folder))
    assert group is not None
    script = "read go; for n in 1 2 3 4; do sleep 1 & done; wait"
    with subprocess.Popen(["/bin/sh", "-c", script], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as shell:
        group.add_process(shell.pid)
        shell.communicate(b"go\n")
    launch = LaunchFile({"attempt": "refused", "argv": ["sh"], "cwd": str(folder), "processes": 2})
    explained = ResourceMonitor(launch, group).explain_failure(2, None)
    group.remove()

    assert explained.startswith("process limit 2 reached: ")
    assert explained.endswith("; raise sandbox.max_processes")


def test_threads_count_as_processes(who: SystemUser, folder: Path) -> None:
    threads = "import threading, time\nfor _ in range(40): threading.Thread(target=time.sleep, args=(600,)).start()"

    ended = run_warden_as(who, write_sandboxed_launch(folder, "/usr/bin/python3", "-I", "-c", threads, processes=30))

    assert ended["reason"] == "processes"


@pytest.mark.parametrize("net", ["none", "doors"])
def test_a_fork_bomb_in_a_sandbox_is_limited_by_the_kernel_and_ended(who: SystemUser, folder: Path, net: str) -> None:
    if who.is_root and not cgroup.probe_cgroups()[1]:
        pytest.skip("root is above the limit on processes, and there are no control groups here")
    ended = run_warden_as(who, write_sandboxed_launch(folder, *PYTHON, BOMB, net=net, processes=60, grace=0.2))

    assert (ended["reason"], ended["left_running"]) == ("processes", [])
    assert (folder / "full").exists() or int(ended["detail"].partition("it had ")[2].split()[0]) <= 77


def test_processes_of_others_do_not_count(who: SystemUser, folder: Path) -> None:
    """The kernel counts processes by user; in a user namespace it counts only those of the sandbox."""
    with (
        make_shared_folder() as other,
        running_warden_as(
            who, write_sandboxed_launch(other, *PYTHON, CROWD.replace("80", "60"), processes=90)
        ) as first,
    ):
        wait_until((other / "status.json").exists, "the other crowd is there")
        ended = run_warden_as(
            who, write_sandboxed_launch(folder, "sh", "-c", "sleep 0.01; sleep 0.01; exit 5", processes=20)
        )
        assert first.poll() is None
        first.terminate()
        first.wait(20)

    assert (ended["reason"], ended["exit_code"]) == ("exited", 5)


def test_with_too_little_free_disk_the_agent_does_not_start(folder: Path) -> None:
    ended = run_open(write_launch(folder, "touch", "ran", min_free_disk_mb=1 << 40))

    assert (ended["reason"], ended["stage"]) == ("disk", "setup")
    assert f"{1 << 40} MB must stay free" in ended["detail"]
    assert not (folder / "ran").exists()


def test_an_agent_that_fills_the_disk_is_ended(folder: Path) -> None:
    room = read_free_mb(str(folder))
    assert room is not None
    if room < 1000:
        pytest.skip("the disk is nearly full already")
    pressure = ResourceMonitor(_launch(folder, min_free_disk_mb=room + 500), None)

    reason, detail = pressure.find_violation() or ("", "")

    assert reason == "disk"
    assert str(folder) in detail


def test_slow_checks_are_repeated_less_often(folder: Path) -> None:
    pressure = ResourceMonitor(_launch(folder, min_free_disk_mb=1 << 40), None)

    assert pressure.find_violation() is not None
    assert pressure.find_violation() is None


def test_the_free_space_of_a_missing_folder_is_unknown(folder: Path) -> None:
    assert ResourceMonitor(_launch(folder / "gone", min_free_disk_mb=1), None).find_violation() is None


def test_shared_memory_counts_once_where_we_watch(folder: Path) -> None:
    """Twelve processes that share 60 MB hold 60 MB, although each of them shows all of it."""
    share = (
        "import os, signal, time\nkept = bytearray(b'x') * (60 << 20)\n"
        "for _ in range(12):\n    if not os.fork(): time.sleep(600)\n"
        "open('pid', 'w').write(f'{os.getpid()}\\n'); time.sleep(1); os.killpg(0, signal.SIGKILL)"
    )
    ended = run_open(write_launch(folder, *PYTHON, share, memory_mb=400))

    assert (ended["reason"], ended["signal"]) == ("lost", 9)


def _launch(cwd: Path, **more: object) -> LaunchFile:
    return LaunchFile({"attempt": "a", "argv": ["true"], "cwd": str(cwd), **more})


# --- control groups ---


@pytest.fixture
def groups() -> tuple[bool, bool]:
    found = cgroup.probe_cgroups()
    if not any(found):
        pytest.skip("control groups are not available here")
    return found


def test_a_trial_leaves_no_group_behind(groups: tuple[bool, bool]) -> None:
    left = [path for place in cgroup.find_parents() for path in Path(place.path).glob("blueflame-trial-*")]

    assert left == []


def test_the_kernel_kills_before_the_machine_suffers(groups: tuple[bool, bool], folder: Path) -> None:
    if not groups[0]:
        pytest.skip("memory cannot be walled in here")
    ended = run_warden_as(find_user("ourselves"), write_sandboxed_launch(folder, *PYTHON, HUNGRY, memory_mb=200))

    assert ended["reason"] == "memory"
    assert "the system killed" in ended["detail"]


def test_what_a_killed_warden_left_is_found_by_its_group_and_cleared(groups: tuple[bool, bool], folder: Path) -> None:
    """Without a sandbox, a process without cookie and spool is found by its control group."""
    stranger = "env -i setsid sh -c 'echo $$ > stranger; exec sleep 600' >/dev/null 2>&1 </dev/null & exec sleep 600"
    with running_warden_as(
        find_user("ourselves"), write_launch(folder, "sh", "-c", stranger, processes=50, grace=1)
    ) as warden:
        pid = read_pid(folder / "stranger")
        assert groups_of(folder)
        warden.kill()
        warden.wait()
    assert Path(f"/proc/{pid}").exists()

    ended = run_warden_as(find_user("ourselves"), folder)

    assert ended["reason"] == "lost"
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the stranger is gone")
    assert groups_of(folder) == []


def test_groups_of_the_dead_are_swept_and_others_left_alone(tmp_path: Path) -> None:
    dead = int(Path("/proc/sys/kernel/pid_max").read_text()) + 1
    ours = Path("/proc/self/ns/pid").stat().st_ino
    gone, alive = f"blueflame-ses-1-0-{dead}.{ours}", f"blueflame-ses-1-0-{os.getpid()}.{ours}"
    of_another_container = [f"blueflame-ses-1-0-{dead}.1", f"blueflame-ses-1-0-{dead}"]
    others = [f"another-{dead}.{ours}", "blueflame-word", *of_another_container]
    for name in (gone, alive, *others):
        (tmp_path / name).mkdir()

    cgroup.remove_abandoned_cgroups(str(tmp_path))

    assert {path.name for path in tmp_path.iterdir()} == {alive, *others}


def test_a_note_that_names_other_groups_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / cgroup.GROUPS_FILE).write_text(
        '{"paths": ["/sys/fs/cgroup/memory/important", "/x/blueflame-other-00000000-1"]}'
    )

    assert cgroup.find_leftover_cgroups(str(tmp_path)) == ()


@pytest.mark.parametrize("text", ["", "[]", '{"paths": 5}', "{"])
def test_a_damaged_note_names_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / cgroup.GROUPS_FILE).write_text(text)

    assert cgroup.find_leftover_cgroups(str(tmp_path)) == ()


def test_no_group_is_made_without_a_limit(tmp_path: Path) -> None:
    assert cgroup.create_cgroup("none-wanted", memory_mb=0, processes=0, folder=str(tmp_path)) is None
    assert not (tmp_path / cgroup.GROUPS_FILE).exists()


V1 = "4:memory:/ours/мы\n8:pids:/\n0::/\n"
V1_MOUNTS = (
    "31 25 0:27 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "35 25 0:31 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
    "36 25 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    "37 25 0:33 / /odd\\040place rw - tmpfs tmpfs rw\n"
)


def test_the_groups_of_version_1_are_found_below_our_own() -> None:
    ours, mounts = cgroup.parse_own_groups(V1), cgroup.parse_cgroup_mounts(V1_MOUNTS)

    assert cgroup.find_group_folder(mounts.get("memory"), ours.get("memory")) == "/sys/fs/cgroup/memory/ours/мы"
    assert cgroup.find_group_folder(mounts.get("pids"), ours.get("pids")) == "/sys/fs/cgroup/pids"


def test_a_group_that_is_not_below_what_is_mounted_is_not_guessed() -> None:
    mounts = cgroup.parse_cgroup_mounts("31 25 0:27 /docker/1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n")

    assert cgroup.find_group_folder(mounts["memory"], "/docker/1/x") == "/sys/fs/cgroup/memory/x"
    assert cgroup.find_group_folder(mounts["memory"], "/docker/12") == ""
    assert cgroup.find_group_folder(None, "/") == ""


def test_version_2_is_used_beside_our_own_group_where_it_is_delegated(tmp_path: Path) -> None:
    """Write the files of a delegated tree, as a user's systemd makes them."""
    slice_ = tmp_path / "user slice"
    (slice_ / "ours.scope").mkdir(parents=True)
    (slice_ / "cgroup.procs").write_text("")
    (slice_ / "cgroup.subtree_control").write_text("cpu memory pids\n")
    ours, mounts = {"": "/user slice/ours.scope"}, {"": (str(tmp_path), "/")}

    place = cgroup.find_unified_parent(ours, mounts, ("memory", "pids"))

    assert place is not None
    assert (place.path, place.version, place.controllers) == (str(slice_), 2, ("memory", "pids"))


def test_version_2_without_controllers_handed_down_is_no_place(tmp_path: Path) -> None:
    (tmp_path / "ours.scope").mkdir()
    (tmp_path / "cgroup.procs").write_text("")
    (tmp_path / "cgroup.subtree_control").write_text("hugetlb\n")

    assert cgroup.find_unified_parent({"": "/ours.scope"}, {"": (str(tmp_path), "/")}, ("memory",)) is None


def test_the_outcome_of_a_sandboxed_attempt_names_its_reason_even_when_it_died_at_once(
    who: SystemUser, folder: Path
) -> None:
    """The kernel may kill between two checks: then the last check finds it."""
    if not (who.is_root and cgroup.probe_cgroups()[0]):
        pytest.skip("only a control group kills by itself")
    run_warden_as(who, write_sandboxed_launch(folder, *PYTHON, "kept = bytearray(b'x') * (400 << 20)", memory_mb=100))

    assert read_outcome(folder)["reason"] == "memory"
