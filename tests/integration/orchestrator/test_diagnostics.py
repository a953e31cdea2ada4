from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from blueflame.model.errors import ProcessFailed
from blueflame.model.verdict import Check
from blueflame.orchestrator.engine.commands import Command
from blueflame.orchestrator.engine.diagnostics import CHECK_OUTPUT_BYTES, run_checks
from blueflame.orchestrator.engine.interface import Walls
from blueflame.orchestrator.engine.local import LocalEngine


def run(
    repo: Path, *lines: str, timeout: float = 20, env: Mapping[str, str] | None = None, name: str = "ses.a.check"
) -> tuple[Check, ...]:
    like = Command(name=name, text="", cwd=repo, env={**os.environ, **(env or {})}, timeout=timeout)
    found = asyncio.run(run_checks(LocalEngine(repo.parent / "state ж"), lines, like))
    assert found is not None
    return found


@pytest.mark.verification(56)
def test_each_command_becomes_a_check_with_its_own_exit_code(repo: Path) -> None:
    passed, broken = run(repo, "test -f src/app.py && echo да", "echo oh no >&2; exit 7")
    assert (passed.name, passed.exit_code, passed.output, passed.passed) == (
        "test -f src/app.py && echo да",
        0,
        "да\n",
        True,
    )
    assert (broken.exit_code, broken.output, broken.passed) == (7, "oh no\n", False)


def test_the_limit_that_a_check_reached_ends_its_output(repo: Path) -> None:
    walls = Walls(env=dict(os.environ), limits={"fsize": 1 << 20}, keys={"memory_mb": 2000})
    like = Command(name="s.c", text="", cwd=repo, env={}, timeout=20, wall=lambda _folder: walls)
    found = asyncio.run(run_checks(LocalEngine(repo.parent / "state"), ("head -c 2000000 /dev/zero >large",), like))
    assert found is not None
    assert found[0].output.endswith("wrote a larger file; raise sandbox.max_file_size_mb\n")


def test_no_commands_give_no_checks(repo: Path) -> None:
    assert run(repo) == ()


@pytest.mark.verification(57)
def test_all_are_run_although_the_first_fails(repo: Path) -> None:
    assert [check.exit_code for check in run(repo, "exit 1", "exit 0", "exit 2")] == [1, 0, 2]


def test_after_a_check_that_removes_the_checkout_the_others_are_red(repo: Path) -> None:
    first, second = run(repo, 'd=$PWD; cd / && rm -rf "$d"', "true")
    assert (first.passed, second.passed) == (True, False)
    assert "or one before it removed it" in second.output


def test_they_run_in_order_in_the_checkout(repo: Path) -> None:
    first, second = run(repo, "echo one > made", "cat made")
    assert (first.passed, second.output) == (True, "one\n")


def test_a_check_that_takes_too_long_is_killed_and_the_next_one_runs(repo: Path) -> None:
    slow, quick = run(repo, "(sleep 60; touch survived) & echo started; sleep 60", "echo quick", timeout=0.5)
    assert (slow.timed_out, slow.passed, slow.output) == (True, False, "started\n")
    assert quick.output == "quick\n"
    assert not (repo / "survived").exists()


def test_a_check_that_exits_with_0_when_stopped_has_not_passed(repo: Path) -> None:
    (slow,) = run(repo, "trap 'exit 0' TERM; sleep 60 & wait", timeout=0.5)
    assert (slow.timed_out, slow.passed) == (True, False)


def test_both_outputs_are_in_the_order_in_which_they_were_written(repo: Path) -> None:
    (check,) = run(repo, "echo one; echo two >&2; echo three")
    assert check.output == "one\ntwo\nthree\n"


def test_the_digest_is_of_everything_and_the_output_only_the_end(repo: Path) -> None:
    (check,) = run(repo, "yes x | head -c 100000; echo end")
    whole = b"x\n" * 50000 + b"end\n"
    assert check.output_sha256 == hashlib.sha256(whole).hexdigest()
    assert len(check.output) <= CHECK_OUTPUT_BYTES
    assert check.output.endswith("x\nend\n")


def test_a_check_that_has_run_is_not_run_again_under_the_same_name(repo: Path) -> None:
    line = "echo ran >> ../count; echo same"

    before, after = run(repo, line), run(repo, line)

    assert before == after
    assert (repo.parent / "count").read_text() == "ran\n"


def test_output_that_is_not_text_is_shown_as_well_as_it_can_be(repo: Path) -> None:
    (check,) = run(repo, r"printf 'a\377b'")
    assert check.output == "a\ufffdb"


def test_the_environment_is_the_given_one(repo: Path) -> None:
    (check,) = run(repo, 'echo "$GREETING"', env={"GREETING": "привет"})
    assert check.output == "привет\n"


def test_a_command_that_does_not_exist_is_a_red_check(repo: Path) -> None:
    (check,) = run(repo, "no-such-program")
    assert (check.exit_code, check.passed) == (127, False)


def test_a_check_that_cannot_be_started_is_no_red_check_and_runs_when_it_can(repo: Path) -> None:
    with pytest.raises(ProcessFailed, match="could not be started"):
        run(repo / "gone", "true")
    (repo / "gone").mkdir()
    (check,) = run(repo / "gone", "true")
    assert check.passed
