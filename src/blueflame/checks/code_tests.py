"""Recognise tests in six families of languages: where they are, what they assert, how they are skipped.

By patterns and indentation: the result is a hint to a person, so it needs no parser. Lines are cut first, so that no
pattern is slow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field

from blueflame.lazy_dataclass import dataclass
from blueflame.lazy_pattern import compile_later

MAX_LINE_LENGTH = 400
APPROXIMATE_COMPARISON = r"approx|[aA]lmost_?[eE]qual|toBeCloseTo|InDelta|InEpsilon|be_within|isCloseTo|allclose"


@dataclass(frozen=True, slots=True, kw_only=True)
class TestLanguage:
    files: re.Pattern[str]  # names of files that hold mostly tests
    opens: re.Pattern[str]  # a test: its indentation and its name are the first and the second group that matched
    asserts: re.Pattern[str]
    exact: re.Pattern[str]  # assertions that allow one value
    vague: re.Pattern[str]  # assertions that allow several
    skips: re.Pattern[str]  # marks that keep a test, or all others, from running
    collected: re.Pattern[str]  # names of files in which runners look for tests
    comment: tuple[str, ...] = ("//", "/*", "*")
    suffixes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceLine:
    number: int
    text: str  # stripped
    indent: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class TestCase:
    name: str
    line: int
    body: tuple[SourceLine, ...]  # its first line included

    __test__ = False  # pytest must not collect it


def find_language(path: str) -> TestLanguage | None:
    return next((language for language in LANGUAGES if path.endswith(language.suffixes)), None)


def is_test_path(path: str) -> bool:
    """Whether a file holds tests, by its name and folder."""
    language = find_language(path)
    return language is not None and language.files.search(path) is not None


def may_hold_tests(path: str) -> bool:
    """Whether a file may hold tests; in Rust every file may."""
    return is_test_path(path) or path.endswith(".rs")


def split_lines(text: str) -> tuple[str, ...]:
    return tuple(line[:MAX_LINE_LENGTH] for line in text.splitlines())


def find_tests(language: TestLanguage, lines: tuple[str, ...]) -> tuple[TestCase, ...]:
    text = "\n".join(lines)
    starts = _index_line_starts(text)
    return tuple(_build_test(lines, starts, match) for match in language.opens.finditer(text))


def _index_line_starts(text: str) -> dict[int, int]:
    starts, at = {}, 0
    for number, line in enumerate(text.split("\n")):
        starts[at] = number
        at += len(line) + 1
    return starts


def _build_test(lines: tuple[str, ...], starts: dict[int, int], match: re.Match[str]) -> TestCase:
    indent, name = [group for group in match.groups() if group is not None][:2]
    first = starts[match.start()]
    head = match.group().count("\n")
    body = (*range(first, first + head + 1), *_find_block(lines, first + head + 1, len(indent.expandtabs())))
    return TestCase(name, first + 1, tuple(build_line(n + 1, lines[n]) for n in body))


def build_line(number: int, text: str) -> SourceLine:
    wide = text.expandtabs()
    return SourceLine(number, text.strip(), len(wide) - len(wide.lstrip()))


def _find_block(lines: tuple[str, ...], start: int, indent: int) -> Iterator[int]:
    """Yield the lines that are indented deeper, and the closing brackets of a signature over several lines."""
    for n in range(start, len(lines)):
        line = lines[n].expandtabs()
        plain = line.strip()
        if plain and len(line) - len(line.lstrip()) <= indent and not plain.startswith((")", "]")):
            return
        if plain.startswith(")") and plain.endswith((");", ")")) and len(line) - len(line.lstrip()) <= indent:
            return
        yield n


def is_assertion(language: TestLanguage, line: str) -> bool:
    return not line.startswith(language.comment) and language.asserts.search(line) is not None


def is_exact(language: TestLanguage, line: str) -> bool:
    return is_assertion(language, line) and language.exact.search(line) is not None and not is_vague(language, line)


def is_vague(language: TestLanguage, line: str) -> bool:
    return is_assertion(language, line) and language.vague.search(line) is not None


def is_skip(language: TestLanguage, line: str) -> bool:
    return not line.startswith(language.comment) and language.skips.search(line) is not None


EMPTY_STATEMENT = compile_later(r"""^(?:pass|\.\.\.|return;?|end|[\s(){}\[\];,]*|(?:'''|\"\"\").*)$""")


def is_effective(language: TestLanguage, line: str) -> bool:
    return not line.startswith(language.comment) and EMPTY_STATEMENT.match(line) is None


def _build_language(
    suffixes: tuple[str, ...],
    *,
    opens: str,
    vague: str,
    comment: tuple[str, ...] = ("//", "/*", "*"),
    **patterns: str,
) -> TestLanguage:
    """`patterns`: the other fields of a TestLanguage, by name."""
    return TestLanguage(
        suffixes=suffixes,
        comment=comment,
        opens=compile_later(opens, re.MULTILINE),
        vague=compile_later(f"{vague}|{APPROXIMATE_COMPARISON}"),
        **{name: compile_later(pattern) for name, pattern in patterns.items()},
    )


PYTHON = _build_language(
    (".py",),
    files=r"(?:^|/)(?:tests?/.*|test_[^/]*|[^/]*_test|conftest)\.py$|(?:^|/)tests?/",
    collected=r"(?:^|/)(?:test_[^/]*|[^/]*_test|tests)\.py$",
    opens=r"^([ \t]*)(?:async[ \t]+)?def[ \t]+(test\w*)[ \t]*\(",
    asserts=r"\bassert\w*\b|\bpytest\.(?:raises|warns)\b|\bself\.fail\(",
    exact=r"==|\bis\b|[rR]aises(?:Regex)?\((?!\(?(?:Exception|BaseException)\b)|assert_?(?:List|Dict|Set|Tuple)?[eE]qual\b|assertIs\b|assert_called(?:_once)?_with",
    vague=r"is not None|[rR]aises\(\(?(?:Exception|BaseException)\b|assertTrue|assertIsNotNone|assertIn\b|\bin\b|"
    r"[<>]=?|!=|isinstance|assert_called\b|assertGreater|assertLess|^assert [\w.]+(?:\(.*\))?$",
    skips=r"mark\.(?:skip|skipif|xfail)\b|\bpytest\.(?:skip|xfail|importorskip)\(|\bunittest\.(?:skip\w*|expectedFailure)\b|"
    r"^@skip\w*\b|\bself\.skipTest\(|\bSkipTest\b|\b__test__\s*=\s*False|\bcollect_ignore|\bimportorskip\b",
    comment=("#",),
)
SCRIPT = _build_language(
    (".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts", ".vue"),
    files=r"\.(?:test|spec|cy)\.\w+$|(?:^|/)(?:__tests__|tests?|e2e|cypress)/",
    collected=r"\.(?:test|spec|cy)\.\w+$|(?:^|/)__tests__/|(?:^|/)test/[^/]*$",
    opens=r"^([ \t]*)(?:[xf]?it|[xf]?test|specify)(?:\.\w+(?:\([^()]*\))?)*\s*\(\s*(?:'|\"|`)(.+?)(?:'|\"|`)",
    asserts=r"\bexpect\w*\s*\(|\bassert(?:\.\w+)*\s*\(|\.should\b",
    exact=r"\.(?:toBe|toEqual|toStrictEqual|toHaveBeenCalledWith|toMatchObject|deepEqual|deepStrictEqual|strictEqual|equal|eql)\(",
    vague=r"\.(?:toBeDefined|toBeTruthy|toBeFalsy|toHaveBeenCalled|toBeGreaterThan\w*|toBeLessThan\w*|toContain\w*|toMatch|"
    r"toBeInstanceOf|exist|ok)\b|\.not\.",
    skips=r"\b(?:it|test|describe|context|suite)(?:\.\w+)*\.(?:skip|only|todo|fails|failing|fixme|skipIf|runIf)\b|"
    r"^(?:x|f)(?:it|test|describe|context)\s*[.(]|\b(?:this|t|ctx|context)\.(?:skip|todo)\(|\bpending\(|"
    r"\{\s*(?:skip|todo|only):\s*(?:true|['\"])",
)
GO = _build_language(
    (".go",),
    files=r"_test\.go$",
    collected=r"_test\.go$",
    opens=r"^()func[ \t]+((?:Test|Fuzz|Example)\w*)[ \t]*\(",
    asserts=r"\b[tbf]\.(?:Error|Errorf|Fatal|Fatalf|Fail|FailNow)\(|\b(?:assert|require)\.\w+\(",
    exact=r"\.(?:Equal|EqualValues|Exactly|JSONEq|ErrorIs|ElementsMatch|Same)\(",
    vague=r"\.(?:NotNil|NotEmpty|True|NoError|Contains|Len|Greater\w*|Less\w*|NotEqual)\(",
    skips=r"\b[tb]\.Skip(?:f|Now)?\(|^//go:build\s+(?:ignore|never|none|disabled|manual|integration|e2e)\b|"
    r"^// \+build ignore|\btesting\.Short\(\)",
    comment=("// ", "/*", "*"),
)
RUST = _build_language(
    (".rs",),
    files=r"(?:^|/)tests/|_tests?\.rs$",
    collected=r"(?:^|/)tests/[^/]*\.rs$",
    opens=r"^([ \t]*)#\[(?:\w+::)*test\b[^\]\n]*\][ \t]*\n(?:[ \t]*#\[[^\n]*\n)*"
    r"[ \t]*(?:pub[ \t]+)?(?:async[ \t]+)?fn[ \t]+(\w+)",
    asserts=r"\b(?:debug_)?assert\w*!|\bpanic!|\bunreachable!|\.unwrap_err\(",
    exact=r"\bassert_(?:eq|ne)!",
    vague=r"\bassert!\(|is_(?:ok|some)\(",
    skips=r"#\[ignore\b|#\[cfg\((?:any\(\)|FALSE)\)\]",
)
JAVA = _build_language(
    (".java", ".kt", ".kts", ".groovy", ".scala"),
    files=r"(?:Tests?|IT|Spec|TestCase)\.\w+$|(?:^|/)src/test/",
    collected=r"(?:Tests?|IT|Spec|TestCase)\.\w+$|(?:^|/)Test[^/]*$",
    opens=r"^([ \t]*)@(?:Test|ParameterizedTest|RepeatedTest)\b[^\n]*\n(?:[ \t]*@[^\n]*\n)*"
    r"[ \t]*(?:[\w<>\[\],]+[ \t]+)*(?:`([^`\n]+)`|(\w+))[ \t]*\(",
    asserts=r"\bassert\w*\s*\(|\bverify\w*\s*\(|\bfail\(|\bshould\w*\b|@Test\(expected",
    exact=r"\bassert(?:Equals|Same|ArrayEquals|IterableEquals|LinesMatch)\b|\.isEqualTo\(|\.isSameAs\(|\.containsExactly\(",
    vague=r"\bassert(?:NotNull|True|NotEquals|InstanceOf)\b|\.is(?:NotNull|True|NotEmpty|InstanceOf)\b|\.contains\(",
    skips=r"@(?:Disabled|Ignore)\w*|\bassum(?:e|ing)\w*\(|\bAssumptions\.",
)
RUBY = _build_language(
    (".rb",),
    files=r"(?:_spec|_test)\.rb$|(?:^|/)test_[^/]*\.rb$|(?:^|/)(?:spec|test)/",
    collected=r"(?:_spec|_test)\.rb$|(?:^|/)test_[^/]*\.rb$",
    opens=r"^([ \t]*)[xf]?(?:it|specify|test|example)[ \t]*\(?[ \t]*['\"](.+?)['\"]|^([ \t]*)def[ \t]+(test_\w+)",
    asserts=r"\bassert\w*\b|\brefute\w*\b|\bexpect\s*[({]|\.should\b|\bis_expected\b|\bmust_\w+\b",
    exact=r"\bassert_(?:equal|same)\b|\bto\s+(?:eq|eql|equal|be)\b|\bmust_equal\b|match_array",
    vague=r"\bassert\s|assert_not_nil|be_truthy|be_present|be_a\b|be_an\b|not_to\b|\binclude\b|be_[<>]",
    skips=r"^(?:skip|pending)\b|^(?:x|f)(?:it|describe|context|specify)\b|\bskip:\s|\bpending:\s|\bfocus:\s",
    comment=("#",),
)
LANGUAGES = (PYTHON, SCRIPT, GO, RUST, JAVA, RUBY)
