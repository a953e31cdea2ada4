"""Read the JUnit XML reports that a test run left in its checkout, as plain files, with limits on everything."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from blueflame.system.files import read_plain_file

MAX_ENTRIES, MAX_REPORTS = 200_000, 5_000
MAX_REPORT_BYTES, MAX_TOTAL_BYTES = 20_000_000, 100_000_000
SKIPPED_FOLDERS = frozenset({".git", "node_modules", ".venv", "venv", "vendor"})
REPORT = re.compile(
    r"(?:^|/)(?:TEST-[^/]*|[^/]*junit[^/]*)\.xml$|(?:^|/)(?:test-results|(?:surefire|failsafe|test)-reports)/.*\.xml$",
    re.IGNORECASE,
)


def read_test_reports(checkout: Path) -> Iterator[str]:
    left = MAX_TOTAL_BYTES
    for _n, path in zip(range(MAX_REPORTS), sorted(_find_reports(checkout)), strict=False):
        data = read_plain_file(path, min(left, MAX_REPORT_BYTES))
        left -= len(data)
        yield data.decode("utf-8", "replace")


def _find_reports(checkout: Path) -> Iterator[str]:
    """Walk without following links; `os.walk` of older Pythons cannot go a thousand folders deep."""
    front, seen = [str(checkout)], 0
    while front and seen < MAX_ENTRIES:
        try:
            with os.scandir(front.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if entry.is_dir(follow_symlinks=False) and entry.name not in SKIPPED_FOLDERS:
                        front.append(entry.path)
                    elif REPORT.search(entry.path) and entry.is_file(follow_symlinks=False):
                        yield entry.path
        except OSError:  # an unreadable folder holds no report
            continue
