"""The table itself: large enough, every row unique, and the page that is written from it up to date."""

from __future__ import annotations

import re
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

from escape.attack import GROUPS, WALLS
from escape.table import ATTACKS

ROOT = Path(__file__).resolve().parents[2]


def test_there_are_many_attacks_of_every_group_and_on_every_wall() -> None:
    groups, walls = Counter(attack.group for attack in ATTACKS), Counter(attack.wall for attack in ATTACKS)
    assert len(ATTACKS) >= 250
    assert {group: count for group in GROUPS if (count := groups[group]) < 15} == {}
    assert {wall: count for wall in WALLS if (count := walls[wall]) < 15} == {}


def test_every_attack_has_a_unique_descriptive_name() -> None:
    assert [name for name, count in Counter(attack.id for attack in ATTACKS).items() if count > 1] == []
    assert [attack.id for attack in ATTACKS if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", attack.id)] == []


def test_the_list_of_attacks_is_what_the_table_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    assert "\n".join(import_module("attacks").find_differences()) == ""
