"""Read the lines that a result adds: in its last commit, and in every commit before it, because all of them land.

The lines are read from blobs, not from a patch: what a patch shows depends on attributes, drivers, quoting and what git
treats as binary, and an agent can write most of these. A line is added if the file has it and no parent of the commit
has it in that file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from blueflame.checks.secrets.scan import AddedLine, Unscanned
from blueflame.git.blobs import read_blob_sizes, read_blobs
from blueflame.git.command import run_git, split_nul
from blueflame.git.repository import SUBMODULE_MODE, Repository
from blueflame.git.results import parse_raw_entry
from blueflame.model.errors import GitFailed

MEGABYTE = 1_000_000
GIT_TIMEOUT = 300.0
MAX_BATCH_BYTES = 16 * MEGABYTE  # what is held in memory at once, unless one file is larger
HEADERS = re.compile(r"(?:[0-9a-f]+ [0-9a-f]+\n)+")
UTF16_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
ENCODING_SAMPLE_BYTES = 4000  # enough to detect the encoding of a text


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """Limits in bytes; files above them are not searched, and are reported."""

    file: int = 64 * MEGABYTE
    total: int = 512 * MEGABYTE


DEFAULT_LIMITS = ReadLimits()


class _TreeComparison(NamedTuple):
    """A tree to be compared with the trees of its parents."""

    commit: str  # empty: the whole result against its base
    tree: str
    parents: tuple[str, ...]


class _AddedFile(NamedTuple):
    path: str
    blob: str
    before: frozenset[str]  # the same file in the parents that have it
    commit: str


@dataclass(slots=True)
class _ChangedBlob:
    blob: str
    before: set[str] = field(default_factory=set)
    parents: int = 0


def read_added_lines(
    repo: Repository, base: str, tip: str, *, limits: ReadLimits = DEFAULT_LIMITS
) -> Iterator[AddedLine | Unscanned]:
    """Yield the lines that tip adds to base, then those that a commit between them adds and a later one removes.

    Binary files are read as text. A file that is too large becomes Unscanned; git errors are raised.
    """
    files = _find_added_files(repo, base, tip)
    sizes = read_blob_sizes(repo, sorted({sha for file in files for sha in (file.blob, *file.before)}))
    left = limits.total
    for batch in _split_batches(files, sizes):
        fitting = []
        for file in batch:
            if sizes[file.blob] > limits.file:
                size, most = _format_size(sizes[file.blob]), _format_size(limits.file)
                yield Unscanned(file.path, f"too large to be searched for secrets: {size}, at most {most} are read")
            else:
                fitting.append(file)
        wanted = {sha: sizes[sha] for file in fitting for sha in (file.blob, *file.before) if sizes[sha] <= limits.file}
        left -= sum(wanted.values())
        if left < 0:
            most = _format_size(limits.total)
            reason = f"the result is too large to be searched for secrets: more than {most} to read"
            yield Unscanned(batch[0].path, reason)
            return
        blobs = read_blobs(repo, wanted)
        for file in fitting:
            yield from _list_added_lines(file, blobs)


def _find_added_files(repo: Repository, base: str, tip: str) -> tuple[_AddedFile, ...]:
    steps = _list_comparisons(repo, base, tip)
    found: dict[tuple[str, str], _AddedFile] = {}
    for step, changed in zip(steps, _compare_trees(repo, steps), strict=True):
        for path, change in changed.items():
            # a file that equals that of one parent adds nothing; the first comparison is with the base, so it wins
            if change.parents == len(step.parents):
                file = _AddedFile(path, change.blob, frozenset(change.before), step.commit)
                found.setdefault((path, change.blob), file)
    return tuple(found.values())


def _list_comparisons(repo: Repository, base: str, tip: str) -> tuple[_TreeComparison, ...]:
    form = "--format=%H %P"
    args = ("rev-list", "--reverse", "--topo-order", "--no-commit-header", form, f"{base}..{tip}", "--")
    rows = [line.split() for line in run_git(repo.root, *args, timeout=GIT_TIMEOUT).splitlines()]
    trees = _find_trees(repo, sorted({base, tip, *(sha for row in rows for sha in row)}))
    nothing = run_git(repo.root, "hash-object", "-t", "tree", "--stdin", stdin="").strip()
    return (
        _TreeComparison("", trees[tip], (trees[base],)),
        *(_TreeComparison(sha, trees[sha], tuple(trees[parent] for parent in of) or (nothing,)) for sha, *of in rows),
    )


def _find_trees(repo: Repository, commits: Sequence[str]) -> dict[str, str]:
    names = "".join(f"{sha}^{{tree}}\n" for sha in commits)
    lines = run_git(repo.root, "cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=names).splitlines()
    trees = {
        sha: line.removesuffix(" tree") for sha, line in zip(commits, lines, strict=True) if line.endswith(" tree")
    }
    for sha in commits:
        if sha not in trees:
            raise GitFailed(f"what commit {sha} adds cannot be checked: it is not in {repo.root}")
    return trees


def _compare_trees(repo: Repository, steps: Sequence[_TreeComparison]) -> list[dict[str, _ChangedBlob]]:
    """Return for each step the files that differ, and from how many of its parents."""
    pairs = [(number, parent, step.tree) for number, step in enumerate(steps) for parent in step.parents]
    lines = "".join(f"{parent} {tree}\n" for _, parent, tree in pairs)
    options = ("--stdin", "-r", "-M", "-z", "--raw", "--no-abbrev", "--no-relative", "--ignore-submodules=none")
    parts = iter(split_nul(run_git(repo.root, "diff-tree", *options, stdin=lines, timeout=GIT_TIMEOUT) + "\0"))
    compared: list[dict[str, _ChangedBlob]] = [{} for _ in steps]
    at = -1
    for part in parts:  # the names of the pair come before its first entry, or alone if there is no entry
        heads = HEADERS.match(part)
        entry = part[heads.end() :] if heads else part
        at += len(part[: len(part) - len(entry)].splitlines())
        if entry:
            _record_entry(entry, parts, compared[pairs[at][0]])
    if at != len(pairs) - 1:
        raise GitFailed(f"git diff-tree in {repo.root} compared {at + 1} of {len(pairs)} pairs")
    return compared


def _record_entry(entry: str, rest: Iterator[str], changed: dict[str, _ChangedBlob]) -> None:
    change = parse_raw_entry(entry, rest)
    if change.status == "D" or change.mode == SUBMODULE_MODE:
        return
    file = changed.setdefault(change.path, _ChangedBlob(blob=change.sha))
    file.parents += 1
    if change.old_mode not in ("000000", SUBMODULE_MODE):
        file.before.add(change.old_sha)


def _split_batches(files: Iterable[_AddedFile], sizes: dict[str, int]) -> Iterator[list[_AddedFile]]:
    batch: list[_AddedFile] = []
    size = 0
    for file in files:
        if batch and size >= MAX_BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += sum(sizes[sha] for sha in (file.blob, *file.before))
    if batch:
        yield batch


def _list_added_lines(file: _AddedFile, blobs: dict[str, bytes]) -> Iterator[AddedLine]:
    known = {line for sha in file.before if sha in blobs for line in _decode_text(blobs[sha]).split("\n")}
    for number, text in enumerate(_decode_text(blobs[file.blob]).split("\n"), start=1):
        if text and text not in known:
            yield AddedLine(file.path, number, text, file.commit)


def _decode_text(data: bytes) -> str:
    """Decode as UTF-8 or UTF-16. Undecodable bytes are kept: a key among them is still found."""
    wide = UTF16_MARKS.get(data[:2]) or _detect_utf16(data[:ENCODING_SAMPLE_BYTES])
    return data.decode(wide, "replace") if wide else data.decode("utf-8", "surrogateescape")


def _detect_utf16(head: bytes) -> str:
    """Return the byte order of UTF-16 text: every other byte of Latin letters is zero."""
    for encoding, zeros in (("utf-16-le", head[1::2]), ("utf-16-be", head[::2])):
        if len(zeros) >= 8 and zeros.count(0) > 0.9 * len(zeros):
            return encoding
    return ""


def _format_size(size: int) -> str:
    return f"{size / MEGABYTE:.0f} MB" if size >= MEGABYTE else f"{size} bytes"
