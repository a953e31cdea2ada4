"""A file that another program saves while we write is not lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from blueflame.model.errors import WorldError
from blueflame.system import replace
from blueflame.system.replace import replace_unchanged


def drafts(folder: Path) -> list[Path]:
    return [each for each in folder.iterdir() if each.name.endswith(".draft")]


@pytest.fixture(params=["exchanged", "compared"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "compared":
        monkeypatch.setattr(replace, "FUNCTION", "a_function_that_no_system_has")
    return str(request.param)


@pytest.mark.usefixtures("way")
def test_a_file_that_is_as_it_was_read_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "a file.md"
    file.write_bytes(b"old")
    file.chmod(0o640)
    assert replace_unchanged(file, b"old", b"new")
    assert file.read_bytes() == b"new"
    assert file.stat().st_mode & 0o777 == 0o640
    assert drafts(tmp_path) == []


@pytest.mark.usefixtures("way")
def test_a_file_that_was_saved_meanwhile_stays(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"saved by an editor")
    assert not replace_unchanged(file, b"old", b"new")
    assert file.read_bytes() == b"saved by an editor"
    assert drafts(tmp_path) == []


def test_a_new_file_is_created_and_an_existing_one_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "a"
    assert replace_unchanged(file, None, b"one")
    assert not replace_unchanged(file, None, b"two")
    assert file.read_bytes() == b"one"


@pytest.mark.usefixtures("way")
def test_a_file_that_was_deleted_meanwhile_is_not_written(tmp_path: Path) -> None:
    assert not replace_unchanged(tmp_path / "a", b"old", b"new")
    assert list(tmp_path.iterdir()) == []


def test_an_editor_that_saves_between_comparing_and_replacing_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"old")
    exchange, saves = replace._exchange, [b"first save", b"second save"]

    def save_first(one: Path, other: Path) -> bool:
        if saves:
            saved = tmp_path / "of the editor"
            saved.write_bytes(saves.pop(0))
            saved.replace(other)
        return exchange(one, other)

    monkeypatch.setattr(replace, "_exchange", save_first)
    assert not replace_unchanged(file, b"old", b"ours")
    assert file.read_bytes() == b"second save"
    assert drafts(tmp_path) == []


def test_a_folder_in_the_way_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(WorldError, match="cannot write"):
        replace_unchanged(tmp_path / "a", b"old", b"new")
