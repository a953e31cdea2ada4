"""Taking an agent's work without letting the agent's repository run anything as us."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blueflame.git.batch import has_commit
from blueflame.git.checkouts import get_fetch_path, get_record_path, make_checkout, remove_checkout
from blueflame.git.repository import Repository, open_repository
from blueflame.git.results import (
    MAX_LOOSE_OBJECTS,
    CollectedResult,
    NoResult,
    collect_result,
    delete_refs,
    keep_failed_result,
    list_changes,
    list_commits,
    list_refs,
    read_diff,
    set_ref,
)
from blueflame.model.changes import Change
from blueflame.model.errors import GitFailed

Git = Callable[..., str]
BRANCH = "blueflame/ses-20260101-000000/task-001/1"
REF = "refs/blueflame/attempts/ses-20260101-000000/task-001/1"


@pytest.fixture
def ours(repo: Path) -> Repository:
    return open_repository(repo, base_branch="main")


@pytest.fixture
def theirs(ours: Repository) -> Path:
    place = ours.root / ".trees" / "worker-1a2b3c4d"
    make_checkout(ours, place, base=ours.base_sha, branch=BRANCH)
    return place


def commit(git: Git, place: Path, message: str = "feat(task-001): work") -> str:
    git(place, "add", "-A")
    git(place, "commit", "-q", "--allow-empty", "-m", message)
    return git(place, "rev-parse", "HEAD").strip()


def collected(ours: Repository, theirs: Path) -> CollectedResult:
    outcome = collect_result(ours, theirs, branch=BRANCH, base=ours.base_sha, ref=REF)
    assert isinstance(outcome, CollectedResult)
    return outcome


# --- collect


def test_commits_come_over_oldest_first_and_stay_reachable(ours: Repository, theirs: Path, git: Git) -> None:
    first = commit(git, theirs, "feat(task-001): первый\n\nс телом\nв две строки")
    second = commit(git, theirs, "fix: second")
    outcome = collected(ours, theirs)
    assert outcome.tip == second
    assert [entry.sha for entry in outcome.commits] == [first, second]
    assert outcome.commits[0].subject == "feat(task-001): первый"
    assert outcome.commits[0].message == "feat(task-001): первый\n\nс телом\nв две строки"
    assert outcome.commits[0].author == "Ада Лавлейс <ada@example.org>"
    assert list_refs(ours, "refs/blueflame/") == {REF: second}
    remove_checkout(theirs)
    git(ours.root, "fsck", "--strict", "--no-progress")
    assert git(ours.root, "cat-file", "-t", second) == "commit\n"


def test_only_a_result_of_many_objects_leaves_a_pack(ours: Repository, theirs: Path, git: Git) -> None:
    packs = ours.objects / "pack"
    commit(git, theirs)
    small = collected(ours, theirs)
    assert not list(packs.glob("*.pack"))
    delete_refs(ours, (REF,))
    for n in range(MAX_LOOSE_OBJECTS):
        (theirs / f"{n}.txt").write_text(f"{n}\n")
    tip = commit(git, theirs)
    assert collected(ours, theirs).tip == tip
    assert len(list(packs.glob("*.pack"))) == 1
    git(ours.root, "fsck", "--strict", "--no-progress", small.tip, tip)


def test_collecting_again_is_the_same_as_once(ours: Repository, theirs: Path, git: Git) -> None:
    commit(git, theirs)
    assert collected(ours, theirs) == collected(ours, theirs)


@pytest.mark.parametrize("then", ["amended", "half removed", "removed"])
def test_what_was_brought_in_once_stays_whatever_becomes_of_the_checkout(
    ours: Repository, theirs: Path, git: Git, then: str
) -> None:
    """An orchestrator that dies after clearing away, and before it wrote the result down, collects a second time."""
    tip = commit(git, theirs)
    before = collected(ours, theirs)
    if then == "amended":
        git(theirs, "commit", "-q", "--amend", "--allow-empty", "-m", "feat: other")
    elif then == "half removed":
        (theirs / ".git" / "refs" / "heads" / BRANCH).unlink()
    else:
        remove_checkout(theirs)
    assert collected(ours, theirs) == before
    assert list_refs(ours, "refs/blueflame/attempts") == {REF: tip}


def test_a_fetch_that_was_killed_leaves_nothing_beside_the_checkout(ours: Repository, theirs: Path, git: Git) -> None:
    commit(git, theirs)
    (get_fetch_path(theirs) / "refs" / "heads").mkdir(parents=True)
    (get_fetch_path(theirs) / "refs" / "heads" / "tip").write_text("half of a commit")
    collected(ours, theirs)
    assert sorted(path.name for path in theirs.parent.iterdir()) == [get_record_path(theirs).name, theirs.name]
    get_fetch_path(theirs).mkdir()
    remove_checkout(theirs)
    assert list(theirs.parent.iterdir()) == []


def test_no_commit_is_nothing(ours: Repository, theirs: Path) -> None:
    (theirs / "uncommitted").write_text("")
    outcome = collect_result(ours, theirs, branch=BRANCH, base=ours.base_sha, ref=REF)
    assert outcome == NoResult(reason=f"no commit was made on {BRANCH}")
    assert list_refs(ours, "refs/blueflame") == {}


def test_a_branch_that_is_gone_is_nothing(ours: Repository, theirs: Path, git: Git) -> None:
    git(theirs, "checkout", "-q", "-b", "own-idea")
    commit(git, theirs)
    git(theirs, "branch", "-q", "-D", BRANCH)
    outcome = collect_result(ours, theirs, branch=BRANCH, base=ours.base_sha, ref=REF)
    assert isinstance(outcome, NoResult)
    assert "no longer exists in" in outcome.reason


def test_packed_refs_and_packed_objects_are_read(ours: Repository, theirs: Path, git: Git) -> None:
    tip = commit(git, theirs)
    git(theirs, "gc", "-q")
    assert not (theirs / ".git" / "refs" / "heads" / BRANCH).exists()
    assert collected(ours, theirs).tip == tip


def test_neither_tags_nor_other_branches_nor_fetch_head_come_along(ours: Repository, theirs: Path, git: Git) -> None:
    commit(git, theirs)
    git(theirs, "tag", "v1")
    git(theirs, "branch", "other")
    before = set(list_refs(ours, "refs/"))
    collected(ours, theirs)
    assert set(list_refs(ours, "refs/")) - before == {REF}
    assert not (ours.git_dir / "FETCH_HEAD").exists()


def test_a_rewritten_base_is_refused(ours: Repository, theirs: Path, git: Git) -> None:
    git(theirs, "commit", "-q", "--amend", "-m", "it was always so")
    with pytest.raises(GitFailed, match="history was rewritten"):
        collected(ours, theirs)


def test_an_orphan_branch_is_refused(ours: Repository, theirs: Path, git: Git) -> None:
    git(theirs, "checkout", "-q", "--orphan", "new")
    commit(git, theirs)
    git(theirs, "branch", "-f", BRANCH)
    with pytest.raises(GitFailed, match="history was rewritten"):
        collected(ours, theirs)


def test_a_shallow_repository_collects_too(repo: Path, tmp_path: Path, git: Git) -> None:
    git(repo, "commit", "-q", "--allow-empty", "-m", "second")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repo}", "shallow")
    ours = open_repository(tmp_path / "shallow", base_branch="main")
    make_checkout(ours, tmp_path / "tree", base=ours.base_sha, branch=BRANCH)
    (tmp_path / "tree" / "new").write_text("")
    tip = commit(git, tmp_path / "tree")
    assert collected(ours, tmp_path / "tree").tip == tip
    assert [change.path for change in list_changes(ours, ours.base_sha, tip)] == ["new"]
    assert open_repository(tmp_path / "shallow", base_branch="main").shallow
    git(ours.root, "fetch", "-q", "--unshallow")
    assert collected(ours, tmp_path / "tree").tip == tip


def test_a_sha256_repository_collects_too(tmp_path: Path, git: Git) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "--object-format=sha256", "new")
    commit(git, tmp_path / "new")
    ours = open_repository(tmp_path / "new", base_branch="main")
    make_checkout(ours, tmp_path / "tree", base=ours.base_sha, branch=BRANCH)
    tip = commit(git, tmp_path / "tree")
    assert collected(ours, tmp_path / "tree").tip == tip


def test_a_commit_on_a_dependency_that_only_we_have_works(ours: Repository, theirs: Path, git: Git) -> None:
    first = commit(git, theirs)
    collected(ours, theirs)
    place = theirs.with_name("second")
    make_checkout(ours, place, base=first, branch=BRANCH + "0")
    tip = commit(git, place)
    outcome = collect_result(ours, place, branch=BRANCH + "0", base=first, ref=REF + "0")
    assert isinstance(outcome, CollectedResult)
    assert [entry.sha for entry in outcome.commits] == [tip]


# --- hostile checkouts


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "canary"


@pytest.fixture
def bite(tmp_path: Path, canary: Path) -> str:
    """A program that leaves a trace wherever it runs."""
    program = tmp_path / "bite.sh"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> "{canary}"\ncat\n')
    program.chmod(0o755)
    return str(program)


CONFIG_TRAPS = [
    *("core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "core.alternateRefsCommand"),
    *("core.gitProxy", "core.askPass", "diff.external", "diff.evil.command", "diff.evil.textconv"),
    *("filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "merge.evil.driver"),
    *("uploadpack.packObjectsHook", "gpg.program", "credential.helper", "sequence.editor"),
    *("remote.evil.uploadpack", "remote.evil.vcs", "gc.recentObjectsHook"),
]


def plant_config(git: Git, place: Path, bite: str) -> None:
    for key in CONFIG_TRAPS:
        git(place, "config", key, bite)
    git(place, "config", "extensions.worktreeConfig", "true")
    git(place, "config", "remote.evil.promisor", "true")
    git(place, "config", "remote.evil.url", f"ext::{bite}")
    git(place, "config", "extensions.partialClone", "evil")
    git(place, "config", "protocol.ext.allow", "always")
    (place / ".git" / "config.worktree").write_text(f"[core]\n\tfsmonitor = {bite}\n\thooksPath = {place}/hooks\n")
    for folder in (place / "hooks", place / ".git" / "hooks"):
        folder.mkdir(exist_ok=True)
        for hook in (
            "post-checkout",
            "reference-transaction",
            "pre-auto-gc",
            "post-index-change",
            "fsmonitor-watchman",
        ):
            (folder / hook).symlink_to(bite)


def work_with_everything(ours: Repository, theirs: Path, tip: str) -> None:
    """All that we ever do with a result."""
    outcome = collected(ours, theirs)
    assert outcome.tip == tip
    assert list_changes(ours, ours.base_sha, tip)
    assert read_diff(ours, ours.base_sha, tip, 10_000)
    remove_checkout(theirs)
    assert not theirs.exists()


def test_the_trap_itself_bites(theirs: Path, git: Git, bite: str, canary: Path) -> None:
    """Without this the tests below would prove nothing."""
    git(theirs, "config", "core.fsmonitor", bite)
    git(theirs, "status")
    assert canary.exists()


def test_hostile_config_and_hooks_never_run(ours: Repository, theirs: Path, git: Git, bite: str, canary: Path) -> None:
    (theirs / ".gitattributes").write_text("* diff=evil filter=evil merge=evil\n")
    (theirs / "README.md").write_text("changed\n")
    tip = commit(git, theirs)
    plant_config(git, theirs, bite)
    work_with_everything(ours, theirs, tip)
    assert not canary.exists()


def test_a_missing_object_with_a_hostile_promisor_never_runs_it(
    ours: Repository, theirs: Path, git: Git, bite: str, canary: Path
) -> None:
    (theirs / "file").write_text("will be missing")
    commit(git, theirs)
    blob = git(theirs, "rev-parse", "HEAD:file").strip()
    plant_config(git, theirs, bite)
    (theirs / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(GitFailed):
        collected(ours, theirs)
    assert list_refs(ours, "refs/blueflame") == {}
    remove_checkout(theirs)
    assert not canary.exists()


def test_a_nested_repository_as_gitlink_never_runs(
    ours: Repository, theirs: Path, git: Git, bite: str, canary: Path
) -> None:
    nested = theirs / "nested"
    git(theirs, "init", "-q", "nested")
    git(nested, "commit", "-q", "--allow-empty", "-m", "inner")
    git(theirs, "-c", "advice.addEmbeddedRepo=false", "add", "nested")
    git(theirs, "commit", "-q", "-m", "feat: gitlink")
    tip = git(theirs, "rev-parse", "HEAD").strip()
    git(nested, "config", "core.fsmonitor", bite)
    outcome = collected(ours, theirs)
    assert outcome.tip == tip
    assert list_changes(ours, ours.base_sha, tip) == (
        Change(status="A", path="nested", mode="160000", added=1, deleted=0, submodule=True),
    )
    read_diff(ours, ours.base_sha, tip, 10_000)
    remove_checkout(theirs)
    assert not canary.exists()


def test_a_replaced_git_folder_is_refused(ours: Repository, theirs: Path, git: Git, bite: str, canary: Path) -> None:
    commit(git, theirs)
    plant_config(git, theirs, bite)
    evil = (theirs / ".git").rename(theirs / "evil")
    (theirs / ".git").write_text(f"gitdir: {evil}\n")
    with pytest.raises(GitFailed, match="the agent replaced or removed"):
        collected(ours, theirs)
    (theirs / ".git").unlink()
    (theirs / ".git").symlink_to(evil)
    with pytest.raises(GitFailed, match="the agent replaced or removed"):
        collected(ours, theirs)
    (theirs / ".git").unlink()
    with pytest.raises(GitFailed, match="the agent replaced or removed"):
        collected(ours, theirs)
    remove_checkout(theirs)
    assert not canary.exists()


def test_alternates_that_are_not_ours_are_not_followed(ours: Repository, theirs: Path, git: Git) -> None:
    (theirs / "new").write_text("")
    commit(git, theirs)
    (theirs / ".git" / "objects" / "info" / "alternates").write_text(f"{ours.objects}\n/dev/stdin\n/nowhere\n")
    with pytest.raises(GitFailed, match="was changed"):
        collect_result(ours, theirs, branch=BRANCH, base=ours.base_sha, ref=REF)


def test_commondir_leads_nowhere(ours: Repository, theirs: Path, git: Git, bite: str, canary: Path) -> None:
    evil = canary.with_name("evil")
    (theirs / "new").write_text("")
    tip = commit(git, theirs)
    git(theirs, "init", "-q", str(evil))
    plant_config(git, evil, bite)
    (theirs / ".git" / "commondir").write_text(f"{evil / '.git'}\n")
    work_with_everything(ours, theirs, tip)
    assert not canary.exists()


def test_lying_helper_files_beside_the_objects_are_not_believed(ours: Repository, theirs: Path, git: Git) -> None:
    (theirs / "new").write_text("")
    tip = commit(git, theirs)
    git(theirs, "gc", "-q")
    git(theirs, "repack", "-adbq")
    for path in (theirs / ".git" / "objects").rglob("*.bitmap"):
        path.chmod(0o644)
        path.write_bytes(b"BITM rubbish")
    graph = theirs / ".git" / "objects" / "info" / "commit-graph"
    graph.unlink(missing_ok=True)  # git makes it read-only
    graph.write_bytes(b"CGPH rubbish")
    (theirs / ".git" / "objects" / "pack" / "multi-pack-index").write_bytes(b"MIDX rubbish")
    work_with_everything(ours, theirs, tip)


def test_a_replace_ref_does_not_change_what_we_see(ours: Repository, theirs: Path, git: Git) -> None:
    (theirs / "honest").write_text("")
    honest = commit(git, theirs)
    (theirs / "evil").write_text("")
    evil = commit(git, theirs)
    git(theirs, "reset", "-q", "--hard", honest)
    git(theirs, "replace", evil, honest)
    git(theirs, "update-ref", f"refs/heads/{BRANCH}", evil)
    work_with_everything(ours, theirs, evil)
    assert [change.path for change in list_changes(ours, ours.base_sha, evil)] == ["evil", "honest"]


def test_an_empty_folder_where_the_branch_was_is_as_git_sees_it(ours: Repository, theirs: Path, git: Git) -> None:
    tip = commit(git, theirs)
    git(theirs, "pack-refs", "--all")
    (theirs / ".git" / "refs" / "heads" / BRANCH).mkdir(parents=True)
    assert git(theirs, "rev-parse", "HEAD").strip() == tip
    assert collected(ours, theirs).tip == tip


@pytest.mark.parametrize("what", ["link", "pipe", "words", "symref"])
def test_a_branch_file_that_is_no_branch_file_is_refused(ours: Repository, theirs: Path, git: Git, what: str) -> None:
    commit(git, theirs)
    path = theirs / ".git" / "refs" / "heads" / BRANCH
    path.unlink()
    if what == "link":
        path.symlink_to("/etc/hostname")
    elif what == "pipe":
        os.mkfifo(path)
    else:
        path.write_text("ref: refs/heads/main\n" if what == "symref" else "--upload-pack=evil\n")
    with pytest.raises(GitFailed):
        collected(ours, theirs)


@pytest.mark.parametrize("tip", ["1" * 40, "blob", "tree"])
def test_a_branch_that_names_no_commit_is_refused(ours: Repository, theirs: Path, git: Git, tip: str) -> None:
    commit(git, theirs)
    sha = {"blob": "HEAD:README.md", "tree": "HEAD^{tree}"}.get(tip, tip)
    found = git(theirs, "rev-parse", sha).strip()
    (theirs / ".git" / "refs" / "heads" / BRANCH).write_text(f"{found}\n")
    with pytest.raises(GitFailed):
        collected(ours, theirs)


def test_a_tree_that_would_write_into_git_s_folder_is_refused(
    ours: Repository, theirs: Path, git: Git, tmp_path: Path
) -> None:
    blob = git(theirs, "hash-object", "-w", "README.md").strip()
    raw = tmp_path / "tree"
    raw.write_bytes(b"100755 .GIT\0" + bytes.fromhex(blob))
    tree = git(theirs, "hash-object", "-w", "--literally", "-t", "tree", str(raw)).strip()
    tip = git(theirs, "commit-tree", tree, "-p", ours.base_sha, "-m", "feat: harmless").strip()
    git(theirs, "update-ref", f"refs/heads/{BRANCH}", tip)
    with pytest.raises(GitFailed, match="fsck"):
        collected(ours, theirs)
    assert list_refs(ours, "refs/blueflame") == {}
    assert not has_commit(ours, tip)


def test_an_object_whose_bytes_were_changed_is_refused(ours: Repository, theirs: Path, git: Git) -> None:
    (theirs / "file").write_text("one")
    commit(git, theirs)
    first = git(theirs, "rev-parse", "HEAD:file").strip()
    (theirs / "other").write_text("two")
    git(theirs, "add", "other")
    second = git(theirs, "rev-parse", ":other").strip()
    stored = theirs / ".git" / "objects"
    (stored / first[:2] / first[2:]).unlink()
    (stored / second[:2] / second[2:]).rename(stored / first[:2] / first[2:])
    with pytest.raises(GitFailed):
        collected(ours, theirs)


def test_a_message_or_a_name_that_is_no_text_is_shown_as_such(ours: Repository, theirs: Path, git: Git) -> None:
    tree = git(theirs, "rev-parse", "HEAD^{tree}").strip()
    head = f"tree {tree}\nparent {ours.base_sha}\nauthor E\x1fvil <e@x> 1 +0000\ncommitter E <e@x> 1 +0000\n\n"
    (theirs / "raw").write_bytes(head.encode() + b"a\xffb\x1fc\n\nbody")
    tip = git(theirs, "hash-object", "-w", "-t", "commit", "raw").strip()
    git(theirs, "update-ref", f"refs/heads/{BRANCH}", tip)
    (entry,) = collected(ours, theirs).commits
    assert (entry.author, entry.subject, entry.message) == ("E\x1fvil <e@x>", "a\ufffdb\x1fc", "a\ufffdb\x1fc\n\nbody")


# --- changes and diff_text


def test_every_kind_of_change_is_named(ours: Repository, git: Git) -> None:
    root = ours.root
    (root / "long.txt").write_text("".join(f"line {n}\n" for n in range(50)))
    (root / "type").write_text("file")
    (root / "gone").write_text("gone\n")
    before = commit(git, root)
    git(root, "mv", "long.txt", "переименован file.txt")
    with (root / "переименован file.txt").open("a") as file:
        file.write("one more\n")
    (root / "type").unlink()
    (root / "type").symlink_to("../../etc/passwd")
    (root / "gone").unlink()
    (root / "odd\nname\t'\"").write_text("1\n2\n")
    (root / "image.png").write_bytes(b"\x89PNG\0\1\2")
    (root / "src" / "app.py").chmod(0o755)
    after = commit(git, root)
    assert set(list_changes(ours, before, after)) == {
        Change(status="R", path="переименован file.txt", old_path="long.txt", added=1),
        Change(
            status="T", path="type", mode="120000", added=1, deleted=1, symlink=True, link_target="../../etc/passwd"
        ),
        Change(status="D", path="gone", mode="000000", deleted=1),
        Change(status="A", path="odd\nname\t'\"", added=2),
        Change(status="A", path="image.png", binary=True),
        Change(status="M", path="src/app.py", mode="100755"),
    }


def test_configured_blindness_does_not_hide_changes(ours: Repository, git: Git) -> None:
    for key, value in {
        "diff.ignoreSubmodules": "all",
        "diff.renames": "false",
        "diff.noprefix": "true",
        "diff.external": "false",
        "diff.relative": "true",
        "core.quotePath": "true",
        "color.ui": "always",
    }.items():
        git(ours.root, "config", key, value)
    git(ours.root, "mv", "README.md", "ЧИТАЙ")
    git(ours.root, "update-index", "--add", "--cacheinfo", f"160000,{ours.base_sha},sub")
    git(ours.root, "commit", "-q", "-m", "both")
    tip = git(ours.root, "rev-parse", "HEAD").strip()
    assert [change.paths for change in list_changes(ours, ours.base_sha, tip)] == [("sub",), ("README.md", "ЧИТАЙ")]
    assert "diff --git a/README.md b/ЧИТАЙ" in read_diff(ours, ours.base_sha, tip, 10_000)


def test_no_difference_is_no_change(ours: Repository) -> None:
    assert list_changes(ours, ours.base_sha, ours.base_sha) == ()
    assert read_diff(ours, ours.base_sha, ours.base_sha, 100) == ""
    assert list_commits(ours, ours.base_sha, ours.base_sha) == ()


@pytest.mark.verification(16)
def test_an_unknown_commit_is_an_error_not_an_empty_list(ours: Repository) -> None:
    for question in (list_changes, list_commits):
        with pytest.raises(GitFailed):
            question(ours, ours.base_sha, "1" * 40)
    with pytest.raises(GitFailed):
        read_diff(ours, ours.base_sha, "1" * 40, 100)


def test_a_long_difference_is_cut_at_a_line(ours: Repository, git: Git) -> None:
    (ours.root / "big").write_text("строка\n" * 10_000)
    tip = commit(git, ours.root)
    text = read_diff(ours, ours.base_sha, tip, 1000)
    assert text.endswith("+строка\n[cut here: the difference is longer than 1000 bytes]\n")
    assert len(text.encode()) < 1100
    assert "cut here" not in read_diff(ours, ours.base_sha, tip, 1_000_000)


def test_line_ends_are_shown_as_they_are(ours: Repository, git: Git) -> None:
    (ours.root / "dos.txt").write_bytes(b"one\r\ntwo\r\n")
    assert "+one\r\n+two\r\n" in read_diff(ours, ours.base_sha, commit(git, ours.root), 10_000)


NAME = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20).filter(
    lambda name: name.lower() not in {".", "..", ".git"} and len(name.encode()) < 100 and "git" not in name.lower()
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=NAME)
def test_any_name_comes_back_as_it_was(ours: Repository, git: Git, name: str) -> None:
    blob = git(ours.root, "rev-parse", f"{ours.base_sha}:README.md").strip()
    entry = f"100644 blob {blob}\t{name}\0"
    made = subprocess.run(["git", "mktree", "-z"], cwd=ours.root, input=entry.encode(), capture_output=True, check=True)
    tip = git(ours.root, "commit-tree", made.stdout.decode().strip(), "-p", ours.base_sha, "-m", "x").strip()
    assert name in {path for change in list_changes(ours, ours.base_sha, tip) for path in change.paths}


# --- refs


def test_refs_are_set_listed_and_deleted(ours: Repository) -> None:
    for name in ("b/2", "a/1", "a/2"):
        set_ref(ours, f"refs/blueflame/{name}", ours.base_sha)
    assert list(list_refs(ours, "refs/blueflame/")) == [f"refs/blueflame/{name}" for name in ("a/1", "a/2", "b/2")]
    assert list(list_refs(ours, "refs/blueflame/a")) == ["refs/blueflame/a/1", "refs/blueflame/a/2"]
    delete_refs(ours, ("refs/blueflame/a/1",))
    delete_refs(ours, ("refs/blueflame/a/1",))
    delete_refs(ours, ["refs/blueflame/a/2", "refs/blueflame/b/2", "refs/blueflame/never"])
    delete_refs(ours, [])
    assert list_refs(ours, "refs/blueflame/") == {}


def test_a_ref_to_nothing_is_refused(ours: Repository) -> None:
    with pytest.raises(GitFailed):
        set_ref(ours, REF, "1" * 40)


# --- names that git itself refuses


@pytest.mark.parametrize("name", [".git", ".GIT", "git~1", ".git ", ".g\u200cit", "..", ".git::$INDEX_ALLOCATION"])
def test_a_tree_with_an_alias_of_git_is_refused(ours: Repository, theirs: Path, git: Git, name: str) -> None:
    blob = git(theirs, "rev-parse", "HEAD:README.md").strip()
    listed = subprocess.run(
        ["git", "mktree", "-z"],
        cwd=theirs,
        input=f"100644 blob {blob}\t{name}\0",
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    made = git(theirs, "commit-tree", listed, "-p", ours.base_sha, "-m", "feat(task-001): x").strip()
    git(theirs, "update-ref", f"refs/heads/{BRANCH}", made)
    with pytest.raises(GitFailed, match=r"(?i)fsck|hasDot"):
        collected(ours, theirs)


# --- what a person may want to see


def test_a_failed_result_is_kept_where_a_person_finds_it(ours: Repository) -> None:
    for _ in range(2):
        ref = keep_failed_result(ours, "ses-20260101-000000", "task-001", 2, ours.base_sha)
    assert ref == "refs/blueflame/failed/ses-20260101-000000/task-001/2"
    assert list_refs(ours, "refs/blueflame/failed/") == {ref: ours.base_sha}


def test_a_failed_result_is_kept_under_no_other_name(ours: Repository) -> None:
    with pytest.raises(ValueError, match="not valid ids"):
        keep_failed_result(ours, "ses-20260101-000000", "../../heads/main", 1, ours.base_sha)
