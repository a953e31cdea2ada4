"""May we work here? Real repositories, fit and unfit."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from blueflame.git import command as commands
from blueflame.git import repository
from blueflame.git.batch import has_commit
from blueflame.git.command import build_identity_environment, find_fix, find_identity, run_git, try_git
from blueflame.git.repository import (
    Repository,
    exclude_from_status,
    find_branch_head,
    find_dirty_paths,
    is_ancestor,
    is_partial,
    list_tags,
    measure_tree,
    open_repository,
    read_branch_head,
)
from blueflame.git.trees import list_tree_files
from blueflame.model.errors import BlueFlameError, GitFailed, Refused, WorldError

Git = Callable[..., str]


def opened(path: Path) -> Repository:
    return open_repository(path, base_branch="main")


# --- the door itself


def test_inherited_git_variables_do_not_lead_us_astray(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_EXTERNAL_DIFF"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    assert opened(repo).root == repo


def test_a_failure_names_the_command_the_place_and_the_reason(repo: Path) -> None:
    with pytest.raises(GitFailed) as caught:
        commands.run_git(repo, "rev-parse", "--verify", "no-such-thing")
    assert str(caught.value).startswith(f"git rev-parse --verify no-such-thing in {repo}: ")
    assert "Needed a single revision" in str(caught.value)


BROKEN_GITS = {
    "killed": ("#!/bin/sh\nkill -9 $$\n", r"killed by signal 9; see whether memory is short"),
    "crashed": ("#!/bin/sh\nulimit -c 0; kill -SEGV $$\n", r"killed by signal 11; run 'git version' yourself"),
    "silent": ("#!/bin/sh\nexit 127\n", r"exit code 127 without a message; run 'git version' yourself"),
    "without a library": ("#!/bin/sh\necho 'loading shared libraries: x' >&2; exit 127\n", "repair or reinstall git"),
    "for another machine": ("\x7fELF", r"Exec format error; it is damaged or for another kind of machine"),
    "a script without its shell": ("#!/no/such/sh\n", r"the program in its first line does not exist; repair"),
}


@pytest.mark.parametrize(("text", "words"), BROKEN_GITS.values(), ids=BROKEN_GITS)
def test_a_git_that_fails_at_once_names_cause_and_fix(
    text: str, words: str, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text(text)
    (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(BlueFlameError, match=words):
        open_repository(repo, base_branch="main")


def test_a_damaged_index_names_the_fix(repo: Path) -> None:
    (repo / ".git" / "index").write_bytes(b"")
    with pytest.raises(GitFailed, match="remove it and run 'git reset', which keeps your files"):
        run_git(repo, "status")


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("fatal: bad config line 3 in file /x", "correct that setting"),
        ("error: unable to write file: No space left on device", "free some space"),
        ("fatal: Unable to create temporary file: Read-only file system", "writable"),
        ("fatal: fork: retry: Resource temporarily unavailable", "ulimit -u"),
        ("fatal: Too many open files", "ulimit -n"),
        (
            "error: object file .git/objects/00/11 is empty",
            "remove that file, in which nothing is left; then run 'git fsck'",
        ),
        (" ! [rejected] a -> b (non-fast-forward)", "rename or delete it there"),
        (f"fatal: Not a valid commit name {'d1' * 20}", "git fetch"),
        ("error: cannot run /nowhere/clean: No such file or directory", "install that program"),
        ("fatal: not a git repository (or any of the parent directories): .git", "restore the HEAD"),
        ("fatal: unterminated line in /x/.git/packed-refs: garbage", "remove what is not a line of a ref"),
        ("git-lfs filter-process: 1: git-lfs: not found\nfatal: the remote end hung up", "install that program"),
        ("bash: line 1: git-lfs: command not found\nerror: external filter failed 127", "install that program"),
        ("error: unable to normalize alternate object path: /gone/objects", "info/alternates"),
        ("fatal: '../gone.git' does not appear to be a git repository", "git remote set-url"),
        (" ! [remote rejected] a -> b (pre-receive hook declined)", "allow that push"),
        ("fatal: not a valid object name: main", ""),
        ("remote: Repository not found.\nfatal: repository 'https://example.org/a' not found", ""),
    ],
)
def test_the_fix_follows_from_git_s_words(message: str, words: str) -> None:
    found = find_fix(message, "/x")
    assert words in found
    assert bool(words) == bool(found)


def test_hooks_of_the_repository_stay_silent(repo: Path, tmp_path: Path) -> None:
    hook = repo / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch '{tmp_path}/canary'\n")
    hook.chmod(0o755)
    commands.run_git(repo, "update-ref", "refs/heads/other", "HEAD")
    assert not (tmp_path / "canary").exists()


def test_a_person_without_a_name_gets_ours(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(build_identity_environment(repo)):
        monkeypatch.delenv(name)
    assert find_identity(repo) == ("Blue Flame", "blueflame@localhost")
    commands.run_git(repo, "config", "user.name", 'Grace "G" Hopper')
    assert find_identity(repo) == ('Grace "G" Hopper', "blueflame@localhost")


def test_the_person_s_name_is_used(repo: Path) -> None:
    assert find_identity(repo) == ("Ада Лавлейс", "ada@example.org")


def test_versions_are_read_as_numbers() -> None:
    assert commands.read_git_version() >= repository.MIN_GIT_VERSION


def test_a_git_that_prints_lines_of_its_own_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrapper = tmp_path / "git"
    wrapper.write_text('#!/bin/sh\necho welcome\n[ "$1" = version ] && echo git version 2.40.1 || echo 1\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    commands.read_git_version.cache_clear()
    for ask in (commands.read_git_version, lambda: commands.read_number(tmp_path, "rev-list", "--count", "HEAD")):
        with pytest.raises(GitFailed, match=rf"printed 'welcome.*{wrapper} may be a wrapper"):
            ask()


# --- fit


def test_a_repository_opens_from_any_of_its_folders(repo: Path) -> None:
    found = opened(repo / "src")
    assert (found.root, found.git_dir, found.common_dir) == (repo, repo / ".git", repo / ".git")
    assert found == opened(repo)
    assert found.base_sha == read_branch_head(found, "main")
    assert not found.shallow
    assert not found.detached


def test_a_linked_worktree_of_the_person_is_fine(repo: Path, tmp_path: Path, git: Git) -> None:
    git(repo, "worktree", "add", "-q", "-b", "mine", str(tmp_path / "other tree"))
    found = opened(tmp_path / "other tree")
    assert found.root == tmp_path / "other tree"
    assert found.common_dir == repo / ".git"
    assert found.git_dir.parent == repo / ".git" / "worktrees"
    exclude_from_status(found, ["/.trees/"])
    assert "/.trees/" in (repo / ".git" / "info" / "exclude").read_text()


def test_a_worktree_of_a_bare_repository_is_fine(repo: Path, tmp_path: Path, git: Git) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repo), "bare.git")
    git(tmp_path / "bare.git", "worktree", "add", "-q", str(tmp_path / "tree"), "main")
    assert opened(tmp_path / "tree").common_dir == tmp_path / "bare.git"


def test_a_detached_head_is_fine(repo: Path, git: Git) -> None:
    git(repo, "checkout", "-q", "--detach")
    assert opened(repo).detached


def test_a_partial_clone_is_known(repo: Path, tmp_path: Path, git: Git) -> None:
    git(repo, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--filter=blob:none", f"file://{repo}", "partial")
    assert is_partial(opened(tmp_path / "partial"))
    assert not is_partial(opened(repo))


def test_a_shallow_clone_is_fine(repo: Path, tmp_path: Path, git: Git) -> None:
    git(repo, "commit", "-q", "--allow-empty", "-m", "second")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repo}", "shallow")
    assert opened(tmp_path / "shallow").shallow


def test_submodules_are_reported(repo: Path, tmp_path: Path, git: Git) -> None:
    git(tmp_path, "clone", "-q", str(repo), "part")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "part"), "под модуль")
    git(repo, "commit", "-q", "-m", "add a submodule")
    found = opened(repo)
    assert found.submodules == ("под модуль",)
    assert "под модуль" not in list_tree_files(found, found.base_sha)
    (repo / "под модуль" / "README.md").write_text("changed inside")
    assert find_dirty_paths(found) == ()


# --- unfit


def refusal(path: Path, base_branch: str = "main") -> str:
    with pytest.raises(Refused) as caught:
        open_repository(path, base_branch=base_branch)
    return str(caught.value)


def test_a_missing_path_is_refused(tmp_path: Path) -> None:
    assert "нет does not exist" in refusal(tmp_path / "нет")


def test_a_file_is_refused(repo: Path) -> None:
    assert "is a file" in refusal(repo / "README.md")


def test_a_folder_without_git_is_refused_with_the_way_out(tmp_path: Path) -> None:
    assert "git init" in refusal(tmp_path)


def test_a_bare_repository_is_refused(repo: Path, tmp_path: Path, git: Git) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repo), "bare.git")
    assert "bare repository" in refusal(tmp_path / "bare.git")


def test_the_git_folder_is_refused_and_the_work_tree_named(repo: Path) -> None:
    assert f"inside a .git folder; start in the work tree instead, e.g. in {repo}" in refusal(repo / ".git" / "refs")


def test_a_repository_without_commits_is_refused(tmp_path: Path, git: Git) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "new")
    assert "no commits yet" in refusal(tmp_path / "new")


def test_a_detached_head_without_branches_is_refused_with_the_fix(repo: Path, git: Git) -> None:
    git(repo, "checkout", "-q", "--detach")
    git(repo, "branch", "-q", "-D", "main")
    assert "its HEAD is detached; make the base branch: git branch main" in refusal(repo)


def test_a_misspelt_base_branch_gets_a_suggestion_and_the_list(repo: Path, git: Git) -> None:
    git(repo, "branch", "develop")
    git(repo, "branch", "blueflame/ses-1/task-001/1")
    said = refusal(repo, "mian")
    assert "there are develop, main; did you mean main?" in said
    assert "blueflame/" not in said
    assert "set project.base_branch" in refusal(repo, "trunk")


def test_an_expression_is_not_a_branch(repo: Path, git: Git) -> None:
    git(repo, "commit", "-q", "--allow-empty", "-m", "second")
    assert "does not exist" in refusal(repo, "main~1")
    assert "does not exist" in refusal(repo, "")
    assert "does not exist" in refusal(repo, "--all")


def test_a_base_branch_that_only_the_remote_has_gets_the_command(repo: Path, tmp_path: Path, git: Git) -> None:
    git(repo, "branch", "release")
    git(tmp_path, "clone", "-q", str(repo), "copy")
    assert "git branch release origin/release" in refusal(tmp_path / "copy", "release")


def test_an_old_git_is_refused(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository, "read_git_version", lambda: (2, 30, 2))
    assert "git 2.30.2 is too old: Blue Flame needs git 2.38" in refusal(repo)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository to another user")
def test_a_repository_of_another_user_is_refused_with_the_command(repo: Path) -> None:
    for path in (repo, repo / ".git"):
        os.chown(path, 12345, 12345)
    assert f"git config --global --add safe.directory {repo}" in refusal(repo)


def test_a_line_break_in_the_path_is_refused(tmp_path: Path, git: Git) -> None:
    odd = tmp_path / "a\nb"
    odd.mkdir()
    git(odd, "init", "-q", "-b", "main")
    git(odd, "commit", "-q", "--allow-empty", "-m", "begin")
    assert "line break" in refusal(odd)


def test_a_path_that_is_not_utf_8_is_refused(tmp_path: Path, git: Git) -> None:
    odd = tmp_path / os.fsdecode(b"odd \xff")
    odd.mkdir()
    git(odd, "init", "-q", "-b", "main")
    git(odd, "commit", "-q", "--allow-empty", "-m", "begin")
    assert "odd \\xff, is not UTF-8; rename the folder" in refusal(odd)


def test_a_git_folder_without_its_head_is_damaged_and_not_missing(repo: Path) -> None:
    (repo / ".git" / "HEAD").unlink()
    with pytest.raises(Refused, match=r"git does not accept .*\.git: its HEAD, objects or refs are missing or damaged"):
        open_repository(repo, base_branch="main")


def test_a_worktree_whose_repository_is_moved_names_what_is_gone(repo: Path, git: Git, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "-q", str(tmp_path / "other"))
    repo.rename(tmp_path / "moved")
    with pytest.raises(
        Refused, match=r"not a git repository: .*worktrees/other; put it back, or .*'git worktree repair'"
    ):
        open_repository(tmp_path / "other", base_branch="main")


def test_an_empty_ref_is_damaged_and_not_a_repository_without_commits(repo: Path) -> None:
    (repo / ".git" / "refs" / "heads" / "main").write_text("")
    with pytest.raises(Refused, match="its ref is damaged; set it again with 'git update-ref refs/heads/main COMMIT'"):
        open_repository(repo, base_branch="main")


def test_a_broken_repository_is_refused_in_git_s_words(repo: Path) -> None:
    (repo / ".git" / "config").write_text("[core\n")
    assert "bad config" in refusal(repo)


# --- questions


def test_a_clean_tree_is_clean_and_ours_do_not_count(repo: Path) -> None:
    (repo / ".blueflame").mkdir()
    (repo / ".blueflame" / "state").write_text("")
    (repo / ".trees" / "worker").mkdir(parents=True)
    (repo / ".trees" / "worker" / "file").write_text("")
    found = opened(repo)
    assert find_dirty_paths(found) == ()
    assert find_dirty_paths(found, ignore=()) == (".blueflame/", ".trees/")


def test_every_kind_of_change_is_seen_whatever_the_names(repo: Path, git: Git) -> None:
    odd = 'new\nline "é"\tx'
    git(repo, "mv", "src/app.py", "src/moved.py")
    (repo / "README.md").write_text("changed")
    (repo / odd).write_text("")
    (repo / ".blueflame-not-ours").write_text("")
    git(repo, "config", "status.showUntrackedFiles", "no")
    assert find_dirty_paths(opened(repo)) == tuple(
        sorted([".blueflame-not-ours", "README.md", odd, "src/app.py", "src/moved.py"])
    )


def test_excluding_is_done_once_and_keeps_what_is_there(repo: Path) -> None:
    found = opened(repo)
    path = repo / ".git" / "info" / "exclude"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"mine \xe9")
    exclude_from_status(found, ["/.trees/"])
    exclude_from_status(found, ["/.trees/", "/.blueflame/"])
    exclude_from_status(found, ["/.blueflame/"])
    assert path.read_bytes() == b"mine \xe9\n# blueflame\n/.trees/\n/.blueflame/\n"
    (repo / ".trees").mkdir()
    (repo / ".trees" / "x").write_text("")
    assert find_dirty_paths(found, ignore=()) == ()


def test_excluding_works_without_an_info_folder(repo: Path) -> None:
    found = opened(repo)
    (repo / ".git" / "info" / "exclude").unlink(missing_ok=True)
    if (repo / ".git" / "info").exists():
        (repo / ".git" / "info").rmdir()
    exclude_from_status(found, ["/.trees/"])
    assert (repo / ".git" / "info" / "exclude").read_text() == "# blueflame\n/.trees/\n"


def test_ancestry_and_existence_differ_from_errors(repo: Path, git: Git) -> None:
    found = opened(repo)
    git(repo, "commit", "-q", "--allow-empty", "-m", "second")
    newer = read_branch_head(found, "main")
    assert is_ancestor(found, found.base_sha, newer)
    assert not is_ancestor(found, newer, found.base_sha)
    assert has_commit(found, newer)
    assert not has_commit(found, "0" * 40)
    with pytest.raises(GitFailed):
        is_ancestor(found, "0" * 40, newer)
    with pytest.raises(GitFailed, match="the branch gone no longer exists"):
        read_branch_head(found, "gone")


def test_the_size_of_a_checkout_is_the_size_of_its_files(repo: Path, git: Git) -> None:
    (repo / "большой file").write_bytes(b"x" * 5000)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "more")
    found = opened(repo)
    assert list_tree_files(found, found.base_sha) == ("README.md", "src/app.py", "большой file")
    assert measure_tree(found, found.base_sha) == sum(
        (repo / name).stat().st_size for name in list_tree_files(found, "main")
    )


def test_asking_does_not_write_the_person_s_index(repo: Path) -> None:
    os.utime(repo / "README.md", (1, 1))
    before = (repo / ".git" / "index").stat().st_mtime_ns
    assert try_git(repo, "status", "--porcelain").out == ""
    assert (repo / ".git" / "index").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "args", [("update-ref", "refs/blueflame/x", "HEAD"), ("commit-tree", "HEAD^{tree}", "-m", "x")]
)
def test_refs_and_commits_are_forced_to_the_disk_before_the_journal_builds_on_them(
    repo: Path, tmp_path: Path, args: tuple[str, ...]
) -> None:
    trace = tmp_path / "trace"
    commands.run_git(repo, *args, env={"GIT_TRACE2_EVENT": str(trace), "GIT_TEST_FSYNC": "1"})
    result = [json.loads(line) for line in trace.read_text().splitlines()]
    flushes = [int(each["value"]) for each in result if each.get("key") == "fsync/hardware-flush"]
    assert sum(flushes) > 0


def test_tags_are_those_that_git_lists(repo: Path, git: Git) -> None:
    found = open_repository(repo, base_branch="main")
    assert list_tags(found) == {}
    git(repo, "tag", "v1")
    git(repo, "tag", "-a", "-m", "annotated", "выпуск/v2")
    git(repo, "pack-refs", "--all")
    git(repo, "commit", "-q", "--allow-empty", "-m", "next")
    git(repo, "tag", "-f", "v1")
    git(repo, "tag", "-d", "выпуск/v2")
    git(repo, "tag", "выпуск/v3")
    (repo / ".git" / "refs" / "tags" / "v4.lock").write_text(f"{found.base_sha}\n")
    rows = git(repo, "for-each-ref", "--format=%(refname) %(objectname)", "refs/tags").split("\n")[:-1]
    assert list_tags(found) == dict(row.split(" ") for row in rows)
    assert list(list_tags(found)) == ["refs/tags/v1", "refs/tags/выпуск/v3"]


@pytest.mark.parametrize("packed", [False, True])
def test_a_branch_that_cannot_be_read_is_not_called_deleted(repo: Path, git: Git, packed: bool) -> None:
    """As on a network disk that fails: the session would ask a person about a branch that is there."""
    found, loose = opened(repo), repo / ".git" / "refs" / "heads" / "main"
    if packed:
        git(repo, "pack-refs", "--all")
        (repo / ".git" / "HEAD").write_text("damaged\n")
    else:
        loose.unlink()
        loose.symlink_to("main")  # a loop: any error but "there is no such file"
    with pytest.raises(WorldError, match="not a git repository" if packed else "Too many levels of symbolic links"):
        find_branch_head(found, "main")
