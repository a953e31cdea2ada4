"""JUnit XML reports in a checkout: found where frameworks write them, read without following anything."""

from __future__ import annotations

import os
from pathlib import Path

from blueflame.telemetry.junit_reports import read_test_reports


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_reports_are_found_where_frameworks_write_them(tmp_path: Path) -> None:
    for name in ("build/test-results/test/TEST-a.xml", "b/target/surefire-reports/TEST-b.xml", "junit.xml"):
        write(tmp_path / name, name)
    for name in ("pom.xml", "src/data.xml", "node_modules/x/junit.xml", "build/test-results/a.bin"):
        write(tmp_path / name, "no")
    assert sorted(read_test_reports(tmp_path)) == [
        "b/target/surefire-reports/TEST-b.xml",
        "build/test-results/test/TEST-a.xml",
        "junit.xml",
    ]


def test_links_pipes_and_locked_folders_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path / "outside" / "loot", "loot")
    tree = tmp_path / "tree"
    write(tree / "test-results" / "a.xml", "a")
    (tree / "test-results" / "b.xml").symlink_to(tmp_path / "outside" / "loot")
    (tree / "reports").symlink_to(tmp_path / "outside")
    os.mkfifo(tree / "test-results" / "c.xml")
    (tree / "locked").mkdir(mode=0o000)
    assert list(read_test_reports(tree)) == ["a"]
