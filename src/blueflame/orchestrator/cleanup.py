"""Find and remove what sessions leave behind; commits that are on no branch only when a person asks for it.

And the checkouts that people make for themselves, which stay until they remove them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from blueflame.git.checkouts import list_checkouts, make_checkout, read_record, remove_checkout, remove_tree
from blueflame.git.command import run_git
from blueflame.git.locks import remove_stale_locks
from blueflame.git.repository import Repository
from blueflame.git.results import CollectedResult, collect_result, delete_refs, list_refs, set_ref
from blueflame.git.spares.store import SPARES
from blueflame.git.untrusted.unfinished import commit_unfinished
from blueflame.journal.journal import Journal
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import GitFailed, Refused, UsageError
from blueflame.orchestrator.project import Project
from blueflame.orchestrator.sessions import list_foreign_sessions
from blueflame.session.replay import replay
from blueflame.session.state import Session
from blueflame.system.files import explain_file_errors, find_old_drafts
from blueflame.system.layout import ProjectPaths

AGENT_REFS = ("refs/blueflame/attempts/", "refs/blueflame/failed/", "refs/blueflame/lost/", "refs/blueflame/worktrees/")
"""What agents committed, and what a person left in a checkout."""


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
KEPT_REFS = "refs/blueflame/worktrees/"


class LeftoverKind(StrEnum):
    CHECKOUT = "checkout"  # of an attempt that has ended
    FOLDER = "attempt folder"  # what a warden and its agent wrote
    LOGS = "log folder"
    DRAFT = "draft"  # of a file whose writer was killed, or the copies of a scan that was
    SPARES = "spare checkouts"  # files for the next checkouts of a large repository
    REF = "ref"  # holds commits that a branch has too, or that are no longer needed
    UNMERGED = "unmerged ref"  # holds commits that are on no branch
    SESSION = "session"  # its events in the journal


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    kind: LeftoverKind
    name: str
    session: str = ""
    path: Path | None = None
    bytes: int = 0


def find_leftovers(
    repo: Repository,
    places: ProjectPaths,
    journal: Journal,
    *,
    now: float,
    max_age: float,
    at_work: bool,
    forget_after: float | None = None,
) -> tuple[Leftover, ...]:
    """Find leftovers, in a stable order. Unfinished sessions lose only the checkouts of ended attempts.

    Logs are left over after `max_age` (0 = never), whole sessions after `forget_after` (None = never). Ended sessions
    are not replayed.
    """
    checkouts = list_checkouts(places.worktrees)  # read before the journal: one made meanwhile is not listed
    unfinished = _load_unfinished(journal)
    ended = [info for info in reversed(journal.list_sessions()) if info.ended is not None]
    forgotten = [info.id for info in ended if forget_after is not None and now - info.last_at > forget_after]
    old = [info.id for info in ended if info.id in forgotten or (max_age and now - info.last_at > max_age)]
    drafts = find_old_drafts(places.state, now, at_work=at_work)
    others = list_foreign_sessions(repo) - frozenset(journal.list_ids())
    owners = {agent: info.id for info in ended for agent in journal.list_agents(info.id)} if checkouts else {}
    return (
        *_find_idle_checkouts(checkouts, unfinished, owners, at_work=at_work),
        *_find_spares(places, at_work=at_work),
        *(_build_leftover(LeftoverKind.DRAFT, path, "") for path in sorted(places.scans.glob("*")) if not at_work),
        *(_build_leftover(LeftoverKind.DRAFT, path, "") for path in drafts),
        *(  # of attempts, checks and hooks
            _build_leftover(LeftoverKind.FOLDER, path, session)
            for session in old
            for path in sorted(places.attempts.glob(f"{session}.*"))
        ),
        *(
            _build_leftover(LeftoverKind.LOGS, path, session)
            for session in old
            for path in _list_logs(places, session, journal.list_agents(session))
        ),
        *_find_stale_refs(repo, {*others, *(session.id for session in unfinished)}),
        *(Leftover(kind=LeftoverKind.SESSION, name=session, session=session) for session in forgotten),
    )


def _load_unfinished(journal: Journal) -> list[Session]:
    return [replay(journal.read_events(name)) for name in journal.list_unfinished()]


def choose_leftovers(
    found: Sequence[Leftover], *, drop_unmerged: bool
) -> tuple[tuple[Leftover, ...], tuple[Leftover, ...]]:
    """Choose what goes and what stays: commits on no branch stay unless they are dropped, and with them their session,
    without which they would be refs of no one."""
    held = set() if drop_unmerged else {each.session for each in found if each.kind is LeftoverKind.UNMERGED}
    unmerged = () if drop_unmerged else (LeftoverKind.UNMERGED,)
    stays = tuple(
        each for each in found if each.kind in unmerged or (each.kind is LeftoverKind.SESSION and each.session in held)
    )
    return tuple(each for each in found if each not in stays), stays


def find_stale_checkouts(places: ProjectPaths, journal: Journal) -> tuple[Leftover, ...]:
    """Find checkouts of ended or unknown sessions. Those of an unfinished session are kept for inspection."""
    checkouts = list_checkouts(places.worktrees)
    if not checkouts:
        return ()
    # ended sessions are not read: a repository may have thousands, and none of them uses a checkout
    idle = _find_idle_checkouts(checkouts, _load_unfinished(journal), {}, at_work=False)
    return tuple(each for each in idle if not each.session)


def _find_idle_checkouts(
    checkouts: Sequence[Path], unfinished: Sequence[Session], of_ended: Mapping[str, str], *, at_work: bool
) -> Iterator[Leftover]:
    """Checkouts that nothing uses. `at_work`: the running orchestrator uses those of no agent for checks."""
    busy = {attempt.agent_id for session in unfinished for attempt in session.live.values()}
    ours = {record.attempt.agent_id: session.id for session in unfinished for record in session.attempts.values()}
    owners = {**of_ended, **ours}
    for path in checkouts:
        record = read_record(path)
        if record is not None and record.owner:
            continue  # a person made it, and removes it
        if path.name not in busy and (path.name in owners or not at_work):
            yield _build_leftover(LeftoverKind.CHECKOUT, path, owners.get(path.name, ""))


def _find_spares(places: ProjectPaths, *, at_work: bool) -> Iterator[Leftover]:
    folder = places.worktrees / SPARES
    if folder.is_dir() and not at_work:
        yield _build_leftover(LeftoverKind.SPARES, folder, "")


def _build_leftover(kind: LeftoverKind, path: Path, session: str) -> Leftover:
    return Leftover(kind=kind, name=path.name, session=session, path=path, bytes=measure_size(path))


def measure_size(path: Path) -> int:
    try:
        return sum(file.lstat().st_size for file in path.rglob("*")) if path.is_dir() else path.lstat().st_size
    except OSError:  # a file was removed meanwhile
        return 0


def _list_logs(places: ProjectPaths, session: str, agents: Sequence[str]) -> Iterator[Path]:
    kept = (places.logs / session, places.session_config(session).parent, *map(places.audit, agents))
    return (path for path in kept if path.exists())


def _find_stale_refs(repo: Repository, kept: Collection[str]) -> Iterator[Leftover]:
    """Find refs, but those of unfinished sessions and of other worktrees, which they remove themselves."""
    found = list_refs(repo, "refs/blueflame/")
    unmerged = _find_unmerged(repo, {sha for name, sha in found.items() if name.startswith(AGENT_REFS)})
    for name, sha in sorted(found.items()):
        session = name.split("/")[3] if name.count("/") > 3 else ""
        if session not in kept:
            is_last = name.startswith(AGENT_REFS) and sha in unmerged
            yield Leftover(kind=LeftoverKind.UNMERGED if is_last else LeftoverKind.REF, name=name, session=session)


def _find_unmerged(repo: Repository, commits: Collection[str]) -> frozenset[str]:
    """Those of the commits that no branch, remote or tag reaches; with one call of git."""
    if not commits:
        return frozenset()
    args = ("rev-list", "--stdin", "--not", "--branches", "--remotes", "--tags")
    listed = run_git(repo.root, *args, stdin="".join(f"{sha}\n" for sha in sorted(commits)), timeout=300)
    return frozenset(listed.split()) & frozenset(commits)


def remove_leftovers(repo: Repository, found: Sequence[Leftover]) -> None:
    """Remove all but sessions, which `forget_sessions` deletes last."""
    for leftover in found:
        if leftover.kind is LeftoverKind.CHECKOUT and leftover.path is not None:
            remove_checkout(leftover.path)
        elif leftover.path is not None and leftover.path.is_dir():
            remove_tree(leftover.path)  # another cleanup may remove it at the same moment
        elif leftover.path is not None:
            with explain_file_errors("remove", leftover.path):
                leftover.path.unlink(missing_ok=True)
    remove_stale_locks(repo)  # of a cleanup that was killed here
    delete_refs(
        repo, [leftover.name for leftover in found if leftover.kind in (LeftoverKind.REF, LeftoverKind.UNMERGED)]
    )


def forget_sessions(path: Path, found: Sequence[Leftover], *, at_work: bool) -> None:
    """Delete sessions from the journal, after all else of them: killed before, the next cleanup finds them again."""
    names = [each.session for each in found if each.kind is LeftoverKind.SESSION]
    if not names:
        return
    with Journal.open(path) as journal:
        for name in names:
            journal.delete_session(name)
        if not at_work:
            journal.compact()


class OwnCheckout(NamedTuple):
    name: str
    path: str
    branch: str
    base: str
    owner: str  # "" for one of a session


def check_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name: use letters, digits, '.', '_' and '-', at most 64")
    return name


def create_checkout(project: Project, name: str, base: str | None, *, owner: str) -> OwnCheckout:
    """Make a checkout that borrows our objects and cannot change our repository, on a branch of its own."""
    path, sha = project.paths.checkout(check_name(name)), project.repo.base_sha
    if base is not None:
        try:
            args = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{commit}}")
            sha = run_git(project.repo.root, *args).strip()
        except GitFailed as error:
            raise UsageError(f"there is no commit {base!r}: name a branch or a commit") from error
    if read_record(path) is not None:
        raise Refused(f"{path} exists already: remove it first with 'blueflame worktrees remove {name}'")
    make_checkout(project.repo, path, base=sha, branch=f"worktree/{name}", owner=owner)
    return OwnCheckout(name, str(path), f"worktree/{name}", sha, owner)


def list_all_checkouts(project: Project) -> tuple[OwnCheckout, ...]:
    found = ((path, read_record(path)) for path in list_checkouts(project.paths.worktrees))
    return tuple(
        OwnCheckout(path.name, str(path), record.branch or "", record.base, record.owner)
        for path, record in found
        if record is not None
    )


def remove_own_checkout(project: Project, name: str) -> str:
    """Remove a checkout that a person made; return the ref that keeps its work, "" if there was none."""
    path = project.paths.checkout(check_name(name))
    record = read_record(path)
    if record is None:
        raise UsageError(f"there is no checkout {name!r}: see 'blueflame worktrees list'")
    if not record.owner or record.branch is None:
        raise Refused(f"{name} belongs to a session: 'blueflame cleanup' removes what sessions no longer need")
    ref = f"{KEPT_REFS}{name}"
    made = collect_result(project.repo, path, branch=record.branch, base=record.base, ref=ref)
    tip = made.tip if isinstance(made, CollectedResult) else record.base
    left = commit_unfinished(project.repo, path, tip, lambda _path: True)
    if left is not None:
        set_ref(project.repo, ref, left)
    remove_checkout(path)
    return ref if left is not None or tip != record.base else ""
