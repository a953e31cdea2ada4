"""What sessions leave behind, and taking it away: never a commit that is nowhere else, unless a person says so."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from blueflame.rules.replay import replay
from blueflame.rules.session import Session
from blueflame.tools.files import trouble
from blueflame.tools.git.checkouts import made_checkouts, remove_checkout
from blueflame.tools.git.repository import Repository, head_of, is_ancestor
from blueflame.tools.git.results import delete_refs, refs
from blueflame.tools.places import Places
from blueflame.tools.store.journal import Journal

ATTEMPTS, BASES, CHANGESETS = (f"refs/blueflame/{kind}/" for kind in ("attempts", "bases", "changesets"))


class Kind(StrEnum):
    CHECKOUT = "checkout"  # of an attempt that has ended
    FOLDER = "attempt folder"  # what a warden and its agent wrote
    LOGS = "logs"
    REF = "ref"  # holds commits that the base branch has too, or that nobody needs any more
    UNMERGED = "unmerged ref"  # holds commits that are nowhere else


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    kind: Kind
    name: str
    path: Path | None = None
    bytes: int = 0


def leftovers(
    repo: Repository, places: Places, journal: Journal, *, now: float, max_age: float
) -> tuple[Leftover, ...]:
    """In a stable order. Sessions that go on keep everything but the checkouts of ended attempts."""
    checkouts = made_checkouts(places.worktrees)  # looked at before the journal: one made meanwhile is not among them
    sessions = [replay(journal.events(info.id)) for info in journal.sessions()]
    busy = {attempt.agent_id for session in sessions for attempt in session.live.values()}
    old = [session for session in sessions if session.ended and max_age and now - session.last_at > max_age]
    return (
        *(_leftover(Kind.CHECKOUT, path) for path in checkouts if path.name not in busy),
        *(_leftover(Kind.FOLDER, path) for session in old for path in _folders(places, session)),
        *(_leftover(Kind.LOGS, path) for session in old for path in _logs(places, session)),
        *_stale_refs(repo, {session.id for session in sessions if not session.ended}),
    )


def _leftover(kind: Kind, path: Path) -> Leftover:
    return Leftover(kind=kind, name=path.name, path=path, bytes=size_of(path))


def size_of(path: Path) -> int:
    try:
        return sum(file.lstat().st_size for file in path.rglob("*")) if path.is_dir() else 0
    except OSError:  # something is being removed while we count
        return 0


def _folders(places: Places, session: Session) -> Iterator[Path]:
    return (path for name in session.attempts if (path := places.attempts / name).exists())


def _logs(places: Places, session: Session) -> Iterator[Path]:
    return (path for path in (places.logs / session.id, places.session_config(session.id).parent) if path.exists())


def _stale_refs(repo: Repository, going_on: set[str]) -> Iterator[Leftover]:
    base = head_of(repo, repo.base_branch)
    for name, sha in sorted(refs(repo, "refs/blueflame/").items()):
        session = name.split("/")[3] if name.count("/") > 3 else ""
        if session in going_on:
            continue
        loses = name.startswith(ATTEMPTS) and not is_ancestor(repo, sha, base)
        yield Leftover(kind=Kind.UNMERGED if loses else Kind.REF, name=name)


def remove(repo: Repository, found: tuple[Leftover, ...]) -> None:
    for leftover in found:
        if leftover.kind is Kind.CHECKOUT and leftover.path is not None:
            remove_checkout(leftover.path)
        elif leftover.path is not None:
            try:
                shutil.rmtree(leftover.path)
            except OSError as error:
                raise trouble("remove", leftover.path, error) from error
    delete_refs(repo, [leftover.name for leftover in found if leftover.kind in (Kind.REF, Kind.UNMERGED)])
