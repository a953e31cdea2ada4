"""Fetch an agent's result into our repository, and compare commits there.

No git process uses the agent's folder as its git dir or work tree: its config, hooks, attributes and index could make
git run the agent's code as us (five ways are known). Not even `git upload-pack` runs there: we read the branch's id
ourselves, and fetch from a repository that we made and that borrows only the agent's objects. Every object is checked
when it is fetched.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import dropwhile, islice, takewhile
from pathlib import Path
from typing import NamedTuple

from blueflame.git.batch import change_refs, find_objects, find_ref, read_objects
from blueflame.git.blobs import decode_text, is_binary, read_blob_sizes, split_batches
from blueflame.git.checkouts import get_fetch_path
from blueflame.git.command import remember_answers, run_git, run_git_capped
from blueflame.git.merge import find_tree
from blueflame.git.repository import SUBMODULE_MODE, Repository
from blueflame.git.steps import (
    COUNTED_ENTRIES,
    DIFF_TREE_ARGS,
    MAX_LISTING_BYTES,
    DiffEntry,
    build_listing_error,
    check_history,
    check_names,
    compare_trees,
    list_differences,
    list_steps,
    parse_raw_entry,
    read_capped,
)
from blueflame.git.untrusted.branches import check_object_store, read_branch_tip
from blueflame.lazy_dataclass import dataclass
from blueflame.model.changes import Change, Commit
from blueflame.model.errors import GitFailed
from blueflame.model.ids import ROLE_NAME, build_attempt_path, is_session_id, is_task_id
from blueflame.system.files import explain_file_errors

AUTHOR_HEADER = re.compile(r"(?m)^author (.*>)")
LINK_MODE = "120000"
FILE_MODES = ("100644", "100755")
MAX_PATH_LENGTH = 4096
MAX_JUDGED_BYTES = 64_000_000  # larger files are not searched for secrets either, and fail for that
MAX_TOTAL_BYTES = 512_000_000
FETCH_TIMEOUT = 600.0
MAX_LOOSE_OBJECTS = 1000
MAX_LOOSE_BYTES = 16_000_000

# Files beside the agent's objects (commit graph, pack index, bitmaps) make claims about them; none of those is used.
FETCH_SOURCE_CONFIG = """\
[core]
\trepositoryFormatVersion = {version}
\tbare = true
\tcommitGraph = false
\tmultiPackIndex = false
[pack]
\tuseBitmaps = false
[gc]
\tauto = 0
{extensions}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedResult:
    tip: str
    commits: tuple[Commit, ...]  # oldest first


@dataclass(frozen=True, slots=True, kw_only=True)
class NoResult:
    """There is no commit to collect; `reason` says why."""

    reason: str


def collect_result(repo: Repository, checkout: Path, *, branch: str, base: str, ref: str) -> CollectedResult | NoResult:
    """Fetch the branch of an agent's checkout into our repository as `ref`. Idempotent.

    A `ref` from before a crash is used: the checkout may have been removed since.
    """
    tip = find_ref(repo, ref)
    shutil.rmtree(get_fetch_path(checkout), ignore_errors=True)  # of a fetch that was killed
    if tip is None:
        tip = read_branch_tip(checkout, branch)
        if tip is None:
            return NoResult(reason=f"the branch {branch} no longer exists in {checkout}")
        if tip == base:
            return NoResult(reason=f"no commit was made on {branch}")
        _fetch_result(repo, checkout, tip=tip, base=base, ref=ref)
    (found,) = find_objects(repo, (tip,))
    if found is None or found.kind != "commit":
        kind = found.kind if found else "missing object"
        raise GitFailed(f"{branch} in {checkout} names a {kind}, not a commit")
    check_history(repo, base, tip)
    check_names(repo, base, tip)
    return CollectedResult(tip=tip, commits=list_commits(repo, base, tip))


def list_commits(repo: Repository, base: str, tip: str) -> tuple[Commit, ...]:
    """Return the commits of tip that base does not have, oldest first."""
    shas = [step.commit for step in list_steps(repo, base, tip)[1:]]
    found = find_objects(repo, shas)
    if sum(each.size for each in found if each) > MAX_LISTING_BYTES:
        raise build_listing_error("cat-file")
    return tuple(_parse_commit(sha, data) for sha, data in read_objects(repo, shas).items())


@remember_answers(16)
def list_changes(repo: Repository, base: str, tip: str) -> tuple[Change, ...]:
    """Return every path in which two commits differ, in git's order; renames with both names."""
    parts = iter(list_differences(repo, COUNTED_ENTRIES, find_tree(repo, base), find_tree(repo, tip)))
    entries: list[DiffEntry] = []
    counts: dict[str, LineCounts | None] = {}
    for part in parts:
        if part.startswith(":"):
            entries.append(parse_raw_entry(part, parts))
        else:
            path, counted = _parse_numstat(part, parts)
            counts[path] = counted
    return _build_changes(repo, entries, counts)


def list_step_changes(repo: Repository, base: str, tip: str) -> dict[str, tuple[Change, ...]]:
    """Return what each commit changes compared with its first parent; nothing for a single commit on the base."""
    steps = list_steps(repo, base, tip)[1:]
    if len(steps) < 2:
        return {}
    compared = [compare_trees(repo, step.parents[0], step.tree) for step in steps]
    changes = iter(_build_changes(repo, [entry for entries in compared for entry in entries], {}))
    return {step.commit: tuple(islice(changes, len(entries))) for step, entries in zip(steps, compared, strict=True)}


def read_diff(repo: Repository, base: str, tip: str, max_bytes: int) -> str:
    """Return the diff for reviewers, cut after a line if it is longer than `max_bytes`."""
    args = (*DIFF_TREE_ARGS, "-p", "--no-color", "--src-prefix=a/", "--dst-prefix=b/", base, tip, "--")
    done = read_capped(repo, *args, max_bytes=max_bytes)
    text = done.out.decode("utf-8", "replace")
    if not done.truncated:
        return text
    return text[: text.rfind("\n") + 1] + f"[cut here: the difference is longer than {max_bytes} bytes]\n"


def set_ref(repo: Repository, ref: str, sha: str) -> None:
    change_refs(repo, (f"update {ref}\0{sha}\0\0",))


def keep_failed_result(repo: Repository, session: str, task: str, n: int, sha: str, *, key: str = "") -> str:
    """Keep the commits of a failed attempt for people to inspect, and return the ref. Idempotent."""
    if not (is_session_id(session) and is_task_id(task) and ROLE_NAME.fullmatch(key or "worker")):
        raise ValueError(f"{session!r}, {task!r} and {key!r} are not valid ids for a ref")
    ref = f"refs/blueflame/failed/{session}/{build_attempt_path(task, n, key)}"
    set_ref(repo, ref, sha)
    return ref


def delete_refs(repo: Repository, names: Iterable[str]) -> None:
    """Delete all of them or none; those that do not exist are fine."""
    orders = tuple(f"delete {name}\0\0" for name in names)
    if orders:
        change_refs(repo, orders)


def pack_refs(repo: Repository) -> None:
    """Put all refs into one file, as `git gc` does: what lists refs, ours or a person's, opens every other file."""
    run_git(repo.root, "pack-refs", "--all")


def list_refs(repo: Repository, prefix: str) -> dict[str, str]:
    """Return name and commit of every ref below a prefix such as refs/blueflame/attempts/, sorted by name."""
    lines = run_git(repo.root, "for-each-ref", "--format=%(objectname) %(refname)", prefix.rstrip("/")).splitlines()
    return {name: sha for sha, _, name in (line.partition(" ") for line in lines)}


def _fetch_result(repo: Repository, checkout: Path, *, tip: str, base: str, ref: str) -> None:
    with _open_fetch_source(repo, checkout, tip) as source:
        if _unpack_result(repo, source, tip=tip, base=base):
            set_ref(repo, ref, tip)
            return
        run_git(
            repo.root,
            *("-c", "transfer.fsckObjects=true", "-c", "fetch.fsckObjects=true"),
            *("-c", "fetch.writeCommitGraph=false", "-c", "fetch.prune=false"),
            # a url.*.insteadOf of the repository could turn the path into an address, and that into a command
            *("-c", "protocol.allow=never", "-c", "protocol.file.allow=always", "-c", "core.sshCommand=false"),
            *("fetch", "-q", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance"),
            *(f"--negotiation-tip={base}", "--upload-pack=git-upload-pack"),
            *("--", str(source), f"+refs/heads/tip:{ref}"),
            env={"GIT_NO_LAZY_FETCH": "1"},
            timeout=FETCH_TIMEOUT,
        )


def _unpack_result(repo: Repository, source: Path, *, tip: str, base: str) -> bool:
    """Copy a result of few objects as loose ones, each checked; return False if it has more.

    `git fetch` would leave a pack for each result, and with a thousand of them every git command is slow.
    """
    wanted = f"{tip}\n^{base}\n".encode()
    args = ("pack-objects", "--revs", "--thin", "--stdout", "--delta-base-offset", "-q")
    packed = run_git_capped(source, f"--git-dir={source}", *args, max_bytes=MAX_LOOSE_BYTES, stdin=wanted)
    if packed.truncated or int.from_bytes(packed.out[8:12], "big") > MAX_LOOSE_OBJECTS:
        return False
    # it holds all trees at once, and as differences a hundred trees of 20 MB are tiny: its memory is limited
    run_git_capped(repo.root, "unpack-objects", "--strict", "-q", max_bytes=1, stdin=packed.out, timeout=FETCH_TIMEOUT)
    return True


@contextmanager
def _open_fetch_source(repo: Repository, checkout: Path, tip: str) -> Iterator[Path]:
    """Make a repository without objects of its own, with the agent's branch; remove it afterwards."""
    home = get_fetch_path(checkout)
    try:
        with explain_file_errors("prepare to fetch from", checkout):
            _build_fetch_source(repo, checkout, tip, home)
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _build_fetch_source(repo: Repository, checkout: Path, tip: str, home: Path) -> None:
    check_object_store(checkout, borrowed=f"{repo.objects}\n")
    sha256 = len(tip) == 64
    (home / "refs" / "heads").mkdir(parents=True)
    (home / "objects" / "info").mkdir(parents=True)
    (home / "HEAD").write_text("ref: refs/heads/tip\n")
    (home / "refs" / "heads" / "tip").write_text(f"{tip}\n")
    extensions = "[extensions]\n\tobjectFormat = sha256\n" if sha256 else ""
    (home / "config").write_text(FETCH_SOURCE_CONFIG.format(version=int(sha256), extensions=extensions))
    stores = f"{repo.objects}\n{checkout.absolute() / '.git' / 'objects'}\n"
    (home / "objects" / "info" / "alternates").write_text(stores, "utf-8", "surrogateescape")
    with suppress(FileNotFoundError):  # a person may fetch the rest, or cut history off, at any time
        shutil.copyfile(repo.common_dir / "shallow", home / "shallow")


def _parse_commit(sha: str, data: bytes) -> Commit:
    """Read a commit as UTF-8, whatever it says about its encoding. The subject is the first paragraph, as in git."""
    headers, _, message = data.decode("utf-8", "replace").partition("\n\n")
    author = AUTHOR_HEADER.search(headers)
    lines = [line.rstrip() for line in message.split("\n")]
    subject = takewhile(bool, dropwhile(lambda line: not line, lines))
    return Commit(
        sha=sha,
        author=author[1] if author else "",
        subject=" ".join(subject),
        message=message.rstrip("\n"),
        headers=headers,
    )


class LineCounts(NamedTuple):
    added: int
    deleted: int


NOTHING = LineCounts(0, 0)


def _parse_numstat(head: str, rest: Iterator[str]) -> tuple[str, LineCounts | None]:
    """Parse `1<tab>2<tab>name`, or `1<tab>2<tab>` with the old name and the name in `rest`; `-` is a binary file."""
    added, deleted, path = head.split("\t", 2)
    if not path:
        next(rest)
        path = next(rest)
    return path, None if added == "-" else LineCounts(int(added), int(deleted))


def _build_changes(
    repo: Repository, entries: Sequence[DiffEntry], counts: Mapping[str, LineCounts | None]
) -> tuple[Change, ...]:
    """Whether a file is binary is judged by its content; lines that git did not count (UTF-16 text) are counted."""
    targets = _read_link_targets(repo, sorted({entry.sha for entry in entries if entry.mode == LINK_MODE}))
    files = [entry for entry in entries if entry.mode in FILE_MODES]
    judged = _judge_contents(repo, files, counts)
    made = []
    for entry in entries:
        found = judged[entry.old_sha, entry.sha] if entry.mode in FILE_MODES else counts.get(entry.path) or NOTHING
        added, deleted = found or NOTHING
        made.append(
            Change(
                status=entry.status,
                path=entry.path,
                old_path=entry.old_path,
                mode=entry.mode,
                added=added,
                deleted=deleted,
                binary=found is None,
                symlink=entry.mode == LINK_MODE,
                submodule=entry.mode == SUBMODULE_MODE,
                link_target=targets.get(entry.sha) if entry.mode == LINK_MODE else None,
                old_mode=entry.old_mode,
                blob=entry.sha,
                old_blob=entry.old_sha,
            )
        )
    return tuple(made)


def _judge_contents(
    repo: Repository, entries: Iterable[DiffEntry], counts: Mapping[str, LineCounts | None]
) -> dict[tuple[str, str], LineCounts | None]:
    """Return None for what is not text, else the lines of what git did not count. What is too large is what git says.

    An agent's files can be a few kilobytes as objects and gigabytes in memory, so they are read in small batches.
    """
    wanted = {(one.old_sha, one.sha): counts.get(one.path) for one in entries}
    sizes = read_blob_sizes(repo, sorted({sha for pair in wanted for sha in pair if sha.strip("0")}))
    judged: dict[tuple[str, str], LineCounts | None] = {}
    left = MAX_TOTAL_BYTES
    for pairs in split_batches(wanted, lambda pair: sum(sizes.get(sha, 0) for sha in pair)):
        small = {sha: sizes[sha] for pair in pairs for sha in pair if sha in sizes and sizes[sha] <= MAX_JUDGED_BYTES}
        left -= sum(small.values())
        texts = read_objects(repo, small) if small and left >= 0 else {}
        for old, new in pairs:
            text, counted = texts.get(new), wanted[old, new]
            if text is None:
                judged[old, new] = counted
            elif is_binary(text):
                judged[old, new] = None
            else:
                judged[old, new] = counted or _count_lines(texts.get(old, b""), text)
    return judged


def _count_lines(before: bytes, after: bytes) -> LineCounts:
    old, new = (Counter(decode_text(data).splitlines()) for data in (before, after))
    return LineCounts((new - old).total(), (old - new).total())


def _read_link_targets(repo: Repository, shas: list[str]) -> dict[str, str]:
    """Return the targets of links, except targets that are longer than a path can be."""
    short = {sha: size for sha, size in read_blob_sizes(repo, shas).items() if size <= MAX_PATH_LENGTH}
    targets = read_objects(repo, short) if short else {}
    return {sha: target.decode("utf-8", "surrogateescape") for sha, target in targets.items()}
