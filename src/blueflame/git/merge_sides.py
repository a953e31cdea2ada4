"""What each side of a merge did to the files, and how the combined tree has them: read, not judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from blueflame.checks.merge_losses import Case, Version
from blueflame.git.blobs import read_blobs, sizes_of
from blueflame.git.command import fields, git
from blueflame.git.repository import SUBMODULE_MODE, Repository

LARGEST = 16_000_000  # bytes; a larger file is compared as a whole
THE_BASE = "the base"
RAW = (
    "diff-tree",
    "-r",
    "-M",
    "-z",
    "--raw",
    "--no-abbrev",
    "--no-relative",
    "--no-ext-diff",
    "--ignore-submodules=none",
)
NOTHING = "000000"


class Side(NamedTuple):
    """A task's result: what it started from and what it made of it."""

    task: str
    base: str
    tip: str


class Touched(NamedTuple):
    path: str  # the name afterwards; of a deleted file, the name it had
    old_path: str
    before: str | None  # a blob
    after: str | None


class _Pair(NamedTuple):
    """A file to compare, by its blobs."""

    task: str
    path: str
    own: Touched
    combined: str | None
    others: tuple[tuple[str, Touched], ...]


def cases(repo: Repository, base: str, sides: Sequence[Side], combined: str) -> tuple[Case, ...]:
    """The files of each side that are not in the combined tree as the side left them, with all who changed them.

    Clean merges of work on different files have none, and nothing is read for them.
    """
    changed = {side.task: touched(repo, side.base, side.tip) for side in sides}
    pairs = [pair for side in sides for pair in _pairs(repo, base, side, changed, combined)]
    wanted = sorted({blob for pair in pairs for blob in _blobs_of(pair)})
    sizes = sizes_of(repo, wanted)
    contents = read_blobs(repo, {blob: size for blob, size in sizes.items() if size <= LARGEST}) if wanted else {}
    return tuple(_case(pair, contents) for pair in pairs)


def touched(repo: Repository, base: str, tip: str) -> dict[str, Touched]:
    """By the name that a file has afterwards."""
    parts = iter(fields(git(repo.root, *RAW, base, tip, "--", timeout=300)))
    found: dict[str, Touched] = {}
    for head in parts:
        old_mode, mode, old, new, status = head.removeprefix(":").split(" ")
        name = next(parts)
        path = next(parts) if status[0] in "RC" else name
        if SUBMODULE_MODE in (old_mode, mode):
            continue
        before = None if old_mode == NOTHING else old
        found[path] = Touched(path, name, before, None if mode == NOTHING else new)
    return found


def _pairs(
    repo: Repository, base: str, side: Side, changed: Mapping[str, Mapping[str, Touched]], combined: str
) -> Iterator[_Pair]:
    mine = changed[side.task]
    if not mine:
        return
    since = {one.old_path: one for one in touched(repo, side.tip, combined).values()}  # by the name the task gave it
    odd = [one for one in mine.values() if one.path in since]
    if not odd:
        return
    landed = touched(repo, git(repo.root, "merge-base", side.tip, base).split()[0], base)
    others = {**{name: files for name, files in changed.items() if name != side.task}, THE_BASE: landed}
    for one in odd:
        now = since[one.path]
        beside = tuple(
            (name, other) for name, files in others.items() if (other := _same_file(files, one, now)) is not None
        )
        yield _Pair(side.task, now.path, one, now.after, beside)


def _same_file(files: Mapping[str, Touched], own: Touched, now: Touched) -> Touched | None:
    names = {own.path, own.old_path, now.path}
    return next((one for one in files.values() if one.path in names or one.old_path in names), None)


def _blobs_of(pair: _Pair) -> Iterator[str]:
    touches = (pair.own, *(other for _, other in pair.others))
    yield from (blob for one in touches for blob in (one.before, one.after) if blob is not None)
    if pair.combined is not None:
        yield pair.combined


def _case(pair: _Pair, contents: Mapping[str, bytes]) -> Case:
    def data(blob: str | None) -> bytes | None:
        # what is too large is compared by its name, as something that is no text
        return None if blob is None else contents.get(blob, b"\0" + blob.encode())

    return Case(
        task=pair.task,
        path=pair.path,
        own=Version(name=pair.task, before=data(pair.own.before), after=data(pair.own.after)),
        combined=data(pair.combined),
        others=tuple(Version(name=name, before=data(o.before), after=data(o.after)) for name, o in pair.others),
    )
