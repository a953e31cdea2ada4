"""What goes with the question whether a changeset may land, for faces and programs that show no screen."""

from __future__ import annotations

from typing import Any

from blueflame.model.changeset import ChangesetRecord
from blueflame.model.spend import NO_SPEND
from blueflame.session.attempt_history import truncate_text
from blueflame.session.state import Session


def collect_review_evidence(session: Session, record: ChangesetRecord) -> dict[str, Any]:
    """What somebody who cannot see the screen judges a changeset by."""
    build, tasks = record.build, record.changeset.tasks
    assert build is not None, f"{record.changeset.id} is presented before it is built"
    spent = sum((session.spend_by_subject.get(name, NO_SPEND) for name in tasks), NO_SPEND)
    records = [session.tasks[name] for name in tasks if name in session.tasks]
    return {
        "why": {record.task.id: truncate_text(record.task.description) for record in records},
        "review": {record.task.id: truncate_text(record.verdict_notes) for record in records if record.verdict_notes},
        "checks": [
            {"name": check.name, "passed": check.passed, "seconds": check.seconds, "flaky": check.flaky}
            for check in build.checks
        ],
        "cost_usd": spent.usd,
        "tokens": spent.tokens,
        "risks": [str(risk) for risk in build.risks],
        "weakened": [str(each) for each in build.weakened],
        "losses": [str(loss) for loss in build.losses],
    }
