"""Moving the base branch under a person's feet without making them stumble."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from blueflame.git import landing
from blueflame.git.forges import ForgeFailed, push_branch
from blueflame.git.half_update import NOTE, note_update
from blueflame.git.landing import Advanced, Dirty, Moved, advance_branch
from blueflame.git.merge import create_commit
from blueflame.git.repository import Repository, find_dirty_paths, is_usable, open_repository, read_branch_head
from blueflame.model.errors import GitFailed
from support.disks import bound

Git = Callable[..., str]


@pytest.fixture
def ours(repo: Path) -> Repository:
    return open_repository(repo, base_branch="main")


@pytest.fixture
def new(ours: Repository, git: Git) -> str:
    """A commit that changes, adds and deletes files, made outside every checkout."""
    git(ours.root, "checkout", "-q", "--detach")
    (ours.root / "README.md").write_text("landed\n")
    (ours.root / "новый файл").write_text("landed\n")
    (ours.root / "src" / "app.py").unlink()
    git(ours.root, "add", "-A")
    git(ours.root, "commit", "-q", "-m", "feat: landed")
    sha = git(ours.root, "rev-parse", "HEAD").strip()
    git(ours.root, "checkout", "-q", "main")
    return sha


def snapshot(root: Path) -> dict[str, bytes]:
    files = (path for path in sorted(root.rglob("*")) if path.is_file() and ".git" not in path.parts)
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def landed(root: Path) -> None:
    assert snapshot(root)["README.md"] == b"landed\n"
    assert (root / "новый файл").exists()
    assert not (root / "src" / "app.py").exists()


def test_a_clean_checkout_is_updated(ours: Repository, new: str, git: Git) -> None:
    assert advance_branch(ours, "main", old=ours.base_sha, new=new) == Advanced(f"updated the checkout in {ours.root}")
    assert read_branch_head(ours, "main") == new
    assert git(ours.root, "status", "--porcelain") == ""
    assert git(ours.root, "symbolic-ref", "HEAD") == "refs/heads/main\n"
    assert "blueflame: land" in git(ours.root, "reflog", "-1", "HEAD")
    landed(ours.root)


@pytest.mark.parametrize("there", ["main", "real"])
def test_the_checkout_of_a_branch_that_is_a_symbolic_ref_is_updated(
    ours: Repository, new: str, git: Git, there: str
) -> None:
    """Left behind, its index would take back what has landed."""
    git(ours.root, "branch", "real")
    git(ours.root, "symbolic-ref", "refs/heads/main", "refs/heads/real")
    git(ours.root, "checkout", "-q", there)
    assert advance_branch(ours, "main", old=ours.base_sha, new=new) == Advanced(f"updated the checkout in {ours.root}")
    assert git(ours.root, "status", "--porcelain") == ""
    landed(ours.root)


def test_a_branch_that_is_not_checked_out_just_moves(ours: Repository, new: str, git: Git) -> None:
    git(ours.root, "checkout", "-q", "-b", "other")
    before = snapshot(ours.root)
    (ours.root / "README.md").write_text("work of mine")
    assert advance_branch(ours, "main", old=ours.base_sha, new=new) == Advanced("not checked out anywhere")
    assert read_branch_head(ours, "main") == new
    assert snapshot(ours.root) == {**before, "README.md": b"work of mine"}


def test_untracked_files_out_of_the_way_stay(ours: Repository, new: str) -> None:
    (ours.root / "notes").write_text("mine")
    assert isinstance(advance_branch(ours, "main", old=ours.base_sha, new=new), Advanced)
    assert (ours.root / "notes").read_text() == "mine"


def test_a_touched_but_unchanged_file_is_clean(ours: Repository, new: str) -> None:
    for name in ("README.md", "src/app.py"):
        os.utime(ours.root / name, (1, 1))
    assert isinstance(advance_branch(ours, "main", old=ours.base_sha, new=new), Advanced)
    landed(ours.root)


def test_an_index_that_cannot_be_refreshed_is_not_the_persons_change(ours: Repository, new: str, git: Git) -> None:
    index, file = ours.root / ".git/index", ours.root / "src/app.py"
    os.utime(file, (1, 1))

    with bound(index, index), pytest.raises(GitFailed, match="not uptodate"):
        advance_branch(ours, "main", old=ours.base_sha, new=new)

    assert isinstance(advance_branch(ours, "main", old=ours.base_sha, new=new), Advanced)
    assert git(ours.root, "status", "--porcelain") == ""


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("name", ["README.md", "src/app.py"])
def test_a_dirty_checkout_is_not_touched(ours: Repository, new: str, git: Git, staged: bool, name: str) -> None:
    (ours.root / name).write_text("work of mine")
    if staged:
        git(ours.root, "add", "-A")
    before = snapshot(ours.root)
    outcome = advance_branch(ours, "main", old=ours.base_sha, new=new)
    assert isinstance(outcome, Dirty)
    assert outcome.paths == (name,)
    assert str(ours.root) in outcome.reason
    assert snapshot(ours.root) == before
    assert read_branch_head(ours, "main") == ours.base_sha


@pytest.mark.parametrize("ignored", [False, True])
def test_an_untracked_file_in_the_way_is_not_overwritten(ours: Repository, new: str, ignored: bool) -> None:
    if ignored:
        (ours.common_dir / "info").mkdir(exist_ok=True)
        (ours.common_dir / "info" / "exclude").write_text("новый*\n")
    (ours.root / "новый файл").write_text("mine")
    outcome = advance_branch(ours, "main", old=ours.base_sha, new=new)
    assert isinstance(outcome, Dirty)
    assert outcome.paths == ("новый файл",)
    assert (ours.root / "новый файл").read_text() == "mine"
    assert (ours.root / "README.md").read_text() == "# sample\n"
    assert read_branch_head(ours, "main") == ours.base_sha


@pytest.mark.parametrize("mark", ["assume-unchanged", "skip-worktree"])
def test_a_change_that_is_hidden_from_git_is_kept_and_the_error_says_how_to_see_it(
    ours: Repository, new: str, git: Git, mark: str
) -> None:
    git(ours.root, "update-index", f"--{mark}", "README.md")
    (ours.root / "README.md").write_text("mine")
    before = snapshot(ours.root)

    with pytest.raises(GitFailed, match=r"README\.md.*--no-assume-unchanged --no-skip-worktree"):
        advance_branch(ours, "main", old=ours.base_sha, new=new)

    assert snapshot(ours.root) == before
    assert read_branch_head(ours, "main") == ours.base_sha


def landing_of(ours: Repository, git: Git, change: Callable[[], None]) -> tuple[str, str]:
    """The base and a commit on it with some change, in which the checkout stands at the base."""
    old = read_branch_head(ours, "main")
    git(ours.root, "checkout", "-q", "--detach")
    change()
    git(ours.root, "add", "-A")
    git(ours.root, "commit", "-q", "-m", "change")
    new = git(ours.root, "rev-parse", "HEAD").strip()
    git(ours.root, "checkout", "-q", "main")
    return old, new


def test_an_ignored_file_in_the_place_of_a_new_folder_is_kept(ours: Repository, git: Git) -> None:
    def change() -> None:
        (ours.root / "build").mkdir()
        (ours.root / "build" / "rules").write_text("")

    old, new = landing_of(ours, git, change)
    (ours.common_dir / "info").mkdir(exist_ok=True)
    (ours.common_dir / "info" / "exclude").write_text("/build\n")
    (ours.root / "build").write_text("mine")
    outcome = advance_branch(ours, "main", old=old, new=new)
    assert isinstance(outcome, Dirty)
    assert outcome.paths == ("build",)
    (ours.root / "build").unlink()
    (ours.root / "build").symlink_to("src")
    outcome = advance_branch(ours, "main", old=old, new=new)
    assert isinstance(outcome, Dirty)
    assert (ours.root / "build").is_symlink()


def test_ignored_files_in_a_folder_in_the_place_of_a_new_file_are_kept(ours: Repository, git: Git) -> None:
    def change() -> None:
        (ours.root / "src" / "app.py").unlink()
        (ours.root / "src").rmdir()
        (ours.root / "src").write_text("a file now")

    old, new = landing_of(ours, git, change)
    (ours.common_dir / "info").mkdir(exist_ok=True)
    (ours.common_dir / "info" / "exclude").write_text("*.pyc\n")
    (ours.root / "src" / "app.pyc").write_text("mine")
    outcome = advance_branch(ours, "main", old=old, new=new)
    assert isinstance(outcome, Dirty)
    assert outcome.paths == ("src/app.pyc",)
    (ours.root / "src" / "app.pyc").unlink()
    assert isinstance(advance_branch(ours, "main", old=old, new=new), Advanced)
    assert (ours.root / "src").read_text() == "a file now"


def test_a_file_that_becomes_a_folder_lands(ours: Repository, git: Git) -> None:
    def change() -> None:
        (ours.root / "README.md").unlink()
        (ours.root / "README.md").mkdir()
        (ours.root / "README.md" / "part").write_text("one")

    old, new = landing_of(ours, git, change)
    assert isinstance(advance_branch(ours, "main", old=old, new=new), Advanced)
    assert (ours.root / "README.md" / "part").read_text() == "one"
    assert git(ours.root, "status", "--porcelain") == ""


def test_a_branch_that_moved_is_reported_and_left(ours: Repository, new: str, git: Git) -> None:
    git(ours.root, "commit", "-q", "--allow-empty", "-m", "another person")
    other = read_branch_head(ours, "main")
    before = snapshot(ours.root)
    assert advance_branch(ours, "main", old=ours.base_sha, new=new) == Moved(other)
    assert read_branch_head(ours, "main") == other
    assert snapshot(ours.root) == before


def test_landing_twice_is_landing_once(ours: Repository, new: str, git: Git) -> None:
    advance_branch(ours, "main", old=ours.base_sha, new=new)
    assert advance_branch(ours, "main", old=ours.base_sha, new=new) == Advanced("already landed")
    git(ours.root, "commit", "-q", "--allow-empty", "-m", "on top")
    top = read_branch_head(ours, "main")
    assert advance_branch(ours, "main", old=ours.base_sha, new=new) == Advanced("already landed")
    assert advance_branch(ours, "main", old=top, new=top) == Advanced("already landed")
    assert read_branch_head(ours, "main") == top


def test_a_missing_branch_is_an_error(ours: Repository, new: str) -> None:
    with pytest.raises(GitFailed, match="no longer exists"):
        advance_branch(ours, "gone", old=ours.base_sha, new=new)


def test_a_linked_worktree_with_the_branch_is_updated(ours: Repository, new: str, git: Git, tmp_path: Path) -> None:
    git(ours.root, "checkout", "-q", "-b", "other")
    git(ours.root, "worktree", "add", "-q", str(tmp_path / "their tree"), "main")
    outcome = advance_branch(ours, "main", old=ours.base_sha, new=new)
    assert outcome == Advanced(f"updated the checkout in {tmp_path / 'their tree'}")
    landed(tmp_path / "their tree")
    assert git(tmp_path / "their tree", "status", "--porcelain") == ""
    assert (ours.root / "README.md").read_text() == "# sample\n"


def test_a_checkout_whose_git_folder_is_elsewhere_is_updated(
    ours: Repository, new: str, git: Git, tmp_path: Path
) -> None:
    git(ours.root, "init", "-q", "--separate-git-dir", str(tmp_path / "the git folder"))
    moved = open_repository(ours.root, base_branch="main")
    outcome = advance_branch(moved, "main", old=moved.base_sha, new=new)
    assert outcome == Advanced(f"updated the checkout in {ours.root}")
    landed(ours.root)
    assert not is_usable(ours, ref="refs/blueflame/attempts/x"), "as it was opened before its folder moved"
    assert is_usable(moved, ref="refs/blueflame/attempts/x")


def test_a_push_to_a_remote_that_never_answers_ends_in_time(ours: Repository, new: str, git: Git) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        git(ours.root, "remote", "add", "origin", f"git://127.0.0.1:{silent.getsockname()[1]}/x")
        with pytest.raises(ForgeFailed, match=r"origin: git push .* not finished after 0\.2 seconds.*push_timeout"):
            push_branch(ours, "origin", new, "work", timeout=0.2)


def test_a_worktree_whose_folder_is_gone_does_not_matter(ours: Repository, new: str, git: Git, tmp_path: Path) -> None:
    git(ours.root, "checkout", "-q", "-b", "other")
    git(ours.root, "worktree", "add", "-q", str(tmp_path / "tree"), "main")
    (tmp_path / "tree").rename(tmp_path / "elsewhere")
    assert advance_branch(ours, "main", old=ours.base_sha, new=new) == Advanced("not checked out anywhere")


def test_two_checkouts_of_the_branch_are_both_brought_or_none(
    ours: Repository, new: str, git: Git, tmp_path: Path
) -> None:
    git(ours.root, "worktree", "add", "-q", "--force", str(tmp_path / "second"), "main")
    (tmp_path / "second" / "README.md").write_text("mine")
    assert isinstance(advance_branch(ours, "main", old=ours.base_sha, new=new), Dirty)
    assert find_dirty_paths(ours) == ()
    git(tmp_path / "second", "checkout", "-q", "--", "README.md")
    assert isinstance(advance_branch(ours, "main", old=ours.base_sha, new=new), Advanced)
    for root in (ours.root, tmp_path / "second"):
        landed(root)
        assert git(root, "status", "--porcelain") == ""


def test_a_merge_or_rebase_under_way_is_left_in_peace(ours: Repository, new: str, git: Git) -> None:
    (ours.git_dir / "MERGE_HEAD").write_text(f"{ours.base_sha}\n")
    outcome = advance_branch(ours, "main", old=ours.base_sha, new=new)
    assert isinstance(outcome, Dirty)
    assert "a merge is under way" in outcome.reason
    assert outcome.under_way
    (ours.git_dir / "MERGE_HEAD").unlink()

    git(ours.root, "checkout", "-q", "--detach")
    (ours.git_dir / "rebase-merge").mkdir()
    (ours.git_dir / "rebase-merge" / "head-name").write_text("refs/heads/main\n")
    outcome = advance_branch(ours, "main", old=ours.base_sha, new=new)
    assert isinstance(outcome, Dirty)
    assert "a rebase of main is under way" in outcome.reason
    assert outcome.under_way
    assert read_branch_head(ours, "main") == ours.base_sha


def test_nothing_lands_past_a_checkout_that_core_bare_hides_from_git(ours: Repository, new: str, git: Git) -> None:
    """core.bare, as some tools set it by mistake: the old index would later take back what has landed."""
    git(ours.root, "config", "core.bare", "true")
    with pytest.raises(GitFailed, match=r"core\.bare .* run 'git config core\.bare false'"):
        advance_branch(ours, "main", old=ours.base_sha, new=new)
    assert read_branch_head(ours, "main") == ours.base_sha
    git(ours.root, "config", "core.bare", "false")
    assert isinstance(advance_branch(ours, "main", old=ours.base_sha, new=new), Advanced)
    landed(ours.root)


def test_submodules_of_the_person_are_no_obstacle(ours: Repository, git: Git, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(ours.root), "part")
    git(ours.root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "part"), "sub")
    git(ours.root, "commit", "-q", "-m", "add a submodule")
    old = read_branch_head(ours, "main")
    git(ours.root, "checkout", "-q", "--detach")
    (ours.root / "README.md").write_text("landed\n")
    git(ours.root, "commit", "-q", "-am", "more")
    new = git(ours.root, "rev-parse", "HEAD").strip()
    git(ours.root, "checkout", "-q", "main")
    (ours.root / "sub" / "README.md").write_text("theirs")
    assert isinstance(advance_branch(ours, "main", old=old, new=new), Advanced)
    assert (ours.root / "sub" / "README.md").read_text() == "theirs"


# --- crashes and races


def test_a_crash_between_the_two_steps_is_repaired_by_calling_again(
    ours: Repository, new: str, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(landing, "_swap_branch", crash)
        with pytest.raises(KeyboardInterrupt):
            advance_branch(ours, "main", old=ours.base_sha, new=new)
    assert read_branch_head(ours, "main") == ours.base_sha
    landed(ours.root)
    assert isinstance(advance_branch(ours, "main", old=ours.base_sha, new=new), Advanced)
    assert read_branch_head(ours, "main") == new
    assert git(ours.root, "status", "--porcelain") == ""


def test_work_begun_after_such_a_crash_is_not_touched(
    ours: Repository, new: str, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(ours.root, "read-tree", "-m", "-u", ours.base_sha, new)
    (ours.root / "README.md").write_text("mine now")
    outcome = advance_branch(ours, "main", old=ours.base_sha, new=new)
    assert isinstance(outcome, Dirty)
    assert "README.md" in outcome.paths
    assert (ours.root / "README.md").read_text() == "mine now"


@pytest.mark.parametrize("rest", [b"", b"lan", b"landed\n"], ids=["emptied", "cut", "whole"])
def test_an_update_that_stopped_half_way_is_taken_back(ours: Repository, new: str, git: Git, rest: bytes) -> None:
    """Killed, or without room: some files are new, the index is not."""
    note_update(ours.common_dir, ours.base_sha, new)
    (ours.root / "README.md").write_bytes(rest)
    (ours.root / "новый файл").write_bytes(rest)
    (ours.root / "src" / "app.py").unlink()
    assert isinstance(advance_branch(ours, "main", old=ours.base_sha, new=new), Advanced)
    assert git(ours.root, "status", "--porcelain") == ""
    landed(ours.root)
    assert not (ours.common_dir / NOTE).exists()


def test_what_the_person_staged_beside_an_update_that_stopped_is_all_that_is_in_the_way(
    ours: Repository, new: str, git: Git
) -> None:
    note_update(ours.common_dir, ours.base_sha, new)
    (ours.root / "README.md").write_text("lan")
    (ours.root / "новый файл").write_text("landed\n")
    (ours.root / "моё").write_text("mine")
    git(ours.root, "add", "моё")
    outcome = advance_branch(ours, "main", old=ours.base_sha, new=new)
    reason = f"{ours.root} has changes that are not committed; commit or stash them first"
    assert outcome == Dirty(("моё",), reason)
    assert git(ours.root, "-c", "core.quotepath=false", "status", "--porcelain") == "A  моё\n"
    git(ours.root, "stash")
    assert isinstance(advance_branch(ours, "main", old=ours.base_sha, new=new), Advanced)
    landed(ours.root)
    git(ours.root, "stash", "pop")
    assert (ours.root / "моё").read_text() == "mine"


def test_what_the_person_changed_after_an_update_stopped_is_not_touched(ours: Repository, new: str) -> None:
    note_update(ours.common_dir, ours.base_sha, new)
    (ours.root / "README.md").write_text("landed\nand mine")
    (ours.root / "новый файл").write_text("mine")
    outcome = advance_branch(ours, "main", old=ours.base_sha, new=new)
    assert isinstance(outcome, Dirty)
    assert (ours.root / "README.md").read_text() == "landed\nand mine"
    assert (ours.root / "новый файл").read_text() == "mine"


def test_a_git_that_is_killed_before_it_writes_the_index_leaves_nothing(ours: Repository, git: Git) -> None:
    """It has written all files: the index may not grow to its new size, and the kernel kills it."""
    git(ours.root, "checkout", "-q", "--detach")
    for n in range(400):
        (ours.root / f"{n:04d} {'x' * 100}.txt").write_text(str(n))
    git(ours.root, "add", "-A")
    git(ours.root, "commit", "-q", "-m", "feat: many")
    new = git(ours.root, "rev-parse", "HEAD").strip()
    git(ours.root, "checkout", "-q", "main")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(GitFailed, match="limit on file sizes"):
            advance_branch(ours, "main", old=ours.base_sha, new=new)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(snapshot(ours.root)) > 400, "it is half done"
    (ours.common_dir / "index.lock").unlink()  # as git/locks does
    assert isinstance(advance_branch(ours, "main", old=ours.base_sha, new=new), Advanced)
    assert git(ours.root, "status", "--porcelain") == ""


def test_when_the_swap_is_lost_the_checkout_goes_back(
    ours: Repository, new: str, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = git(ours.root, "rev-parse", "HEAD^{tree}").strip()
    other = create_commit(ours, tree, (ours.base_sha,), "another person was faster")
    before = snapshot(ours.root)
    real = landing._swap_branch

    def late(*args: object, **more: object) -> object:
        git(ours.root, "update-ref", "refs/heads/main", other)
        return real(*args, **more)  # type: ignore[arg-type]  # handed on as they came

    monkeypatch.setattr(landing, "_swap_branch", late)
    assert advance_branch(ours, "main", old=ours.base_sha, new=new) == Moved(other)
    assert read_branch_head(ours, "main") == other
    assert snapshot(ours.root) == before
    assert git(ours.root, "status", "--porcelain") == ""


def test_when_the_swap_cannot_be_done_the_checkout_goes_back(ours: Repository, new: str, git: Git) -> None:
    before = snapshot(ours.root)
    (ours.common_dir / "refs" / "heads" / "main.lock").write_text("")
    with pytest.raises(GitFailed, match=r"main\.lock"):
        advance_branch(ours, "main", old=ours.base_sha, new=new)
    (ours.common_dir / "refs" / "heads" / "main.lock").unlink()
    assert snapshot(ours.root) == before
    assert git(ours.root, "status", "--porcelain") == ""
    assert isinstance(advance_branch(ours, "main", old=ours.base_sha, new=new), Advanced)


def test_of_ten_landings_at_once_one_wins(ours: Repository, git: Git) -> None:
    git(ours.root, "checkout", "-q", "--detach")
    tree = git(ours.root, "rev-parse", "HEAD^{tree}").strip()
    rivals = [create_commit(ours, tree, (ours.base_sha,), f"rival {n}") for n in range(10)]

    def land(rival: str) -> object:
        try:
            return advance_branch(ours, "main", old=ours.base_sha, new=rival)
        except GitFailed as e:  # the branch was locked for a moment by the winner
            return e

    with ThreadPoolExecutor(10) as pool:
        outcomes = list(pool.map(land, rivals))
    assert sum(isinstance(outcome, Advanced) for outcome in outcomes) == 1
    assert read_branch_head(ours, "main") == rivals[[isinstance(outcome, Advanced) for outcome in outcomes].index(True)]


def test_a_landing_waits_for_a_git_that_holds_the_index_for_a_moment(ours: Repository, new: str) -> None:
    """As an editor does that refreshes its view."""
    lock = ours.git_dir / "index.lock"
    lock.touch()
    with subprocess.Popen(["sh", "-c", 'sleep 0.5; rm "$1"', "sh", str(lock)]):
        done = advance_branch(ours, "main", old=ours.base_sha, new=new)
    assert isinstance(done, Advanced)
    assert find_dirty_paths(ours) == ()


def test_a_landing_that_waits_too_long_for_the_index_fails_and_changes_nothing(
    ours: Repository, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landing, "INDEX_WAIT_SECONDS", 0.1)
    before = snapshot(ours.root)
    (ours.git_dir / "index.lock").touch()
    with pytest.raises(GitFailed, match=r"index\.lock"):
        advance_branch(ours, "main", old=ours.base_sha, new=new)
    assert snapshot(ours.root) == before
    assert read_branch_head(ours, "main") == ours.base_sha
