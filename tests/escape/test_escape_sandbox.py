"""Every attempt to leave the box, really made: nothing outside is touched, reached, read or left running."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from escape.attack import Attack, Probe
from escape.boxing import as_user, attempt, box_command, interpreter, machine, ordinary_user, python_path, tight
from escape.outside import await_end, processes_with
from escape.sharing import once
from escape.table import behind

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="there is no bubblewrap here")

USER = ordinary_user()
WHO = ("root", "user") if USER is not None else ("user",)
TOGETHER = [row for row in behind("sandbox") if isinstance(row.deed, Probe) and not (row.deed.alone or row.deed.most)]
HOGS = [row for row in behind("sandbox") if isinstance(row.deed, Probe) and row.deed.most and not row.deed.alone]
ALONE = [row for row in behind("sandbox") if isinstance(row.deed, Probe) and row.deed.alone]
BITING = [row for row in TOGETHER if isinstance(row.deed, Probe) and row.deed.bites]


def uid_of(who: str) -> int:
    uid = 0 if who == "root" else os.geteuid() if USER is None else USER
    if interpreter(uid) is None:
        pytest.skip("there is no Python of our version that the ordinary user may run")
    return uid


def outcome(
    who: str, attacks: Sequence[Attack], *, walls: bool = True, sandbox: Mapping[str, object] | None = None
) -> dict[str, list[str]]:
    folder = Path(tempfile.mkdtemp(prefix="escape-"))
    folder.chmod(0o755)
    try:
        with machine(folder / "m", uid_of(who)) as outside:
            return attempt(outside, attacks, walls=walls, sandbox=sandbox)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("attack", TOGETHER, ids=lambda attack: attack.id)
def test_the_box_holds(attack: Attack, who: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    found = once(tmp_path_factory, f"box-{who}", lambda: outcome(who, TOGETHER))
    assert found[attack.id] == []


@pytest.mark.parametrize("attack", BITING, ids=lambda attack: attack.id)
def test_the_same_succeeds_where_there_is_no_box(attack: Attack, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Else nothing would be proven by its failing: the probe bites, and the canary is seen to suffer."""
    found = once(tmp_path_factory, "no-box", lambda: outcome(WHO[0], BITING, walls=False))
    assert found[attack.id] != []


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("attack", HOGS, ids=lambda attack: attack.id)
def test_nobody_takes_more_than_the_limits_give(
    attack: Attack, who: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = once(tmp_path_factory, f"hogs-{who}", lambda: outcome(who, HOGS, sandbox=tight()))
    assert found[attack.id] == []


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("attack", ALONE, ids=lambda attack: attack.id)
def test_the_box_holds_although_it_falls(attack: Attack, who: str) -> None:
    assert isinstance(attack.deed, Probe)
    limits = tight(**({"min_free_disk_mb": 10**8} if attack.id == "hog-disk" else {})) if attack.deed.most else {}
    assert outcome(who, [attack], sandbox=limits)[attack.id] == []


DAEMON = "setsid sh -c \"trap '' TERM INT HUP; sleep 300; : $0\" >/dev/null 2>&1 & echo started; sleep 300"


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
def test_nobody_survives_the_end_of_whoever_started_the_box(number: int, who: str, tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="escape-"))
    folder.chmod(0o755)
    try:
        with machine(folder / "m", uid_of(who)) as outside:
            mark = f"bf-{outside.nonce}-daemon"
            argv = [*box_command(outside), "sh", "-c", DAEMON, mark]
            env = outside.environment() | {"PYTHONPATH": python_path()}
            starter = subprocess.Popen(argv, env=env, cwd=outside.tree, stdout=subprocess.PIPE, **as_user(outside.uid))
            assert starter.stdout is not None
            with starter:
                assert starter.stdout.readline() == b"started\n"
                assert processes_with(mark) != []
                starter.send_signal(number)
                starter.wait(20)
            await_end(mark)
            assert processes_with(mark) == []
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_nobody_survives_a_kill_at_any_moment_of_the_start() -> None:
    """bubblewrap killed in its first milliseconds leaves its payload running: the handshake closes that gap."""
    folder = Path(tempfile.mkdtemp(prefix="escape-"))
    folder.chmod(0o755)
    try:
        with machine(folder / "m", os.geteuid()) as outside:
            mark = f"bf-{outside.nonce}-race"
            env = outside.environment() | {"PYTHONPATH": python_path()}
            argv = [*box_command(outside), "sh", "-c", "sleep 300; : $0", mark]
            starters = []
            for n in range(8):
                starter = subprocess.Popen(argv, env=env, cwd=outside.tree, start_new_session=True)
                _await_child(starter.pid)
                time.sleep(0.003 * n)
                starter.kill()
                starter.wait()
                starters.append(starter.pid)
            await_end(mark)
            assert processes_with(mark) == []
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _await_child(pid: int) -> None:
    """Until it has begun to start the box."""
    end = time.monotonic() + 20
    children = Path(f"/proc/{pid}/task/{pid}/children")
    while time.monotonic() < end and children.exists() and not children.read_text().strip():
        time.sleep(0.001)
