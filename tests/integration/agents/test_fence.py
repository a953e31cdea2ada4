"""The fence as a real program in front of real commands."""

from __future__ import annotations

import subprocess
import sys

from blueflame.agents import fence


def run_fenced(command: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-I", "-S", "-E", fence.__file__, "/bin/bash", command]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_a_pipe_that_is_closed_early_ends_a_command_as_in_a_shell() -> None:
    done = run_fenced("set -o pipefail; yes | head -n 1")

    assert (done.returncode, done.stdout, done.stderr) == (141, "y\n", "")
