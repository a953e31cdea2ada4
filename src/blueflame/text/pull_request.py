"""The text of a pull request: tasks, checks, reviews, doubts and cost."""

from __future__ import annotations

from collections.abc import Iterator

from blueflame.model.changeset import Build, ChangesetRecord
from blueflame.model.spend import NO_SPEND
from blueflame.session.clarifications import list_assumptions
from blueflame.session.retries import truncate_text
from blueflame.session.state import Session
from blueflame.text.format import format_dollars
from blueflame.text.sanitize import clean_line, clean_text

MAX_NOTE_CHARS = 600


def format_pull_request_title(record: ChangesetRecord) -> str:
    return clean_line(f"{record.changeset.title} ({', '.join(record.changeset.tasks)})")


def format_pull_request_body(session: Session, record: ChangesetRecord, build: Build) -> str:
    parts = (
        _format_tasks(session, record),
        _format_checks(build),
        _format_reviews(session, record),
        _format_doubts(session, record, build),
        _format_cost(session, record),
    )
    lines = [line for part in parts for line in part]
    return clean_text(
        "\n".join([*lines, "", f"Blue-Flame-Session: {session.id}", f"Blue-Flame-Changeset: {record.changeset.id}"])
    )


def _format_tasks(session: Session, record: ChangesetRecord) -> Iterator[str]:
    yield "## Tasks"
    yield ""
    for name in record.changeset.tasks:
        yield f"- **{name}** {_join_lines(session.tasks[name].task.title)}"
    if record.changeset.missing:
        yield f"- not in it, though of the same group: {', '.join(record.changeset.missing)}"


def _format_checks(build: Build) -> Iterator[str]:
    yield ""
    yield f"## Checks on {build.commit[:12]}"
    yield ""
    for check in build.checks:
        tests = f", {check.tests_beside_base}" if check.tests_beside_base else ""
        yield f"- `{check.name}`: {check.state} in {check.seconds:.1f} s{tests}"
    if not build.checks:
        yield "- none are configured"


def _format_reviews(session: Session, record: ChangesetRecord) -> Iterator[str]:
    noted = [(name, each) for name in record.changeset.tasks for each in session.tasks[name].standing_verdicts]
    if noted:
        yield ""
        yield "## Reviewers"
        yield ""
    for name, each in noted:
        yield f"- {name}, {each.name}: {_join_lines(truncate_text(each.summary, MAX_NOTE_CHARS))}"


def _format_doubts(session: Session, record: ChangesetRecord, build: Build) -> Iterator[str]:
    doubts = [f"{name} {each}" for name in record.changeset.tasks for each in list_assumptions(session, name)]
    doubts += [str(loss) for loss in build.losses]
    doubts += [
        f"conflict in {', '.join(each.paths)} resolved by {each.by}: {each.notes}" for each in record.resolutions
    ]
    if doubts:
        yield ""
        yield "## To look at"
        yield ""
    for line in doubts:
        yield f"- {_join_lines(truncate_text(line, MAX_NOTE_CHARS))}"


def _format_cost(session: Session, record: ChangesetRecord) -> Iterator[str]:
    subjects = (*record.changeset.tasks, record.changeset.id)
    spend = sum((session.spend_by_subject.get(name, NO_SPEND) for name in subjects), NO_SPEND)
    yield ""
    yield f"Cost: {format_dollars(spend.micro_usd, places=2)}, {spend.tokens:,} tokens."


def _join_lines(text: str) -> str:
    """Put text on one line: what agents wrote must not look like a heading."""
    return " ".join(text.split())
