"""Open the person's repository, check that it can be used, and read its branches and trees."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import blueflame
from blueflame.git.command import (
    AGENT_DOMAIN,
    OBJECT_ID,
    build_git_error,
    find_fix,
    read_git_version,
    remember_answers,
    run_git,
    split_nul,
    try_git,
)
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import BlueFlameError, GitFailed, NoBaseBranch, Refused, WorldError
from blueflame.model.suggestions import suggest
from blueflame.system.files import build_file_error, explain_file_errors, list_files_below, write_atomically

MIN_GIT_VERSION = (2, 38)  # merge-tree --write-tree
EXCLUDE_HEADER = "# blueflame"
STATE_FOLDERS = (".blueflame", ".trees")
SUBMODULE_MODE = "160000"
PROBE_SUFFIX = "-probe"  # of refs that are written to see whether they can be; a kill may leave one
MAX_ALTERNATES = 100
MISSING_HISTORY = "agents cannot read old versions that only the remote has: 'git fetch --refetch --no-filter' helps"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    root: Path  # of the work tree in which the person started us
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
    """Open the repository of any folder of a work tree; Refused says what is wrong and how to fix it."""
    places = _find_places(path)
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
        submodules=_list_submodules(root, base_sha),
    )


def find_root(path: Path) -> Path:
    """Return the top of the work tree of any folder in it, whatever its branches are called."""
    return _find_places(path)["root"]


def _find_places(path: Path) -> dict[str, Path]:
    if not path.exists():
        raise Refused(f"{path} does not exist; give the path of a git repository")
    if not path.is_dir():
        raise Refused(f"{path} is a file; give the folder of a git repository")
    if (version := read_git_version()) < MIN_GIT_VERSION:
        shown, needed = ".".join(map(str, version)), ".".join(map(str, MIN_GIT_VERSION))
        raise Refused(f"git {shown} is too old: Blue Flame needs git {needed} or newer; upgrade git")
    return _find_folders(path)


def list_object_folders(objects: Path) -> Iterator[str]:
    """List a folder of git objects and, in git's order, those that it borrows from."""
    waiting = [os.path.normpath(objects)]
    seen: set[str] = set()
    while waiting and len(seen) < MAX_ALTERNATES:
        name = waiting.pop(0)
        if name in seen or not Path(name, "pack").is_dir():
            continue
        seen.add(name)
        yield name
        waiting += _read_alternates(Path(name))


def _read_alternates(objects: Path) -> list[str]:
    try:
        lines = (objects / "info" / "alternates").read_bytes().split(b"\n")
    except OSError:
        return []
    names = [os.fsdecode(line) for line in lines if line and not line.startswith(b"#")]
    return [os.path.normpath(objects / name) for name in names]


def is_partial(repo: Repository) -> bool:
    """Whether objects are only on a remote: git fetches them when it needs them, but not for an agent."""
    return any(any(Path(folder, "pack").glob("*.promisor")) for folder in list_object_folders(repo.objects))


def find_dirty_paths(
    repo: Repository, ignore: Iterable[str] = STATE_FOLDERS, *, untracked: bool = True
) -> tuple[str, ...]:
    """Return tracked files that differ from the last commit, and untracked ones; changes in submodules are ignored."""
    others = f"--untracked-files={'normal' if untracked else 'no'}"
    args = ("status", "--porcelain=v1", "-z", "--no-renames", others, "--ignore-submodules=all")
    paths = (entry[3:] for entry in split_nul(run_git(repo.root, *args, timeout=300)))
    skipped = tuple(f"{folder}/" for folder in ignore)
    return tuple(sorted(path for path in paths if not f"{path}/".startswith(skipped)))


def exclude_from_status(repo: Repository, patterns: Iterable[str]) -> None:
    """Keep our folders out of `git status` without changing a tracked file."""
    path = (repo.common_dir / "info" / "exclude").resolve()
    text = _read_bytes_as_text(path)
    lines = text.splitlines()
    missing = [pattern for pattern in patterns if pattern not in lines]
    if not missing:
        return
    head = [] if EXCLUDE_HEADER in lines else [EXCLUDE_HEADER]
    gap = "" if not text or text.endswith("\n") else "\n"
    write_atomically(path, text + gap + "\n".join([*head, *missing]) + "\n")


def protect_from_clean(folder: Path) -> None:
    """Make an untracked folder survive `git clean -fdx`, which spares folders with a repository of their own.

    It is an empty bare one: editors do not list it, and git started there finds no work tree instead of the person's.
    """
    inside = folder / ".git"
    if (inside / "HEAD").exists():
        return
    with explain_file_errors("write", inside):
        for name in ("objects", "refs"):
            (inside / name).mkdir(parents=True, exist_ok=True)
        write_atomically(inside / "config", "[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
        write_atomically(inside / "HEAD", "ref: refs/heads/none\n")


def _read_bytes_as_text(path: Path) -> str:
    """Read a file of any encoding so that it can be written back byte for byte."""
    with explain_file_errors("read", path), suppress(FileNotFoundError):
        return path.read_bytes().decode("utf-8", "surrogateescape")
    return ""


def read_branch_head(repo: Repository, branch: str) -> str:
    """Return the commit of a branch, given its exact name, not an expression such as main~1.

    Read from the file of the ref if there is one: git renames it into place, so it is complete.
    """
    found = find_branch_head(repo, branch)
    if found is None:
        raise GitFailed(f"the branch {branch} no longer exists in {repo.root}")
    return found


def find_branch_head(repo: Repository, branch: str) -> str | None:
    return _read_loose_head(repo, branch) or _ask_branch_head(repo.root, branch)


def _read_loose_head(repo: Repository, branch: str) -> str | None:
    path = repo.common_dir / "refs" / "heads" / branch
    try:
        text = path.read_text("ascii").strip()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ValueError):
        return None
    except OSError as e:  # a disk that fails has not deleted the branch
        raise build_file_error("read", path, e) from e
    return text if OBJECT_ID.fullmatch(text) else None


def list_tags(repo: Repository) -> dict[str, str]:
    """Return name and object of every tag. The files are read as git does: a tag may move to packed-refs meanwhile."""
    if (repo.common_dir / "reftable").is_dir():
        lines = run_git(repo.root, "for-each-ref", "--format=%(objectname) %(refname)", "refs/tags").split("\n")[:-1]
        return {name: sha for sha, _, name in (line.partition(" ") for line in lines)}
    files = list_files_below(repo.common_dir / "refs" / "tags")
    loose = {place.relative_to(repo.common_dir).as_posix(): _read_bytes_as_text(place).strip() for place in files}
    rows = (line.partition(" ") for line in _read_bytes_as_text(repo.common_dir / "packed-refs").split("\n"))
    tags = {**{name: sha for sha, _, name in rows if name.startswith("refs/tags/")}, **loose}
    return {name: sha for name, sha in sorted(tags.items()) if OBJECT_ID.fullmatch(sha) and not name.endswith(".lock")}


def is_usable(repo: Repository, *, ref: str) -> bool:
    """Whether the repository is where it was, and an object and a ref beside `ref` can be written."""
    if not repo.objects.is_dir():
        return False
    try:
        probe = run_git(repo.root, "hash-object", "-w", "--stdin", stdin=os.urandom(16)).strip()
        run_git(repo.root, "update-ref", f"{ref}{PROBE_SUFFIX}", probe)
        run_git(repo.root, "update-ref", "-d", f"{ref}{PROBE_SUFFIX}")
    except (WorldError, OSError):
        return False
    return True


def list_other_worktrees(repo: Repository) -> tuple[Path, ...]:
    """The roots of the other worktrees that share its git folder, by what that folder says of them."""
    records = sorted(repo.common_dir.glob("worktrees/*/gitdir"))
    roots = [repo.common_dir.parent] if records else []
    for record in records:
        with suppress(OSError):  # it is removed meanwhile
            roots.append(Path(record.parent, record.read_text("utf-8", "surrogateescape").strip()).parent)
    own = os.path.realpath(repo.root)
    return tuple(Path(root) for root in dict.fromkeys(map(os.path.realpath, roots)) if root != own)


@remember_answers(256)
def is_ancestor(repo: Repository, older: str, newer: str) -> bool:
    """Whether `newer` contains `older`; a commit is its own ancestor."""
    args = ("merge-base", "--is-ancestor", older, newer)
    done = try_git(repo.root, *args)
    if done.code not in (0, 1):
        raise build_git_error(repo.root, args, done)
    return done.code == 0


@lru_cache(maxsize=4)
def list_subjects(repo: Repository, sha: str, most: int) -> tuple[str, ...]:
    """Return the first lines of the last commits, newest first, without merges and what agents committed."""
    lines = split_nul(run_git(repo.root, "log", "-z", "--no-merges", f"-{most}", "--format=%ce %s", sha, "--"))
    parts = (line.partition(" ") for line in lines)
    return tuple(subject for address, _, subject in parts if not address.endswith(AGENT_DOMAIN))


@remember_answers(4)
def measure_tree(repo: Repository, sha: str) -> int:
    """Return the bytes that a checkout of the commit needs, without its git folder."""
    args = ("ls-tree", "-r", "-z", "--full-tree", "--format=%(objectsize)", sha)
    sizes = split_nul(run_git(repo.root, *args, timeout=300))
    return sum(int(size) for size in sizes if size.strip() != "-")


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
    if done.code < 0 or (done.code and not done.err.strip()):
        raise build_git_error(path, ("rev-parse",), done)
    if done.code:
        raise _explain_not_repository(path, done.err)
    if len(answers) != 6:  # five answers and the empty end; more if a path has a line break
        raise Refused(
            f"the path of the repository at {path} has a line break, which git cannot handle; rename the folder"
        )
    try:
        "".join(answers).encode()
    except UnicodeEncodeError as e:
        shown = os.fsencode(answers[4]).decode("utf-8", "backslashreplace")
        raise Refused(f"the path of the repository, {shown}, is not UTF-8; rename the folder") from e
    return {"git_dir": Path(answers[2]), "common_dir": Path(answers[3]), "root": Path(answers[4])}


def _explain_not_repository(path: Path, message: str) -> Refused:
    if "dubious ownership" in message:
        return Refused(
            f"git does not trust {path}, because it belongs to another user; if you do, run\n"
            f"  git config --global --add safe.directory {path}"
        )
    if "not a git repository" in message and (path / ".git").is_file():
        state = f"git does not accept the folder that {path / '.git'} names: {message.strip()}"
        return Refused(f"{state}; put it back, or if its repository was moved run 'git worktree repair' there")
    if "not a git repository" in message and (path / ".git").exists():
        state = f"git does not accept {path / '.git'}: its HEAD, objects or refs are missing or damaged"
        return Refused(f"{state}; restore them, or clone the repository again")
    if "not a git repository" in message:
        return Refused(
            f"{path} is not in a git repository; start in one, or make one with `git init` and a first commit"
        )
    fix = find_fix(message, path)
    return Refused(f"git cannot use the repository at {path}: {message.strip()}{f'; {fix}' if fix else ''}")


def _find_base(root: Path, base_branch: str) -> str:
    sha = _ask_branch_head(root, base_branch)
    if sha is not None:
        return sha
    if _has_damaged_ref(root, base_branch):
        where = f"logs/refs/heads/{base_branch} in its git folder lists the commits"
        fix = f"set it again with 'git update-ref refs/heads/{base_branch} COMMIT'; {where}"
        raise Refused(f"the base branch {base_branch} of {root} cannot be read: its ref is damaged; {fix}")
    branches = _list_branches(root, "refs/heads")
    if not branches and try_git(root, "rev-parse", "-q", "--verify", "HEAD^{commit}").code == 0:
        raise Refused(f"{root} has no branch: its HEAD is detached; make the base branch: git branch {base_branch}")
    if not branches:
        raise Refused(f"{root} has no commits yet; make a first one: git add -A && git commit -m 'begin'")
    raise NoBaseBranch(
        f"the base branch {base_branch} does not exist in {root}; {_suggest_branch(root, base_branch, branches)}"
    )


def _has_damaged_ref(root: Path, branch: str) -> bool:
    """Whether the branch has a file that git does not take for a ref: an empty one after a power cut."""
    found = try_git(root, "rev-parse", "--path-format=absolute", "--git-path", f"refs/heads/{branch}")
    return found.code == 0 and Path(found.out.removesuffix("\n")).is_file()


def _suggest_branch(root: Path, wanted: str, branches: tuple[str, ...]) -> str:
    remote = next((name for name in _list_branches(root, "refs/remotes") if name.partition("/")[2] == wanted), None)
    if remote:
        return f"make it from the remote one: git branch {wanted} {remote}"
    shown = ", ".join(branches[:10]) + (f" and {len(branches) - 10} more" if len(branches) > 10 else "")
    other = f"there are {shown}: rename one to it ('git branch -m NAME {wanted}'), or set project.base_branch"
    return suggest(wanted, branches, before=f"there are {shown}; ") or other


def _list_branches(root: Path, below: str) -> tuple[str, ...]:
    names = run_git(root, "for-each-ref", "--format=%(refname:lstrip=2)", below).split("\n")
    return tuple(name for name in names if name and not name.startswith("blueflame/"))


def _ask_branch_head(root: Path, branch: str) -> str | None:
    args = ("show-ref", "--verify", "--hash", f"refs/heads/{branch}")
    done = try_git(root, *args)
    if done.code and "not a valid ref" not in done.err:
        raise build_git_error(root, args, done)
    return done.out.strip() if done.code == 0 else None


@remember_answers(4)
def _list_submodules(root: Path, sha: str) -> tuple[str, ...]:
    entries = split_nul(run_git(root, "ls-tree", "-r", "-z", "--full-tree", sha, timeout=300))
    return tuple(entry.partition("\t")[2] for entry in entries if entry.startswith(SUBMODULE_MODE))


def read_own_commit() -> str:
    """Return the commit that this Blue Flame was built from, short.

    It is written into the package when it is built; else it is that of the source tree; else empty.
    """
    package = Path(blueflame.__file__).parent
    written, source = package / "commit.txt", package.parents[1]
    if written.is_file():
        return written.read_text(encoding="ascii").strip()
    if not (source / ".git").exists():
        return ""
    try:
        done = try_git(source, "rev-parse", "--short=10", "HEAD")
    except BlueFlameError:  # no git
        return ""
    return done.out.strip() if done.code == 0 else ""
