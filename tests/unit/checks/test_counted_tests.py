"""How many tests ran is read from the output of known runners; those that did not run do not count."""

from __future__ import annotations

import pytest

from blueflame.checks.counted_tests import count_junit_tests, count_tests
from blueflame.checks.failed_tests import compare_with_base
from blueflame.checks.risks import RiskInputs, find_risks
from blueflame.model.verdict import Check

OUTPUTS = {
    "pytest": ("==== \x1b[31m2 failed\x1b[0m, \x1b[32m39 passed\x1b[0m, 1 warning in 3.10s ====\n", 41),
    "pytest -q": ("........ [100%]\n8 passed, 3 skipped, 1 xfailed, 2 deselected in 0.03s\n", 8),
    "pytest, long": ("===== 1200 passed, 1 xpassed, 3 rerun in 75.20s (0:01:15) =====\n", 1201),
    "pytest with subtests": ("==== 2 passed, 4 subtests passed in 0.10s ====\n", 2),
    "pytest without tests": ("no tests ran in 0.01s\n", 0),
    "pytest, all deselected": ("==== 5 deselected in 0.01s ====\n", 0),
    "unittest": ("Ran 5 tests in 0.001s\n\nOK\n", 5),
    "unittest, skipped": ("Ran 5 tests in 0.001s\n\nOK (skipped=2, expected failures=1)\n", 2),
    "unittest, failed": ("Ran 1 test in 0.001s\n\nFAILED (failures=1)\n", 1),
    "unittest, failed and skipped": ("Ran 9 tests in 0.001s\n\nFAILED (failures=1, errors=1, skipped=3)\n", 6),
    "unittest without tests": ("Ran 0 tests in 0.000s\n\nNO TESTS RAN\n", 0),
    "jest": ("Test Suites: 2 passed, 2 total\nTests:       1 failed, 1 skipped, 4 passed, 6 total\nTime: 1 s\n", 5),
    "jest without tests": ("No tests found, exiting with code 1\n", 0),
    "vitest": (" Test Files  1 passed (1)\n      Tests  3 passed | 1 skipped | 1 todo (5)\n", 3),
    "vitest without tests": ("No test files found, exiting with code 0\n", 0),
    "mocha": ("\n  12 passing (10ms)\n  2 pending\n  1 failing\n", 13),
    "node --test": ("\u2139 tests 6\n\u2139 suites 1\n\u2139 pass 4\n\u2139 fail 1\n\u2139 skipped 1\n", 5),
    "TAP": ("1..5\n# tests 5\n# pass  4\n# fail  1\n", 5),
    "ava": ("  5 tests passed\n", 5),
    "ava, failed": ("  1 test failed\n", None),
    "bun": (" 5 pass\n 1 skip\n 2 fail\nRan 8 tests across 1 file.\n", 7),
    "deno": ("ok | 5 passed | 0 failed | 1 ignored (10ms)\n", 5),
    "cargo": (
        "test result: ok. 5 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.00s\n"
        "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        8,
    ),
    "automake": ("# TOTAL: 7\n# PASS:  4\n# SKIP:  1\n# XFAIL: 1\n# FAIL:  1\n# XPASS: 0\n# ERROR: 0\n", 5),
    "meson": ("Ok:                 16  \nExpected Fail:      1   \nFail:               2   \nSkipped: 1\n", 18),
    "meson before 1.7": ("Ok:                16  \nFail:              0   \n", 16),
    "nextest": ("     Summary [   0.1s] 5 tests run: 5 passed, 1 skipped\n", 5),
    "surefire": (
        "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.1 s -- in a.FooTest\n"
        "[INFO] Results:\n[WARNING] Tests run: 7, Failures: 0, Errors: 0, Skipped: 2\n",
        5,
    ),
    "gradle": ("5 tests completed, 1 failed, 1 skipped\n", 4),
    "rspec": ("5 examples, 0 failures, 1 pending\n", 4),
    "minitest": ("5 runs, 7 assertions, 0 failures, 0 errors, 1 skips\n", 4),
    "test-unit": ("5 tests, 7 assertions, 0 failures, 0 errors, 1 pendings, 1 omissions, 0 notifications\n", 3),
    "ctest": ("100% tests passed, 0 tests failed out of 5\n", 5),
    "ctest without tests": ("No tests were found!!!\n", 0),
    "phpunit": ("OK (5 tests, 7 assertions)\n", 5),
    "phpunit, skipped": ("OK, but some tests were skipped!\nTests: 5, Assertions: 7, Failures: 1, Skipped: 2.\n", 3),
    "dotnet": ("Passed!  - Failed:     0, Passed:     5, Skipped:     1, Total:     6\n", 5),
    "ExUnit": ("5 tests, 0 failures, 1 excluded\n", 4),
    "XCTest": ("Executed 5 tests, with 0 failures (0 unexpected) in 0.1 (0.2) seconds\n", 5),
    "prove": ("Files=2, Tests=15,  1 wallclock secs\nResult: PASS\n", 15),
    "go test -v": ("--- PASS: TestA (0.00s)\n--- FAIL: TestB (0.0s)\n--- SKIP: TestC (0.0s)\nok  \tx\t0.1s\n", 2),
    "go test": ("ok  \tx/a\t0.01s\nok  \tx/b\t(cached)\n?   \tx/c\t[no test files]\nFAIL\tx/d\t0.1s\n", 3),
    "go test without tests": ("?   \tx/c\t[no test files]\nok  \tx/b\t0.01s [no tests to run]\n", 0),
    "two runners": ("2 passed in 0.03s\n...\nTests:       4 passed, 4 total\n", 6),
    "a linter": ("All checks passed!\nFound 0 errors in 12 files\n", None),
    "talk of tests": ("the 5 tests passed in review; pass 3 of 4; Tests: see docs\n", None),
    "nothing": ("", None),
}  # fmt: skip


@pytest.mark.parametrize("runner", OUTPUTS)
def test_the_number_of_tests_is_read(runner: str) -> None:
    output, number = OUTPUTS[runner]
    assert count_tests(output) == number
    assert count_tests(output.replace("\n", "\r\n")) == number


def test_a_hostile_line_takes_no_longer_than_another() -> None:
    for head in ("Ran 1 test in 1s\nOK (", "Tests: ", "1 passed, ", "Tests: 1, Assertions: 1, "):
        count_tests(head + "a=1, 1 passed, " * 200_000)


def test_reports_are_counted_without_the_skipped() -> None:
    suite = '<?xml version="1.0"?><testsuite tests="3"><testcase name="a"/><testcase name="b"><skipped/></testcase>'
    assert count_junit_tests([f"{suite}</testsuite>", "<project/>"]) == 1
    assert count_junit_tests(["<project/>"]) is None
    assert count_junit_tests([]) is None


def build_check(tests: int | None, before: int | None) -> Check:
    (check,) = compare_with_base(
        [Check(name="pytest", exit_code=0, seconds=1, tests=tests)],
        [Check(name="pytest", exit_code=0, seconds=1, tests=before)],
    )
    return check


@pytest.mark.parametrize(
    ("tests", "before", "words"),
    [
        (39, 40, "39 tests, 40 on the base"),
        (0, 40, "0 tests, 40 on the base"),
        (0, None, "0 tests"),
        (0, 0, "0 tests, 0 on the base"),
        (None, 40, "no summary of its tests, 40 on the base"),
    ],
)
def test_fewer_tests_than_on_the_base_are_a_risk(tests: int | None, before: int | None, words: str) -> None:
    (risk,) = find_risks(RiskInputs(changes=(), checks=[build_check(tests, before)]))
    assert (risk.kind, str(risk)) == ("fewer", f"runs fewer tests than its base: pytest ({words})")


@pytest.mark.parametrize(("tests", "before"), [(40, 40), (41, 40), (1, None), (None, None), (None, 0), (3, 0)])
def test_as_many_tests_as_on_the_base_are_not(tests: int | None, before: int | None) -> None:
    assert find_risks(RiskInputs(changes=(), checks=[build_check(tests, before)])) == ()
