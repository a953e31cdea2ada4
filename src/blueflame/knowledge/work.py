"""What an attempt is to do, in the form in which lessons are chosen for it."""

from __future__ import annotations

from blueflame.knowledge.distill import find_lesson_domain
from blueflame.knowledge.selection import Work
from blueflame.model.attempt import WITHOUT_TASK, Attempt, Duty
from blueflame.session.state import Session


def build_work(session: Session, attempt: Attempt) -> Work:
    text, files = _find_content(session, attempt)
    return Work(
        duty=attempt.duty,
        text=text,
        files=files,
        domain=find_lesson_domain(session, attempt.subject),
        session=session.id,
        subject=attempt.subject,
        attempt=attempt.id,
    )


def _find_content(session: Session, attempt: Attempt) -> tuple[str, tuple[str, ...]]:
    """Its words and its files: of the task, of the conflict, or of the request, which names none for sure."""
    if attempt.duty in WITHOUT_TASK:
        return session.request, ()
    if attempt.duty is Duty.MERGE:
        record = session.changesets[attempt.subject]
        titles = (session.tasks[name].task.title for name in record.changeset.tasks)
        return " ".join(titles), record.conflict.paths if record.conflict else ()
    task = session.tasks[attempt.subject].task
    return f"{task.title} {task.description}", task.file_locks
