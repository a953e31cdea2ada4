"""Every benchmark still runs: at a small size, without a credential, and without a word about how fast it was."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIGURE = re.compile(r"  \S.* -?\d+\.\d{3}( \S+)?( .*)?")


@pytest.mark.slow
def test_all_benchmarks_give_figures() -> None:
    known = re.findall(r'^    "(\w+)",$', (ROOT / "benchmarks" / "__main__.py").read_text(), re.MULTILINE)
    argv = [sys.executable, "-m", "benchmarks", "--small"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.stderr == ""
    assert done.returncode == 0
    tables = [table.splitlines() for table in done.stdout.strip().split("\n\n")]
    assert [heading.partition(":")[0] for heading, *_ in tables] == known
    for _, *figures in tables:
        assert figures
        assert all(FIGURE.fullmatch(figure) for figure in figures)


def test_an_unknown_benchmark_is_refused_by_its_name() -> None:
    argv = [sys.executable, "-m", "benchmarks", "--small", "nothing"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2
    assert "no benchmark is called nothing; there are deciding," in done.stdout
