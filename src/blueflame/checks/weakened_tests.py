"""Find tests that check less than before: deleted, emptied, skipped, fewer or looser assertions.

A hint, not a proof: a test that moved or was renamed is recognised by its body, and a person judges the rest.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from blueflame.checks.code_tests import (
    SourceLine,
    TestCase,
    TestLanguage,
    build_line,
    find_language,
    find_tests,
    is_assertion,
    is_effective,
    is_exact,
    is_skip,
    is_test_path,
    is_vague,
    split_lines,
)
from blueflame.checks.defused_tests import DEFUSES, ENDS_RUN, find_lines, find_mocked_subjects, find_unreached
from blueflame.lazy_dataclass import dataclass
from blueflame.model.changes import Weakening

MAX_SHOWN_LINES = 5
MIN_SIMILARITY = 0.5  # of the lines that do something
MAX_COMPARED_PAIRS = 20_000  # pairs of tests
TEST_CLASS = re.compile(r"class (?:Test\w*|\w+\(.*TestCase\))")  # Python


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceVersions:
    """A file before and after; None where it does not exist."""

    path: str
    before: str | None
    after: str | None
    old_path: str | None = None


@dataclass(frozen=True, slots=True)
class _ParsedVersion:
    path: str
    lines: tuple[str, ...]
    tests: tuple[TestCase, ...]

    @property
    def all_lines(self) -> tuple[SourceLine, ...]:
        return tuple(build_line(n, text) for n, text in enumerate(self.lines, start=1))

    @property
    def outside(self) -> tuple[SourceLine, ...]:
        inside = {line.number for test in self.tests for line in test.body}
        numbered = enumerate(self.lines, start=1)
        return tuple(build_line(n, text) for n, text in numbered if n not in inside and text.strip())


@dataclass(frozen=True, slots=True)
class _ParsedFile:
    path: str
    language: TestLanguage
    before: _ParsedVersion | None
    after: _ParsedVersion | None


def find_weakened_tests(files: Iterable[SourceVersions]) -> tuple[Weakening, ...]:
    read = [file for versions in files if (file := _parse_file(versions)) is not None]
    pairs = _pair_tests(read)
    found = [weakening for file in read for weakening in _find_in_file(file, pairs)]
    return tuple(sorted(found, key=lambda each: (each.path, each.line or 0, each.kind)))


def _parse_file(versions: SourceVersions) -> _ParsedFile | None:
    language = find_language(versions.path)
    if language is None:
        return None
    before = _parse_version(versions.old_path or versions.path, language, versions.before)
    return _ParsedFile(versions.path, language, before, _parse_version(versions.path, language, versions.after))


def _parse_version(path: str, language: TestLanguage, text: str | None) -> _ParsedVersion | None:
    if text is None:
        return None
    lines = split_lines(text)
    return _ParsedVersion(path, lines, find_tests(language, lines))


_Pairs = Mapping[int, tuple[TestCase, str] | None]


def _pair_tests(files: Sequence[_ParsedFile]) -> _Pairs:
    """Map each test before, by its id(), to the test and file of the result; None: deleted."""
    found: dict[int, tuple[TestCase, str] | None] = {}
    waiting: list[tuple[_ParsedFile, TestCase]] = []
    for file in files:
        same = _group_by_name(file.after)
        for test in file.before.tests if file.before else ():
            if twins := same.get(test.name):
                own = _count_effective_lines(file.language, test)
                twin = max(
                    twins, key=lambda other: _compute_similarity(own, _count_effective_lines(file.language, other))
                )
                twins.remove(twin)
                found[id(test)] = (twin, file.path)
            else:
                waiting.append((file, test))
    taken = {id(pair[0]) for pair in found.values() if pair}
    fresh = ((file, test) for file in files if file.after for test in file.after.tests)
    free = [(file, test) for file, test in fresh if id(test) not in taken]
    few = len(waiting) * len(free) <= MAX_COMPARED_PAIRS
    # of too many pairs only the names are compared
    compared = (*waiting, *free) if few else ()
    contents = {id(test): _count_effective_lines(file.language, test) for file, test in compared}
    for file, test in waiting:
        found[id(test)] = _take_twin(file.language, test, free, contents)
    return found


def _group_by_name(side: _ParsedVersion | None) -> dict[str, list[TestCase]]:
    named: dict[str, list[TestCase]] = {}
    for test in side.tests if side else ():
        named.setdefault(test.name, []).append(test)
    return named


def _take_twin(
    language: TestLanguage,
    test: TestCase,
    free: list[tuple[_ParsedFile, TestCase]],
    contents: Mapping[int, Counter[str]],
) -> tuple[TestCase, str] | None:
    """Take the test of the same name elsewhere, else the one with the most similar lines."""
    best, at, none = 0.0, -1, Counter[str]()
    own = contents.get(id(test), none)
    for n, (file, other) in enumerate(free):
        if file.language is not language:
            continue
        same = other.name == test.name
        similarity = 1.0 if same else _compute_similarity(own, contents.get(id(other), none))
        if similarity > best:
            best, at = similarity, n
    if best < MIN_SIMILARITY:
        return None
    file, twin = free.pop(at)
    return twin, file.path


def _count_effective_lines(language: TestLanguage, test: TestCase) -> Counter[str]:
    return Counter(line.text for line in test.body[1:] if is_effective(language, line.text))


def _compute_similarity(one: Counter[str], other: Counter[str]) -> float:
    union = (one | other).total()
    return (one & other).total() / union if union else 0.0


def _find_in_file(file: _ParsedFile, pairs: _Pairs) -> Iterator[Weakening]:
    gone = [test for test in (file.before.tests if file.before else ()) if pairs[id(test)] is None]
    if file.after is None:
        if gone or (file.before and not file.before.tests and _list_assertions(file.language, file.before.outside)):
            yield _describe_deleted_file(file, gone)
        return
    yield from (_describe_deleted_test(file, test) for test in gone)
    for test in file.before.tests if file.before else ():
        if (pair := pairs[id(test)]) is not None:
            yield from _compare_tests(file.language, test, *pair)
            yield from _find_defused(file.language, test, *pair)
    yield from _find_weaker_helpers(file)
    yield from _find_new_skips(file)
    yield from _find_run_enders(file)
    yield from _find_uncollected(file)


def _describe_deleted_file(file: _ParsedFile, gone: Sequence[TestCase]) -> Weakening:
    assert file.before is not None
    count = sum(len(_list_assertions(file.language, test.body)) for test in gone)
    held = f": it held {_format_count(len(gone), 'test')} and {_format_count(count, 'assertion')}" if gone else ""
    shown = tuple(f"- {test.name}" for test in gone[:MAX_SHOWN_LINES])
    return Weakening(kind="file", path=file.before.path, words=f"the file was deleted{held}", lines=shown)


def _describe_deleted_test(file: _ParsedFile, test: TestCase) -> Weakening:
    assertions = _list_assertions(file.language, test.body)
    words = f"{test.name} was deleted, with {_format_count(len(assertions), 'assertion')}"
    lines = tuple(f"- {line.text}" for line in (test.body[0], *assertions)[:MAX_SHOWN_LINES])
    path = file.before.path if file.before else file.path
    return Weakening(kind="deleted", path=path, words=words, line=test.line, lines=lines)


def _compare_tests(language: TestLanguage, old: TestCase, new: TestCase, path: str) -> Iterator[Weakening]:
    was, now = _list_assertions(language, old.body), _list_assertions(language, new.body)
    lines = tuple(f"- {line.text}" for line in old.body[1:] if is_effective(language, line.text))
    if lines and not _count_effective_lines(language, new) and not now:
        words = f"{new.name} does nothing any more"
        yield Weakening(kind="emptied", path=path, words=words, line=new.line, lines=lines[:MAX_SHOWN_LINES])
        return
    went, came = _subtract_lines(was, now), _subtract_lines(now, was)
    if len(now) < len(was):
        words = f"{new.name} has {len(now)} of {_format_count(len(was), 'assertion')} left"
        lines = tuple(f"- {line.text}" for line in went[:MAX_SHOWN_LINES])
        yield Weakening(kind="assertions", path=path, words=words, line=new.line, lines=lines)
    yield from _find_wider_tolerances(
        new.name, path, _subtract_lines(old.body, new.body), _subtract_lines(new.body, old.body)
    )
    yield from _find_looser_assertions(language, new.name, path, went, came)


def _find_looser_assertions(
    language: TestLanguage, name: str, path: str, went: Sequence[SourceLine], came: Sequence[SourceLine]
) -> Iterator[Weakening]:
    exact = [line for line in went if is_exact(language, line.text)]
    vague = [line for line in came if is_vague(language, line.text)]
    fresh = sum(is_exact(language, line.text) for line in came)
    for old, new in list(zip(exact, vague, strict=False))[: max(len(exact) - fresh, 0)]:
        lines = (f"- {old.text}", f"+ {new.text}")
        yield Weakening(kind="looser", path=path, words=f"{name} compares less exactly", line=new.number, lines=lines)


NUMBER = r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
NUMBERS = re.compile(NUMBER)
NAMED_TOLERANCE = re.compile(
    rf"\b(\w*(?:rel|abs|tol|tolerance|delta|epsilon|eps|within|places|decimals?|digits|precision))\s*[=:(]\s*({NUMBER})\b"
)
POSITIONAL_TOLERANCE = re.compile(
    rf"(toBeCloseTo|AlmostEqual|almost_equal|InDelta|InEpsilon|assertEquals)\(.*,\s*({NUMBER})\s*[,)]"
)
DIGIT_TOLERANCES = (
    *("places", "decimal", "decimals", "digits", "precision", "toBeCloseTo", "AlmostEqual", "almost_equal"),
)
"""For these a smaller number is the wider tolerance."""


def _find_wider_tolerances(
    name: str, path: str, went: Sequence[SourceLine], came: Sequence[SourceLine]
) -> Iterator[Weakening]:
    shapes: dict[str, list[SourceLine]] = {}
    for line in went:
        shapes.setdefault(NUMBERS.sub("#", line.text), []).append(line)
    for line in came:
        olds = shapes.get(NUMBERS.sub("#", line.text))
        if olds and _is_wider(olds[0].text, line.text):
            lines = (f"- {olds.pop(0).text}", f"+ {line.text}")
            words = f"{name} allows a wider tolerance"
            yield Weakening(kind="tolerance", path=path, words=words, line=line.number, lines=lines)


def _is_wider(old: str, new: str) -> bool:
    for pattern in (NAMED_TOLERANCE, POSITIONAL_TOLERANCE):
        for one, other in zip(pattern.finditer(old), pattern.finditer(new), strict=False):
            word = one.group(1)
            before, after = (float(match.group(2).replace("_", "")) for match in (one, other))
            if (after < before) if word.endswith(DIGIT_TOLERANCES) else (after > before):
                return True
    return False


def _find_weaker_helpers(file: _ParsedFile) -> Iterator[Weakening]:
    """Find deleted assertions outside tests, such as those of helpers that many tests call."""
    if file.before is None or file.after is None or not (file.before.tests or file.after.tests):
        return
    was, now = (_list_assertions(file.language, side.outside) for side in (file.before, file.after))
    went = _subtract_lines(was, now)
    if len(now) < len(was) and went:
        words = f"outside its tests {len(now)} of {_format_count(len(was), 'assertion')} are left"
        lines = tuple(f"- {line.text}" for line in went[:MAX_SHOWN_LINES])
        yield Weakening(kind="assertions", path=file.path, words=words, line=went[0].number, lines=lines)


def _find_defused(language: TestLanguage, old: TestCase, new: TestCase, path: str) -> Iterator[Weakening]:
    marks = _subtract_lines(*(find_lines(DEFUSES, language, test.body) for test in (new, old)))
    if marks:
        yield _describe_defused(path, f"{new.name} can pass without checking", marks)
    if (line := find_unreached(language, new)) is not None and find_unreached(language, old) is None:
        yield _describe_defused(path, f"{new.name} returns before its assertions", (line,))
    mocked = _subtract_lines(find_mocked_subjects(language, new), find_mocked_subjects(language, old))
    if mocked:
        yield _describe_defused(path, f"{new.name} replaces what it tests", mocked)


def _describe_defused(path: str, words: str, lines: Sequence[SourceLine]) -> Weakening:
    shown = tuple(f"+ {line.text}" for line in lines[:MAX_SHOWN_LINES])
    return Weakening(kind="defused", path=path, words=words, line=lines[0].number, lines=shown)


def _find_run_enders(file: _ParsedFile) -> Iterator[Weakening]:
    """Find new lines that end the run or change what counts as a failure; in Rust only in files of tests."""
    assert file.after is not None
    if not is_test_path(file.path):
        return
    was, now = (
        find_lines(ENDS_RUN, file.language, side.all_lines) if side else () for side in (file.before, file.after)
    )
    if fresh := _subtract_lines(now, was):
        yield _describe_defused(file.path, "new code that can end the run or change its result", fresh)
    outside = [find_lines(DEFUSES, file.language, side.outside) if side else () for side in (file.before, file.after)]
    if file.before is not None and (fresh := _subtract_lines(outside[1], outside[0])):
        yield _describe_defused(file.path, "new code outside of tests that can hide a failure", fresh)


def _find_uncollected(file: _ParsedFile) -> Iterator[Weakening]:
    """Find tests that their runner no longer finds: by the name of the file, or of the class around them."""
    if file.before is None or file.after is None or not file.after.tests:
        return
    found = file.language.collected
    if found.search(file.before.path) and not found.search(file.path):
        words = f"{file.before.path} is no longer found as a file of tests by its name"
        yield Weakening(kind="skipped", path=file.path, words=words, line=1)
    hidden = _subtract_lines(_list_test_classes(file.before), _list_test_classes(file.after))
    inner = [sum(test.body[0].indent > 0 for test in side.tests) for side in (file.before, file.after)]
    if len(_list_test_classes(file.after)) < len(_list_test_classes(file.before)) and inner[1] >= inner[0] > 0:
        lines = tuple(f"- {line.text}" for line in hidden[:MAX_SHOWN_LINES])
        words = "a class of tests is no longer found by its name"
        yield Weakening(kind="skipped", path=file.path, words=words, line=hidden[0].number, lines=lines)


def _list_test_classes(side: _ParsedVersion) -> tuple[SourceLine, ...]:
    return tuple(line for line in side.outside if TEST_CLASS.match(line.text))


def _find_new_skips(file: _ParsedFile) -> Iterator[Weakening]:
    assert file.after is not None
    was, now = (
        [
            SourceLine(n, text.strip())
            for n, text in enumerate(side.lines, start=1)
            if is_skip(file.language, text.strip())
        ]
        if side
        else []
        for side in (file.before, file.after)
    )
    fresh = _subtract_lines(now, was)
    if fresh and len(now) > len(was):
        verb = "keeps" if len(now) - len(was) == 1 else "keep"
        words = f"{_format_count(len(now) - len(was), 'new mark')} that {verb} tests from running"
        lines = tuple(f"+ {line.text}" for line in fresh[:MAX_SHOWN_LINES])
        yield Weakening(kind="skipped", path=file.path, words=words, line=fresh[0].number, lines=lines)


def _list_assertions(language: TestLanguage, lines: Iterable[SourceLine]) -> tuple[SourceLine, ...]:
    return tuple(line for line in lines if is_assertion(language, line.text))


def _subtract_lines(lines: Iterable[SourceLine], other: Iterable[SourceLine]) -> tuple[SourceLine, ...]:
    """Return the lines that are not in `other`, by their text."""
    known = Counter(line.text for line in other)
    left = []
    for line in lines:
        if known[line.text] > 0:
            known[line.text] -= 1
        else:
            left.append(line)
    return tuple(left)


def _format_count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
