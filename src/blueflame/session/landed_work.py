"""What became of a session's tasks: how many landed, were proposed, undone or dropped."""

from __future__ import annotations

from blueflame.lazy_dataclass import dataclass
from blueflame.model.changeset import ChangesetState
from blueflame.model.task import TaskRecord, TaskState
from blueflame.session.state import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedWork:
    tasks: int
    landed: int  # on the base branch now
    proposed: int = 0  # in open pull requests
    undone: int = 0
    dropped: int = 0

    @property
    def is_whole(self) -> bool:
        return 0 < self.tasks == self.landed + self.proposed


def count_landed_work(session: Session) -> LandedWork:
    merged = session.list_in_state(TaskState.MERGED)
    places = {
        task: record.state
        for record in session.changesets.values()
        if record.state in (ChangesetState.LANDED, ChangesetState.PROPOSED, ChangesetState.UNDONE)
        for task in record.changeset.tasks
    }
    states = [places.get(name) for name in merged]
    proposed, undone = states.count(ChangesetState.PROPOSED), states.count(ChangesetState.UNDONE)
    return LandedWork(
        tasks=len(session.tasks),
        landed=len(merged) - proposed - undone,
        proposed=proposed,
        undone=undone,
        dropped=session.count_in_state(TaskState.DROPPED),
    )


def describe_undoing(session: Session, record: TaskRecord) -> str:
    """Say who took back the landing of the task; empty if no one has."""
    if record.state is not TaskState.MERGED:
        return ""
    task = record.task.id
    settled = (ChangesetState.LANDED, ChangesetState.UNDONE)
    places = [each for each in session.changesets.values() if task in each.changeset.tasks and each.state in settled]
    return places[-1].note if places and places[-1].state is ChangesetState.UNDONE else ""
