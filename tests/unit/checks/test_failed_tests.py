"""The names of failed tests are read from the output of known runners, and compared with the base."""

from __future__ import annotations

import pytest

from blueflame.checks.failed_tests import compare_with_base, find_failed_tests
from blueflame.model.verdict import Check

PYTEST = """\
=================================== FAILURES ===================================
FAILED tests/test_a.py::test_one[a b] - AssertionError: FAILED it
\x1b[31mFAILED\x1b[0m tests/test_a.py::TestX::test_two
ERROR tests/test_b.py - ImportError: no
========================= 2 failed, 1 error in 0.10s =========================
"""
PYTEST_WITHOUT_A_LIST = """\
==================================== ERRORS ====================================
_________________ ERROR at setup of TestX.test_three ___________________________
fixture 'x' not found
=================================== FAILURES ===================================
____________________________ test_one[asyncio-a b] _____________________________
    def test_one():
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _
a.py:118: ConnectError
=========================== short test summary info ============================
SKIPPED [1] tests/test_a.py:273: not here
============ 1 failed, 14 passed, 1 skipped, 1 error in 1.87s =============
___________________________________ summary ____________________________________
"""
MOCHA = """\
  2 passing (3ms)
  2 failing

  1) Array
       #indexOf()
         should return -1:
     Error: expected
      at Context.<anonymous> (test.js:5:1)

  2) top level:
     AssertionError
"""
OUTPUTS = {
    "pytest": (PYTEST, ("tests/test_a.py::TestX::test_two", "tests/test_a.py::test_one[a b]", "tests/test_b.py")),
    "pytest without a list": (PYTEST_WITHOUT_A_LIST, ("TestX.test_three", "test_one[asyncio-a b]")),
    "unittest": (
        "FAIL: test_a (tests.test_x.T.test_a)\nERROR: test_b (x.T)\n",
        ("test_a (tests.test_x.T.test_a)", "test_b (x.T)"),
    ),
    "go": (
        "--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/sub (0.01s)\nFAIL\n"
        "FAIL\texample.com/x [build failed]\nFAIL\ta\t0.1s\n",
        ("TestA", "TestA/sub", "example.com/x [build failed]"),
    ),
    "cargo": ("test tests::adds ... FAILED\ntest tests::b ... ok\n", ("tests::adds",)),
    "jest": ("FAIL src/a.test.js\n  \u25cf math \u203a adds\n", ("math \u203a adds", "src/a.test.js")),
    "vitest": (" FAIL  src/a.test.ts > math > adds\n", ("src/a.test.ts > math > adds",)),
    "vitest, projects": (
        " FAIL  |core| src/a.test.ts > adds\n FAIL  |web|  TS  b.test-d.ts > types\n FAIL  one of the tests\n",
        ("b.test-d.ts > types", "src/a.test.ts > adds"),
    ),
    "jest, projects": ("FAIL web packages/web/a.test.js\n", ("packages/web/a.test.js",)),
    "TAP": ("ok 1 - a\nnot ok 2 - b c # time=1ms\n", ("b c",)),
    "mocha": (MOCHA, ("Array #indexOf() should return -1", "top level")),
    "ctest": ("The following tests FAILED:\n\t  2 - adds (Failed)\n\t 3 - b (SEGFAULT)\n", ("adds", "b")),
    "automake": ("PASS: tests/a\nFAIL: tests/jqtest\nERROR: no\n# FAIL:  1\n", ("tests/jqtest",)),
    "meson": (
        " 1/3 inih:test_a    OK              0.12s\n 2/3 inih:test_b    FAIL            0.14s   exit status 1\n"
        " 3/3 c              TIMEOUT        30.01s   killed by signal 15 SIGTERM\n",
        ("c", "inih:test_b"),
    ),
    "surefire": ("[ERROR] a.FooTest.bar -- Time elapsed: 0.01 s <<< FAILURE!\n", ("a.FooTest.bar",)),
    "gradle": ("FooTest > adds() FAILED\n    java.lang.AssertionError\n", ("FooTest > adds()",)),
    "rspec": ("rspec ./spec/a_spec.rb:12 # A adds two\n", ("A adds two",)),
    "minitest": ("Failure:\nFooTest#test_a [test/a.rb:3]:\n", ("FooTest#test_a",)),
    "no runner": ("make: *** [test] Error 1\n", ()),
}


@pytest.mark.parametrize("runner", OUTPUTS)
def test_the_names_of_failed_tests_are_read(runner: str) -> None:
    output, names = OUTPUTS[runner]
    assert find_failed_tests(output) == names


def test_too_many_names_are_no_names() -> None:
    assert find_failed_tests("".join(f"--- FAIL: Test{n}\n" for n in range(2000))) == ()


def check(*failures: str, exit_code: int = 1, timed_out: bool = False) -> Check:
    return Check(name="make test", exit_code=exit_code, seconds=1.0, failures=failures, timed_out=timed_out)


@pytest.mark.parametrize(
    ("before", "now", "acceptable"),
    [
        (check("a", "b"), check("a", "b"), True),
        (check("a", "b"), check("a", exit_code=9), True),  # mocha's exit code is a count
        (check("a"), check("a", "b"), False),
        (check("a"), check("b"), False),
        (check("a"), check(), False),  # the runner itself broke
        (check(), check("a"), False),
        (check(exit_code=2), check(exit_code=2), True),
        (check(exit_code=1), check(exit_code=2), False),
        (check(exit_code=0), check(), False),
        (check(timed_out=True), check(timed_out=True), False),
        (check("a", timed_out=True), check("a"), False),
    ],
)
def test_a_check_is_accepted_only_when_it_is_no_redder_than_before(before: Check, now: Check, acceptable: bool) -> None:
    (marked,) = compare_with_base([now], [before])
    assert marked.is_acceptable is acceptable
    assert (marked.state == "red before, same failures") is acceptable


def test_a_check_that_did_not_run_on_the_base_is_not_accepted() -> None:
    assert [each.is_acceptable for each in compare_with_base([check("a")], [])] == [False]
