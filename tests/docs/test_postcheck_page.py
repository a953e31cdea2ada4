"""The page about the postcheck names every rule that there is."""

from __future__ import annotations

from pathlib import Path

from blueflame.checks import leftovers, postcheck
from blueflame.checks.secrets import scan as secrets
from blueflame.checks.secrets.rules import load_rules
from blueflame.git import tripwire as untouched

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "postcheck.md"


def test_every_rule_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    named = [
        *(value for name, value in vars(postcheck).items() if name.isupper() and isinstance(value, str)),
        leftovers.VALIDATOR_CHANGED_TREE,
        secrets.SENSITIVE_CONTENT,
        untouched.REPOSITORY_TOUCHED,
        *(rule.name for rule in load_rules().rules),
    ]
    assert [name for name in named if f"`{name}`" not in text] == []
