from __future__ import annotations

import pytest

from blueflame.model import errors
from blueflame.model.exit_codes import MEANING, OUTCOMES, Exit, exit_for


def test_every_exit_code_has_a_sentence() -> None:
    assert set(MEANING) == set(Exit)
    assert all(sentence.endswith(".") for sentence in MEANING.values())


def test_every_error_ends_with_a_documented_code() -> None:
    family = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.BlueFlameError)
    ]
    assert {kind.exit_code for kind in family} <= {int(code) for code in Exit}


@pytest.mark.parametrize(
    ("outcome", "all_landed", "expected"),
    [
        ("completed", True, Exit.OK),
        ("completed", False, Exit.NOT_LANDED),
        ("stopped", True, Exit.OK),
        ("stopped", False, Exit.NOT_LANDED),
        ("max_cycles", False, Exit.NOT_LANDED),
        ("planning_failed", False, Exit.NOT_LANDED),
        ("plan_rejected", False, Exit.PLAN_REJECTED),
        ("plan_rejected", True, Exit.PLAN_REJECTED),
        ("something new", False, Exit.NOT_LANDED),
        (None, False, Exit.STOPPED),
        (None, True, Exit.STOPPED),
    ],
)
def test_how_a_session_ended_decides_the_exit_code(outcome: str | None, all_landed: bool, expected: Exit) -> None:
    assert exit_for(outcome, all_landed=all_landed) is expected


def test_only_known_outcomes_are_listed() -> None:
    assert set(OUTCOMES) == {"completed", "stopped", "plan_rejected", "max_cycles", "planning_failed", "abandoned"}
