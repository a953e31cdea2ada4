"""A world without a machine: whole sessions in simulated time, by the very rules that real ones go by.

The loop is the conductor's: take in what has finished, decide, start what is wanted. What the effects there find
out from git, processes and people is here told by a Fate. Tests, benchmarks and rehearsals run on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from heapq import heappop, heappush
from itertools import count
from typing import Any

from blueflame.model.attempt import BLAMELESS, MERGER, PLANNER, WORKER, Attempt, AttemptOutcome, Ending
from blueflame.model.changeset import Build, Conflict, Resolution
from blueflame.model.event import (
    AttemptCancelled,
    AttemptEnded,
    AttemptStalled,
    AttemptStarted,
    BaseMoved,
    ChangesetBuilt,
    ChangesetEvicted,
    Checked,
    ConfigDrifted,
    ConflictResolved,
    CycleStarted,
    Event,
    GateAnswered,
    HookRan,
    JournalEntry,
    Landed,
    OrchestratorStarted,
    OrchestratorStopped,
    PlanFailed,
    ProceedRequested,
    RuntimeResumed,
    SessionOpened,
    StopRequested,
    VerdictGiven,
    WaveStarted,
)
from blueflame.model.gate import Answer, Gate, GateKind
from blueflame.model.limits import Capacity, Limits, Workflow
from blueflame.model.spend import NO_SPEND, Spend
from blueflame.model.task import Task
from blueflame.model.verdict import Check, Verdict, VerdictStatus
from blueflame.session.consequences import consequences_of
from blueflame.session.decide import next_events
from blueflame.session.effects import (
    AskGate,
    AttendAttempt,
    AwaitRuntime,
    BuildChangeset,
    CancelAttempt,
    CrossBoundary,
    DiagnoseTask,
    Effect,
    LandChangeset,
    RunHook,
    effects_due,
)
from blueflame.session.gates.answers import build_proposal, skip_changeset
from blueflame.session.gates.questions import answer_error
from blueflame.session.merging.queue import give_task_back, handle_conflict, trim_changeset
from blueflame.session.replay import apply_event, replay
from blueflame.session.state import HookDue, Session

APPROVING_ANSWERS = {
    GateKind.PLAN: Answer(choice="approve"),
    GateKind.CHANGESET: Answer(choice="approve"),
    GateKind.SESSION: Answer(choice="continue"),
    GateKind.VALIDATION: Answer(choice="requeue"),
    GateKind.VALIDATOR: Answer(choice="accept"),
    GateKind.BUDGET: Answer(choice="raise", note="0"),
    GateKind.DRIFT: Answer(choice="use"),
    GateKind.STALL: Answer(choice="wait"),
    GateKind.RATE_LIMIT: Answer(choice="wait"),
    GateKind.OVERLAP: Answer(choice="ignore"),
    GateKind.TASKS: Answer(choice="keep"),
}

SIMULATED_DAY = "2026-11-15"  # the one on which every simulated session is played, and nothing else


class SimulatedOutcomes:
    """What comes of each thing that is tried. All goes well; a subclass says what does not.

    An answer may depend on what is asked, never on when: a world taken up again goes on as it would have.
    """

    def __init__(self, tasks: Sequence[Task] = ()) -> None:
        self.tasks = tuple(tasks)

    def plan(self, _attempt: Attempt, _session: Session) -> tuple[Task, ...] | str:
        """A plan, or why there is none."""
        return self.tasks

    def pick_minutes(self, _attempt: Attempt) -> float:
        return 1.0

    def pick_pause(self, _effect: Effect) -> float:
        """How long anything but an attempt takes."""
        return 0.0

    def pick_ending(self, _attempt: Attempt) -> Ending:
        return Ending.PASSED

    def pick_spend(self, _attempt: Attempt) -> Spend:
        return NO_SPEND

    def pick_cause(self, _attempt: Attempt) -> str:
        """Whose budget it was, or what was out."""
        return ""

    def approves(self, _attempt: Attempt) -> bool:
        """A validator's verdict."""
        return True

    def is_green(self, _effect: DiagnoseTask) -> bool:
        return True

    def pick_eviction(self, _changeset: str, _base: str) -> str:
        """Why a changeset cannot be built on this base; empty when it can."""
        return ""

    def find_conflict(self, _changeset: str, _base: str, _tasks: tuple[str, ...], _resolved: int) -> str:
        """Which of its tasks does not merge by itself; empty when all do."""
        return ""

    def find_culprit(self, _changeset: str, _base: str, _tasks: tuple[str, ...]) -> str:
        """Which of its tasks turns the checks red; empty when they are green."""
        return ""

    def pick_landing(self, _changeset: str, _base: str) -> str:
        """landed | moved (somebody else was faster) | dirty (the person's checkout is in the way)."""
        return "landed"

    def run_hook(self, _due: HookDue) -> int:
        return 0

    def find_drift(self, _session: Session, _effect: CrossBoundary) -> ConfigDrifted | None:
        return None

    def answer(self, gate: Gate, _session: Session) -> Answer | None:
        """None: nobody answers."""
        return APPROVING_ANSWERS[gate.kind]


SimulatedMessage = Callable[[Session], Sequence[Event]]
"""What a person asks from another terminal, worked out when it arrives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledAttempt:
    """One attempt on the schedule."""

    attempt: Attempt
    begins: float
    ends: float


class Simulation:
    """One orchestrator and all around it. `journal` is all that outlives it."""

    def __init__(self, fate: SimulatedOutcomes, journal: Sequence[JournalEntry], *, agents: int = 1_000) -> None:
        self.fate = fate
        self.journal = list(journal)
        self.session = replay(self.journal)
        self.now = self.session.last_at
        self.head = _find_head(self.journal)
        self.transactions: list[int] = []  # how long the journal was after each append: a crash leaves one of these
        self._capacity = Capacity(agents=agents)
        self._running: dict[Effect, None] = {}
        self._due: list[
            tuple[float, str, int, Effect | SimulatedMessage]
        ] = []  # of what ends together, the first by name
        self._order = count()
        self._append([OrchestratorStarted(pid=1)])

    @property
    def makespan(self) -> float:
        return self.session.last_at - self.session.opened_at

    @property
    def schedule(self) -> tuple[ScheduledAttempt, ...]:
        return tuple(
            ScheduledAttempt(attempt=record.attempt, begins=record.intended_at, ends=record.ended_at)
            for record in self.session.attempts.values()
            if record.ended_at is not None
        )

    def send(self, letter: SimulatedMessage, *, at: float) -> None:
        heappush(self._due, (max(at, self.now), "", next(self._order), letter))

    def run(self) -> Simulation:
        """Until the session has ended, is stopped, or waits for somebody who does not answer."""
        while self.step():
            pass
        return self

    def step(self) -> bool:
        """One turn of the conductor's loop; False when nothing more can happen."""
        self._decide()
        if self._is_over():
            return False
        for effect in effects_due(self.session):
            self._start(effect)
        if not self._due:
            return False
        self.now, _, _, ready = heappop(self._due)
        if isinstance(ready, Effect):
            self._append(self._build_outcome(ready))
            self._running.pop(ready, None)
        else:
            self._append(ready(self.session))
        return True

    def resume(self) -> Simulation:
        """Another orchestrator takes the session up from the journal."""
        return Simulation(self.fate, self.journal, agents=self._capacity.agents)

    def _is_over(self) -> bool:
        session = self.session
        if session.ended:
            return not session.hooks_due
        if session.stopping and not session.live:
            self._append([OrchestratorStopped(reason=session.stopping)])
            return True
        return False

    def _decide(self) -> None:
        decided = False
        capacity = replace(self._capacity, day=SIMULATED_DAY, day_spend=self.session.spend)
        while events := next_events(self.session, capacity):
            decided = True
            for event in events:
                self._record(event)
        if decided:
            self.transactions.append(len(self.journal))

    def _append(self, events: Sequence[Event]) -> None:
        for event in events:
            self._record(event)
        self.transactions.append(len(self.journal))

    def _record(self, event: Event) -> None:
        for each in tuple(consequences_of(self.session, event, self.now)):
            recorded = JournalEntry(self.session.seq + 1, self.now, each)
            apply_event(self.session, recorded)
            self.journal.append(recorded)

    def _start(self, effect: Effect) -> None:
        if effect in self._running:
            return
        self._running[effect] = None
        if isinstance(effect, AskGate) and self._find_answer(effect) is None:
            return
        if isinstance(effect, AttendAttempt):
            self._start_attempt(effect)
        heappush(self._due, (self._find_end(effect), repr(effect), next(self._order), effect))

    def _start_attempt(self, effect: AttendAttempt) -> None:
        record = self.session.attempts[effect.attempt]
        if record.started_at is None:
            base = _find_base(self.session, record.attempt)
            self._append([AttemptStarted(attempt=effect.attempt, base=base, worktree=None, warden_pid=1)])

    def _find_end(self, effect: Effect) -> float:
        """A warden outlives the orchestrator: an attempt ends when it would have ended anyway."""
        if isinstance(effect, AwaitRuntime):
            return max(self.now, self.session.parked[effect.runtime].until or 0.0)
        if not isinstance(effect, AttendAttempt):
            return self.now + self.fate.pick_pause(effect)
        record = self.session.attempts[effect.attempt]
        assert record.started_at is not None, "an attempt that is attended has begun"
        return max(self.now, record.started_at + self.fate.pick_minutes(record.attempt))

    def _build_outcome(self, effect: Effect) -> Sequence[Event]:
        return EFFECT_OUTCOMES[type(effect)](self, effect)

    def _end_attended(self, effect: AttendAttempt) -> Sequence[Event]:
        record = self.session.attempts[effect.attempt]
        return () if record.ended else self._end_attempt(record.attempt, self.fate.pick_ending(record.attempt))

    def _end_cancelled(self, effect: CancelAttempt) -> Sequence[Event]:
        record = self.session.attempts[effect.attempt]
        ending = Ending.STALLED if record.cancelled_for_silence else Ending.CANCELLED
        return () if record.ended else self._end_attempt(record.attempt, ending)

    def _end_attempt(self, attempt: Attempt, ending: Ending) -> Sequence[Event]:
        base = self.session.attempts[attempt.id].base
        ended = AttemptOutcome(
            ending=ending, base=base, spend=self.fate.pick_spend(attempt), cause=self.fate.pick_cause(attempt)
        )
        if attempt.role == PLANNER:
            return self._end_planner(attempt, ended)
        if attempt.role == WORKER:
            return [AttemptEnded(attempt=attempt.id, ended=replace(ended, tip=_format_tip(attempt), commits=1))]
        if attempt.role == MERGER:
            return self._end_merger(attempt, ended)
        told = [VerdictGiven(task=attempt.subject, sha=base or "", verdict=self._build_verdict(attempt))]
        return [AttemptEnded(attempt=attempt.id, ended=ended), *(told if ending is Ending.PASSED else ())]

    def _end_merger(self, attempt: Attempt, ended: AttemptOutcome) -> Sequence[Event]:
        over = AttemptEnded(attempt=attempt.id, ended=ended)
        conflict = self.session.changesets[attempt.subject].conflict
        if ended.ending is not Ending.PASSED or conflict is None:
            return [over]
        if not self.fate.approves(attempt):
            return [over, give_task_back(self.session, attempt.subject, conflict, "both sides mean different things")]
        found = Resolution(ours=conflict.ours, theirs=conflict.theirs, commit=_format_tip(attempt), by=attempt.agent_id)
        return [over, ConflictResolved(changeset=attempt.subject, resolution=found)]

    def _end_planner(self, attempt: Attempt, ended: AttemptOutcome) -> Sequence[Event]:
        over = AttemptEnded(attempt=attempt.id, ended=ended)
        if ended.ending in BLAMELESS:
            return [over]
        plan = self.fate.plan(attempt, self.session) if ended.ending is Ending.PASSED else ended.ending.value
        if isinstance(plan, str):
            return [over, PlanFailed(round=attempt.n, reason=plan)]
        return [over, build_proposal(self.session, plan, "planner", attempt.n)]

    def _build_verdict(self, attempt: Attempt) -> Verdict:
        status = VerdictStatus.PASS if self.fate.approves(attempt) else VerdictStatus.FAIL
        return Verdict(status=status, notes=f"{attempt.agent_id} says {status.value}", by=attempt.agent_id)

    def _cross_boundary(self, effect: CrossBoundary) -> Sequence[Event]:
        drift = self.fate.find_drift(self.session, effect)
        if drift is not None:
            return [drift]
        if effect.stage:
            return [WaveStarted(cycle=effect.cycle, stage=effect.stage)]
        return [CycleStarted(cycle=effect.cycle, base_sha=self.head)]

    def _run_checks(self, effect: DiagnoseTask) -> Sequence[Event]:
        check = Check(name="make test", exit_code=0 if self.fate.is_green(effect) else 1, seconds=0.0)
        return [Checked(task=effect.task, sha=effect.sha, checks=(check,))]

    def _build_changeset(self, effect: BuildChangeset) -> Sequence[Event]:
        reason = self.fate.pick_eviction(effect.changeset, self.head)
        if reason:
            return [ChangesetEvicted(changeset=effect.changeset, reason=reason)]
        record = self.session.changesets[effect.changeset]
        tasks = record.changeset.tasks
        odd = self.fate.find_conflict(effect.changeset, self.head, tasks, len(record.resolutions))
        if odd:
            conflict = Conflict(ours=self.head, theirs=odd, task=odd, paths=("src/a.py",))
            return [handle_conflict(self.session, effect.changeset, conflict)]
        culprit = self.fate.find_culprit(effect.changeset, self.head, tasks)
        if culprit:
            return [trim_changeset(self.session, effect.changeset, (culprit,), "checks are red")]
        build = Build(base=self.head, commit=f"{effect.changeset} on {_shorten_sha(self.head)}")
        return [ChangesetBuilt(changeset=effect.changeset, build=build)]

    def _land_changeset(self, effect: LandChangeset) -> Sequence[Event]:
        build = self.session.changesets[effect.changeset].build
        assert build is not None, "only what is built is landed"
        fate = self.fate.pick_landing(effect.changeset, build.base)
        if fate == "dirty":
            return tuple(skip_changeset(self.session, effect.changeset, "your checkout is not clean"))
        if fate == "moved":
            self.head = f"pushed over {_shorten_sha(self.head)}"
            return [BaseMoved(changeset=effect.changeset, expected=build.base, found=self.head)]
        self.head = build.commit
        return [Landed(changeset=effect.changeset, before=build.base, after=build.commit)]

    def _run_hook(self, effect: RunHook) -> Sequence[Event]:
        due = effect.hook
        return [HookRan(hook=due.name, key=due.key, exit_code=self.fate.run_hook(due))]

    def _answer_gate(self, effect: AskGate) -> Sequence[Event]:
        answer = self._find_answer(effect)
        if answer is None:
            return ()
        wrong = answer_error(self.session, effect.gate, answer)
        assert not wrong, f"the answer to {effect.gate} will not do: {wrong}"
        return [GateAnswered(gate=effect.gate, answer=answer)]

    def _resume_runtime(self, effect: AwaitRuntime) -> Sequence[Event]:
        parked = self.session.parked.get(effect.runtime)
        if parked is None or (parked.until or 0.0) > self.now:
            return ()
        return [RuntimeResumed(runtime=effect.runtime)]

    def _find_answer(self, effect: AskGate) -> Answer | None:
        gate = self.session.open_gates.get(effect.gate)
        return None if gate is None else self.fate.answer(gate, self.session)


EFFECT_OUTCOMES: dict[type, Callable[[Simulation, Any], Sequence[Event]]] = {
    AttendAttempt: Simulation._end_attended,
    CancelAttempt: Simulation._end_cancelled,
    CrossBoundary: Simulation._cross_boundary,
    DiagnoseTask: Simulation._run_checks,
    BuildChangeset: Simulation._build_changeset,
    LandChangeset: Simulation._land_changeset,
    RunHook: Simulation._run_hook,
    AskGate: Simulation._answer_gate,
    AwaitRuntime: Simulation._resume_runtime,
}


def build_opening(
    *, workflow: Workflow | None = None, limits: Limits | None = None, request: str = "make it so"
) -> JournalEntry:
    """The first event of a simulated session; where nothing is said of paths, all may be written."""
    bounds = limits or Limits()
    event = SessionOpened(
        session="ses-20261115-120000",
        request=request,
        project="simulated",
        base_branch="main",
        base_sha="base",
        workflow=workflow or Workflow(),
        limits=replace(bounds, allowed_paths=bounds.allowed_paths or ("**",)),
    )
    return JournalEntry(1, 0.0, event)


def simulate_session(
    fate: SimulatedOutcomes, *, workflow: Workflow | None = None, limits: Limits | None = None, agents: int = 1_000
) -> Simulation:
    """A whole session from its request on."""
    return Simulation(fate, [build_opening(workflow=workflow, limits=limits)], agents=agents).run()


def request_stop(session: Session, *, now: bool = False) -> Sequence[Event]:
    """A letter: put the session down."""
    cancels = [AttemptCancelled(attempt=name, reason="stopped by a person") for name in session.live]
    return [StopRequested(reason="stopped by a person", now=now), *cancels]


def request_proceed(session: Session, *, kill: bool = False) -> Sequence[Event]:
    """A letter: go on with what is done."""
    if not session.cycle_open:
        return ()
    cancels = [AttemptCancelled(attempt=name, reason="left behind") for name in session.live if kill]
    return [ProceedRequested(by="a person", kill=kill), *cancels]


def report_stalls(session: Session) -> Sequence[Event]:
    """A letter: no live agent has said anything for a while."""
    return [AttemptStalled(attempt=name, seconds=300.0) for name in session.live]


def hash_to_fraction(*about: object) -> float:
    """A number in [0, 1) that is always the same for the same things."""
    return int.from_bytes(sha256(repr(about).encode()).digest()[:8]) / 2**64


def _format_tip(attempt: Attempt) -> str:
    return f"{attempt.subject}@{attempt.n}"


def _find_base(session: Session, attempt: Attempt) -> str:
    record = session.tasks.get(attempt.subject)
    if attempt.role not in (PLANNER, WORKER) and record is not None and record.result is not None:
        return record.result.sha
    return session.base_sha


def _find_head(journal: Sequence[JournalEntry]) -> str:
    """Where the base branch is, as far as the journal knows."""
    head = ""
    for recorded in journal:
        event = recorded.event
        if isinstance(event, SessionOpened):
            head = event.base_sha
        elif isinstance(event, Landed):
            head = event.after
        elif isinstance(event, BaseMoved):
            head = event.found
    return head


def _shorten_sha(sha: str) -> str:
    return sha256(sha.encode()).hexdigest()[:12]
