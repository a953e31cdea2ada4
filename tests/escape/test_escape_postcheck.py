"""Results that break a rule: real commits, judged by the rule that the table names."""

from __future__ import annotations

from pathlib import Path

import pytest

from escape.attack import Attack
from escape.judging import bench
from escape.table import behind


@pytest.mark.verification(16)
@pytest.mark.parametrize("attack", behind("postcheck"), ids=lambda attack: attack.id)
def test_the_postcheck_finds(attack: Attack, repo: Path) -> None:
    at = bench(repo.parent, attack)
    at.prepare()
    judged = at.judge()
    assert attack.rule in {violation.rule for violation in judged.broken}, judged
    assert not judged.taken


@pytest.mark.verification(15)
def test_honest_work_passes(repo: Path) -> None:
    """Without this, the refusals above would prove nothing."""
    from escape.attack import result

    honest = result("honest", "paths", "honest work", "", "echo 'x = 1' > src/better.py")
    at = bench(repo.parent, honest)
    at.prepare()
    assert at.judge().taken
