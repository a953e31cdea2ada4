"""Compare the journal with the repository before a session is resumed: either may have lost something."""

from __future__ import annotations

from collections.abc import Container
from itertools import chain
from pathlib import Path

from blueflame.git.batch import find_missing_commits
from blueflame.git.repository import Repository
from blueflame.git.results import list_refs, set_ref
from blueflame.model.attempt import WORKER, Duty
from blueflame.model.errors import JournalError
from blueflame.model.ids import build_attempt_id, build_attempt_ref
from blueflame.session.missing_work import find_own_work, list_needed_commits, list_needed_foundations
from blueflame.session.state import Session

STATE_REFS = "refs/blueflame/"
RESULT_KINDS = ("attempts", "failed")


def refuse_lost_events(repo: Repository, session: Session, journal: Path) -> None:
    """Raise when git has commits of attempts that the journal does not know: continued, they would be used for others.

    An attempt is recorded before it starts, so this means that the newest events are gone.
    """
    names = (name.split("/")[2:] for name in list_refs(repo, STATE_REFS))
    found = [name[2:] for name in names if name[0] in RESULT_KINDS and name[1] == session.id and len(name) in (4, 5)]
    unknown = sorted({f"{name[0]} (attempt {name[-1]})" for name in found if not _is_known(session, *name)})
    if unknown:
        raise JournalError(
            f"the journal {journal} has lost events of {session.id}: git has the commits of {', '.join(unknown)}, "
            "which it does not know. It was restored from an older copy, or its -wal file was deleted. "
            "Nothing was changed; put the newer one back, or begin again with 'blueflame run --fresh' "
            f"(the commits stay under {STATE_REFS})"
        )


def _is_known(session: Session, subject: str, *stage_and_n: str) -> bool:
    """Whether the journal has the attempt. A merger, and attempts of earlier versions, have no stage in their ref."""
    *stage, n = stage_and_n
    keys = stage or (WORKER, session.workflow.find_role(Duty.MERGE))
    return any(build_attempt_id(session.id, subject, key, int(n)) in session.attempts for key in keys)


def find_unknown_sessions(repo: Repository, known: Container[str]) -> tuple[str, ...]:
    """Sessions whose commits git has and of which the journal knows nothing: it was deleted, or has lost events."""
    parts = (name.split("/") for name in list_refs(repo, STATE_REFS))
    return tuple(sorted({part[3] for part in parts if len(part) > 4 and part[3] not in known}))


def find_missing_work(repo: Repository, session: Session) -> tuple[str, ...]:
    """The tasks, changesets and attempts whose commits are gone from git. Refs that were deleted are set again."""
    needed, foundations = list_needed_commits(session), list_needed_foundations(session)
    gone = find_missing_commits(repo, (*needed.values(), *chain.from_iterable(foundations.values())))
    refs = list_refs(repo, STATE_REFS) if needed else {}
    for name, sha in needed.items():
        result = find_own_work(session.tasks[name]) if name in session.tasks else None
        if result is not None and sha not in gone:
            attempt = session.attempts[result.attempt].attempt
            ref = build_attempt_ref(session.id, attempt.subject, attempt.n, attempt.key)
            if ref not in refs:
                set_ref(repo, ref, sha)
    unfounded = [name for name, shas in foundations.items() if not gone.isdisjoint(shas)]
    return (*sorted(name for name, sha in needed.items() if sha in gone), *unfounded)
