from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from blueflame.engine.diagnostics import OUTPUT_BYTES, run_checks
from blueflame.model.errors import ProcessFailed
from blueflame.model.verdict import Check


def run(
    repo: Path, *commands: str, timeout: float = 20, env: Mapping[str, str] | None = None, fail_fast: bool = False
) -> tuple[Check, ...]:
    return asyncio.run(
        run_checks(
            commands, checkout=repo, timeout=timeout, log_dir=repo.parent / "logs ж", env=env, fail_fast=fail_fast
        )
    )


def test_each_command_becomes_a_check_with_its_own_exit_code(repo: Path) -> None:
    passed, broken = run(repo, "test -f src/app.py && echo да", "echo oh no >&2; exit 7")
    assert (passed.name, passed.exit_code, passed.output, passed.passed) == (
        "test -f src/app.py && echo да",
        0,
        "да\n",
        True,
    )
    assert (broken.exit_code, broken.output, broken.passed) == (7, "oh no\n", False)


def test_no_commands_give_no_checks(repo: Path) -> None:
    assert run(repo) == ()


def test_all_are_run_although_the_first_fails(repo: Path) -> None:
    assert [check.exit_code for check in run(repo, "exit 1", "exit 0", "exit 2")] == [1, 0, 2]


def test_fail_fast_stops_at_the_first_failure(repo: Path) -> None:
    assert [check.exit_code for check in run(repo, "exit 0", "exit 1", "touch ran", fail_fast=True)] == [0, 1]
    assert not (repo / "ran").exists()


def test_they_run_in_order_in_the_checkout(repo: Path) -> None:
    first, second = run(repo, "echo one > made", "cat made")
    assert (first.passed, second.output) == (True, "one\n")


def test_a_check_that_takes_too_long_is_killed_and_the_next_one_runs(repo: Path) -> None:
    slow, quick = run(repo, "(sleep 60; touch survived) & echo started; sleep 60", "echo quick", timeout=0.5)
    assert (slow.timed_out, slow.passed, slow.output) == (True, False, "started\n")
    assert quick.output == "quick\n"
    assert not (repo / "survived").exists()


def test_a_check_that_exits_well_when_told_to_stop_has_not_passed(repo: Path) -> None:
    (slow,) = run(repo, "trap 'exit 0' TERM; sleep 60 & wait", timeout=0.5)
    assert (slow.timed_out, slow.passed) == (True, False)


def test_the_digest_is_of_everything_and_the_output_only_the_end(repo: Path) -> None:
    (check,) = run(repo, "yes x | head -c 100000; echo end")
    whole = b"x\n" * 50000 + b"end\n"
    assert check.output_sha256 == hashlib.sha256(whole).hexdigest()
    assert len(check.output) <= OUTPUT_BYTES
    assert check.output.endswith("x\nend\n")


def test_a_second_run_is_digested_by_itself(repo: Path) -> None:
    before, after = run(repo, "echo same"), run(repo, "echo same")
    assert before[0].output_sha256 == after[0].output_sha256


def test_output_that_is_not_text_is_shown_as_well_as_it_can_be(repo: Path) -> None:
    (check,) = run(repo, r"printf 'a\377b'")
    assert check.output == "a�b"


def test_the_environment_is_the_one_given(repo: Path) -> None:
    (check,) = run(repo, "echo $PORT $HOME", env={"PATH": "/usr/bin:/bin", "PORT": "23000"})
    assert check.output == "23000\n"


def test_an_input_that_is_waited_for_is_empty(repo: Path) -> None:
    (check,) = run(repo, "cat; echo done")
    assert check.output == "done\n"


def test_a_missing_checkout_is_an_error_and_not_a_pass(tmp_path: Path) -> None:
    with pytest.raises(ProcessFailed, match="does not exist"):
        run(tmp_path / "gone", "true")
