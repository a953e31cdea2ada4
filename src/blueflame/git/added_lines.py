"""Read the lines that a result adds: in its last commit, and in every commit before it, because all of them land.

The lines are read from blobs, not from a patch: what a patch shows depends on attributes, drivers, quoting and what git
treats as binary, and an agent can write most of these. A line is added if the file has it and no parent of the commit
has it in that file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import NamedTuple

from blueflame.checks.secrets.scan import AddedLine, Unscanned
from blueflame.git.batch import read_objects
from blueflame.git.blobs import decode_in_all_ways, read_blob_sizes, split_batches
from blueflame.git.repository import SUBMODULE_MODE, Repository
from blueflame.git.steps import DiffEntry, Step, compare_trees, list_steps
from blueflame.lazy_dataclass import dataclass

MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """Limits in bytes; files above them are not searched, and are reported."""

    file: int = 64 * MEGABYTE
    total: int = 512 * MEGABYTE


DEFAULT_LIMITS = ReadLimits()


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
    for batch in split_batches(files, lambda file: sum(sizes[sha] for sha in (file.blob, *file.before))):
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
        blobs = read_objects(repo, wanted)
        for file in fitting:
            yield from _list_added_lines(file, blobs)


def _find_added_files(repo: Repository, base: str, tip: str) -> tuple[_AddedFile, ...]:
    steps = list_steps(repo, base, tip)
    found: dict[tuple[str, str], _AddedFile] = {}
    for step, changed in zip(steps, _compare_steps(repo, steps), strict=True):
        for path, change in changed.items():
            # a file that equals that of one parent adds nothing; the first comparison is with the base, so it wins
            if change.parents == len(step.parents):
                file = _AddedFile(path, change.blob, frozenset(change.before), step.commit)
                found.setdefault((path, change.blob), file)
    return tuple(found.values())


def _compare_steps(repo: Repository, steps: Sequence[Step]) -> list[dict[str, _ChangedBlob]]:
    """Return for each step the files that differ, and from how many of its parents."""
    compared: list[dict[str, _ChangedBlob]] = [{} for _ in steps]
    for step, changed in zip(steps, compared, strict=True):
        for parent in step.parents:
            for entry in compare_trees(repo, parent, step.tree):
                _record_entry(entry, changed)
    return compared


def _record_entry(change: DiffEntry, changed: dict[str, _ChangedBlob]) -> None:
    if change.status == "D" or change.mode == SUBMODULE_MODE:
        return
    file = changed.setdefault(change.path, _ChangedBlob(blob=change.sha))
    file.parents += 1
    if change.old_mode not in ("000000", SUBMODULE_MODE):
        file.before.add(change.old_sha)


def _list_added_lines(file: _AddedFile, blobs: dict[str, bytes]) -> Iterator[AddedLine]:
    known = {
        line
        for sha in file.before
        if sha in blobs
        for text in decode_in_all_ways(blobs[sha])
        for line in text.split("\n")
    }
    seen = set[tuple[int, str]]()
    for text in decode_in_all_ways(blobs[file.blob]):
        for number, line in enumerate(text.split("\n"), start=1):
            if line and line not in known and (number, line) not in seen:
                seen.add((number, line))
                yield AddedLine(file.path, number, line, file.commit)


def _format_size(size: int) -> str:
    return f"{size / MEGABYTE:.0f} MB" if size >= MEGABYTE else f"{size} bytes"
