"""The unit of `serve --install`, as systemd itself reads it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from blueflame.cli.commands.house.serve import UNIT_NAME
from blueflame.cli.main import run
from blueflame.config.house import EXAMPLE
from blueflame.system.service import build_unit

AWKWARD = 'a "house" 100% $HOME'


def find_unit(home: Path) -> Path:
    return home / ".config" / "systemd" / "user" / UNIT_NAME


def test_the_unit_is_written_for_the_house_and_removed(
    tmp_path: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    house = tmp_path / AWKWARD
    house.mkdir()
    (house / "house.yaml").write_text(EXAMPLE)
    assert run(["serve", "--house", str(house), "--install"]) == 0
    text = find_unit(own_home).read_text()
    assert "Type=notify\n" in text
    assert "KillMode=process\n" in text
    assert "enable --now blueflame.service" in capsys.readouterr().out
    assert run(["serve", "--house", str(house), "--install"]) == 0, "writing it again is fine"
    assert "restart blueflame.service" in capsys.readouterr().out
    assert run(["serve", "--house", str(house), "--install", "--uninstall"]) == 2, "which of them?"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "house.yaml").write_text(EXAMPLE)
    assert run(["serve", "--house", str(tmp_path / "other"), "--install"]) == 2
    assert run(["serve", "--uninstall"]) == 0
    assert not find_unit(own_home).exists()
    assert run(["serve", "--uninstall"]) == 2


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    program = tmp_path / AWKWARD
    program.write_text("#!/bin/sh\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    unit = tmp_path / UNIT_NAME
    argv = ["/bin/sh", str(program), AWKWARD]
    unit.write_text(build_unit(argv, description=AWKWARD, path="/bin:/a $b", environment_file=tmp_path / "100% e"))
    assert 'Environment="PATH=/bin:/a $b"\n' in unit.read_text(), "systemd expands no $ there"
    env = dict(os.environ) | {"XDG_RUNTIME_DIR": str(tmp_path)}
    found = subprocess.run(
        ["systemd-analyze", "verify", "--user", str(unit)], env=env, capture_output=True, text=True, check=False
    )
    assert UNIT_NAME not in found.stderr, "an unknown key is only a line there"
