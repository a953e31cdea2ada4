"""Who is blamed for a red check, when the base is run once more."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from blueflame.model.errors import WorldError
from blueflame.model.verdict import Check
from blueflame.orchestrator.check_runner import confirm_blame, list_blamed, require_programs


def red(*failures: str, exit_code: int = 1) -> tuple[Check, ...]:
    return (Check(name="npm test", exit_code=exit_code, seconds=1.0, failures=failures),)


def confirm(result: tuple[Check, ...], before: tuple[Check, ...], now: tuple[Check, ...]) -> tuple[Check, ...]:
    async def run_on_base() -> tuple[Check, ...]:
        return now

    return asyncio.run(confirm_blame(result, before, run_on_base))


def test_a_result_that_is_no_redder_than_a_flaky_base_is_now_is_not_blamed() -> None:
    assert not list_blamed(confirm(red(), red("times out"), red()))
    assert not list_blamed(confirm(red("b"), red("a"), red("b", "c")))


def test_a_result_that_is_redder_than_a_flaky_base_is_blamed() -> None:
    assert list_blamed(confirm(red("mine"), red("a"), red("b")))
    assert list_blamed(confirm(red("mine"), red("a"), red(exit_code=0)))


def test_a_base_that_was_green_and_is_red_now_is_no_ones_fault() -> None:
    with pytest.raises(WorldError, match="did not before"):
        confirm(red("a"), red(exit_code=0), red("a"))


@pytest.mark.parametrize("code", [126, 127], ids=["may not be executed", "is not found"])
def test_a_program_that_is_missing_on_the_base_as_well_is_no_check_that_was_red_before(code: int) -> None:
    (check,) = confirm(red(exit_code=code), red("a"), red(exit_code=code))
    assert check.red_before
    with pytest.raises(WorldError, match="cannot be started, on the base either: `npm test`"):
        require_programs((check,), missing=())


def test_a_program_that_a_person_knows_to_be_missing_holds_nothing() -> None:
    check = replace(red(exit_code=127)[0], red_before=True)
    require_programs((check, replace(check, name="other", exit_code=1)), missing={"npm test"})
