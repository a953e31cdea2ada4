from __future__ import annotations

import json
import os
import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.model.errors import Refused, WorldError
from blueflame.model.policy import Patterns, Policy
from blueflame.model.settings.permissions import PermissionSettings, ValidationSettings
from blueflame.policy.compile import compile_policy
from blueflame.watcher.policy_file import ADDED_LATER, find_shfmt, format_policy, load_policy, parse_policy, save_policy


def compiled(**changes: object) -> Policy:
    given: dict[str, Any] = {
        "permissions": PermissionSettings(),
        "validation": ValidationSettings(),
        "role": "worker",
        "role_settings": None,
        "worktree": "/рабочее дерево",
        "scope": ("src/café", "docs"),
        "scratch": ("/tmp",),
    }
    return compile_policy(**given | changes)


def test_a_policy_is_read_back_as_it_was_saved(tmp_path: Path) -> None:
    for n, policy in enumerate([compiled(), compiled(scope=None), compiled(scope=()), compiled(schema=True)]):
        path = tmp_path / "папка с пробелом" / f"{n}.json"
        save_policy(policy, path)
        assert load_policy(path) == policy


TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1), max_size=3).map(tuple)


@given(texts=TEXTS, flags=st.booleans(), scope=st.none() | st.just(("a/b",)))
def test_any_policy_is_loaded_as_it_was_saved(
    texts: tuple[str, ...], flags: bool, scope: tuple[str, ...] | None
) -> None:
    policy = Policy(
        role="".join(texts),
        worktree="/" + "".join(texts),
        allowed_tools=texts,
        read_only=flags,
        scope=scope,
        blocked_paths=Patterns(written=texts, regexes=tuple("^x" for _ in texts)),
    )
    assert parse_policy(format_policy(policy), "here") == policy


def spoilt(**changes: object) -> str:
    said = json.loads(format_policy(compiled()))
    return json.dumps({**said, **changes})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[]", "not an object"),
        ("[" * 100_000, "not JSON"),
        ("{}", "version None"),
        (spoilt(version=2), "version 2"),
        (spoilt(version="1"), "version '1'"),
        (spoilt(new_rule=["x"]), "new_rule is unknown"),
        (format_policy(compiled()).replace('"role"', '"rolle"'), "rol"),
        (spoilt(read_only="no"), "read_only"),
        (spoilt(read_only=0), "read_only"),
        (spoilt(role=None), "role"),
        (spoilt(scope="src"), "scope"),
        (spoilt(scope=[1]), "scope"),
        (spoilt(scope=["../x"]), "rules cannot be used"),
        (spoilt(worktree="src"), "absolute"),
        (spoilt(allowed_paths=["src"]), "allowed_paths"),
        (spoilt(allowed_paths={"written": ["a"], "regexes": []}), "allowed_paths"),
        (spoilt(blocked_paths={"written": ["a"], "regexes": ["("]}), "rules cannot be used"),
        (spoilt(blocked_patterns=["("]), "rules cannot be used"),
        (spoilt(commit_pattern="["), "rules cannot be used"),
    ],
    ids=lambda value: str(value)[-40:],
)
def test_a_damaged_policy_allows_nothing(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "policy.json"
    path.write_text(text)
    with pytest.raises(WorldError) as caught:
        load_policy(path)
    assert why in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_policy_with_a_missing_key_is_refused(tmp_path: Path) -> None:
    said = json.loads(format_policy(compiled()))
    for name in said.keys() - ADDED_LATER:
        without = {key: value for key, value in said.items() if key != name}
        with pytest.raises(WorldError):
            parse_policy(json.dumps(without), "here")


def test_a_policy_of_an_earlier_version_is_used_with_what_it_had(tmp_path: Path) -> None:
    """Saved before there were skills, and used after an upgrade: its attempt loads none, and is judged as before."""
    policy = compiled()
    said = json.loads(format_policy(policy))
    del said["skills"]
    assert parse_policy(json.dumps(said), "here") == replace(policy, skills=())


def test_a_missing_or_binary_policy_is_reported(tmp_path: Path) -> None:
    with pytest.raises(WorldError, match="cannot be read"):
        load_policy(tmp_path / "none.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    with pytest.raises(WorldError, match="cannot be read"):
        load_policy(tmp_path / "bytes.json")
    with pytest.raises(WorldError, match="cannot be read"):
        load_policy(tmp_path)


def program(folder: Path) -> Path:
    folder.mkdir(parents=True)
    path = folder / "shfmt"
    path.write_text("#!/bin/sh\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_the_shfmt_of_the_installation_is_found() -> None:
    found = Path(find_shfmt())
    assert found.is_absolute() and os.access(found, os.X_OK)
    assert found.parent == Path(sys.executable).parent


def test_otherwise_shfmt_is_searched_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setattr("sysconfig.get_path", lambda *_: str(tmp_path / "nothing here"))
    (tmp_path / "not a program").mkdir()
    (tmp_path / "not a program" / "shfmt").mkdir()
    theirs = program(tmp_path / "их программы")
    monkeypatch.setenv("PATH", f"{tmp_path / 'not a program'}{os.pathsep}{theirs.parent}")
    assert find_shfmt() == str(theirs)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(Refused, match="shfmt-py"):
        find_shfmt()
