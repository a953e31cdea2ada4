"""Find what makes tests green without checking: exits, constant truths, caught failures, code after a return.

Lines that end the run count wherever they are new; the others only in tests that were there before and outside of
tests: a new test may do as it likes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from blueflame.checks.code_tests import (
    GO,
    JAVA,
    PYTHON,
    RUBY,
    RUST,
    SCRIPT,
    SourceLine,
    TestCase,
    TestLanguage,
    is_assertion,
)
from blueflame.lazy_pattern import compile_later

_LITERAL = r"(?:true|True|1|!0|'[^']*'|\"[^\"]*\"|nil|null|None)"

ENDS_RUN: Mapping[int, re.Pattern[str]] = {
    id(PYTHON): compile_later(
        r"\bos\.(?:_exit|abort|kill|execv\w*)\(|\bsys\.exit\(|\bpytest\.exit\(|^(?:exit|quit)\(|\bSystemExit\b|"
        r"\bfaulthandler\._|\bAssertionError\s*=[^=]|\bsys\.(?:modules|settrace|setprofile)\b.*=|"
        r"\bdef pytest_(?:runtest|collection|sessionfinish|pyfunc_call|ignore_collect|pycollect|itemcollected|"
        r"exception_interact|report_teststatus|generate_tests)|\bshouldfail\b|\.exitstatus\s*="
    ),
    id(SCRIPT): compile_later(
        r"\bprocess\.(?:exit|abort|kill|reallyExit)\(|\bprocess\.exitCode\s*=|\bDeno\.exit\(|"
        r"\b(?:global(?:This)?\.)?(?:expect|assert(?:\.\w+)?)\s*=[^=>]|\bexpect\.extend\("
    ),
    id(GO): compile_later(r"\bos\.Exit\((?!m\.Run|code|exit|status|ret|rc)|\bsyscall\.Exit\("),
    id(RUST): compile_later(r"\bprocess::(?:exit|abort)\(|\bmacro_rules!\s*(?:assert|assert_eq|assert_ne|panic)\b"),
    id(JAVA): compile_later(r"\bSystem\.exit\(|\bRuntime\.getRuntime\(\)\.(?:halt|exit)\(|\bexitProcess\("),
    id(RUBY): compile_later(r"(?:^|\s|\.)(?:exit!?|abort)(?:\s|\(|$)|\bdef (?:assert|refute|expect)\w*|\bat_exit\b"),
}
DEFUSES: Mapping[int, re.Pattern[str]] = {
    id(PYTHON): compile_later(
        rf"\bor (?:True|1)\b|^assert \(?(?:True|1|not False|\".*\"|'.*')\)?(?:,|$)|^assert \(.*, *[\"']|"
        rf"\bassertTrue\(True\)|\bassertEqual\(({_LITERAL}), *\1\)|^assert ([\w.]+) == \2$|"
        r"^if (?:False|0|TYPE_CHECKING)\s*:|^while False|"
        r"^except\s*:|^except \(?(?:\w+, *)*(?:AssertionError|Exception|BaseException)\b|"
        r"\bsuppress\(.*\b(?:AssertionError|Exception|BaseException)\b|parametrize\(.*\[\s*\]\s*\)|"
        r"mark\.flaky\b|\breruns\s*="
    ),
    id(SCRIPT): compile_later(
        rf"\|\| *true\b|\bexpect\(({_LITERAL})\)\.to\w+\(\1\)|\bexpect\(true\)\.toBe(?:Truthy|Defined)|"
        r"\bassert(?:\.ok)?\((?:true|1)\b|\bassert\.\w*[eE]qual\(([\w.]+), *\2\)|"
        r"\bcatch\b.*\{\s*\}|^\}? ?catch\b|\.catch\(\(?\w*\)? *=>|\.each\(\[\s*\]\)|\bif *\(false\)|"
        r"\bretryTimes\(|\bretry: *[1-9]|\bthis\.retries\(|expect\.hasAssertions\(\) *\|\|"
    ),
    id(GO): compile_later(
        r"^if false\b|\|\| true\b|\brecover\(\)|\bassert\.(?:True|False)\(t, *(?:true|false)\)|"
        r"\b(?:assert|require)\.Equal\(t, *([\w.\"]+), *\1\)|^_ = "
    ),
    id(RUST): compile_later(
        r"\bassert!\(true\b|\bassert_eq!\(([\w.]+), *\1\)|\|\| true\b|\bcatch_unwind\b|^if false\b|"
        r"#\[should_panic|#\[cfg\(not\(test\)\)\]|#\[cfg_attr\(.*ignore"
    ),
    id(JAVA): compile_later(
        rf"\|\| true\b|\bassertTrue\(true\b|\bassertEquals\(({_LITERAL}|\d+), *\1\)|\bif *\(false\)|"
        r"\bcatch *\((?:final )?(?:AssertionError|Throwable|Error|Exception)\b|\benabled *= *false|"
        r"@(?:RetryingTest|RepeatedIfExceptionsTest|EnabledIf\w*)|@Test\(expected *= *(?:Exception|Throwable)\b"
    ),
    id(RUBY): compile_later(
        rf"\|\| true\b|\bassert(?:\s+|\()true\b|\bexpect\(({_LITERAL})\)\.to (?:eq|be)\b.*\1|^if false\b|"
        r"^rescue(?:\s+(?:Exception|StandardError|Minitest::Assertion|RSpec::\S+))?(?:\s*=>.*)?$|\bretry: *[1-9]"
    ),
}  # fmt: skip
RETURN = compile_later(r"^(?:return(?: None| nil)?;?|next)$")
MOCKS = compile_later(
    r"(?:\bpatch(?:\.object)?\(|\bsetattr\(|\bspyOn\(|\bstub(?:s|bed)?\(|\breceive\(|\bwhen\()[^)]*?[\"':.]([\w]+)[\"']?\s*[,)(]"
)


def find_lines(
    patterns: Mapping[int, re.Pattern[str]], language: TestLanguage, lines: Sequence[SourceLine]
) -> tuple[SourceLine, ...]:
    """Those that match the pattern of the language (`ENDS_RUN`, `DEFUSES`), without comments."""
    pattern = patterns[id(language)]
    return tuple(line for line in lines if not line.text.startswith(language.comment) and pattern.search(line.text))


def find_unreached(language: TestLanguage, test: TestCase) -> SourceLine | None:
    """The first plain return of a test that has assertions behind it."""
    inner = min((line.indent for line in test.body[1:] if line.text and line.indent > test.body[0].indent), default=0)
    for n, line in enumerate(test.body):
        if line.indent == inner and RETURN.match(line.text):
            behind = test.body[n + 1 :]
            return line if any(is_assertion(language, each.text) for each in behind) else None
    return None


def find_mocked_subjects(language: TestLanguage, test: TestCase) -> Iterator[SourceLine]:
    """Lines that replace a function whose own result the test asserts."""
    asserted = " ".join(line.text for line in test.body if is_assertion(language, line.text))
    for line in test.body:
        for match in MOCKS.finditer(line.text):
            if re.search(rf"\b{re.escape(match[1])}\(", asserted) and not is_assertion(language, line.text):
                yield line
