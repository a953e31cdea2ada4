"""The history of the work that a task fixes, for its prompts: from this session, or from the journal of another."""

from __future__ import annotations

from blueflame.journal.journal import Journal
from blueflame.model.errors import InternalError, JournalError
from blueflame.orchestrator.context import SessionContext
from blueflame.session.replay import replay
from blueflame.session.state import Session
from blueflame.text.fixed_work import describe_fixed_work


def read_fixed_work(context: SessionContext, session: Session, task: str) -> str:
    """Return the history; empty for a task that fixes nothing."""
    fix = session.fixes.get(task)
    if fix is None:
        return ""
    found = session if fix.work.session == session.id else _load_session(context, fix.work.session)
    if found is None:  # cleaned up meanwhile: git still has what landed
        return f"{fix.work.title}\nIt landed as commit {fix.work.commit}; the journal of {fix.work.session} is gone.\n"
    return describe_fixed_work(found, fix.work)


def _load_session(context: SessionContext, name: str) -> Session | None:
    try:
        with Journal.open_read_only(context.paths.journal) as journal:
            return replay(journal.read_events(name)) if name in journal.list_ids() else None
    except (JournalError, InternalError):  # written by another version
        return None
