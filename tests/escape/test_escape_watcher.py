"""Every call that the watcher must refuse is refused, by the rule that the table names."""

from __future__ import annotations

from pathlib import Path

from escape.ground import ask_all
from escape.table import behind


def test_the_watcher_refuses(tmp_path: Path) -> None:
    attacks = behind("watcher")
    answers = ask_all(attacks, tmp_path)
    assert {name: (answer["decision"], answer["rule"]) for name, answer in answers.items()} == {
        attack.id: ("deny", attack.rule) for attack in attacks
    }
    unexplained = [name for name, answer in answers.items() if not answer["details"]]
    assert unexplained == [], "a refusal says why, so that the agent can go on"
