"""How many tests ran, by what known runners print at their end or write as JUnit XML.

Tests that were skipped, ignored, deselected or expected to fail did not check anything: they do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from blueflame.checks.failed_tests import ESCAPES
from blueflame.lazy_pattern import compile_later

MAX_LINE_LENGTH = 300  # a summary is shorter, and no pattern is slow
NUMBER_AND_WORD = compile_later(r"(\d+) (\w+)")
RAN = frozenset({"passed", "failed", "xpassed"})


def count_tests(output: str) -> int | None:
    """The tests that ran, summed over all summaries; None when no known runner printed one."""
    text = "\n".join(line[:MAX_LINE_LENGTH] for line in ESCAPES.sub("", output).splitlines())
    counts = [_read_summary(match) for pattern in SUMMARIES for match in pattern.finditer(text)]
    return sum(counts) if counts else _count_go_tests(text)


def count_junit_tests(reports: Iterable[str]) -> int | None:
    """The tests of JUnit XML reports, without the skipped ones; None without any report.

    By patterns: the reports are an agent's, and a parser of XML can be made to use up memory.
    """
    counts = [len(TEST_CASE.findall(text)) - len(SKIPPED_CASE.findall(text)) for text in reports if SUITE.search(text)]
    return max(sum(counts), 0) if counts else None


def _read_summary(match: re.Match[str]) -> int:
    """Sum what ran: the groups `ran`, the numbers in `words` that go with a word of RAN, less the groups `not`."""
    found = {name: number for name, number in match.groupdict().items() if number}
    worded = sum(int(number) for number, word in NUMBER_AND_WORD.findall(found.pop("words", "")) if word in RAN)
    signed = (-int(number) if name.startswith("not") else int(number) for name, number in found.items())
    return max(worded + sum(signed), 0)


SUMMARIES = tuple(
    compile_later(pattern, re.MULTILINE)
    for pattern in (
        # pytest: `3 failed, 39 passed, 2 skipped in 0.12s`, with or without its frame
        r"^(?:=+ )?(?P<words>\d+ [a-z]+(?: passed)?(?:, \d+ [a-z]+(?: passed)?)*) in [\d.]+s\b",
        r"^(?:=+ )?no tests ran in [\d.]+s\b",
        r"^Ran (?P<ran>\d+) tests? in [\d.]+s\n+(?:[A-Z ]+\((?:(?:[a-z ]+=\d+, )*?skipped=(?P<not1>\d+))?"
        r"(?:(?:, )?(?:[a-z ]+=\d+, )*?expected failures=(?P<not2>\d+))?)?",  # unittest, Django
        r"^Tests: +(?P<words>\d+ [a-z]+(?:, \d+ [a-z]+)*)$",  # jest
        r"^ *Tests +(?P<words>\d+ [a-z ]+(?: \| \d+ [a-z ]+)*) \(\d+\)",  # vitest
        r"^ *No tests? (?:files )?found\b",  # jest, vitest
        r"^ +(?P<ran>\d+) passing\b.*(?:\n +\d+ pending)?(?:\n +(?P<ran2>\d+) failing)?",  # mocha
        r"^(?:\u2139|#) pass +(?P<ran>\d+)\n(?:(?:\u2139|#) fail +(?P<ran2>\d+))?",  # node --test and other TAP
        r"^ +(?P<ran>\d+) tests? passed$",  # ava; where one failed it does not count the others
        r"^ +(?P<ran>\d+) pass\n(?: +\d+ (?:skip|todo)\n)*(?: +(?P<ran2>\d+) fail)?",  # bun
        r"^(?:ok|FAILED) \| (?P<ran>\d+) passed.* \| (?P<ran2>\d+) failed",  # deno
        r"^test result: \w+\. (?P<ran>\d+) passed; (?P<ran2>\d+) failed;",  # cargo
        r"^ +Summary \[[^]]*\] +(?P<ran>\d+)(?:/\d+)? tests? run:",  # nextest
        # surefire, without the lines of single classes; gradle, where a test failed
        r"^(?:\[\w+\] )?Tests run: (?P<ran>\d+), Failures: \d+, Errors: \d+, Skipped: (?P<not1>\d+)$",
        r"^(?P<ran>\d+) tests? completed(?:, \d+ failed)?(?:, (?P<not1>\d+) skipped)?$",
        r"^(?P<ran>\d+) examples?, \d+ failures?(?:, (?P<not1>\d+) pending)?",  # rspec
        # minitest and test-unit
        r"^(?P<ran>\d+) (?:runs|tests), \d+ assertions, \d+ failures, \d+ errors, (?P<not1>\d+) (?:skips|pendings)"
        r"(?:, (?P<not2>\d+) omissions)?",
        r"^\d+% tests passed, \d+ tests failed out of (?P<ran>\d+)",  # ctest
        r"^No tests were found!!!",
        r"^# TOTAL: +(?P<ran>\d+)\n# PASS: +\d+\n# SKIP: +(?P<not1>\d+)\n# XFAIL: +(?P<not2>\d+)",  # automake
        r"^Ok: +(?P<ran>\d+) *\n(?:Expected Fail: +\d+ *\n)?Fail: +(?P<ran2>\d+)",  # meson
        r"^OK \((?P<ran>\d+) tests?, \d+ assertions?\)",  # phpunit
        r"^Tests: (?P<ran>\d+), Assertions: \d+(?:.*\bSkipped: (?P<not1>\d+))?",
        r"^No tests executed!",
        r"^(?:Passed|Failed)! +- Failed: +(?P<ran>\d+), Passed: +(?P<ran2>\d+), Skipped: +\d+",  # dotnet
        r"^(?P<ran>\d+) tests?, \d+ failures?(?:, (?P<not1>\d+) (?:skipped|excluded))?$",  # ExUnit, bats
        r"^Executed (?P<ran>\d+) tests?, with (?:(?P<not1>\d+) tests? skipped and )?\d+ failures?",  # XCTest
        r"^Files=\d+, Tests=(?P<ran>\d+),",  # prove
    )
)
GO_TEST = compile_later(r"^\s*--- (?:PASS|FAIL): ", re.MULTILINE)
GO_PASSED = compile_later(r"^\s*--- PASS: ", re.MULTILINE)
GO_PACKAGE = compile_later(r"^(?:ok|FAIL) *\t\S+\t(?:[\d.]+s|\(cached\))(?!.*\[no tests to run\])", re.MULTILINE)
GO_EMPTY = compile_later(r"\[no test files\]|\[no tests to run\]")
SUITE = compile_later(r"<testsuite[s\s>]")
TEST_CASE = compile_later(r"<testcase[\s>]")
SKIPPED_CASE = compile_later(r"<skipped[\s/>]")


def _count_go_tests(text: str) -> int | None:
    """`go test -v` names each test; without -v only the packages are named, so they are counted."""
    if GO_PASSED.search(text):
        return len(GO_TEST.findall(text))
    packages = len(GO_PACKAGE.findall(text))
    return packages if packages or GO_EMPTY.search(text) else None
