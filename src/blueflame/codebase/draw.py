"""Draw the map for an agent, within its budget of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from blueflame.codebase.facts import FOLDER_DEPTH, MapFacts, compute_facts, list_folders
from blueflame.codebase.survey import CodeFile, CodeSurvey, Coverage, Symbol
from blueflame.text.sanitize import shorten_line
from blueflame.text.tokens import estimate_tokens

MAX_LANGUAGES, MAX_ENTRIES, MAX_TEST_FOLDERS, MAX_CHANGED_FILES, MAX_PAIRS, MAX_OWNERS = 8, 20, 10, 15, 8, 6
MAX_FACT_CHARS, MAX_LINE_CHARS = 600, 200
FOLDER_SHARE = 0.5  # of what the facts leave, when there are symbols


def format_code_map(survey: CodeSurvey, budget: int) -> str:
    """List facts, folders as deep as fits, and symbols; empty if not even the facts fit."""
    facts = [shorten_line(line, MAX_FACT_CHARS) for line in _list_facts(survey, compute_facts(survey))]
    spare = budget - _measure(facts)
    if not survey.files or spare < 0:
        return ""
    folders = _fit_folders(survey.files, int(spare * FOLDER_SHARE) if survey.outlines else spare)
    symbols = _fit_lines(list_outline_lines(survey.outlines), spare - _measure(folders))
    return "\n".join([*facts, *folders, *symbols])


def _list_facts(survey: CodeSurvey, facts: MapFacts) -> Iterator[str]:
    files = survey.files
    yield f"{len(files)} files, {format_size(sum(file.size for file in files))}"
    if facts.languages:
        yield "languages: " + format_counts(facts.languages[:MAX_LANGUAGES])
    if facts.entries:
        yield "begin to read at: " + ", ".join(facts.entries[:MAX_ENTRIES])
    if facts.tests:
        yield "tests are in: " + format_counts(facts.tests[:MAX_TEST_FOLDERS])
    if facts.changed:
        changed = format_counts(facts.changed[:MAX_CHANGED_FILES])
        yield f"changed most often in the last {facts.commits} commits: {changed}"
    if facts.pairs:
        pairs = (f"{each.first} and {each.second} ({each.together} times)" for each in facts.pairs[:MAX_PAIRS])
        yield f"changed together: {'; '.join(pairs)}"
    if len({each.author for each in facts.owners}) > 1:
        owners = (f"{each.folder} {each.author}" for each in facts.owners[:MAX_OWNERS])
        yield f"changed mostly by: {', '.join(owners)}"
    if gap := describe_gap(survey.coverage):
        yield f"symbols: {gap}"


def describe_gap(coverage: Coverage) -> str:
    """Say what the symbols leave out; "" if nothing."""
    if coverage.problem:
        return f"not known: {coverage.problem}"
    parts = []
    if coverage.waiting:
        parts.append(f"{coverage.waiting} of {coverage.wanted} files are not read yet")
    if coverage.failed:
        parts.append(f"{coverage.failed} files could not be parsed")
    if coverage.unknown:
        parts.append("no parser for " + format_counts(tuple(coverage.unknown.items())[:MAX_LANGUAGES]))
    return "; ".join(parts)


def list_outline_lines(outlines: Mapping[str, tuple[Symbol, ...]]) -> list[str]:
    lines = [f"{path}: {', '.join(names)}" for path, found in outlines.items() if (names := list_names(found))]
    return ["symbols:", *(shorten_line(line, MAX_LINE_CHARS) for line in lines)] if lines else []


def list_names(symbols: Iterable[Symbol]) -> list[str]:
    """Return the names that others use: what is not inside of a class, and public by its name."""
    top = [each for each in symbols if not each.scope or each.kind in ("class", "interface", "struct")]
    public = [each.name for each in top if not each.name.startswith("_")]
    return list(dict.fromkeys(public))


def format_counts(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} ({n})" for name, n in counts)


def _fit_folders(files: Sequence[CodeFile], budget: int) -> list[str]:
    """Return the deepest tree that fits; if none does, as many lines of the shallowest as fit."""
    drawn: list[str] = []
    for depth in range(1, FOLDER_DEPTH + 1):
        lines = _format_tree(files, depth)
        if _measure(lines) > budget:
            return drawn or _fit_lines(lines, budget - 10)
        drawn = lines
    return drawn


def _format_tree(files: Iterable[CodeFile], depth: int) -> list[str]:
    lines = (f"{each.path}: {each.files} files, {format_size(each.size)}" for each in list_folders(files, depth))
    return ["folders:", *(shorten_line(line, MAX_LINE_CHARS) for line in lines)]


def _fit_lines(lines: Sequence[str], budget: int) -> list[str]:
    sums = accumulate(map(estimate_tokens, lines))
    return [line for line, used in zip(lines, sums, strict=True) if used <= budget]


def _measure(lines: Iterable[str]) -> int:
    return sum(map(estimate_tokens, lines))


def format_size(size: int) -> str:
    return (
        f"{size} bytes" if size < 10_000 else f"{size / 1000:.0f} kB" if size < 10_000_000 else f"{size / 1e6:.0f} MB"
    )
