"""The person's repository: may we work here, and what is in it?"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from blueflame.git.command import build_git_error, read_git_version, run_git, split_nul, try_git
from blueflame.model.errors import GitFailed, Refused
from blueflame.model.suggestions import suggest
from blueflame.system.files import build_file_error, write_atomically

MIN_GIT_VERSION = (2, 38)  # merge-tree --write-tree
EXCLUDE_HEADER = "# blueflame"
STATE_FOLDERS = (".blueflame", ".trees")
SUBMODULE_MODE = "160000"
COMMIT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    root: Path  # of the work tree the person stands in
    git_dir: Path  # of that work tree
    common_dir: Path  # where objects and refs are; the same as git_dir unless the work tree is a linked one
    base_branch: str
    base_sha: str
    shallow: bool = False
    detached: bool = False
    submodules: tuple[str, ...] = ()  # checkouts leave them empty

    @property
    def objects(self) -> Path:
        return self.common_dir / "objects"


def open_repository(path: Path, *, base_branch: str) -> Repository:
    """Any folder of a work tree will do; Refused says what is wrong and how to fix it."""
    _check_folder(path)
    _check_version()
    places = _find_folders(path)
    root = places["root"]
    head = try_git(root, "rev-parse", "--symbolic-full-name", "HEAD")
    base_sha = _find_base(root, base_branch)
    return Repository(
        root=root,
        git_dir=places["git_dir"],
        common_dir=places["common_dir"],
        base_branch=base_branch,
        base_sha=base_sha,
        shallow=(places["common_dir"] / "shallow").is_file(),
        detached=head.code == 0 and head.out.strip() == "HEAD",
        submodules=tuple(name for mode, name in _list_tree(root, base_sha) if mode == SUBMODULE_MODE),
    )


def find_dirty_paths(repo: Repository, ignore: Iterable[str] = STATE_FOLDERS) -> tuple[str, ...]:
    """Tracked files that differ from the last commit, and untracked ones; what is inside submodules is theirs."""
    out = run_git(
        repo.root,
        "status",
        "--porcelain=v1",
        "-z",
        "--no-renames",
        "--untracked-files=normal",
        "--ignore-submodules=all",
        timeout=300,
    )
    paths = (entry[3:] for entry in split_nul(out))
    skipped = tuple(ignore)
    return tuple(sorted(path for path in paths if not _is_below(path, skipped)))


def exclude_from_status(repo: Repository, patterns: Iterable[str]) -> None:
    """Keep our folders out of `git status` without touching a file that is in the repository."""
    path = (repo.common_dir / "info" / "exclude").resolve()
    text = _read_bytes_as_text(path)
    lines = text.splitlines()
    missing = [pattern for pattern in patterns if pattern not in lines]
    if not missing:
        return
    head = [] if EXCLUDE_HEADER in lines else [EXCLUDE_HEADER]
    gap = "" if not text or text.endswith("\n") else "\n"
    write_atomically(path, text + gap + "\n".join([*head, *missing]) + "\n")


def _read_bytes_as_text(path: Path) -> str:
    """The person's file in the person's encoding: it goes back byte for byte."""
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""
    except OSError as e:
        raise build_file_error("read", path, e) from e


def read_branch_head(repo: Repository, branch: str) -> str:
    """The commit a branch points at. An exact name, never an expression such as main~1.

    Read from the file in which git keeps it, where there is one: it is renamed into place, so it is whole.
    """
    found = _read_loose_head(repo, branch) or _ask_branch_head(repo.root, branch)
    if found is None:
        raise GitFailed(f"the branch {branch} is gone from {repo.root}")
    return found


def _read_loose_head(repo: Repository, branch: str) -> str | None:
    try:
        text = (repo.common_dir / "refs" / "heads" / branch).read_text("ascii").strip()
    except (OSError, ValueError):
        return None
    return text if COMMIT_ID.fullmatch(text) else None


def has_commit(repo: Repository, sha: str) -> bool:
    return try_git(repo.root, "cat-file", "-e", f"{sha}^{{commit}}").code == 0


def is_ancestor(repo: Repository, older: str, newer: str) -> bool:
    """A commit is its own ancestor."""
    args = ("merge-base", "--is-ancestor", older, newer)
    done = try_git(repo.root, *args)
    if done.code not in (0, 1):
        raise build_git_error(repo.root, args, done)
    return done.code == 0


def list_tree_files(repo: Repository, sha: str) -> tuple[str, ...]:
    """Every file of a commit, submodules not among them."""
    return tuple(name for mode, name in _list_tree(repo.root, sha) if mode != SUBMODULE_MODE)


def measure_tree(repo: Repository, sha: str) -> int:
    """The bytes that a checkout of the commit needs, its git folder aside."""
    sizes = split_nul(
        run_git(repo.root, "ls-tree", "-r", "-z", "--full-tree", "--format=%(objectsize)", sha, timeout=300)
    )
    return sum(int(size) for size in sizes if size.strip() != "-")


def _check_folder(path: Path) -> None:
    if not path.exists():
        raise Refused(f"{path} does not exist; give the path of a git repository")
    if not path.is_dir():
        raise Refused(f"{path} is a file; give the folder of a git repository")


def _check_version() -> None:
    found = read_git_version()
    if found < MIN_GIT_VERSION:
        shown, needed = ".".join(map(str, found)), ".".join(map(str, MIN_GIT_VERSION))
        raise Refused(f"git {shown} is too old: Blue Flame needs git {needed} or newer; upgrade git")


def _find_folders(path: Path) -> dict[str, Path]:
    args = ("--is-bare-repository", "--is-inside-git-dir", "--path-format=absolute", "--git-dir", "--git-common-dir")
    done = try_git(path, "rev-parse", *args, "--show-toplevel")
    answers = done.out.split("\n")
    if answers[0] == "true":
        raise Refused(f"{path} is a bare repository: there are no files to work on; clone it and start in the clone")
    if answers[1:2] == ["true"]:
        raise Refused(
            f"{path} is inside a .git folder; start in the work tree instead, e.g. in {Path(answers[2]).parent}"
        )
    if done.code:
        raise _explain_not_repository(path, done.err)
    if len(answers) != 6:  # five answers and the empty end; more when a path holds a line break
        raise Refused(
            f"the path of the repository at {path} holds a line break, which git cannot serve; rename the folder"
        )
    return {"git_dir": Path(answers[2]), "common_dir": Path(answers[3]), "root": Path(answers[4])}


def _explain_not_repository(path: Path, said: str) -> Refused:
    if "dubious ownership" in said:
        return Refused(
            f"git does not trust {path}, because it belongs to another user; if you do, say so with\n"
            f"  git config --global --add safe.directory {path}"
        )
    if "not a git repository" in said:
        return Refused(
            f"{path} is not in a git repository; start in one, or make one with `git init` and a first commit"
        )
    return Refused(f"git cannot use the repository at {path}: {said.strip()}")


def _find_base(root: Path, base_branch: str) -> str:
    sha = _ask_branch_head(root, base_branch)
    if sha is not None:
        return sha
    branches = _list_branches(root, "refs/heads")
    if not branches:
        raise Refused(f"{root} has no commits yet; make a first one: git add -A && git commit -m 'begin'")
    raise Refused(
        f"the base branch {base_branch} does not exist in {root}; {_suggest_branch(root, base_branch, branches)}"
    )


def _suggest_branch(root: Path, wanted: str, branches: tuple[str, ...]) -> str:
    remote = next((name for name in _list_branches(root, "refs/remotes") if name.partition("/")[2] == wanted), None)
    if remote:
        return f"make it from the remote one: git branch {wanted} {remote}"
    shown = ", ".join(branches[:10]) + (f" and {len(branches) - 10} more" if len(branches) > 10 else "")
    return f"{suggest(wanted, branches)} There are: {shown}".lstrip()


def _list_branches(root: Path, below: str) -> tuple[str, ...]:
    names = run_git(root, "for-each-ref", "--format=%(refname:lstrip=2)", below).split("\n")
    return tuple(name for name in names if name and not name.startswith("blueflame/"))


def _ask_branch_head(root: Path, branch: str) -> str | None:
    done = try_git(root, "show-ref", "--verify", "--hash", f"refs/heads/{branch}")
    return done.out.strip() if done.code == 0 else None


def _list_tree(root: Path, sha: str) -> tuple[tuple[str, str], ...]:
    entries = split_nul(
        run_git(root, "ls-tree", "-r", "-z", "--full-tree", "--format=%(objectmode) %(path)", sha, timeout=300)
    )
    return tuple((mode, name) for mode, _, name in (entry.partition(" ") for entry in entries))


def _is_below(path: str, folders: tuple[str, ...]) -> bool:
    return any(path.rstrip("/") == folder or path.startswith(f"{folder}/") for folder in folders)
