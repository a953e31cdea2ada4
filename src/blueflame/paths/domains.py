"""The domain of paths: the part of the code base that they are in.

A domain is configured (`domains: {billing: [src/billing/**]}`) or is the first folder that tells parts apart. Folders
that only hold parts are split, and the part is the next folder below: `src/shop/billing/tax.py` is in `billing` where
`src` and `src/shop` are split, and so is `tests/unit/billing/test_tax.py`. A folder is split if its name says so
(`src`, `packages`, `tests`), or if it holds more than a quarter of all files, as a package below `src` does.
Files directly in a split folder are in the domain named after it; those at the top, and the whole repository, in ".".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence

from blueflame.paths.globs import Globs
from blueflame.paths.locks import WILDCARDS

WHOLE = "."
TESTS = frozenset({"tests", "test", "spec", "specs", "__tests__", "unit", "integration", "e2e"})
HOLDERS = TESTS | {
    *("src", "source", "sources", "lib", "libs", "packages", "apps", "services", "crates", "modules", "plugins"),
    *("internal", "pkg", "cmd", "main"),
}
MAX_SHARE = 4
"""A folder with more than one of this many files is split: most tasks would be in it."""
MANY_PARTS, MIN_FILES = 8, 3
MAX_DEPTH = 12
FILE_NAME = re.compile(r".*\..*|[A-Z][a-z]*file|[A-Z_]{3,}", re.DOTALL)
"""A path is read without the tree: `tax.py`, `Makefile` and `LICENSE` are files, `billing` is a folder."""


def find_split_folders(files: Iterable[str]) -> tuple[str, ...]:
    """Find the folders of a tree that are split because they hold too much of it; HOLDERS are split in any case."""
    paths = [path.split("/")[:-1][:MAX_DEPTH] for path in files]
    counts = Counter("/".join(path[:depth]) for path in paths for depth in range(1, len(path) + 1))
    parts = Counter(folder.rpartition("/")[0] for folder in counts)
    large = (each for each, count in counts.items() if each in parts and count * MAX_SHARE > len(paths))
    return tuple(sorted(each for each in large if not _is_list(parts[each], counts[each])))


def _is_list(parts: int, files: int) -> bool:
    """Whether a folder holds many parts with hardly a file each, such as one for each language: no one's domain."""
    return parts > MANY_PARTS and files < MIN_FILES * parts


def find_domain(
    paths: Sequence[str], *, split: Container[str] = (), configured: Mapping[str, Sequence[str]] | None = None
) -> str:
    """Find the domain of most paths, of files, folders or locks; of several the one that is named first.

    `split`: from `find_split_folders`. `configured`: the patterns of each domain; the first that matches counts.
    """
    names = [_find_configured(path, configured or {}) or _find_part(path, split) for path in paths]
    telling = [name for name in names if name != WHOLE and name not in TESTS]
    return Counter(telling or names or [WHOLE]).most_common(1)[0][0]


def _find_configured(path: str, configured: Mapping[str, Sequence[str]]) -> str:
    plain = "/".join(_list_segments(path))
    return next((name for name, globs in configured.items() if plain and Globs(tuple(globs)).touches(plain)), "")


def _find_part(path: str, split: Container[str]) -> str:
    segments = _list_segments(path)
    folders = segments[:-1] if segments and not path.endswith("/") and FILE_NAME.fullmatch(segments[-1]) else segments
    name = WHOLE
    for depth, name in enumerate(folders, start=1):
        if name.lower() not in HOLDERS and "/".join(folders[:depth]) not in split:
            break
    return name


def _list_segments(path: str) -> list[str]:
    """Split a path, up to its first segment with a wildcard."""
    segments = [part for part in path.split("/") if part not in ("", ".")]
    wild = next((n for n, part in enumerate(segments) if not WILDCARDS.isdisjoint(part)), len(segments))
    return segments[:wild]
