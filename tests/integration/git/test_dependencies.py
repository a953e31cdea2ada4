"""What setups installed, kept for later checkouts of the same lock files."""

from __future__ import annotations

from pathlib import Path

import pytest

from blueflame.git.checkouts import make_checkout
from blueflame.git.dependencies import MAX_KEPT, build_key, is_accepted, keep_dependencies, restore_dependencies
from blueflame.git.repository import Repository, open_repository
from support.sessions import git


@pytest.fixture
def project(repo: Path) -> Repository:
    (repo / ".gitignore").write_text("node_modules/\n.venv/\ntarget/\n")
    (repo / "package-lock.json").write_text("{}")
    for name in ("packages/a/index.js", "vendor/tracked.txt"):
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text("x")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "feat(task-000): packages")
    return open_repository(repo, base_branch="main")


class Room:
    """A checkout and its home beside it."""

    def __init__(self, project: Repository, folder: Path, commit: str = "") -> None:
        self.checkout, self.home = folder / "checkout", folder / "home"
        make_checkout(project, self.checkout, base=commit or project.base_sha)
        self.home.mkdir()

    def install(self, *names: str) -> None:
        for name in names:
            path = self.home / name[2:] if name.startswith("~/") else self.checkout / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("installed")


def keep(project: Repository, store: Path, tmp_path: Path, *names: str) -> None:
    room = Room(project, tmp_path / "first")
    room.install(*names)
    keep_dependencies(store, project.root, room.checkout, room.home)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "key"


def test_the_next_checkout_has_what_the_last_one_installed(project: Repository, store: Path, tmp_path: Path) -> None:
    keep(project, store, tmp_path, "node_modules/x/index.js", "packages/a/node_modules/y.js", ".venv/bin/z", "~/.npm/c")
    room = Room(project, tmp_path / "second")
    restore_dependencies(store, room.checkout, room.home)
    for path in ("node_modules/x/index.js", "packages/a/node_modules/y.js", ".venv/bin/z"):
        assert (room.checkout / path).read_text() == "installed"
    assert (room.home / ".npm/c").read_text() == "installed"
    assert git(room.checkout, "status", "--porcelain") == ""


def test_only_ignored_folders_of_dependencies_are_kept(project: Repository, store: Path, tmp_path: Path) -> None:
    keep(project, store, tmp_path, "target/a", "dist/b", "vendor/untracked", ".env", "~/.ssh/key", "~/.config/c")
    assert sorted(str(path.relative_to(store)) for path in store.rglob("*") if path.is_file()) == ["tree/target/a"]


def test_an_environment_that_ignores_itself_is_kept(project: Repository, store: Path, tmp_path: Path) -> None:
    (project.root / ".gitignore").write_text("")
    room = Room(project, tmp_path / "first")
    room.install("venv/bin/python", "deps/a")
    (room.checkout / "venv" / ".gitignore").write_text("*\n")
    keep_dependencies(store, project.root, room.checkout, room.home)
    assert [path.name for path in (store / "tree").iterdir()] == ["venv"]


def test_what_a_setup_removes_first_is_not_kept(project: Repository, store: Path, tmp_path: Path) -> None:
    room = Room(project, tmp_path / "first")
    room.install("node_modules/a", "~/.npm/b")
    keep_dependencies(store, project.root, room.checkout, room.home, rebuilt=("node_modules",))
    assert [path.name for path in store.iterdir()] == ["home"]


def test_no_checkout_can_change_what_another_gets(project: Repository, store: Path, tmp_path: Path) -> None:
    keep(project, store, tmp_path, "node_modules/x.js")
    first, second = Room(project, tmp_path / "a"), Room(project, tmp_path / "b")
    restore_dependencies(store, first.checkout, first.home)
    with (first.checkout / "node_modules/x.js").open("r+") as file:  # in place: a hard link would show it everywhere
        file.write("evil")
    restore_dependencies(store, second.checkout, second.home)
    assert (second.checkout / "node_modules/x.js").read_text() == "installed"
    assert (store / "tree/node_modules/x.js").read_text() == "installed"


def test_a_link_in_a_commit_leads_no_copy_out_of_the_checkout(project: Repository, store: Path, tmp_path: Path) -> None:
    keep(project, store, tmp_path, "node_modules/x.js", "packages/a/node_modules/y.js")
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "a").mkdir(parents=True)
    git(project.root, "rm", "-rqf", "packages")
    (project.root / "packages").symlink_to(elsewhere)
    (project.root / "node_modules").symlink_to(elsewhere)
    git(project.root, "add", "-fA")
    git(project.root, "commit", "-qm", "feat(task-001): links")
    room = Room(project, tmp_path / "second", git(project.root, "rev-parse", "HEAD").strip())
    restore_dependencies(store, room.checkout, room.home)
    assert [path.name for path in elsewhere.rglob("*")] == ["a"]
    assert (room.checkout / "node_modules").is_symlink()


def test_a_folder_that_only_the_person_ignores_is_ignored_in_the_checkout(
    project: Repository, store: Path, tmp_path: Path
) -> None:
    keep(project, store, tmp_path, "target/a")
    room = Room(project, tmp_path / "second")
    (room.checkout / ".gitignore").write_text("")
    restore_dependencies(store, room.checkout, room.home)
    assert git(room.checkout, "status", "--porcelain").split() == ["M", ".gitignore"]


def test_another_lock_file_or_setup_is_another_key(project: Repository) -> None:
    key = build_key(project, project.base_sha, ("npm install",))
    assert build_key(project, project.base_sha, ("npm ci",)) != key
    (project.root / "packages/a/index.js").write_text("y")
    git(project.root, "commit", "-qam", "feat(task-001): code")
    assert build_key(project, git(project.root, "rev-parse", "HEAD").strip(), ("npm install",)) == key
    (project.root / "package-lock.json").write_text("[]")
    git(project.root, "commit", "-qam", "feat(task-002): lock")
    assert build_key(project, git(project.root, "rev-parse", "HEAD").strip(), ("npm install",)) != key


def test_only_what_the_base_branch_contains_is_accepted(project: Repository) -> None:
    git(project.root, "checkout", "-qb", "side")
    git(project.root, "commit", "-q", "--allow-empty", "-m", "feat(task-001): side")
    assert is_accepted(project, project.base_sha, "main")
    assert not is_accepted(project, git(project.root, "rev-parse", "side").strip(), "main")


def test_a_bounded_number_is_kept(project: Repository, tmp_path: Path) -> None:
    for n in range(MAX_KEPT + 2):
        keep(project, tmp_path / "kept" / f"key-{n}", tmp_path / str(n), "target/a")
    found = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert found == [f"key-{n}" for n in range(2, MAX_KEPT + 2)]
