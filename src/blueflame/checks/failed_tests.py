"""Which tests failed, by the output of known runners, and whether they failed before, too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from blueflame.model.verdict import Check

MAX_NAMES = 1000  # with more of them only the exit code is compared
MAX_NAME = 200
ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
PATTERNS = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^(?:FAILED|ERROR) (\S+?\.py(?:::.+?)?)(?: - .*)?$",  # pytest
        r"^(?:FAIL|ERROR): (\w+ \([\w.]+\))",  # unittest, Django
        r"^\s*--- FAIL: (\S+)",  # go
        r"^FAIL\t(\S+ \[(?:build|setup) failed\])",  # go
        r"^test (\S+(?: - .+?)?) \.\.\. FAILED$",  # cargo
        r"^\s+FAIL \[[^]]*\] (.+)$",  # nextest
        r"^\s*● (.+ \u203a .+)$",  # jest
        r"^ *FAIL +(?:\S+ +){0,2}?(\S+\.[cm]?[jt]sx?(?: > .+)?)$",  # jest and vitest, with the name of the project
        r"^\s*not ok \d+ -? ?(.+?)(?: # .*)?$",  # TAP: node, tape
        r"^\s*✘ \[fail\]: (.+)$",  # ava
        r"^\s*✖ (.+?) \([\d.]+m?s\)$",  # node:test
        r"^\s*\d+ - (\S+) \((?:Failed|Timeout|SEGFAULT|Subprocess aborted|Not Run|ILLEGAL|Exception: \w+)\)",  # ctest
        r"^(?:FAIL|XPASS): (\S+)$",  # automake
        r"^ *\d+/\d+ (\S+(?: / \S+)?) +(?:FAIL|TIMEOUT|ERROR) +[\d.]+s",  # meson
        r"^\[ERROR\] (\S+?)(?: --|  Time elapsed| +Time elapsed).*<<< (?:FAILURE|ERROR)!",  # surefire
        r"^(\S+ > .+?) FAILED$",  # gradle
        r"^rspec \S+ # (.+)$",
        r"^\s*(?:Failure|Error):\s*\n\s*(\S+#\S+)",  # minitest
        r"^\d+\) (\S+::\w+)",  # phpunit
        r"^\s*Failed (\S+) \[",  # dotnet
    )
)
# pytest with a report that does not list failures, such as -rxXs: each has a heading
PYTEST_SECTION = re.compile(r"^=+ (?:FAILURES|ERRORS) =+\n(.*?)(?=^=+ [^=]+ =+$|\Z)", re.MULTILINE | re.DOTALL)
PYTEST_TITLE = re.compile(r"^_+ (?:ERROR at \w+ of |ERROR collecting )?([A-Za-z].*?) _+$", re.MULTILINE)
MOCHA_SECTION = re.compile(r"^\s+\d+ failing\n(.*)", re.MULTILINE | re.DOTALL)
MOCHA_TITLE = re.compile(r"^ +\d+\) (.+(?:\n {7,}\S.*)*?):$", re.MULTILINE)


def find_failed_tests(output: str) -> tuple[str, ...]:
    """The names of the tests that failed, sorted; none when no known runner wrote this, or there are too many."""
    text = ESCAPES.sub("", output).replace("\r\n", "\n")
    names = sorted({name[:MAX_NAME] for name in _iter_names(text)})
    return tuple(names) if len(names) <= MAX_NAMES else ()


def _iter_names(text: str) -> Iterator[str]:
    for pattern in PATTERNS:
        yield from (match[1].strip() for match in pattern.finditer(text))
    if not PATTERNS[0].search(text):
        for part in PYTEST_SECTION.finditer(text):
            yield from (match[1] for match in PYTEST_TITLE.finditer(part[1]))
    section = MOCHA_SECTION.search(text)
    if section is not None:
        yield from (" ".join(match[1].split()) for match in MOCHA_TITLE.finditer(section[1]))


def compare_with_base(checks: Iterable[Check], on_base: Sequence[Check]) -> tuple[Check, ...]:
    """Add to each check how many tests it ran on the base, and mark it where it is red as it was there.

    Red as before: the same tests fail, or fewer. Without names the exit code must be the same. What timed out, or has
    names on one side only, is never marked.
    """
    before = {check.name: check for check in on_base}
    return tuple(
        replace(
            check,
            red_before=is_as_red(check, before.get(check.name)),
            tests_before=before[check.name].tests if check.name in before else None,
        )
        for check in checks
    )


def find_broken_on_base(blamed: Iterable[Check], on_base_now: Sequence[Check]) -> tuple[Check, ...]:
    """Return the checks that fail on the base now, of those that are blamed on a result: then no result is to blame.

    Without any of them there, a setup ended the run, and it has failed if anything did.
    """
    names = {check.name for check in blamed}
    if names.isdisjoint(check.name for check in on_base_now):
        names = {check.name for check in on_base_now}
    return tuple(check for check in on_base_now if not check.passed and check.name in names)


def is_as_red(check: Check, before: Check | None) -> bool:
    if before is None or check.passed or before.passed or check.timed_out or before.timed_out:
        return False
    if check.failures or before.failures:
        return bool(check.failures) and set(check.failures) <= set(before.failures)
    return check.exit_code == before.exit_code
