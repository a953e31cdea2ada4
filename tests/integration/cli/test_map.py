"""`blueflame map` as a person and a machine meet it."""

from __future__ import annotations

from pathlib import Path

import pytest

from blueflame.codebase import ctags
from support.command_line import configure, here
from support.json_page import section
from support.repositories import run_git


@pytest.fixture
def project(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (repo / "src" / "store.go").write_text("package store\n\nfunc Open() {}\n")
    run_git(repo, "add", "-A")
    run_git(repo, "commit", "-q", "-m", "Add \x1b[31mit")
    configure(repo)
    monkeypatch.chdir(repo)
    return repo


def test_a_map_is_shown_of_all_or_of_one_place(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = here(capsys, "map").out
    assert "python (1)" in text
    assert "src/store.go" in text
    assert "README.md" not in here(capsys, "map", "./src/").out
    found = here(capsys, "map", "--json").json
    assert set(found) <= section("map")
    assert set(found["parser"]) <= section("map")
    assert found["languages"] == {"go": 1, "python": 1}
    assert here(capsys, "map", "src/app.py", "--json").json["languages"] == {"python": 1}


def test_symbols_have_their_lines(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = here(capsys, "map", "src/app.py", "--json").json
    if found["parser"]["name"] is None:
        pytest.skip(found["parser"]["missing"])
    assert found["symbols"]["src/app.py"] == [{"kind": "function", "name": "answer", "line": 1, "scope": ""}]
    assert "answer" in here(capsys, "map", "src/app.py").out
    assert here(capsys, "map", "--symbol", "answer").out == "src/app.py:1: function answer\n"
    where = here(capsys, "map", "--symbol", "Open", "--json").json
    assert set(where) <= section("map")
    assert where["definitions"]["Open"][0]["path"] == "src/store.go"
    gone = here(capsys, "map", "src/app.py", "-s", "Open")
    assert gone.code == 2
    assert "no definition of 'Open'" in gone.err


def test_a_place_that_is_not_there_is_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = here(capsys, "map", "scr")
    assert found.code == 2
    assert "'scr' is neither a file nor a folder of the base commit; did you mean src?" in found.err


def test_without_a_parser_the_map_says_so(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctags, "PROGRAMS", ("no-such-ctags",))
    assert "there is no ctags" in " ".join(here(capsys, "map").out.split())
    assert here(capsys, "map", "--json").json["symbols"] == {}
