"""Compare the journal with the repository before a session is resumed: either may have lost something."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import chain, count
from pathlib import Path

from blueflame.git.batch import change_refs, find_missing_commits, find_ref
from blueflame.git.checkouts import remove_checkout, remove_tree
from blueflame.git.repository import PROBE_SUFFIX, Repository, is_ancestor
from blueflame.git.results import list_refs, set_ref
from blueflame.git.untrusted.disarm import disarm_checkout
from blueflame.model.attempt import WORKER, Duty
from blueflame.model.changeset import ChangesetState
from blueflame.model.errors import JournalError, WorldError
from blueflame.model.ids import ATTEMPT_ID, build_agent_id, build_attempt_id, build_attempt_ref, build_changeset_ref
from blueflame.orchestrator.attempts.clear import get_base_ref
from blueflame.orchestrator.attempts.inspect_result import FINGERPRINT_FILE
from blueflame.orchestrator.context import SessionContext
from blueflame.orchestrator.engine.interface import Ended, Queued
from blueflame.orchestrator.sessions import STATE_REFS, find_unknown_sessions
from blueflame.session.missing_work import find_own_work, list_needed_commits, list_needed_foundations
from blueflame.session.state import Session
from blueflame.text.format import format_count

RESULT_KINDS = ("attempts", "failed")


def remove_unopened(repo: Repository, sessions: Path, known: Collection[str]) -> None:
    """Remove what is left of sessions that were killed before the journal knew them. The caller holds the lock, without
    which none is opened. A session that git knows has lost its journal, which may be put back."""
    folders = [each for each in sessions.glob("*") if each.name not in known]
    lost = find_unknown_sessions(repo, known) if folders else ()
    for folder in folders:
        if folder.name not in lost:
            remove_tree(folder)


def refuse_lost_landings(repo: Repository, session: Session, journal: Path) -> None:
    """Raise when the base branch has a changeset whose landing the journal does not know: it would land twice."""
    prefix = f"{STATE_REFS}changesets/{session.id}/"
    built = {name.removeprefix(prefix): sha for name, sha in list_refs(repo, prefix).items()}
    unbuilt = {name: sha for name, sha in built.items() if _is_build_unknown(session, name)}
    head = find_ref(repo, f"refs/heads/{session.base_branch}") if unbuilt else None
    landed = [
        name
        for name, sha in unbuilt.items()
        if head and is_ancestor(repo, sha, head) and not is_ancestor(repo, sha, session.base_sha)
    ]
    if landed:
        raise JournalError(
            f"the journal {journal} has lost events of {session.id}: {', '.join(landed)} is on {session.base_branch}, "
            "and it does not know that. It was restored from an older copy. Nothing was changed; put the newer one "
            "back, or begin again with 'blueflame run --fresh'"
        )


def _is_build_unknown(session: Session, changeset: str) -> bool:
    """Whether the journal does not know what its ref holds: its build, or the base that a merger starts from."""
    record = session.changesets.get(changeset)
    return record is None or (record.state is ChangesetState.FORMED and record.build is None)


async def set_aside_unknown(context: SessionContext, session: Session) -> tuple[str, ...]:
    """Set aside what attempts left that the journal does not know: their ids are used again. Return what they are for.

    An attempt is recorded before it starts, so this means that the newest events are gone. The commits stay, under
    refs/blueflame/lost/. Folders with other names are none of ours, or were set aside before.
    """
    folders = context.paths.attempts.glob(f"{session.id}.*/{FINGERPRINT_FILE}")
    names = {path.parent.name for path in folders if ATTEMPT_ID.fullmatch(path.parent.name)}
    attempts = sorted(names - session.attempts.keys())
    for name in attempts:
        await _set_attempt_aside(context, name)
    refs = await asyncio.to_thread(_set_refs_aside, context.repo, session)
    subjects = (name.split(".")[1::2] for name in attempts)
    return tuple(sorted({*(f"{subject} (attempt {n})" for subject, n in subjects), *refs}))


async def _set_attempt_aside(context: SessionContext, name: str) -> None:
    await _end_at_once(context, name, "the journal does not know it")
    folder = context.engine.stage(name)
    checkout = context.paths.checkout(build_agent_id(name.split(".")[2], name))
    with suppress(WorldError):  # one that is in the way is reported when the next is made there
        await asyncio.to_thread(remove_checkout, checkout)
    names = (folder.with_name(f"{name}~{n}") for n in count(1))
    folder.rename(next(free for free in names if not free.exists()))


async def end_unfounded(context: SessionContext, session: Session, missing: Collection[str]) -> None:
    """End the attempts whose base is gone: nothing that they commit can be read."""
    for name in session.live.keys() & missing:
        await _end_at_once(context, name, "what it was built on is no longer in the repository")
        agent_id = session.attempts[name].attempt.agent_id
        await asyncio.to_thread(disarm_checkout, context.repo, context.paths.checkout(agent_id))


async def _end_at_once(context: SessionContext, name: str, reason: str) -> None:
    if not isinstance(await context.engine.inspect(name), Queued | Ended):
        await context.engine.cancel(name, reason, grace=0.0)
        await context.engine.wait(name)


def _set_refs_aside(repo: Repository, session: Session) -> list[str]:
    found = {name: sha for name, sha in list_refs(repo, STATE_REFS).items() if name.split("/")[3:4] == [session.id]}
    bases = {get_base_ref(record.attempt) for record in session.attempts.values()}
    results = {
        name: rest
        for name in found
        if name.split("/")[2] in RESULT_KINDS
        and len(rest := name.split("/")[4:]) in (2, 3)
        and rest[-1].isdecimal()
        and not _is_known(session, *rest)
    }
    stray = [
        name for name in found if name.endswith(PROBE_SUFFIX) or (name.split("/")[2] == "bases" and name not in bases)
    ]
    orders = [f"update {STATE_REFS}lost/{session.id}/{found[name]}\0{found[name]}\0\0" for name in results]
    if results or stray:
        change_refs(repo, (*dict.fromkeys(orders), *(f"delete {name}\0\0" for name in (*results, *stray))))
    return [f"{subject} (attempt {more[-1]})" for subject, *more in results.values()]


def _is_known(session: Session, subject: str, *stage_and_n: str) -> bool:
    """Whether the journal has the attempt. A merger, and attempts of earlier versions, have no stage in their ref."""
    *stage, n = stage_and_n
    keys = stage or (WORKER, session.workflow.find_role(Duty.MERGE))
    return any(build_attempt_id(session.id, subject, key, int(n)) in session.attempts for key in keys)


def describe_lost_events(events: int, unknown: Sequence[str]) -> str:
    """Say what the journal has lost; "" for nothing."""
    if not (events or unknown):
        return ""
    number = f"its newest {format_count(events, 'event')}" if events else "its newest events"
    work = f"; {', '.join(unknown)} is set aside, commits of it are under {STATE_REFS}lost/" if unknown else ""
    return f"the journal has lost {number}: its -wal file was damaged or deleted, or an older copy was put back{work}"


def _find_ref(session: Session, name: str) -> str:
    """The ref that holds what a task, a changeset or a merger made."""
    if name in session.changesets:
        return build_changeset_ref(session.id, name)
    result = find_own_work(session.tasks[name]) if name in session.tasks else None
    attempt = session.attempts[result.attempt if result is not None else name].attempt
    return build_attempt_ref(session.id, attempt.subject, attempt.n, attempt.key)


def find_missing_work(repo: Repository, session: Session) -> tuple[str, ...]:
    """The tasks, changesets and attempts whose commits are gone from git. Refs that were deleted are set again."""
    needed, foundations = list_needed_commits(session), list_needed_foundations(session)
    gone = find_missing_commits(repo, (*needed.values(), *chain.from_iterable(foundations.values())))
    refs = list_refs(repo, STATE_REFS) if needed else {}
    for name, sha in needed.items():
        ref = _find_ref(session, name)
        if sha not in gone and ref not in refs:
            set_ref(repo, ref, sha)
    unfounded = [name for name, shas in foundations.items() if not gone.isdisjoint(shas)]
    return (*sorted(name for name, sha in needed.items() if sha in gone), *unfounded)
