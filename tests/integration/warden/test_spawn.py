"""start_program as a foreground command uses it: with open files instead of paths, and nothing to record."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.small_sandbox import SystemUser, build_sandbox_options, find_user, list_users, make_shared_folder
from support.wardens import ROOT

FOREGROUND = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from blueflame.warden.launch_file import CannotStart, LaunchFile
from blueflame.warden.spawn import start_program
launch = LaunchFile(json.loads(sys.argv[2]))
try:
    child = start_program(launch.argv, launch, stdin=0, output=(1, 2))
except CannotStart as e:
    sys.exit(str(e))
_, status = os.waitpid(child.pid, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.fixture(params=list_users())
def who(request: pytest.FixtureRequest) -> SystemUser:
    return find_user(request.param)


@pytest.fixture
def folder() -> Iterator[Path]:
    with make_shared_folder() as place:
        yield place


def foreground(
    who: SystemUser, folder: Path, *argv: str, open_files: int = 0, **more: object
) -> subprocess.CompletedProcess[str]:
    launch = {"attempt": "", "argv": argv, "env": {"PATH": "/usr/bin:/bin"}, "cwd": str(folder), **more}
    few = ["sh", "-c", 'ulimit -n "$0"; exec "$@"', str(open_files)] if open_files else []
    run = [*who.argv, *few, who.python, "-I", "-S", "-c", FOREGROUND, str(ROOT), json.dumps(launch)]
    return subprocess.run(run, input="что сказано\n", capture_output=True, text=True, check=False, timeout=30)


@pytest.mark.parametrize("net", ["none", "doors", "host"])
def test_a_foreground_command_has_our_input_and_output(who: SystemUser, folder: Path, net: str) -> None:
    done = foreground(
        who, folder, "sh", "-c", "cat; echo oops >&2; exit 7", sandbox=build_sandbox_options(folder, net=net)
    )

    assert (done.returncode, done.stdout, done.stderr) == (7, "что сказано\n", "oops\n")


def test_a_foreground_command_without_a_sandbox_works_as_well(who: SystemUser, folder: Path) -> None:
    done = foreground(who, folder, "sh", "-c", "cat; env")

    assert done.stdout.splitlines()[0] == "что сказано"
    assert "BLUEFLAME" not in done.stdout  # no attempt, no cookie


def test_a_foreground_command_that_cannot_start_says_why(who: SystemUser, folder: Path) -> None:
    done = foreground(who, folder, "no-such-thing", sandbox=build_sandbox_options(folder))

    assert done.returncode == 1
    assert "cannot run no-such-thing" in done.stderr
    assert "the sandbox ended before the program could run" in done.stderr


def test_a_low_limit_on_open_files_is_named(who: SystemUser, folder: Path) -> None:
    done = foreground(who, folder, "true", open_files=20)

    assert done.stderr == "cannot arrange its files: Too many open files\n"
