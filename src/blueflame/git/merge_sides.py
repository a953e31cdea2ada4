"""Read what each side of a merge did to the files, and what the combined tree has; `checks/` judges it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from blueflame.checks.merge_losses import ChangedFile, FileVersions
from blueflame.git.batch import read_objects
from blueflame.git.blobs import read_blob_sizes
from blueflame.git.command import run_git
from blueflame.git.merge import find_tree
from blueflame.git.repository import SUBMODULE_MODE, Repository
from blueflame.git.steps import compare_trees

MAX_FILE_BYTES = 16_000_000  # a larger file is compared as a whole
THE_BASE = "the base"
ABSENT_MODE = "000000"


class MergeSide(NamedTuple):
    """A task's result: the commit it started from and the one it made."""

    task: str
    base: str
    tip: str


class BlobChange(NamedTuple):
    path: str  # the name afterwards; of a deleted file, the name it had
    old_path: str
    before: str | None  # a blob
    after: str | None


class _Divergence(NamedTuple):
    """A file to compare, by its blobs."""

    task: str
    path: str
    own: BlobChange
    combined: str | None
    others: tuple[tuple[str, BlobChange], ...]


def read_changed_files(
    repo: Repository, base: str, sides: Sequence[MergeSide], combined: str
) -> tuple[ChangedFile, ...]:
    """Return the files that differ between a side and the combined tree, with all tasks that changed them.

    Clean merges of work on different files have none, and no content is read for them.
    """
    changed = {side.task: compare_blobs(repo, side.base, side.tip) for side in sides}
    pairs = [pair for side in sides for pair in _find_divergences(repo, base, side, changed, combined)]
    wanted = sorted({blob for pair in pairs for blob in _list_blobs(pair)})
    sizes = read_blob_sizes(repo, wanted)
    contents = (
        read_objects(repo, {blob: size for blob, size in sizes.items() if size <= MAX_FILE_BYTES}) if wanted else {}
    )
    return tuple(_build_changed_file(pair, contents) for pair in pairs)


def compare_blobs(repo: Repository, base: str, tip: str) -> dict[str, BlobChange]:
    """Return the changes by the new name of the file."""
    found: dict[str, BlobChange] = {}
    for entry in compare_trees(repo, find_tree(repo, base), find_tree(repo, tip)):
        if SUBMODULE_MODE not in (entry.old_mode, entry.mode):
            before = None if entry.old_mode == ABSENT_MODE else entry.old_sha
            after = None if entry.mode == ABSENT_MODE else entry.sha
            found[entry.path] = BlobChange(entry.path, entry.old_path or entry.path, before, after)
    return found


def _find_divergences(
    repo: Repository, base: str, side: MergeSide, changed: Mapping[str, Mapping[str, BlobChange]], combined: str
) -> Iterator[_Divergence]:
    mine = changed[side.task]
    if not mine:
        return
    since = {one.old_path: one for one in compare_blobs(repo, side.tip, combined).values()}  # by the task's name for it
    odd = [one for one in mine.values() if one.path in since]
    if not odd:
        return
    landed = compare_blobs(repo, run_git(repo.root, "merge-base", side.tip, base).split()[0], base)
    others = {**{name: files for name, files in changed.items() if name != side.task}, THE_BASE: landed}
    for one in odd:
        now = since[one.path]
        names = {one.path, one.old_path, now.path}
        same = (
            (
                task,
                next((other for other in files.values() if not names.isdisjoint((other.path, other.old_path))), None),
            )
            for task, files in others.items()
        )
        beside = tuple((task, other) for task, other in same if other is not None)
        yield _Divergence(side.task, now.path, one, now.after, beside)


def _list_blobs(pair: _Divergence) -> Iterator[str]:
    touches = (pair.own, *(other for _, other in pair.others))
    yield from (blob for one in touches for blob in (one.before, one.after) if blob is not None)
    if pair.combined is not None:
        yield pair.combined


def _build_changed_file(pair: _Divergence, contents: Mapping[str, bytes]) -> ChangedFile:
    def data(blob: str | None) -> bytes | None:
        # a file that is too large is compared by its blob id, like a binary file
        return None if blob is None else contents.get(blob, b"\0" + blob.encode())

    return ChangedFile(
        task=pair.task,
        path=pair.path,
        own=FileVersions(name=pair.task, before=data(pair.own.before), after=data(pair.own.after)),
        combined=data(pair.combined),
        others=tuple(FileVersions(name=name, before=data(o.before), after=data(o.after)) for name, o in pair.others),
    )
