"""The person's repository: may we work here, and what is in it?"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from blueflame.git.command import ask, failed, fields, git, git_version
from blueflame.model.errors import GitFailed, Refused
from blueflame.system.files import trouble, write_whole

OLDEST_GIT = (2, 38)  # merge-tree --write-tree
HEADER = "# blueflame"
OURS = (".blueflame", ".trees")
SUBMODULE_MODE = "160000"
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


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
    """Any folder of a work tree will do; Refused says what is in the way and how to mend it."""
    _check_folder(path)
    _check_version()
    places = _find_places(path)
    root = places["root"]
    head = ask(root, "rev-parse", "--symbolic-full-name", "HEAD")
    base_sha = _base_of(root, base_branch)
    return Repository(
        root=root,
        git_dir=places["git_dir"],
        common_dir=places["common_dir"],
        base_branch=base_branch,
        base_sha=base_sha,
        shallow=(places["common_dir"] / "shallow").is_file(),
        detached=head.code == 0 and head.out.strip() == "HEAD",
        submodules=tuple(name for mode, name in _tree(root, base_sha) if mode == SUBMODULE_MODE),
    )


def dirty_paths(repo: Repository, ignore: Iterable[str] = OURS) -> tuple[str, ...]:
    """Tracked files that differ from the last commit, and untracked ones; what is inside submodules is theirs."""
    out = git(
        repo.root,
        "status",
        "--porcelain=v1",
        "-z",
        "--no-renames",
        "--untracked-files=normal",
        "--ignore-submodules=all",
        timeout=300,
    )
    paths = (entry[3:] for entry in fields(out))
    skipped = tuple(ignore)
    return tuple(sorted(path for path in paths if not _is_below(path, skipped)))


def exclude(repo: Repository, patterns: Iterable[str]) -> None:
    """Keep our folders out of `git status` without touching a file that is in the repository (D-20)."""
    path = (repo.common_dir / "info" / "exclude").resolve()
    text = _lenient_text(path)
    lines = text.splitlines()
    missing = [pattern for pattern in patterns if pattern not in lines]
    if not missing:
        return
    head = [] if HEADER in lines else [HEADER]
    gap = "" if not text or text.endswith("\n") else "\n"
    write_whole(path, text + gap + "\n".join([*head, *missing]) + "\n")


def _lenient_text(path: Path) -> str:
    """The person's file in the person's encoding: it goes back byte for byte."""
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""
    except OSError as e:
        raise trouble("read", path, e) from e


def head_of(repo: Repository, branch: str) -> str:
    """The commit a branch points at. An exact name, never an expression such as main~1.

    Read from the file in which git keeps it, where there is one: it is renamed into place, so it is whole.
    """
    found = _loose_head(repo, branch) or _head(repo.root, branch)
    if found is None:
        raise GitFailed(f"the branch {branch} is gone from {repo.root}")
    return found


def _loose_head(repo: Repository, branch: str) -> str | None:
    try:
        text = (repo.common_dir / "refs" / "heads" / branch).read_text("ascii").strip()
    except (OSError, ValueError):
        return None
    return text if COMMIT.fullmatch(text) else None


def has_commit(repo: Repository, sha: str) -> bool:
    return ask(repo.root, "cat-file", "-e", f"{sha}^{{commit}}").code == 0


def is_ancestor(repo: Repository, older: str, newer: str) -> bool:
    """A commit is its own ancestor."""
    args = ("merge-base", "--is-ancestor", older, newer)
    done = ask(repo.root, *args)
    if done.code not in (0, 1):
        raise failed(repo.root, args, done)
    return done.code == 0


def tree_files(repo: Repository, sha: str) -> tuple[str, ...]:
    """Every file of a commit, submodules not among them."""
    return tuple(name for mode, name in _tree(repo.root, sha) if mode != SUBMODULE_MODE)


def tracked_size(repo: Repository, sha: str) -> int:
    """The bytes that a checkout of the commit needs, its git folder aside."""
    sizes = fields(git(repo.root, "ls-tree", "-r", "-z", "--full-tree", "--format=%(objectsize)", sha, timeout=300))
    return sum(int(size) for size in sizes if size.strip() != "-")


def _check_folder(path: Path) -> None:
    if not path.exists():
        raise Refused(f"{path} does not exist; give the path of a git repository")
    if not path.is_dir():
        raise Refused(f"{path} is a file; give the folder of a git repository")


def _check_version() -> None:
    found = git_version()
    if found < OLDEST_GIT:
        shown, needed = ".".join(map(str, found)), ".".join(map(str, OLDEST_GIT))
        raise Refused(f"git {shown} is too old: Blue Flame needs git {needed} or newer; upgrade git")


def _find_places(path: Path) -> dict[str, Path]:
    args = ("--is-bare-repository", "--is-inside-git-dir", "--path-format=absolute", "--git-dir", "--git-common-dir")
    done = ask(path, "rev-parse", *args, "--show-toplevel")
    answers = done.out.split("\n")
    if answers[0] == "true":
        raise Refused(f"{path} is a bare repository: there are no files to work on; clone it and start in the clone")
    if answers[1:2] == ["true"]:
        raise Refused(
            f"{path} is inside a .git folder; start in the work tree instead, e.g. in {Path(answers[2]).parent}"
        )
    if done.code:
        raise _no_repository(path, done.err)
    if len(answers) != 6:  # five answers and the empty end; more when a path holds a line break
        raise Refused(
            f"the path of the repository at {path} holds a line break, which git cannot serve; rename the folder"
        )
    return {"git_dir": Path(answers[2]), "common_dir": Path(answers[3]), "root": Path(answers[4])}


def _no_repository(path: Path, said: str) -> Refused:
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


def _base_of(root: Path, base_branch: str) -> str:
    sha = _head(root, base_branch)
    if sha is not None:
        return sha
    branches = _branches(root, "refs/heads")
    if not branches:
        raise Refused(f"{root} has no commits yet; make a first one: git add -A && git commit -m 'begin'")
    raise Refused(f"the base branch {base_branch} does not exist in {root}; {_advice(root, base_branch, branches)}")


def _advice(root: Path, wanted: str, branches: tuple[str, ...]) -> str:
    remote = next((name for name in _branches(root, "refs/remotes") if name.partition("/")[2] == wanted), None)
    if remote:
        return f"make it from the remote one: git branch {wanted} {remote}"
    near = get_close_matches(wanted, branches, n=1)
    question = f"did you mean {near[0]}? " if near else ""
    shown = ", ".join(branches[:10]) + (f" and {len(branches) - 10} more" if len(branches) > 10 else "")
    return f"{question}There are: {shown}"


def _branches(root: Path, below: str) -> tuple[str, ...]:
    names = git(root, "for-each-ref", "--format=%(refname:lstrip=2)", below).split("\n")
    return tuple(name for name in names if name and not name.startswith("blueflame/"))


def _head(root: Path, branch: str) -> str | None:
    done = ask(root, "show-ref", "--verify", "--hash", f"refs/heads/{branch}")
    return done.out.strip() if done.code == 0 else None


def _tree(root: Path, sha: str) -> tuple[tuple[str, str], ...]:
    entries = fields(
        git(root, "ls-tree", "-r", "-z", "--full-tree", "--format=%(objectmode) %(path)", sha, timeout=300)
    )
    return tuple((mode, name) for mode, _, name in (entry.partition(" ") for entry in entries))


def _is_below(path: str, folders: tuple[str, ...]) -> bool:
    return any(path.rstrip("/") == folder or path.startswith(f"{folder}/") for folder in folders)
