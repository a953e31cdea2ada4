"""The postcheck: compare what a result changed with what it was allowed to change.

Pure: the caller compares the commits, and a failed comparison never gets here. Without changes there is no violation;
that an attempt without commits fails is decided elsewhere.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from blueflame.checks.commit_texts import check_identities, check_messages
from blueflame.checks.file_names import find_unsafe_part
from blueflame.lazy_dataclass import dataclass
from blueflame.model.changes import Change, Commit
from blueflame.model.verdict import Violation
from blueflame.paths.globs import Globs
from blueflame.paths.locks import LockPath, covers, fold_path, parse_locks
from blueflame.paths.naming_style import is_well_named

PATH_NOT_ALLOWED: Final = "path_not_allowed"
BLOCKED_PATH: Final = "blocked_path_modified"
OUTSIDE_SCOPE: Final = "outside_file_scope"
SYMLINK_ESCAPES: Final = "symlink_escapes"
SUBMODULE_ADDED: Final = "submodule_added"
UNEXPECTED_BINARY: Final = "unexpected_binary"
CASE_COLLISION: Final = "case_collision"
FILE_NAMING: Final = "file_naming"
MISSING_TESTS: Final = "missing_tests"
COMMIT_FORMAT: Final = "commit_format"
UNSAFE_NAME: Final = "unsafe_name"

MAX_SUBJECT_LENGTH = 500  # a pattern with nested repeats may take very long on text from an agent


@dataclass(frozen=True, slots=True, kw_only=True)
class _PathLimits:
    allowed: Globs
    blocked: Globs
    scope: tuple[LockPath, ...] | None  # the locks; None if scope is not enforced


def check_result(
    changes: Sequence[Change],
    commits: Sequence[Commit],
    *,
    allowed_paths: Sequence[str],
    blocked_paths: Sequence[str] = (),
    file_locks: Sequence[str] = (),
    enforce_scope: bool = True,
    commit_pattern: str = "",
    naming_style: str = "",
    naming_globs: Sequence[str] = (),
    require_tests: bool = False,
    source_patterns: Sequence[str] = (),
    test_patterns: Sequence[str] = (),
    expected_binaries: Sequence[str] = (),
    secrets_file: str = "",
    existing: Sequence[str] = (),
    steps: Mapping[str, Sequence[Change]] | None = None,
    identities: Sequence[str] = (),
    also: Sequence[Violation] = (),
) -> tuple[Violation, ...]:
    """Return all violations, sorted by path and rule.

    Without allowed paths nothing is allowed; without locks the whole repository is locked. `secrets_file` is the allow
    file for secrets, which no agent may write. `existing` are all files of the result. `steps` are the changes of each
    commit: what one adds and the next removes lands as well. `identities` are the authors and committers that may
    occur, without them all may. `also` are violations from other checks: secrets, leftovers, tampering.
    """
    blocked = (*blocked_paths, f"/{secrets_file}") if secrets_file else blocked_paths
    bounds = _PathLimits(
        allowed=Globs(tuple(allowed_paths)),
        blocked=Globs(tuple(_fold_case(pattern) for pattern in blocked)),
        scope=parse_locks(file_locks) if enforce_scope else None,
    )
    binaries = Globs(tuple(expected_binaries))
    found = {
        *_check_places(changes, bounds, binaries),
        *_check_steps(changes, steps or {}, bounds, binaries),
        *_check_collisions(changes, existing),
        *_check_naming_style(changes, naming_style, Globs(tuple(naming_globs))),
        *(
            _check_tests_present(changes, Globs(tuple(source_patterns)), Globs(tuple(test_patterns)))
            if require_tests
            else ()
        ),
        *check_subjects(commits, commit_pattern, {one.path for one in also}),
        *check_messages(commits),
        *(check_identities(commits, identities) if identities else ()),
        *also,
    }
    return tuple(sorted(found, key=lambda one: (one.path, one.line or 0, one.rule, one.detail)))


def _check_places(changes: Sequence[Change], bounds: _PathLimits, binaries: Globs) -> Iterator[Violation]:
    yield from _check_paths(changes, bounds)
    yield from _check_entries(changes, bounds, binaries)
    for change in changes:
        if change.created and (why := find_unsafe_part(change.path)):
            yield Violation(rule=UNSAFE_NAME, path=change.path, detail=why)


def _check_steps(
    changes: Sequence[Change], steps: Mapping[str, Sequence[Change]], bounds: _PathLimits, binaries: Globs
) -> Iterator[Violation]:
    """Check the commits before the last; what the whole result breaks too is reported once."""
    reported = {(one.rule, one.path) for one in _check_places(changes, bounds, binaries)}
    for commit, changed in steps.items():
        for one in _check_places(changed, bounds, binaries):
            if (one.rule, one.path) not in reported:
                reported.add((one.rule, one.path))
                yield replace(one, detail=f"{one.detail}, in commit {commit[:12]}")


def _check_paths(changes: Sequence[Change], bounds: _PathLimits) -> Iterator[Violation]:
    for change in changes:
        for path in change.paths:
            detail = _describe_change(change, path)
            if _matches_blocked(path, bounds.blocked):
                yield Violation(rule=BLOCKED_PATH, path=path, detail=detail)
            if not bounds.allowed.matches(path):
                yield Violation(rule=PATH_NOT_ALLOWED, path=path, detail=detail)
            if bounds.scope is not None and not _is_covered(path, bounds.scope):
                yield Violation(rule=OUTSIDE_SCOPE, path=path, detail=detail)


def is_blocked(path: str, blocked_paths: Sequence[str]) -> bool:
    return _matches_blocked(path, Globs(tuple(_fold_case(pattern) for pattern in blocked_paths)))


def _matches_blocked(path: str, blocked: Globs) -> bool:
    """Whether a path is blocked, in any letter case: on many machines `.ENV` is `.env`."""
    plain = _fold_case(path)
    return ".git" in plain.split("/") or blocked.touches(plain)


def is_within_reach(path: str, *, allowed: Sequence[str], blocked: Sequence[str], locks: Sequence[str] | None) -> bool:
    """Whether a result may change the path; `locks` is None where scope is not enforced."""
    in_scope = locks is None or _is_covered(path, parse_locks(locks))
    return in_scope and Globs(tuple(allowed)).matches(path) and not is_blocked(path, blocked)


def _is_covered(path: str, scope: Sequence[LockPath]) -> bool:
    """Whether a lock covers the path, by the comparison that also keeps overlapping tasks apart."""
    parts = fold_path(tuple(path.split("/")))
    return any(covers(lock, parts) for lock in scope)


def _describe_change(change: Change, path: str) -> str:
    if change.status == "R":
        return f"renamed from {change.old_path}" if path == change.path else f"renamed to {change.path}"
    return {"A": "added", "M": "modified", "D": "deleted", "T": "changed its type"}.get(change.status, change.status)


def _check_entries(changes: Sequence[Change], bounds: _PathLimits, binaries: Globs) -> Iterator[Violation]:
    for change in changes:
        if change.status == "D":
            continue
        if change.symlink and (why := _find_escape(change, bounds)):
            yield Violation(rule=SYMLINK_ESCAPES, path=change.path, detail=why)
        if change.submodule or _fold_case(change.path) == ".gitmodules":
            yield Violation(rule=SUBMODULE_ADDED, path=change.path, detail="agents may not add or move submodules")
        if change.binary and not change.symlink and not change.submodule and not binaries.matches(change.path):
            yield Violation(rule=UNEXPECTED_BINARY, path=change.path, detail=_describe_change(change, change.path))


def _find_escape(change: Change, bounds: _PathLimits) -> str:
    """Return why a link is not allowed, or "". Resolved by name only, so what a name cannot prove is refused."""
    target = change.link_target
    if target is None:
        return "its target could not be read"
    if target.startswith("/"):
        return f"points at the absolute path {target}"
    place = change.path.split("/")[:-1]
    climbing = True
    for part in target.split("/"):
        if part in ("", "."):
            continue
        if part != "..":
            climbing = False
            place.append(part)
        elif not climbing:  # the name before may be a link itself: then the target of `..` is unknown
            return f"points at {target}, which has .. after a folder"
        elif not place:
            return f"points at {target}, outside the repository"
        else:
            place.pop()
    return (
        f"points at the blocked path {'/'.join(place)}"
        if place and _matches_blocked("/".join(place), bounds.blocked)
        else ""
    )


def _check_collisions(changes: Sequence[Change], existing: Sequence[str]) -> Iterator[Violation]:
    """Find names that are the same on a case-insensitive file system: a checkout there loses one of the files."""
    changed = {change.path for change in changes if change.status != "D"}
    created = {change.path for change in changes if change.created}
    if not created:
        return
    seen: dict[str, str] = {}
    for path in (*sorted(set(existing) - changed), *sorted(changed)):
        other = seen.setdefault(_fold_case(path), path)
        if other == path or created.isdisjoint((path, other)):
            continue
        if unicodedata.normalize("NFC", other) == unicodedata.normalize("NFC", path):
            detail = f"differs from {other} only in its Unicode normalization"
            yield Violation(rule=UNSAFE_NAME, path=path, detail=detail)
        else:
            yield Violation(rule=CASE_COLLISION, path=path, detail=f"differs from {other} by letter case only")


def _check_naming_style(changes: Sequence[Change], style: str, globs: Globs) -> Iterator[Violation]:
    if not style:
        return
    for change in changes:
        if change.created and globs.matches(change.path) and not is_well_named(change.path, style):
            yield Violation(rule=FILE_NAMING, path=change.path, detail=f"new files here are named in {style}")


def _check_tests_present(changes: Sequence[Change], sources: Globs, tests: Globs) -> Iterator[Violation]:
    """Find changed sources without changed tests. Only added lines count: removing tests is not testing."""
    written = sorted(change.path for change in changes if change.status != "D" and change.added > 0)
    if any(tests.matches(path) for path in written):
        return
    untested = [path for path in written if sources.matches(path)]
    if untested:
        more = f" and {len(untested) - 1} more" if len(untested) > 1 else ""
        yield Violation(rule=MISSING_TESTS, path=untested[0], detail=f"source changed{more}, no test was added to")


def check_subjects(
    commits: Sequence[Commit], pattern: str, secret_in: Container[str] = frozenset()
) -> Iterator[Violation]:
    if not pattern:
        return
    for commit in commits:
        if len(commit.subject) > MAX_SUBJECT_LENGTH:
            detail = f"the subject has {len(commit.subject)} characters, at most {MAX_SUBJECT_LENGTH} are read"
            yield Violation(rule=COMMIT_FORMAT, path=commit.sha, detail=detail)
        elif not re.search(pattern, commit.subject):
            shown = "the subject, which holds a secret," if commit.sha in secret_in else repr(commit.subject)
            detail = f"{shown} does not match {pattern}"
            yield Violation(rule=COMMIT_FORMAT, path=commit.sha, detail=detail)


def is_worded_wrongly(violations: Sequence[Violation]) -> bool:
    """Whether nothing else is wrong with a result than the first lines of its commits."""
    return all(one.rule == COMMIT_FORMAT for one in violations)


def _fold_case(text: str) -> str:
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
