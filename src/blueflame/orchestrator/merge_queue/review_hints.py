"""Review hints for a changeset: risks, and tests that became weaker.

Computed once, when the changeset is built, and stored with it, so that its gate reads nothing from git.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from blueflame.checks.code_tests import may_hold_tests
from blueflame.checks.dependencies import find_new_dependencies, is_manifest
from blueflame.checks.risks import RiskInputs, find_risks
from blueflame.checks.runner_files import changes_runner, find_weaker_settings, is_runner_file
from blueflame.checks.weakened_tests import SourceVersions, find_weakened_tests
from blueflame.git.batch import read_objects
from blueflame.git.blobs import read_blob_sizes
from blueflame.git.repository import Repository
from blueflame.git.results import list_changes
from blueflame.model.changes import Change, Risk, Weakening
from blueflame.model.event import ChangesetBuilt, Event
from blueflame.model.verdict import Check

MAX_FILE_BYTES, MAX_TOTAL_BYTES = 1_000_000, 10_000_000  # of one file, and of all together
FILE_MODES = ("100644", "100755")
MAX_HINTS = 200


def add_hints(repo: Repository, events: Sequence[Event], *, allow_file: str = "") -> list[Event]:
    """Return the events, with hints added to each build."""
    return [_add_hints(repo, event, allow_file) if isinstance(event, ChangesetBuilt) else event for event in events]


def _add_hints(repo: Repository, event: ChangesetBuilt, allow_file: str) -> ChangesetBuilt:
    risks, weakened = find_hints(
        repo, event.build.base, event.build.commit, allow_file=allow_file, checks=event.build.checks
    )
    return replace(event, build=replace(event.build, risks=risks, weakened=weakened))


def find_hints(
    repo: Repository, base: str, tip: str, *, allow_file: str = "", checks: Sequence[Check] = ()
) -> tuple[tuple[Risk, ...], tuple[Weakening, ...]]:
    """Only manifests, tests and what runs them are read; the rest is judged by names, modes and counts."""
    changed = list_changes(repo, base, tip)
    read, unread = _read_texts(repo, [change for change in changed if _is_worth_reading(change)])
    asked = {path: find_new_dependencies(path, *texts) for path, texts in read.items() if is_manifest(path)}
    broken = [path for path, names in asked.items() if names is None]
    runner = {path: texts for path, texts in read.items() if is_runner_file(path)}
    about = RiskInputs(
        changes=changed,
        dependencies={path: names for path, names in asked.items() if names is not None},
        unread=sorted({*unread, *broken}),
        allow_file=allow_file,
        runner=[path for path, texts in runner.items() if changes_runner(path, *texts)],
        checks=checks,
    )
    old_paths = {change.path: change.old_path for change in changed}
    tests = [
        SourceVersions(path=path, before=before, after=after, old_path=old_paths[path])
        for path, (before, after) in read.items()
        if _may_hold_tests(path, old_paths[path])
    ]
    settings = [each for path, texts in sorted(runner.items()) for each in find_weaker_settings(path, *texts)]
    return find_risks(about), (*settings, *find_weakened_tests(tests))[:MAX_HINTS]


def _may_hold_tests(path: str, old_path: str | None) -> bool:
    return may_hold_tests(path) or (old_path is not None and may_hold_tests(old_path))


def _is_worth_reading(change: Change) -> bool:
    about_tests = is_runner_file(change.path) or _may_hold_tests(change.path, change.old_path)
    return not change.binary and (is_manifest(change.path) or about_tests)


_Texts = Mapping[str, tuple[str | None, str | None]]


def _read_texts(repo: Repository, changed: Iterable[Change]) -> tuple[_Texts, list[str]]:
    """The text of each file before and after, by path; and the paths of files that are too large to read."""
    wanted = {
        change.path: (_file_blob(change.old_mode, change.old_blob), _file_blob(change.mode, change.blob))
        for change in changed
    }
    sizes = read_blob_sizes(repo, sorted({sha for pair in wanted.values() for sha in pair if sha}))
    left, fitting, unread = MAX_TOTAL_BYTES, dict[str, tuple[str, str]](), list[str]()
    for path, pair in wanted.items():
        need = [sizes[sha] for sha in pair if sha]
        if max(need, default=0) > MAX_FILE_BYTES or sum(need) > left:
            unread.append(path)
        else:
            fitting[path], left = pair, left - sum(need)
    blobs = read_objects(repo, {sha: sizes[sha] for pair in fitting.values() for sha in pair if sha})
    return {path: (_decode_blob(blobs, old), _decode_blob(blobs, new)) for path, (old, new) in fitting.items()}, unread


def _file_blob(mode: str, sha: str) -> str:
    return sha if mode in FILE_MODES else ""


def _decode_blob(blobs: Mapping[str, bytes], sha: str) -> str | None:
    return blobs[sha].decode("utf-8", "replace") if sha else None
