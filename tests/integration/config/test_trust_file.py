"""What a person trusts is kept outside of every repository, and cannot be forged from inside one."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from blueflame.config.trust_file import find_trust_folder, read_trusted, remove_trusted, save_trusted
from blueflame.model.errors import Refused


@pytest.fixture
def environ(tmp_path: Path) -> Mapping[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path / "state")}


@pytest.fixture
def config(repo: Path) -> Path:
    path = repo / "blueflame.yaml"
    path.write_text("")
    return path


def find_only_record(environ: Mapping[str, str]) -> Path:
    (record,) = find_trust_folder(environ).iterdir()
    return record


def test_what_is_trusted_is_added_until_it_is_revoked(config: Path, environ: Mapping[str, str]) -> None:
    assert read_trusted(config, environ) == frozenset()
    save_trusted(config, environ, ["a"])
    save_trusted(config, environ, ["b"])
    assert read_trusted(config, environ) == {"a", "b"}
    remove_trusted(config, environ)
    remove_trusted(config, environ)
    assert read_trusted(config, environ) == frozenset()


def test_the_record_is_the_owners_alone(config: Path, environ: Mapping[str, str]) -> None:
    save_trusted(config, environ, ["a"])
    record = find_only_record(environ)
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    record.chmod(0o666)
    with pytest.raises(Refused, match="other users"):
        read_trusted(config, environ)


def test_another_file_is_not_trusted_with_it(config: Path, environ: Mapping[str, str], tmp_path: Path) -> None:
    save_trusted(config, environ, ["a"])
    other = tmp_path / "clone"
    other.mkdir()
    (other / "blueflame.yaml").symlink_to(config)
    assert read_trusted(other / "blueflame.yaml", environ) == frozenset(), "its programs are those of the clone"
    assert read_trusted(config.with_name("other.yaml"), environ) == frozenset()
    (tmp_path / "way").symlink_to(config.parent)
    assert read_trusted(tmp_path / "way" / config.name, environ) == {"a"}, "the same file by another way"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"trusted": {"a": 1}}', '{"trusted": ["a"]}', "\x00"])
def test_a_damaged_record_trusts_nothing(config: Path, environ: Mapping[str, str], content: str) -> None:
    save_trusted(config, environ, ["a"])
    find_only_record(environ).write_text(content)
    assert read_trusted(config, environ) == frozenset()


def test_a_record_of_another_file_trusts_nothing(config: Path, environ: Mapping[str, str]) -> None:
    save_trusted(config, environ, ["a"])
    record = find_only_record(environ)
    record.write_text(json.dumps({"config": "/elsewhere/blueflame.yaml", "trusted": ["a"]}))
    assert read_trusted(config, environ) == frozenset()


def test_a_link_in_the_place_of_the_record_is_refused(config: Path, environ: Mapping[str, str], tmp_path: Path) -> None:
    save_trusted(config, environ, ["a"])
    record = find_only_record(environ)
    record.rename(tmp_path / "planted")
    record.symlink_to(tmp_path / "planted")
    with pytest.raises(Refused, match="nothing is trusted"):
        read_trusted(config, environ)


@pytest.mark.parametrize("given", ["", "state", "./state"])
def test_a_relative_state_folder_is_ignored(given: str) -> None:
    """It would be a folder of the repository."""
    assert find_trust_folder({"XDG_STATE_HOME": given}).is_relative_to(os.environ["HOME"])
