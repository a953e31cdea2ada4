"""Find and remove what sessions leave behind; commits that are on no branch only when a person asks for it."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from blueflame.git.checkouts import list_checkouts, remove_checkout
from blueflame.git.command import run_git
from blueflame.git.repository import Repository
from blueflame.git.results import delete_refs, list_refs
from blueflame.journal.journal import Journal
from blueflame.session.replay import replay
from blueflame.session.state import Session
from blueflame.system.files import build_file_error
from blueflame.system.layout import ProjectPaths

AGENT_REFS = ("refs/blueflame/attempts/", "refs/blueflame/failed/")  # what agents committed


class LeftoverKind(StrEnum):
    CHECKOUT = "checkout"  # of an attempt that has ended
    FOLDER = "attempt folder"  # what a warden and its agent wrote
    LOGS = "log folder"
    REF = "ref"  # holds commits that a branch has too, or that are no longer needed
    UNMERGED = "unmerged ref"  # holds commits that are on no branch


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    kind: LeftoverKind
    name: str
    session: str = ""
    path: Path | None = None
    bytes: int = 0


def find_leftovers(
    repo: Repository, places: ProjectPaths, journal: Journal, *, now: float, max_age: float, at_work: bool
) -> tuple[Leftover, ...]:
    """Find leftovers, in a stable order. Unfinished sessions lose only the checkouts of ended attempts."""
    checkouts = list_checkouts(places.worktrees)  # read before the journal: one made meanwhile is not listed
    sessions = [replay(journal.read_events(info.id)) for info in journal.list_sessions()]
    old = [session for session in sessions if session.ended and max_age and now - session.last_at > max_age]
    return (
        *_find_idle_checkouts(checkouts, sessions, at_work=at_work),
        *(  # of attempts, checks and hooks
            _build_leftover(LeftoverKind.FOLDER, path, session.id)
            for session in old
            for path in sorted(places.attempts.glob(f"{session.id}.*"))
        ),
        *(
            _build_leftover(LeftoverKind.LOGS, path, session.id)
            for session in old
            for path in _list_logs(places, session)
        ),
        *_find_stale_refs(repo, {session.id for session in sessions if not session.ended}),
    )


def find_stale_checkouts(places: ProjectPaths, journal: Journal) -> tuple[Leftover, ...]:
    """Find checkouts of ended or unknown sessions. Those of an unfinished session are kept for inspection."""
    checkouts = list_checkouts(places.worktrees)
    if not checkouts:
        return ()
    # ended sessions are not replayed: a repository may have thousands, and none of them uses a checkout
    unfinished = [replay(journal.read_events(info.id)) for info in journal.list_sessions() if info.ended is None]
    return tuple(each for each in _find_idle_checkouts(checkouts, unfinished, at_work=False) if not each.session)


def _find_idle_checkouts(
    checkouts: Sequence[Path], sessions: Sequence[Session], *, at_work: bool
) -> Iterator[Leftover]:
    """Checkouts that nothing uses. `at_work`: the running orchestrator uses those of no agent for checks."""
    busy = {attempt.agent_id for session in sessions for attempt in session.live.values()}
    owners = {record.attempt.agent_id: session.id for session in sessions for record in session.attempts.values()}
    for path in checkouts:
        if path.name not in busy and (path.name in owners or not at_work):
            yield _build_leftover(LeftoverKind.CHECKOUT, path, owners.get(path.name, ""))


def _build_leftover(kind: LeftoverKind, path: Path, session: str) -> Leftover:
    return Leftover(kind=kind, name=path.name, session=session, path=path, bytes=measure_size(path))


def measure_size(path: Path) -> int:
    try:
        return sum(file.lstat().st_size for file in path.rglob("*")) if path.is_dir() else path.lstat().st_size
    except OSError:  # a file was removed meanwhile
        return 0


def _list_logs(places: ProjectPaths, session: Session) -> Iterator[Path]:
    audits = (places.audit(record.attempt.agent_id) for record in session.attempts.values())
    kept = (places.logs / session.id, places.session_config(session.id).parent, *audits)
    return (path for path in kept if path.exists())


def _find_stale_refs(repo: Repository, unfinished: Collection[str]) -> Iterator[Leftover]:
    found = list_refs(repo, "refs/blueflame/")
    unmerged = _find_unmerged(repo, {sha for name, sha in found.items() if name.startswith(AGENT_REFS)})
    for name, sha in sorted(found.items()):
        session = name.split("/")[3] if name.count("/") > 3 else ""
        if session not in unfinished:
            is_last = name.startswith(AGENT_REFS) and sha in unmerged
            yield Leftover(kind=LeftoverKind.UNMERGED if is_last else LeftoverKind.REF, name=name, session=session)


def _find_unmerged(repo: Repository, commits: Collection[str]) -> frozenset[str]:
    """Those of the commits that no branch, remote or tag reaches; with one call of git."""
    if not commits:
        return frozenset()
    args = ("rev-list", "--stdin", "--not", "--branches", "--remotes", "--tags")
    listed = run_git(repo.root, *args, stdin="".join(f"{sha}\n" for sha in sorted(commits)), timeout=300)
    return frozenset(listed.split()) & frozenset(commits)


def remove_leftovers(repo: Repository, found: tuple[Leftover, ...]) -> None:
    for leftover in found:
        if leftover.kind is LeftoverKind.CHECKOUT and leftover.path is not None:
            remove_checkout(leftover.path)
        elif leftover.path is not None:
            try:
                shutil.rmtree(leftover.path) if leftover.path.is_dir() else leftover.path.unlink(missing_ok=True)
            except OSError as error:
                raise build_file_error("remove", leftover.path, error) from error
    delete_refs(
        repo, [leftover.name for leftover in found if leftover.kind in (LeftoverKind.REF, LeftoverKind.UNMERGED)]
    )
