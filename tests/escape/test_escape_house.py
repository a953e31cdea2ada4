"""What others send to the house: each attack is really tried on the source that takes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from escape.attack import Attack, Delivery
from escape.table import behind


@pytest.mark.parametrize("attack", behind("house"), ids=lambda attack: attack.id)
def test_nothing_from_outside_starts_work_or_reaches_our_network(attack: Attack, tmp_path: Path) -> None:
    assert isinstance(attack.deed, Delivery)
    assert attack.rule in attack.deed.attempt(tmp_path)
