"""A recorded session, event by event, for tests of views."""

from __future__ import annotations

from blueflame.model.attempt import Attempt, AttemptOutcome, Ending
from blueflame.model.changeset import Build, Changeset, FileChange
from blueflame.model.event import (
    AttemptEnded,
    AttemptIntended,
    AttemptStarted,
    ChangesetBuilt,
    ChangesetJudged,
    ChangesetsFormed,
    CycleStarted,
    Event,
    JournalEntry,
    Landed,
    PlanApproved,
    PlanProposed,
    SessionOpened,
    TaskMoved,
    WaveStarted,
)
from blueflame.model.ids import build_agent_id, build_attempt_id
from blueflame.model.limits import Limits
from blueflame.model.spend import Budget, Spend, Unit, to_micro_usd
from blueflame.model.task import Cause, HistoryEntry, HistoryResult, Result, Task
from blueflame.model.verdict import Check
from blueflame.model.workflow import Workflow
from blueflame.session.gates.questions import open_changeset_gate, open_plan_gate
from blueflame.session.replay import apply_event, open_session
from blueflame.session.state import Session

ID = "ses-20260206-143022"
BEGAN = 1_770_388_222.0

TASKS = (
    Task(
        id="task-001",
        title="Add JWT middleware to API router",
        description="…",
        priority=1,
        cohesion_group="auth",
        file_locks=("pkg/middleware/", "internal/auth/"),
    ),
    Task(
        id="task-002",
        title="Add auth tests",
        description="…",
        priority=2,
        cohesion_group="auth",
        dependencies=("task-001",),
        file_locks=("tests/auth/",),
    ),
    Task(
        id="task-003",
        title="Обновить документацию маршрутов",
        description="…",
        priority=3,
        cohesion_group="api",
        file_locks=("docs/api reference/",),
    ),
)


class Story:
    """Applies events as the loop does, one second after the other."""

    def __init__(self) -> None:
        self.recorded: list[JournalEntry] = []
        opened = SessionOpened(
            session=ID,
            request="Add authentication to the API, with tests and documentation",
            project="sample",
            base_branch="main",
            base_sha="a" * 40,
            workflow=Workflow(),
            limits=Limits(session_budget=Budget(Unit.USD, to_micro_usd(10))),
        )
        self.recorded.append(JournalEntry(1, BEGAN, opened))
        self.session: Session = open_session(self.recorded[0])

    @property
    def now(self) -> float:
        return self.recorded[-1].at

    def tell(self, *events: Event, seconds: float = 1.0) -> Story:
        for event in events:
            each = JournalEntry(len(self.recorded) + 1, self.now + seconds, event)
            self.recorded.append(each)
            apply_event(self.session, each)
        return self

    def planned(self) -> Story:
        self.tell(PlanProposed(round=1, tasks=TASKS, origin="planner", warnings=("task-003 is alone in its group",)))
        return self.tell(open_plan_gate(self.session))

    def approved(self) -> Story:
        self.tell(PlanProposed(round=1, tasks=TASKS, origin="planner"), PlanApproved(tasks=TASKS))
        return self.tell(CycleStarted(cycle=1, base_sha="a" * 40), WaveStarted(cycle=1, stage="work"))

    def working(self) -> Story:
        self.approved()
        return self.begins("task-001").begins("task-003")

    def begins(self, task: str, n: int = 1) -> Story:
        name = build_attempt_id(ID, task, "worker", n)
        attempt = Attempt(
            id=name,
            session=ID,
            subject=task,
            role="worker",
            n=n,
            agent_id=build_agent_id("worker", name),
            cycle=1,
            branch=f"blueflame/{ID}/{task}/{n}",
            budget=Budget(Unit.USD, to_micro_usd(1.5)),
        )
        self.tell(TaskMoved(task=task, cause=Cause.CLAIM), AttemptIntended(attempt=attempt), seconds=0)
        return self.tell(AttemptStarted(attempt=name, base="a" * 40, worktree="/tmp/w", warden_pid=4711))

    def ends(self, task: str, ending: Ending = Ending.PASSED, n: int = 1, seconds: float = 62.0) -> Story:
        name = build_attempt_id(ID, task, "worker", n)
        tip = "b" * 40 if ending is Ending.PASSED else None
        spend = Spend(micro_usd=420_000, input_tokens=12_000, output_tokens=450)
        ended = AttemptOutcome(ending=ending, tip=tip, base="a" * 40, commits=2, spend=spend, seconds=seconds)
        self.tell(AttemptEnded(attempt=name, ended=ended), seconds=seconds)
        if tip is None:
            entry = HistoryEntry(attempt=n, agent_id="w", at=self.now, result=HistoryResult.FAILED, notes=ending.value)
            return self.tell(
                TaskMoved(task=task, cause=Cause.FAIL, reason=ending.value, history=entry),
                TaskMoved(task=task, cause=Cause.RETRY, reason=ending.value),
                seconds=0,
            )
        result = Result(sha=tip, base="a" * 40, attempt=name)
        return self.tell(TaskMoved(task=task, cause=Cause.COMPLETE, result=result), seconds=0)

    def reviewing(self) -> Story:
        """Everything is validated, and the first of two changesets is at review."""
        self.working().ends("task-003", Ending.TIMEOUT).ends("task-001").begins("task-003", 2).begins("task-002")
        self.ends("task-003", n=2).ends("task-002")
        self.tell(WaveStarted(cycle=1, stage="validate"))
        self.tell(*(TaskMoved(task=task.id, cause=Cause.VALIDATE) for task in TASKS), seconds=0)
        self.tell(WaveStarted(cycle=1, stage="merge"))
        auth = Changeset(id="cs-1-auth", cycle=1, group="auth", title="Add JWT", tasks=("task-001", "task-002"))
        api = Changeset(id="cs-1-api", cycle=1, group="api", title="Document the routes", tasks=("task-003",))
        self.tell(ChangesetsFormed(changesets=(auth, api)))
        return self.presents("cs-1-auth")

    def presents(self, changeset: str) -> Story:
        build = Build(
            base="a" * 40,
            commit="c" * 40,
            files=(
                FileChange(path="internal/auth/jwt.go", added=120, deleted=3),
                FileChange(path="tests/auth/тест jwt.go", added=400, deleted=9),
            ),
            checks=(
                Check(name="ruff check .", exit_code=0, seconds=0.4),
                Check(name="pytest", exit_code=0, seconds=75),
            ),
        )
        self.tell(ChangesetBuilt(changeset=changeset, build=build))
        gate = open_changeset_gate(self.session, self.session.changesets[changeset])
        return self.tell(gate)

    def lands(self, changeset: str) -> Story:
        self.tell(ChangesetJudged(changeset=changeset, choice="approve"))
        self.tell(Landed(changeset=changeset, before="a" * 40, after="c" * 40))
        tasks = self.session.changesets[changeset].changeset.tasks
        return self.tell(*(TaskMoved(task=task, cause=Cause.LAND) for task in tasks), seconds=0)
