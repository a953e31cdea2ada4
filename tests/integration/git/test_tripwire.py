"""The tripwire in our own repository: it fires for what runs code, and stays quiet while the person works."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from blueflame.git.repository import Repository, open_repository
from blueflame.git.tripwire import find_tampering, take_fingerprint
from blueflame.model.errors import GitFailed

Git = Callable[..., str]


@pytest.fixture
def ours(repo: Path) -> Repository:
    return open_repository(repo, base_branch="main")


def hook(ours: Repository, name: str = "post-commit") -> Path:
    place = ours.common_dir / "hooks" / name
    place.parent.mkdir(exist_ok=True)
    place.write_text("#!/bin/sh\n")
    place.chmod(0o755)
    return place


def append(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(text)


def test_without_a_change_nothing_is_reported(ours: Repository) -> None:
    hook(ours)
    assert find_tampering(take_fingerprint(ours), take_fingerprint(ours)) == ()


TAMPERING: dict[str, tuple[str, Callable[[Repository], object]]] = {
    "a new hook": ("hooks/pre-push", lambda ours: hook(ours, "pre-push")),
    "a changed hook": ("hooks/post-commit", lambda ours: append(hook(ours), "curl evil\n")),
    "a hook made executable": ("hooks/post-commit", lambda ours: hook(ours).chmod(0o777)),
    "a removed hook": ("hooks/post-commit", lambda ours: hook(ours).unlink()),
    "a monitor": ("config: core.fsmonitor", lambda ours: append(ours.common_dir / "config", "[core]\nfsmonitor = x\n")),
    "other hooks": (
        "config: core.hookspath",
        lambda ours: append(ours.common_dir / "config", "[core]\nhooksPath = x\n"),
    ),
    "an alias": ("config: alias.st", lambda ours: append(ours.common_dir / "config", "[alias]\nst = !evil\n")),
    "a filter": (
        "config: filter.x.clean",
        lambda ours: append(ours.common_dir / "config", '[filter "x"]\nclean = x\n'),
    ),
    "an include": ("config: include.path", lambda ours: append(ours.common_dir / "config", "[include]\npath = x\n")),
    "another place": (
        "config: url.https://evil/.insteadof",
        lambda ours: append(ours.common_dir / "config", '[url "https://evil/"]\ninsteadOf = https://good/\n'),
    ),
    "a second value": ("config: alias.x", lambda ours: append(ours.common_dir / "config", "[alias]\nx = !z\n")),
    "worktree config": (
        "config.worktree: core.sshcommand",
        lambda ours: append(ours.git_dir / "config.worktree", "[core]\nsshCommand = x\n"),
    ),
    "an extension": (
        "config: extensions.worktreeconfig",
        lambda ours: append(ours.common_dir / "config", "[extensions]\nworktreeConfig = true\n"),
    ),
    "alternates": ("objects/info/alternates", lambda ours: append(ours.objects / "info" / "alternates", "/x\n")),
    "grafts": ("info/grafts", lambda ours: append(ours.common_dir / "info" / "grafts", "\n")),
}


@pytest.mark.parametrize("what", TAMPERING)
def test_what_makes_git_run_or_borrow_something_is_a_violation(ours: Repository, git: Git, what: str) -> None:
    name, tamper = TAMPERING[what]
    hook(ours)
    git(ours.root, "config", "alias.x", "!y")
    before = take_fingerprint(ours)
    tamper(ours)
    (found,) = find_tampering(before, take_fingerprint(ours))
    assert (found.rule, found.path) == ("repository_touched", name)


def test_hooks_that_become_a_link_to_others_are_a_violation(ours: Repository, tmp_path: Path) -> None:
    hooks = hook(ours).parent
    before = take_fingerprint(ours)
    others = tmp_path / "мои hooks"
    hooks.rename(others)
    hooks.symlink_to(others)
    assert ("repository_touched", "hooks") in [
        (one.rule, one.path) for one in find_tampering(before, take_fingerprint(ours))
    ]


def test_the_person_may_commit_branch_fetch_and_configure_meanwhile(ours: Repository, git: Git) -> None:
    before = take_fingerprint(ours)
    (ours.root / "README.md").write_text("news\n")
    git(ours.root, "commit", "-q", "-am", "docs: news")
    git(ours.root, "checkout", "-q", "-b", "мой-branch")
    git(ours.root, "tag", "v1")
    git(ours.root, "config", "user.name", "Кто-то")
    git(ours.root, "config", "remote.origin.url", "https://git.internal/a.git")
    git(ours.root, "pack-refs", "--all")
    append(ours.common_dir / "info" / "exclude", "x\n")
    assert find_tampering(before, take_fingerprint(ours)) == ()


def test_a_value_that_holds_a_password_is_not_kept(ours: Repository, git: Git) -> None:
    git(ours.root, "config", "remote.origin.proxy", "https://ada:hunter2@git.internal")
    assert "remote.origin.proxy" in repr(take_fingerprint(ours))
    assert "hunter2" not in repr(take_fingerprint(ours))


def test_a_config_that_git_cannot_read_is_a_failure(ours: Repository) -> None:
    (ours.common_dir / "config").write_text("[core\n")
    with pytest.raises(GitFailed):
        take_fingerprint(ours)
