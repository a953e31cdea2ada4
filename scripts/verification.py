"""Run the tests that are marked `verification` and print what became of each of the 58 numbers.

With --write only docs/evidence/verification.md is written; with --check the page is compared.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path

import pytest
from verification_titles import TITLES

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "evidence" / "verification.md"
NEED_OTHER_PROGRAMS = "agents"  # tests/contracts/agents is not part of the suite

HEAD = """# The 58 verification tests

Blue Flame was asked for with a list of 58 tests that it must pass. Here is where each of them is proven.
`make verification` runs them all and prints this list with what became of it.
The page is made from the markers in `tests/` by `make docs-write`; do not edit it by hand.

| number | what is proven | by |
|---:|---|---|
"""


@dataclass(frozen=True, slots=True)
class MarkedTest:
    path: Path
    test: str


def find_marked_tests(root: Path = ROOT) -> Mapping[int, Sequence[MarkedTest]]:
    """The marked tests of each number, found by reading the files: nothing is imported and nothing is run."""
    found: defaultdict[int, list[MarkedTest]] = defaultdict(list)
    for path in sorted((root / "tests").rglob("test_*.py")):
        if path.parent.name == NEED_OTHER_PROGRAMS and path.parent.parent.name == "contracts":
            continue
        text = path.read_text(encoding="utf-8")
        if "mark.verification" in text:
            for number, test in _iter_marked_tests(ast.parse(text)):
                found[number].append(MarkedTest(path.relative_to(root), test))
    return found


def _iter_marked_tests(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.verification":
                    for number in mark.args:
                        yield ast.literal_eval(number), node.name


def build_page() -> str:
    found = find_marked_tests()
    return HEAD + "".join(f"| {n} | {title} | {_format_links(found.get(n, ()))} |\n" for n, title in TITLES.items())


def _format_links(those: Sequence[MarkedTest]) -> str:
    by_file: defaultdict[Path, list[str]] = defaultdict(list)
    for proof in those:
        by_file[proof.path].append(proof.test.removeprefix("test_").replace("_", " "))
    return "; ".join(f"[{path.stem}](../../{path}): {', '.join(tests)}" for path, tests in by_file.items())


def find_differences() -> Iterator[str]:
    before = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    yield from unified_diff(before.splitlines(), build_page().splitlines(), "as it is", "as the tests say", lineterm="")


def pytest_itemcollected(item: pytest.Item) -> None:
    """As a plugin: each report carries the numbers of its test, also from another process."""
    for mark in item.iter_markers("verification"):
        item.user_properties.append(("verification", mark.args))


@dataclass(eq=False)  # a plugin must be hashable
class Tally:
    """As a plugin: counts how the cases of each number ended."""

    ends: defaultdict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        end = "failed" if report.failed or hasattr(report, "wasxfail") else report.outcome
        if report.when == "call" or end != "passed":
            for name, numbers in report.user_properties:
                if name == "verification":
                    for number in numbers:  # type: ignore[attr-defined]  # as it was put in above
                        self.ends[number][end] += 1

    def verdict(self, number: int) -> str:
        ends = self.ends[number]
        if ends["failed"]:
            return "FAILED"
        return "passed" if ends["passed"] else "NOT RUN"


def format_table(tally: Tally, found: Mapping[int, Sequence[MarkedTest]]) -> Iterator[str]:
    width = max(map(len, TITLES.values()))
    yield f"{'n':>2}  {'what is proven':{width}}  {'tests':>5} {'passed':>6} {'failed':>6} {'skipped':>7}"
    for number, title in TITLES.items():
        ends = tally.ends[number]
        counts = f"{len(found.get(number, ())):>5} {ends['passed']:>6} {ends['failed']:>6} {ends['skipped']:>7}"
        yield f"{number:>2}  {title:{width}}  {counts}  {tally.verdict(number) if found.get(number) else 'NO TEST'}"
    proven = sum(tally.verdict(number) == "passed" for number in TITLES)
    yield f"{proven} of {len(TITLES)} are proven"


def run_tests(arguments: Sequence[str]) -> int:
    found, tally = find_marked_tests(), Tally()
    files = sorted({str(ROOT / proof.path) for those in found.values() for proof in those})
    code = pytest.main(["-m", "verification", "-p", "verification", *arguments, *files], plugins=[tally])
    print("\n".join(format_table(tally, found)))
    return 0 if code == 0 and all(tally.verdict(number) == "passed" for number in TITLES) else 1


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/evidence/verification.md and run nothing")
    parser.add_argument("--check", action="store_true", help="run nothing; exit 1 with a diff when that page is stale")
    given, rest = parser.parse_known_args(arguments)
    if given.write:
        PAGE.write_text(build_page(), encoding="utf-8")
        return 0
    if given.check:
        stale = list(find_differences())
        print(
            "\n".join([*stale, "", "docs/evidence/verification.md is stale: run `make docs-write`"] if stale else []),
            end="",
        )
        return 1 if stale else 0
    return run_tests(rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
