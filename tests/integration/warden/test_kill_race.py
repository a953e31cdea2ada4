"""bubblewrap killed in its first milliseconds used to leave its payload running (bubblewrap #633): not here.

BLUEFLAME_KILLS=300 makes it a long run.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from support import kill_race
from support.small_sandbox import build_bwrap_argv, find_user, list_users, make_shared_folder
from support.wardens import ROOT

KILLS = int(os.environ.get("BLUEFLAME_KILLS", "12"))


@pytest.mark.slow
@pytest.mark.parametrize("net", ["none", "doors"])
@pytest.mark.parametrize("victim", ["box", "warden"])
@pytest.mark.parametrize("name", list_users())
def test_nothing_runs_on_when_the_start_is_cut_short(name: str, victim: str, net: str) -> None:
    who = find_user(name)
    with make_shared_folder() as folder:
        argv = build_bwrap_argv(Path("@FOLDER@"), net=net)
        race = [who.python, "-I", "-S", kill_race.__file__, str(ROOT), str(folder), str(KILLS), "7", victim, *argv]
        done = subprocess.run([*who.argv, *race], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    wrong = {what: found[what] for what in ("survivors", "ran_on", "unrecorded")}
    assert (found["rounds"], wrong) == (KILLS, {"survivors": 0, "ran_on": 0, "unrecorded": 0})
