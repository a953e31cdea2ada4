"""Figures about the tree: sizes, names and words. With --check, exit 1 where a figure is over its limit.

A reader should find a thing by the word they would search for; these figures say how far that holds.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
BROAD = ("Exception", "BaseException")
OLD_WORDS = re.compile(  # also as parts of names: a test called test_it_is_told
    r"(?:\b|_)(whoever|somebody|nobody|anew|mend(s|ed|ing)?|to be had|can be had|in.vain|is (?-i:none)|beforehand"
    r"|as it stands|put down|sign of life|told)(?:\b|_)",
    re.IGNORECASE,
)
WORDS_IN = (
    *("src/**/*.py", "src/**/*.j2", "src/**/*.js", "src/**/*.sh", "tests/**/*.py", "scripts/*.py", "scripts/*.md"),
    *("docs/**/*.md", "changes/*.md", "*.md", "*.example"),
)
ALLOWED_WORDS = ("scripts/shape.py", "docs/evidence/")  # this file, and records of what was measured
USER_NOBODY = re.compile(r"[\"~/:]nobody\b")  # the user of Unix


class Figure(NamedTuple):
    name: str
    value: float
    limit: float | None = None
    unit: str = ""

    @property
    def is_over(self) -> bool:
        return self.limit is not None and self.value > self.limit


def measure_files(trees: dict[Path, ast.Module]) -> Iterator[Figure]:
    lines = [len(path.read_text(encoding="utf-8").splitlines()) for path in trees]
    folders = Counter(path.parent for path in trees if path.name != "__init__.py")
    yield Figure("files", len(lines))
    yield Figure("lines", sum(lines))
    yield Figure("lines of a file, median", median(lines))
    yield Figure("lines of a file, 95th percentile", quantiles(lines, n=20)[-1])
    yield Figure("files in the fullest folder", max(folders.values()), 25)


def measure_functions(trees: dict[Path, ast.Module]) -> Iterator[Figure]:
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    lengths = [(node.end_lineno or 0) - node.lineno + 1 for node in nodes if isinstance(node, FUNCTION)]
    handlers = [node.type for node in nodes if isinstance(node, ast.ExceptHandler)]
    yield Figure("functions", len(lengths))
    yield Figure("lines of a function, median", median(lengths), 9)
    yield Figure("lines of a function, 95th percentile", quantiles(lengths, n=20)[-1], 40)
    yield Figure("broad excepts", sum(each is None or getattr(each, "id", "") in BROAD for each in handlers), 10)


def measure_names(trees: dict[Path, ast.Module]) -> Iterator[Figure]:
    top = [node for tree in trees.values() for node in tree.body]
    classes = Counter(node.name for node in top if isinstance(node, ast.ClassDef))
    functions = [node.name.strip("_") for node in top if isinstance(node, FUNCTION)]
    yield Figure("class names with two meanings", sum(count > 1 for count in classes.values()), 10)
    yield Figure(
        "functions named with one word", 100 * sum("_" not in name for name in functions) / len(functions), 25, "%"
    )
    yield Figure("modules ending in -ing", sum(path.stem.endswith("ing") for path in trees), 10)


def find_old_words() -> Iterator[str]:
    for path in sorted({path for pattern in WORDS_IN for path in ROOT.glob(pattern)}):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(ALLOWED_WORDS):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if match := OLD_WORDS.search(USER_NOBODY.sub("", line)):
                    yield f"{name}:{number}: {match[0]}"


def main(arguments: list[str]) -> int:
    sources = sorted((ROOT / "src").rglob("*.py"))
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sources}
    old_words = list(find_old_words())
    figures = [
        *measure_files(trees),
        *measure_functions(trees),
        *measure_names(trees),
        Figure("old words", len(old_words), 0),
    ]
    for figure in figures:
        limit = "" if figure.limit is None else f"   (limit {figure.limit:g}{figure.unit})"
        print(f"{figure.value:8.0f}{figure.unit:1}  {figure.name}{limit}{'   OVER' if figure.is_over else ''}")
    print(*old_words[:20], sep="\n", end="\n" if old_words else "")
    return int("--check" in arguments and any(figure.is_over for figure in figures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
