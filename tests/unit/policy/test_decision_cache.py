"""A judged command is not judged again until something that it depends on changes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from blueflame.model.policy import Decision, Policy, ToolCall
from blueflame.model.settings.permissions import BashRules, PermissionSettings, ValidationSettings
from blueflame.policy import decision_cache
from blueflame.policy.compile import compile_policy
from blueflame.policy.decide import decide
from blueflame.policy.decision_cache import DecisionCache, QuestionRecorder
from blueflame.watcher.policy_file import find_shfmt
from blueflame.watcher.world import LocalWorld


class CountingWorld(LocalWorld):
    parsed = 0

    def parse(self, command: str) -> Mapping[str, Any]:
        self.parsed += 1
        return super().parse(command)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    found = tmp_path / "дерево"
    (found / "src").mkdir(parents=True)
    return found


@pytest.fixture
def world(top: Path) -> CountingWorld:
    return CountingWorld(str(top), shfmt=find_shfmt())


def make(top: Path) -> Policy:
    permissions = PermissionSettings(
        bash_rules=BashRules(allowed_commands=("make", "git status", "touch", "npm run lint"))
    )
    return compile_policy(
        permissions=permissions,
        validation=ValidationSettings(),
        role="worker",
        role_settings=None,
        worktree=str(top),
        scope=None,
    )


def run(policy: Policy, world: LocalWorld, command: str, cwd: Path) -> Decision:
    return decide(policy, ToolCall(tool="Bash", input={"command": command}, cwd=str(cwd)), world)


def test_a_judged_command_is_not_judged_again(top: Path, world: CountingWorld) -> None:
    policy = make(top)
    answers = [run(policy, world, "git status > src/x.txt", top) for _ in range(5)]
    assert answers[0].allowed and set(answers) == {answers[0]}
    assert world.parsed == 1


def test_in_another_folder_it_is_judged_again(top: Path, world: CountingWorld) -> None:
    policy = make(top)
    assert run(policy, world, "git status > x.txt", top / "src").allowed
    assert run(policy, world, "git status > x.txt", top).rule == "path_not_allowed"


def test_a_changed_link_is_noticed(top: Path, world: CountingWorld, tmp_path: Path) -> None:
    policy = make(top)
    assert run(policy, world, "touch src/out/x", top).allowed
    (top / "src" / "out").symlink_to(tmp_path)
    assert run(policy, world, "touch src/out/x", top).rule == "outside_worktree"
    (top / "src" / "out").unlink()
    assert run(policy, world, "touch src/out/x", top).allowed


def test_each_policy_has_its_own_cache(top: Path, world: CountingWorld) -> None:
    assert run(make(top), world, "make all", top).allowed
    strict = compile_policy(
        permissions=PermissionSettings(bash_rules=BashRules(allowed_commands=("git status",))),
        validation=ValidationSettings(),
        role="worker",
        role_settings=None,
        worktree=str(top),
        scope=None,
    )
    assert run(strict, world, "make all", top).rule == "command_not_allowed"


class ReadablePaths:
    """All paths may be read, none written."""

    def check_read(self, path: str) -> Decision:
        return Decision(True, "allowed")

    def check_write(self, path: str) -> Decision:
        return Decision(False, "read_only_role", path)


def test_the_oldest_entry_is_dropped_and_large_ones_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_cache, "MAX_ENTRIES", 2)
    cache, paths = DecisionCache(), ReadablePaths()
    yes = Decision(True, "allowed")

    def known(command: str) -> bool:
        return cache.find(command, "/", paths) is not None

    for command in ("a", "b"):
        cache.store(command, "/", yes, QuestionRecorder(paths))
    assert known("a")
    cache.store("c", "/", yes, QuestionRecorder(paths))
    assert [known(command) for command in "abc"] == [True, False, True]
    cache.store("x" * 10_000, "/", yes, QuestionRecorder(paths))
    assert not known("x" * 10_000)
    restless = QuestionRecorder(paths)
    for n in range(100):
        restless.check_read(str(n))
    cache.store("e", "/", yes, restless)
    assert not known("e")
