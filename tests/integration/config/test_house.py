"""house.yaml: every problem with its line, and an example that is complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from blueflame.config.house import EXAMPLE, load_house
from blueflame.config.keys import iter_keys
from blueflame.documents.yaml import read_document
from blueflame.model.errors import ConfigError
from blueflame.model.settings.house import HouseSettings
from support.disks import bound
from support.yaml_keys import is_in


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "house.yaml"
    file.write_text(text)
    return file


def test_paths_of_repositories_are_relative_to_the_file(tmp_path: Path) -> None:
    loaded = load_house(
        write(tmp_path, "version: 1\nrepositories:\n  shop: {path: ../the shop, config: conf/b.yaml}\n")
    )
    shop = loaded.settings.repositories["shop"]
    assert loaded.find_config(shop) == tmp_path.parent / "the shop/conf/b.yaml"


def test_every_problem_is_reported_with_its_line(tmp_path: Path) -> None:
    text = "version: 1\nrepositories:\n  shop: {paht: x}\n  Bad Name: {path: y}\nlimits:\n  queue_length: none\n"
    with pytest.raises(ConfigError) as caught:
        load_house(write(tmp_path, text))
    problems = "\n".join(caught.value.problems)
    assert re.search(r"house.yaml:3: repositories.shop.paht: unknown key; did you mean path\?", problems)
    assert re.search(r"house.yaml:4: repositories.Bad Name: is not a name", problems)
    assert re.search(r"house.yaml:6: limits.queue_length: must be a whole number", problems)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the file is empty; run `blueflame serve --init`"),
        ("- a\n", "must be keys (got a list)"),
        ("version: 2\n", "house.yaml:1: version: is not one of the choices"),
        ("a: [\n", "this is not YAML"),
    ],
)
def test_a_file_that_is_no_configuration_says_what_to_write(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_house(write(tmp_path, text))
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("repositories: {a: {path: x}, b: {path: y/../x}}", ":1: repositories.b.path: is the folder of a too"),
        ("repositories: {a: {path: x}, b: {path: x, config: c.yaml}}", ":1: repositories.b.path: is the folder of a"),
        ("repositories: {a: {path: ~no-such-user/x}}", ":1: repositories.a.path: begins with the home of an unknown"),
        ("people:\n  a: {telegram: 5}\n  b: {telegram: 5}", ":3: people.b.telegram: is that of a too (got 5)"),
        ("people:\n  a: {github: Ann}\n  b: {github: ann}", ":3: people.b.github: is that of a too"),
        ("people:\n  a: {}\n  b: {terminal: a}", ":3: people.b.terminal: is that of a too"),
        ("telegram: {chats: {5: {repository: shp}}}", "chats[5].repository: is not one of the repositories (got"),
        ("telegram: {chats: {me: {}}}", "telegram.chats.me: must be a whole number (got"),
        ("sources: {issues: [{repository: shp}]}", "sources.issues[0].repository: is not one of the repositories"),
        ("pool: {roles: {backend: -1}}", "pool.roles.backend: is too small (got -1); write at least 0"),
    ],
)
def test_what_would_go_wrong_later_is_refused_with_its_place(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_house(write(tmp_path, text))
    assert problem in str(caught.value)


def test_a_bind_mount_is_the_same_repository(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with bound(tmp_path / "x", tmp_path / "y"), pytest.raises(ConfigError, match=r"b\.path: is the folder of a too"):
        load_house(write(tmp_path, "repositories: {a: {path: x}, b: {path: y}}"))


def test_a_missing_file_says_how_to_write_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no house.yaml in"):
        load_house(tmp_path / "house.yaml")


def test_the_example_is_valid_and_so_are_its_commented_lines(tmp_path: Path) -> None:
    load_house(write(tmp_path, EXAMPLE))
    lines = [re.sub(r"^#(?=  )|^# (?=[a-z_]+:$)", "", line) for line in EXAMPLE.splitlines()]
    whole = "\n".join(line.removesuffix(" {}") for line in lines)
    loaded = load_house(write(tmp_path, whole))
    assert list(loaded.settings.repositories) == ["shop"]
    written = read_document(whole, any_key=True).data
    own = ("version", "repositories", "pool", "limits")  # the rest has pages of its own
    keys = [key for key in iter_keys(HouseSettings) if not key.section and key.path[0] in own]
    assert [key.dotted for key in keys if not is_in(written, key.path)] == []
