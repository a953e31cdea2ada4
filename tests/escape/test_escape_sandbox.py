"""Every attempt to leave the sandbox, really made: nothing outside is changed, reached, read or left running."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from escape.attack import Attack, Probe
from escape.boxing import (
    as_user,
    attempt,
    box_command,
    build_environment,
    choose_for,
    everybody,
    machine,
    tight,
    uid_of,
)
from escape.outside import Outside, await_end, processes_with
from escape.table import behind

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="there is no bubblewrap here")

WHO = everybody()
TOGETHER = [row for row in behind("sandbox") if isinstance(row.deed, Probe) and not (row.deed.alone or row.deed.most)]
HOGS = [row for row in behind("sandbox") if isinstance(row.deed, Probe) and row.deed.most and not row.deed.alone]
ALONE = [row for row in behind("sandbox") if isinstance(row.deed, Probe) and row.deed.alone]
ALONE_AS = [(row, who) for who in WHO for row in choose_for(who, ALONE)]  # each needs a sandbox of its own
BITING = [row for row in TOGETHER if isinstance(row.deed, Probe) and row.deed.bites]


Machines = Callable[[str], Outside]


@pytest.fixture(scope="session")
def machines() -> Iterator[Machines]:
    """One machine for each user, with separate canaries for every attack."""
    made: dict[str, Outside] = {}
    with ExitStack() as stack:

        def of(who: str) -> Outside:
            uid = uid_of(who)
            if uid is None:
                pytest.skip("there is no Python of our version that the ordinary user may run")
            if who not in made:
                made[who] = stack.enter_context(machine(uid))
            return made[who]

        yield of


def test_the_box_holds_and_bites() -> None:
    """Each row of the table is in one of the lists below."""
    assert len(TOGETHER) + len(HOGS) + len(ALONE) == len(behind("sandbox"))


@pytest.mark.parametrize("who", WHO)
def test_the_box_holds(who: str, machines: Machines) -> None:
    assert attempt(machines(who), TOGETHER) == {attack.id: [] for attack in TOGETHER}


def test_the_same_succeeds_where_there_is_no_box() -> None:
    """Without this, a failing probe would prove nothing: here each succeeds, and its canary shows it.

    The attacks damage the machine: it is one of their own.
    """
    uid = uid_of(WHO[0])
    assert uid is not None
    with machine(uid) as outside:
        found = attempt(outside, BITING, walls=False)
    assert set(found) == {attack.id for attack in BITING}
    assert [name for name, breaches in found.items() if not breaches] == []


@pytest.mark.parametrize("who", WHO)
def test_no_agent_exceeds_the_limits(who: str, machines: Machines) -> None:
    hogs = choose_for(who, HOGS)
    assert attempt(machines(who), hogs, sandbox=tight()) == {attack.id: [] for attack in hogs}


@pytest.mark.parametrize(("attack", "who"), ALONE_AS, ids=lambda each: each if isinstance(each, str) else each.id)
def test_the_box_holds_although_it_falls(attack: Attack, who: str, machines: Machines) -> None:
    assert isinstance(attack.deed, Probe)
    limits = tight(**({"min_free_disk_mb": 10**8} if attack.id == "hog-disk" else {})) if attack.deed.most else {}
    assert attempt(machines(who), [attack], sandbox=limits)[attack.id] == []


DAEMON = "setsid sh -c \"trap '' TERM INT HUP; sleep 300; : $0\" >/dev/null 2>&1 & echo started; sleep 300"


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
def test_no_process_survives_the_end_of_the_process_that_started_the_sandbox(
    number: int, who: str, machines: Machines
) -> None:
    outside = machines(who)
    mark = f"bf-{outside.nonce}-daemon-{number}"
    with starting(outside, "sh", "-c", DAEMON, mark) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == b"started\n"
        assert processes_with(mark) != []
        starter.send_signal(number)
        starter.wait(20)
    await_end(mark)
    assert processes_with(mark) == []


def test_no_process_survives_a_kill_at_any_moment_of_the_start(machines: Machines) -> None:
    """bubblewrap killed in its first milliseconds leaves its payload running: the handshake closes that gap."""
    outside = machines(WHO[0])
    mark = f"bf-{outside.nonce}-race"
    for n in range(6):
        with starting(outside, "sh", "-c", "sleep 300; : $0", mark) as starter:
            _await_child(starter.pid)
            time.sleep(0.004 * n)  # another moment each time; no process may be left
            starter.kill()
    await_end(mark)
    assert processes_with(mark) == []


@contextmanager
def starting(outside: Outside, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    argv = [*box_command(outside), *command]
    env = build_environment(outside, walls=True)
    with subprocess.Popen(
        argv, env=env, cwd=outside.tree, stdout=subprocess.PIPE, start_new_session=True, **as_user(outside.uid)
    ) as starter:
        try:
            yield starter
        finally:
            starter.kill()


def _await_child(pid: int) -> None:
    """Wait until it has begun to start the sandbox."""
    end = time.monotonic() + 20
    children = Path(f"/proc/{pid}/task/{pid}/children")
    while time.monotonic() < end and not _text(children):
        time.sleep(0.001)


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return "it is gone"
