"""Every call that the watcher must refuse is refused, by the rule that the table names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from escape.attack import Attack
from escape.ground import ask_all
from escape.sharing import once
from escape.table import behind

Answers = Mapping[str, Mapping[str, Any]]


@pytest.fixture(scope="session")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    return once(tmp_path_factory, "watcher", lambda: ask_all(behind("watcher"), tmp_path_factory.mktemp("watcher")))


@pytest.mark.parametrize("attack", behind("watcher"), ids=lambda attack: attack.id)
def test_the_watcher_refuses(attack: Attack, answers: Answers) -> None:
    answer = answers[attack.id]
    assert (answer["decision"], answer["rule"]) == ("deny", attack.rule), answer["details"]
    assert answer["details"], "a refusal says why, so that the agent can go on"
