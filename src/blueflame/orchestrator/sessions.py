"""Read sessions from the journal, and send messages to them, from any process.

Read-only commands import this and `project`, and no engine, runtime or setting.
"""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from blueflame.git.repository import Repository, list_other_worktrees
from blueflame.journal.database import refuse_wal_without_file
from blueflame.journal.journal import REFUSED, WAITING, Journal, Message, MessageReply
from blueflame.model.errors import JournalError, Refused, UsageError
from blueflame.orchestrator.project import Project
from blueflame.session.replay import replay
from blueflame.session.state import Session
from blueflame.system import flock
from blueflame.system.clock import SystemClock
from blueflame.system.layout import StatePaths

if TYPE_CHECKING:
    from blueflame.orchestrator.engine.presence import OrchestratorPresence

REPLY_TIMEOUT = 15.0
ANSWER = "answer"  # the kind of a message that answers a gate
POLL_SECONDS = 0.05
STATE_REFS = "refs/blueflame/"


@contextmanager
def open_journal(project: Project) -> Iterator[Journal]:
    """Open the journal for reading; UsageError when no session was ever started, JournalError when it is gone."""
    state = project.state
    if not state.journal.exists():
        refuse_wal_without_file(state.journal)
        with suppress(Refused):
            _refuse_lost_journal(project)
        raise UsageError(f"nothing has been run in {state.root} yet: start with 'blueflame run --task \"...\"'")
    with Journal.open_read_only(state.journal) as journal:
        yield journal


def _refuse_lost_journal(project: Project) -> None:
    if unknown := find_unknown_sessions(project.repo, list_foreign_sessions(project.repo, readable_only=True)):
        raise JournalError(
            f"the journal {project.state.journal} is gone: git has commits of {', '.join(unknown)} under {STATE_REFS}. "
            "Put it back if you have a copy, or begin again with 'blueflame run'"
        )


def find_unknown_sessions(repo: Repository, known: Container[str]) -> tuple[str, ...]:
    """Sessions whose commits git has and of which the journal knows nothing: it was deleted, or has lost events."""
    from blueflame.git.results import list_refs  # late: commands that read have a journal

    parts = (name.split("/") for name in list_refs(repo, STATE_REFS))
    return tuple(sorted({part[3] for part in parts if len(part) > 4 and part[3] not in known}))


def list_foreign_sessions(repo: Repository, *, readable_only: bool = False) -> frozenset[str]:
    """The sessions of the repository's other worktrees: their journals are other ones, and their refs are ours, too.

    `readable_only`: without those of a journal that cannot be read; else that is an error.
    """
    journals = [StatePaths(root).journal for root in list_other_worktrees(repo)]
    found: set[str] = set()
    for path in filter(Path.is_file, journals):
        try:
            with Journal.open_read_only(path) as journal:
                found.update(journal.list_ids())
        except JournalError:
            if not readable_only:
                raise
    return frozenset(found)


def find_session(journal: Journal, wanted: str | None) -> str:
    """Return the id of the session with that id or prefix; without one, of the newest."""
    names = journal.list_ids()
    if not names:
        raise UsageError("there is no session yet: start one with 'blueflame run --task \"...\"'")
    if wanted is None:
        return names[0]
    found = [name for name in names if name == wanted] or [name for name in names if name.startswith(wanted)]
    if len(found) != 1:
        known = ", ".join(names[:5])
        raise UsageError(f"{'no' if not found else 'more than one'} session is called {wanted!r}; the newest: {known}")
    return found[0]


def load_session(journal: Journal, session: str) -> Session:
    return replay(journal.read_events(session))


def read_session(project: Project, wanted: str | None) -> Session:
    """Read the session with that id or prefix from the journal; without one, the newest."""
    with open_journal(project) as journal:
        return load_session(journal, find_session(journal, wanted))


def send_to_inbox(project: Project, session: str, kind: str, body: Mapping[str, object]) -> int:
    """Send a message and wake the orchestrator; if none runs, the message waits. Return its id."""
    from blueflame.system.wakeups import send_wakeup

    with Journal.open(project.state.journal) as journal:
        message = journal.send(session, kind, dict(body), SystemClock().now())
    send_wakeup(project.state.signals, "inbox")
    return message


def send_and_wait(project: Project, session: str, kind: str, body: Mapping[str, object]) -> MessageReply:
    """Send a message and wait for the reply; without a running orchestrator it is WAITING for the next one.

    A session that ends meanwhile has no next one: the message is REFUSED.
    """
    message = send_to_inbox(project, session, kind, body)
    until = time.monotonic() + REPLY_TIMEOUT
    with Journal.open_read_only(project.state.journal) as journal:
        while find_running_pid(project) is not None and time.monotonic() < until:
            if (reply := journal.read_reply(message)).state != WAITING:
                return reply
            time.sleep(POLL_SECONDS)  # another process answers through the journal: polling is the only way
        reply, found = journal.read_reply(message), load_session(journal, session)
        first = _find_kept_answer(journal, session, body, message) if kind == ANSWER else None
    if reply.state == WAITING and found.ended:
        return MessageReply(REFUSED, f"{session} has ended: it came too late")
    if reply.state == WAITING and first is not None:
        given = f"{first.body.get('choice')} (by {first.body.get('by')})"
        words = f"gate {body.get('gate')} was already answered: {given}, applied when the session is resumed"
        with Journal.open(project.state.journal) as journal:
            journal.settle(message, accepted=False, reply=words)
        return MessageReply(REFUSED, words)
    return reply


def list_kept_answers(journal: Journal, session: str) -> tuple[Message, ...]:
    """Return the answers to gates that wait for an orchestrator, oldest first."""
    return tuple(message for message in journal.list_waiting(session) if message.kind == ANSWER)


def _find_kept_answer(journal: Journal, session: str, body: Mapping[str, object], before: int) -> Message | None:
    """Find an earlier answer to the same gate that no orchestrator has taken yet: the first one counts."""
    kept = (each for each in list_kept_answers(journal, session) if each.id < before)
    return next((each for each in kept if each.body.get("gate") == body.get("gate")), None)


def find_running_pid(project: Project) -> int | None:
    """Return the pid of the orchestrator that runs in this repository."""
    held = flock.read_lock_holder(project.state.lock)
    return int(held.split(" ")[0]) if held and held.split(" ")[0].isdigit() else None


def find_orchestrator(project: Project, session: Session) -> OrchestratorPresence | None:
    """Return the orchestrator that runs in this repository, with its last heartbeat."""
    if flock.read_lock_holder(project.state.lock) is None:
        return None
    from blueflame.orchestrator.engine.presence import read_presence
    from blueflame.orchestrator.session_settings import find_settings

    heartbeat = find_settings(project, session).limits.heartbeat_interval
    return read_presence(project.state, last_event=session.last_at, heartbeat=heartbeat)
