from __future__ import annotations

import pytest

from blueflame.model import errors
from blueflame.model.exit_codes import EXIT_CODE_MEANINGS, EXIT_CODES_BY_OUTCOME, ExitCode, choose_exit_code


def test_every_exit_code_has_a_sentence() -> None:
    assert set(EXIT_CODE_MEANINGS) == set(ExitCode)
    assert all(sentence.endswith(".") for sentence in EXIT_CODE_MEANINGS.values())


def test_every_error_ends_with_a_documented_code() -> None:
    family = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.BlueFlameError)
    ]
    assert {kind.exit_code for kind in family} <= {int(code) for code in ExitCode}


@pytest.mark.parametrize(
    ("outcome", "all_landed", "expected"),
    [
        ("completed", True, ExitCode.OK),
        ("completed", False, ExitCode.NOT_LANDED),
        ("stopped", True, ExitCode.OK),
        ("stopped", False, ExitCode.NOT_LANDED),
        ("max_cycles", False, ExitCode.NOT_LANDED),
        ("planning_failed", False, ExitCode.NOT_LANDED),
        ("plan_rejected", False, ExitCode.PLAN_REJECTED),
        ("plan_rejected", True, ExitCode.PLAN_REJECTED),
        ("something new", False, ExitCode.NOT_LANDED),
        (None, False, ExitCode.STOPPED),
        (None, True, ExitCode.STOPPED),
    ],
)
def test_how_a_session_ended_decides_the_exit_code(outcome: str | None, all_landed: bool, expected: ExitCode) -> None:
    assert choose_exit_code(outcome, all_landed=all_landed) is expected


def test_only_known_outcomes_are_listed() -> None:
    assert set(EXIT_CODES_BY_OUTCOME) == {
        "completed",
        "stopped",
        "plan_rejected",
        "max_cycles",
        "planning_failed",
        "abandoned",
    }
