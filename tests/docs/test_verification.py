"""Each of the 58 verification tests is proven by a test, and each finding of the review has its answer."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
ANSWERS = ROOT / "docs" / "evidence" / "review-answers.md"
FINDINGS = [f"R-{n:02d}" for n in range(1, 34)]


@pytest.fixture
def verification(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return import_module("verification")


def test_every_number_has_a_title_and_a_test_and_there_are_no_others(verification: ModuleType) -> None:
    numbers = list(range(1, 59))
    assert list(verification.TITLES) == numbers
    assert sorted(verification.find_marked_tests()) == numbers


def test_a_test_that_is_named_after_a_number_proves_it(verification: ModuleType) -> None:
    named = {
        (proof.test, number)
        for number, those in verification.find_marked_tests().items()
        for proof in those
        if re.match(rf"test_v{number:02d}_", proof.test)
    }
    written = {
        (test, int(number))
        for path in (ROOT / "tests" / "verification").glob("test_*.py")
        for test, number in re.findall(r"^def (test_v(\d\d)_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert named == written


def test_the_page_about_them_is_what_the_tests_say(verification: ModuleType) -> None:
    assert "\n".join(verification.find_differences()) == ""


def test_a_number_counts_as_proven_only_when_all_that_ran_passed(verification: ModuleType) -> None:
    tally = verification.Tally()
    for number, ends in {1: "passed", 2: "failed", 3: "skipped"}.items():
        tally.ends[number][ends] += 1
    tally.ends[2]["passed"] += 1
    assert [tally.verdict(n) for n in (1, 2, 3, 4)] == ["passed", "FAILED", "NOT RUN", "NOT RUN"]
    assert [line.split("  ")[-1] for line in verification.format_table(tally, {1: ["one"]})][1:3] == [
        "passed",
        "NO TEST",
    ]


def test_every_finding_has_its_answer_in_order() -> None:
    found = re.findall(r"^\| (R-\d\d) \|", ANSWERS.read_text(encoding="utf-8"), re.MULTILINE)
    assert found == FINDINGS


def test_every_answer_names_what_is_there() -> None:
    for line in ANSWERS.read_text(encoding="utf-8").splitlines():
        if line.startswith("| R-"):
            paths = re.findall(r"\]\(([^)#]+)[^)]*\)", line)
            assert paths, line
            assert [path for path in paths if not (ANSWERS.parent / path).exists()] == []


def test_every_test_that_an_answer_names_exists() -> None:
    tests = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert set(re.findall(r"`(test_\w+)`", ANSWERS.read_text(encoding="utf-8"))) <= tests
