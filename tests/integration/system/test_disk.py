"""Folders that lie far from each other on the disk."""

from __future__ import annotations

import subprocess
from pathlib import Path

from blueflame.system.disk import spread_folders
from support.disks import ext4, mounted


def _list_attributes(folder: Path) -> str:
    done = subprocess.run(["lsattr", "-d", str(folder)], capture_output=True, text=True, check=True)
    return done.stdout.split()[0]


def test_ext4_is_asked_once_to_spread_the_folders_of_a_folder(tmp_path: Path) -> None:
    with ext4(tmp_path / "disk"):
        folder = tmp_path / "disk" / "checkouts"
        folder.mkdir()
        assert "T" not in _list_attributes(folder)
        spread_folders(str(folder))
        assert "T" in _list_attributes(folder)
        spread_folders(str(folder))
        assert "T" in _list_attributes(folder)
        (folder / "one").mkdir()
        assert "T" not in _list_attributes(folder / "one")


def test_a_folder_of_another_file_system_and_a_missing_one_stay_as_they_are(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", 1):
        spread_folders(str(tmp_path / "disk"))
        spread_folders(str(tmp_path / "disk" / "missing"))
        assert list((tmp_path / "disk").iterdir()) == []
