"""Find the work that a person wants to have fixed, by task, changeset or commit, in the journal and in git."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from blueflame.git.batch import has_commit
from blueflame.git.command import try_git
from blueflame.git.repository import Repository, is_ancestor, read_branch_head
from blueflame.journal.journal import Journal
from blueflame.model.changeset import ChangesetRecord
from blueflame.model.errors import InternalError, JournalError, Refused, UsageError
from blueflame.model.task import FixedWork, Result
from blueflame.orchestrator.sessions import find_session, load_session
from blueflame.session.requests.fixes import LANDED_STATES, build_work, find_work, refuse_unknown
from blueflame.session.state import Session

HEX = re.compile(r"[0-9a-f]{4,40}", re.IGNORECASE)


class FoundWork(NamedTuple):
    work: FixedWork
    session: Session  # of the work


def find_fixed_work(
    repo: Repository, journal: Journal, wanted: str, *, session: str | None = None, running: str | None = None
) -> FoundWork:
    """Find it in the named session, else in the running or newest one; a commit in every session.

    Raise UsageError or Refused, with what to do instead, for anything that cannot be fixed.
    """
    found = load_session(journal, find_session(journal, session or running))
    work = find_work(found, wanted)
    if work is None:
        commit = _find_commit(repo, found, wanted)
        names = [found.id] if session else journal.list_ids()
        landed = (_find_landed(repo, each, commit) for each in _load_sessions(journal, names))
        work, found = next((each for each in landed if each is not None), None) or _refuse_foreign(commit, names)
    if not work.commit and work.session != running:
        raise Refused(
            f"{', '.join(work.tasks)} of {work.session} has not landed, and that session does not run: "
            "there is nothing to fix on the base branch; 'blueflame resume' continues a session that has not ended"
        )
    _check_base(repo, found, work)
    return FoundWork(work, found)


def _load_sessions(journal: Journal, names: Sequence[str]) -> Iterator[Session]:
    """Load sessions one by one; one that another version wrote is left out."""
    for name in names:
        with suppress(JournalError, InternalError):
            yield load_session(journal, name)


def _find_commit(repo: Repository, session: Session, wanted: str) -> str:
    done = try_git(repo.root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{wanted}^{{commit}}")
    if done.code == 0 and wanted:
        return done.out.strip()
    if HEX.fullmatch(wanted):
        several = try_git(repo.root, "rev-parse", f"--disambiguate={wanted}").out.split()
        if len(several) > 1:
            raise UsageError(f"{wanted!r} is ambiguous: {len(several)} objects begin so; give more characters of it")
    raise refuse_unknown(session, wanted)


def _refuse_foreign(commit: str, names: Sequence[str]) -> FoundWork:
    raise Refused(
        f"commit {commit[:12]} was not landed by Blue Flame ({len(names)} sessions were searched), so it has no "
        f"history here: ask for the change itself with 'blueflame run \"Fix ... in {commit[:12]}\"'"
    )


def _find_landed(repo: Repository, session: Session, commit: str) -> FoundWork | None:
    """Find the landing that brought a commit, and the one task that made it, if that is known."""
    for record in session.changesets.values():
        tasks = record.changeset.tasks
        if record.state not in LANDED_STATES:
            continue
        known = [name for name in tasks if name in session.tasks]
        own = [name for name in known if _has_made(repo, session.tasks[name].result, commit)]
        if own or _is_part_of(repo, record, commit):
            return FoundWork(build_work(session, own if len(own) == 1 else tasks, record), session)
    return None


def _is_part_of(repo: Repository, record: ChangesetRecord, commit: str) -> bool:
    build, last = record.build, record.landed_as or (record.build.commit if record.build else "")
    if build is None or not has_commit(repo, last):
        return False
    return commit == last or (is_ancestor(repo, commit, last) and not is_ancestor(repo, commit, build.base))


def _has_made(repo: Repository, result: Result | None, commit: str) -> bool:
    if result is None or not (has_commit(repo, result.sha) and has_commit(repo, result.base)):
        return False
    return is_ancestor(repo, commit, result.sha) and not is_ancestor(repo, commit, result.base)


def _check_base(repo: Repository, session: Session, work: FixedWork) -> None:
    """Refuse work that was taken off the base branch: a fix would start without it."""
    if not work.commit:
        return
    head = read_branch_head(repo, session.base_branch)
    if not (has_commit(repo, work.commit) and is_ancestor(repo, work.commit, head)):
        raise Refused(
            f"{work.changeset} landed as {work.commit[:12]}, which is not on {session.base_branch} any more: "
            "there is nothing to fix; ask for the change again with 'blueflame run'"
        )
