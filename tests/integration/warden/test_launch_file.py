"""What launch.json may contain about the walls: with anything doubtful, nothing is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from blueflame.policy.dialects import DIALECTS
from blueflame.warden import launch_file as walls
from support.wardens import run_warden, write_launch

GOOD = {"argv": ["/usr/bin/bwrap", "--"], "net": "none", "seccomp": None}
WATCH = {"port": 1, "policy": "/p", "audit": "/a", "agent": "x", "hook": "/h", "shfmt": "/s"}


@pytest.mark.parametrize(
    ("keys", "reported"),
    [
        ({"sandbox": {**GOOD, "lax": True}}, "sandbox: lax is not one of argv, seccomp, net"),
        ({"sandbox": {**GOOD, "argv": []}}, "sandbox: argv must be a list"),
        ({"sandbox": {**GOOD, "net": "maybe"}}, "sandbox: net is 'maybe'"),
        ({"sandbox": {"argv": ["bwrap"], "seccomp": None}}, "sandbox: net is None"),
        ({"sandbox": {**GOOD, "seccomp": "relative"}}, "sandbox: seccomp must be an absolute path"),
        ({"sandbox": "yes"}, "sandbox must be an object"),
        ({"memory_mb": -1}, "memory_mb must be a whole number of at least 0"),
        ({"processes": True}, "processes must be a whole number"),
        ({"min_free_disk_mb": "5"}, "min_free_disk_mb must be a whole number"),
        ({"watch": {**WATCH, "port": 0}}, "watch: port must be a whole number of at least 1 and at most 65535"),
        ({"watch": {**WATCH, "hook": "hook.sh"}}, "watch: hook must be an absolute path"),
        ({"watch": {**WATCH, "extra": 1}}, "watch: extra is not one of"),
        ({"watch": {**WATCH, "mounts": {"tmp": "/x"}}}, "watch: mounts must be an absolute path"),
        ({"watch": {**WATCH, "questions": {"left": -1, "wait": 0}}}, "watch: questions: left must be a whole number"),
        ({"watch": {**WATCH, "questions": {"left": 1}}}, "watch: questions: wait must be a whole number"),
        ({"watch": {**WATCH, "policy": None}}, "watch: policy must be a string"),
        ({"gateway": {"port": 70000, "hosts": []}}, "gateway: port must be"),
        ({"gateway": {"port": 1, "hosts": "example.org"}}, "gateway: hosts must be a list"),
        ({"gateway": {"port": 1, "hosts": [], "registries": "pypi.org"}}, "gateway: registries must be a list"),
        ({"gateway": {"port": 1, "hosts": [], "setup": "yes"}}, "gateway: setup must be true or false"),
        ({"sandbox": GOOD, "watch": WATCH}, "watch and gateway cannot be reached"),
    ],
)
def test_a_launch_file_with_doubtful_walls_starts_nothing(tmp_path: Path, keys: dict[str, Any], reported: str) -> None:
    folder = tmp_path / "попытка"
    ended = run_warden(write_launch(folder, "touch", "ran", **keys))

    assert ended["reason"] == "spawn_failed"
    assert reported in ended["detail"]
    assert not (folder / "ran").exists()


def test_walls_that_are_not_requested_are_none() -> None:
    assert (walls.parse_sandbox(None), walls.parse_watch(None), walls.parse_gateway(None)) == (None, None, None)


def test_good_walls_are_read_as_they_stand() -> None:
    box = walls.parse_sandbox({**GOOD, "seccomp": "/f", "net": "doors"})

    assert box is not None
    assert (box.argv, box.seccomp, box.net) == (["/usr/bin/bwrap", "--"], "/f", "doors")
    assert walls.parse_watch({**WATCH, "mounts": {"/tmp": "/там"}}) == {**WATCH, "mounts": {"/tmp": "/там"}}
    assert walls.parse_gateway({"port": 5, "hosts": ["a.org"]}) == {"port": 5, "hosts": ["a.org"]}


def test_an_unknown_dialect_is_refused() -> None:
    with pytest.raises(ValueError, match="dialect is 'klingon', not one of claude, codex, gemini"):
        walls.parse_watch({**WATCH, "dialect": "klingon"})
    assert walls.parse_watch({**WATCH, "dialect": "gemini"}) is not None
    assert walls.DIALECTS == DIALECTS
