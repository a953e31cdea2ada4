"""Checkouts: borrowed objects, nothing shared that an agent could harm, made whole or made again."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from blueflame.git import checkouts
from blueflame.git.checkouts import get_record_path, list_checkouts, make_checkout, remove_checkout
from blueflame.git.repository import Repository, open_repository, read_branch_head
from blueflame.model.errors import GitFailed, WorldError
from support.disks import fill, mounted

Git = Callable[..., str]
BRANCH = "blueflame/ses-20260101-000000/task-001/1"


@pytest.fixture
def ours(repo: Path) -> Repository:
    return open_repository(repo, base_branch="main")


@pytest.fixture
def place(repo: Path) -> Path:
    return repo / ".trees" / "worker-1a2b3c4d"


@pytest.mark.verification(6)
def test_a_checkout_has_the_files_of_its_base_on_its_own_branch(ours: Repository, place: Path, git: Git) -> None:
    make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
    assert (place / "src" / "app.py").read_text() == (ours.root / "src" / "app.py").read_text()
    assert git(place, "rev-parse", "HEAD").strip() == ours.base_sha
    assert git(place, "symbolic-ref", "HEAD").strip() == f"refs/heads/{BRANCH}"
    assert git(place, "status", "--porcelain") == ""


def test_there_is_nothing_to_push_to_and_no_hook(ours: Repository, place: Path, git: Git) -> None:
    make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
    assert git(place, "remote") == ""
    assert git(place, "for-each-ref", "--format=%(refname)").splitlines() == [f"refs/heads/{BRANCH}"]
    assert not (place / ".git" / "hooks").exists()
    assert git(place, "config", "gc.auto").strip() == "0"


def test_tags_are_there_for_builds_that_take_their_version_from_them(ours: Repository, place: Path, git: Git) -> None:
    git(ours.root, "tag", "v1.0")
    git(ours.root, "tag", "-a", "-m", "two", "версия/2")
    make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
    assert git(place, "describe", "--tags", "--match", "v1*").strip() == "v1.0"
    assert git(place, "-c", "core.quotePath=false", "tag", "--list").splitlines() == ["v1.0", "версия/2"]


def test_objects_are_borrowed_not_copied(ours: Repository, place: Path, git: Git) -> None:
    make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
    assert "count: 0\n" in git(place, "count-objects", "-v")
    assert not (ours.common_dir / "refs" / "heads" / "blueflame").exists()


def test_commits_there_carry_the_person_s_name(
    ours: Repository, place: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.delenv(name)
    git(ours.root, "config", "user.name", 'Grace "Back\\slash" Hopper; #1')
    git(ours.root, "config", "user.email", "grace@example.org")
    make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
    git(place, "commit", "-q", "--allow-empty", "-m", "feat: x")
    assert git(place, "log", "-1", "--format=%an <%ae> %cn").strip() == (
        'Grace "Back\\slash" Hopper; #1 <grace@example.org> Grace "Back\\slash" Hopper; #1'
    )


def test_commits_there_are_in_utf_8_whatever_the_person_has_configured(
    ours: Repository, place: Path, tmp_path: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "global").write_text("[i18n]\n\tcommitEncoding = latin1\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "global"))
    make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
    git(place, "commit", "-q", "--allow-empty", "-m", "naïve")
    assert "\nencoding" not in git(place, "cat-file", "commit", "HEAD")


def test_what_the_person_ignores_is_ignored_there(ours: Repository, place: Path, git: Git) -> None:
    (ours.common_dir / "info").mkdir(exist_ok=True)
    (ours.common_dir / "info" / "exclude").write_text("*.secret\n")
    make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
    (place / "a.secret").write_text("")
    assert git(place, "status", "--porcelain") == ""


def test_an_older_base_gives_older_files(ours: Repository, place: Path, git: Git) -> None:
    (ours.root / "later").write_text("")
    git(ours.root, "add", "-A")
    git(ours.root, "commit", "-q", "-m", "later")
    make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
    assert not (place / "later").exists()


def test_a_base_that_is_not_there_is_an_error_and_can_be_made_again(ours: Repository, place: Path) -> None:
    with pytest.raises(GitFailed):
        make_checkout(ours, place, base="0" * 39 + "1", branch=BRANCH)
    make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
    assert (place / "README.md").exists()


def test_making_it_again_leaves_the_work_in_it(ours: Repository, place: Path) -> None:
    make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
    (place / "work").write_text("precious")
    make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
    assert (place / "work").read_text() == "precious"


def test_a_place_that_another_attempt_has_is_refused(ours: Repository, place: Path) -> None:
    make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
    with pytest.raises(WorldError, match="already; remove that one first"):
        make_checkout(ours, place, base=ours.base_sha, branch=BRANCH + "0")


@pytest.mark.parametrize("step", ["write_record", "remove_tree", "_init_with_alternates", "run_git"])
def test_a_crash_at_any_step_is_repaired_by_making_it_again(
    ours: Repository, place: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step is cut off twice: before it does anything, and after it has done everything."""
    real = getattr(checkouts, step)
    for done in (False, True):

        def crash(*args: object, _done: bool = done, **more: object) -> None:
            if _done:
                real(*args, **more)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(checkouts, step, crash)
            with pytest.raises(KeyboardInterrupt):
                make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
        make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
        assert (place / "src" / "app.py").exists()
        remove_checkout(place)
        assert list(place.parent.iterdir()) == []


def test_an_incomplete_folder_is_made_again(ours: Repository, place: Path) -> None:
    make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
    get_record_path(place).write_text(f'{{"base": "{ours.base_sha}", "branch": "{BRANCH}", "ready": false}}')
    (place / "README.md").write_text("half")
    make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
    assert (place / "README.md").read_text() == "# sample\n"


def test_a_folder_that_is_not_ours_is_never_touched(ours: Repository, place: Path) -> None:
    place.mkdir(parents=True)
    (place / "mine").write_text("keep")
    with pytest.raises(WorldError, match="something else is there"):
        make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
    with pytest.raises(WorldError, match="Blue Flame did not make it"):
        remove_checkout(place)
    with pytest.raises(WorldError, match="Blue Flame did not make it"):
        remove_checkout(ours.root)
    with pytest.raises(WorldError, match="something else is there"):
        make_checkout(ours, place, base=ours.base_sha)
    assert (place / "mine").read_text() == "keep"


def test_a_card_that_is_not_ours_is_not_believed(ours: Repository, place: Path) -> None:
    place.mkdir(parents=True)
    get_record_path(place).write_text("rubbish")
    with pytest.raises(WorldError, match="not a checkout record"):
        remove_checkout(place)
    assert place.exists()


@pytest.mark.parametrize("rest", [b"", b"\0" * 120])
def test_a_checkout_whose_record_a_power_cut_took_is_made_again(
    ours: Repository, place: Path, git: Git, rest: bytes
) -> None:
    make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
    get_record_path(place).write_bytes(rest)
    make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
    assert git(place, "status", "--porcelain") == ""
    get_record_path(place).write_bytes(rest)
    remove_checkout(place)
    assert not place.exists()


def test_a_checkout_that_was_made_before_the_machine_started_again_is_made_again(
    ours: Repository, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = place.with_name("person")
    make_checkout(ours, place, base=ours.base_sha)
    make_checkout(ours, person, base=ours.base_sha, owner="Ada")
    for each in (place, person):
        (each / "README.md").write_text("")  # as a power cut leaves a file that was not synced
    monkeypatch.setattr("blueflame.git.checkouts.read_boot_id", lambda: "the next boot")
    make_checkout(ours, place, base=ours.base_sha)
    make_checkout(ours, person, base=ours.base_sha, owner="Ada")
    assert (place / "README.md").read_text() != ""
    assert (person / "README.md").read_text() == "", "it may be the person's change"


@pytest.mark.verification(6)
def test_removing_twice_or_what_never_was_is_fine(ours: Repository, place: Path) -> None:
    remove_checkout(place)
    make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
    remove_checkout(place)
    remove_checkout(place)
    assert not place.exists()


def test_removing_makes_room_on_a_full_disk(ours: Repository, place: Path) -> None:
    with mounted(place.parent, 4):
        make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
        fill(place / "log")
        remove_checkout(place)
        assert list(place.parent.glob("*")) == []


def test_removing_follows_no_link_out_of_the_checkout(ours: Repository, place: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").write_text("")
    make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
    (place / "link").symlink_to(outside)
    remove_checkout(place)
    assert (outside / "keep").exists()


def test_a_checkout_that_became_a_link_is_only_unlinked(ours: Repository, place: Path, tmp_path: Path) -> None:
    make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
    place.rename(tmp_path / "moved")
    place.symlink_to(tmp_path / "moved")
    remove_checkout(place)
    assert not place.is_symlink()
    assert (tmp_path / "moved" / "README.md").exists()


def test_locked_and_very_deep_folders_go_too(ours: Repository, place: Path) -> None:
    make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
    here = os.open(place, os.O_RDONLY)
    for _ in range(1500):  # deeper than Python may recurse, and longer than a path may be
        os.mkdir("d" * 10, dir_fd=here)
        below = os.open("d" * 10, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    (place / "locked").mkdir()
    (place / "locked" / "file").write_text("")
    (place / "locked").chmod(0)
    remove_checkout(place)
    assert not place.exists()


def test_checkouts_are_listed_by_name(ours: Repository, place: Path) -> None:
    for name in ("b", "a"):
        make_checkout(ours, place.with_name(name), base=ours.base_sha, branch=BRANCH)
    (place.parent / "not ours").mkdir()
    assert list_checkouts(place.parent) == (place.with_name("a"), place.with_name("b"))
    assert list_checkouts(place.parent / "none") == ()


def test_a_shallow_repository_has_checkouts_too(repo: Path, tmp_path: Path, git: Git) -> None:
    git(repo, "commit", "-q", "--allow-empty", "-m", "second")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repo}", "shallow")
    ours = open_repository(tmp_path / "shallow", base_branch="main")
    make_checkout(ours, tmp_path / "tree", base=ours.base_sha, branch=BRANCH)
    assert len(git(tmp_path / "tree", "log", "--oneline").splitlines()) == 1
    assert git(tmp_path / "tree", "fsck", "--no-progress", "--connectivity-only") == ""


def test_a_checkout_from_a_linked_worktree_works(repo: Path, tmp_path: Path, git: Git) -> None:
    git(repo, "worktree", "add", "-q", "-b", "mine", str(tmp_path / "other tree"))
    ours = open_repository(tmp_path / "other tree", base_branch="main")
    make_checkout(ours, tmp_path / "tree", base=ours.base_sha, branch=BRANCH)
    assert (tmp_path / "tree" / "README.md").exists()


def test_submodules_stay_empty(repo: Path, tmp_path: Path, git: Git) -> None:
    git(tmp_path, "clone", "-q", str(repo), "part")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "part"), "sub")
    git(repo, "commit", "-q", "-m", "add a submodule")
    ours = open_repository(repo, base_branch="main")
    make_checkout(ours, tmp_path / "tree", base=ours.base_sha, branch=BRANCH)
    assert list((tmp_path / "tree" / "sub").iterdir()) == []


def test_a_sha256_repository_works(tmp_path: Path, git: Git) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "--object-format=sha256", "new")
    (tmp_path / "new" / "file").write_text("text")
    git(tmp_path / "new", "add", "-A")
    git(tmp_path / "new", "commit", "-q", "-m", "begin")
    ours = open_repository(tmp_path / "new", base_branch="main")
    make_checkout(ours, tmp_path / "tree", base=ours.base_sha, branch=BRANCH)
    assert (tmp_path / "tree" / "file").exists()


def test_ten_checkouts_at_once(ours: Repository, place: Path, git: Git) -> None:
    places = [place.with_name(f"worker {n}") for n in range(10)]
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda at: make_checkout(ours, at, base=ours.base_sha, branch=f"{BRANCH}-{at.name[-1]}"), places))
    assert list_checkouts(place.parent) == tuple(places)
    assert {git(at, "rev-parse", "HEAD").strip() for at in places} == {ours.base_sha}
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(remove_checkout, places))
    assert list(place.parent.iterdir()) == []


def test_destroying_a_checkout_does_not_harm_our_repository(ours: Repository, place: Path, git: Git) -> None:
    make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
    git(place, "config", "user.name", "Mallory")
    git(place, "branch", "main", "HEAD")
    remove_checkout(place)
    git(ours.root, "fsck", "--strict", "--no-progress")
    assert read_branch_head(ours, "main") == ours.base_sha
    assert "Mallory" not in (ours.common_dir / "config").read_text()


def test_a_scratch_checkout_has_the_files_of_a_commit_and_no_branch(ours: Repository, place: Path, git: Git) -> None:
    make_checkout(ours, place, base=ours.base_sha)
    assert git(place, "rev-parse", "HEAD").strip() == ours.base_sha
    assert git(place, "branch", "--show-current") == ""
    remove_checkout(place)
    assert list(place.parent.iterdir()) == []


def test_a_scratch_checkout_that_is_there_is_kept_with_what_was_made_in_it(ours: Repository, place: Path) -> None:
    make_checkout(ours, place, base=ours.base_sha)
    (place / "build").write_text("half way")
    make_checkout(ours, place, base=ours.base_sha)
    assert (place / "build").read_text() == "half way"


def test_executables_and_links_are_checked_out_as_such(ours: Repository, place: Path, git: Git) -> None:
    (ours.root / "run.sh").write_text("#!/bin/sh\n")
    (ours.root / "run.sh").chmod(0o755)
    (ours.root / "link").symlink_to("README.md")
    git(ours.root, "add", "-A")
    git(ours.root, "commit", "-q", "-m", "more")
    make_checkout(ours, place, base=read_branch_head(ours, "main"))
    assert (place / "run.sh").stat().st_mode & stat.S_IXUSR
    assert (place / "link").readlink() == Path("README.md")


def test_a_checkout_on_another_file_system_knows_what_that_one_keeps(ours: Repository, place: Path, git: Git) -> None:
    git(ours.root, "config", "core.fileMode", "false")  # as on a disk without modes
    with mounted(place.parent, 8):
        make_checkout(ours, place, base=ours.base_sha)
        assert git(place, "config", "core.fileMode").strip() == "true"
        assert [path.name for path in place.parent.iterdir() if path.suffix == ".probe"] == []
    make_checkout(ours, place, base=ours.base_sha)
    assert git(place, "config", "core.fileMode").strip() == "false"


def test_a_draft_alone_is_listed_and_removed(ours: Repository, place: Path) -> None:
    """A crash before the record was renamed into place."""
    place.parent.mkdir(exist_ok=True)
    draft = get_record_path(place).with_name(f"{get_record_path(place).name}.draft")
    draft.write_text("half of a rec")
    assert list_checkouts(place.parent) == (place,)
    remove_checkout(place)
    assert not draft.exists()
    assert list_checkouts(place.parent) == ()


def test_a_draft_of_a_card_that_a_crash_left_goes_with_the_checkout(ours: Repository, place: Path) -> None:
    place.parent.mkdir()
    draft = get_record_path(place).with_name(f"{get_record_path(place).name}.draft")
    draft.write_text("half of a ca")
    make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
    assert list_checkouts(place.parent) == (place,)
    draft.write_text("half of a ca")
    remove_checkout(place)
    assert list(place.parent.iterdir()) == []
