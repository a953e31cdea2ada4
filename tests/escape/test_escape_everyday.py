"""What `@everyday` allows of the watcher's table is contained: each such command is really run in the sandbox."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from escape.attack import Attack
from escape.boxing import attempt, everybody, machine, uid_of
from escape.contained import BITING, CONTAINED, arm
from escape.ground import EVERYDAY_CONFIG, ask_all
from escape.table import behind

ARMED = [arm(attack) for attack in behind("watcher") if attack.id in CONTAINED]


def try_all(attacks: list[Attack], *, walls: bool) -> Mapping[str, list[str]]:
    uid = uid_of(everybody()[0])
    assert uid is not None
    with machine(uid) as outside:
        return attempt(outside, attacks, walls=walls)


def test_all_other_attacks_stay_refused_where_everyday_commands_are_allowed(tmp_path: Path) -> None:
    answers = ask_all(behind("watcher"), tmp_path, EVERYDAY_CONFIG)
    assert {name for name, answer in answers.items() if answer["decision"] == "allow"} == CONTAINED


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="there is no bubblewrap here")
def test_the_sandbox_contains() -> None:
    assert try_all(ARMED, walls=True) == {attack.id: [] for attack in ARMED}


def test_the_same_commands_reach_something_where_there_is_no_sandbox() -> None:
    """Without this, a command that fails would prove nothing."""
    found = try_all([attack for attack in ARMED if attack.id in BITING], walls=False)
    assert [name for name, reached in found.items() if not reached] == []
