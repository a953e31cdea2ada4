"""Simulated sessions: whole sessions in simulated time, decided by the same rules as real ones.

The loop is that of the orchestrator: append what has finished, decide, start the effects that are due. What effects
learn from git, processes and people comes from SimulatedOutcomes. Tests and benchmarks run on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from heapq import heappop, heappush
from itertools import count
from typing import Any

from blueflame.lazy_dataclass import dataclass
from blueflame.model.attempt import BLAMELESS, Attempt, AttemptOutcome, Duty, Ending
from blueflame.model.changeset import Build, Conflict, Resolution
from blueflame.model.event import (
    AttemptCancelled,
    AttemptEnded,
    AttemptIntended,
    AttemptStalled,
    AttemptStarted,
    BackoffEnded,
    BaseMoved,
    ChangesetBuilt,
    ChangesetEvicted,
    Checked,
    ConflictResolved,
    CurationProposed,
    CycleStarted,
    EnvironmentRetried,
    Event,
    GateAnswered,
    GateWithdrawn,
    HookRan,
    JournalEntry,
    Landed,
    OrchestratorStarted,
    OrchestratorStopped,
    PlanFailed,
    ProceedRequested,
    QuestionAsked,
    RuntimeResumed,
    SessionOpened,
    StopRequested,
    VerdictGiven,
    WaveStarted,
)
from blueflame.model.gate import Answer
from blueflame.model.limits import Capacity, Limits
from blueflame.model.memory import KnowledgeEdit
from blueflame.model.question import Question
from blueflame.model.seat import NEW_TEAM, Team
from blueflame.model.verdict import Check, Verdict, VerdictStatus
from blueflame.model.workflow import Workflow
from blueflame.session.changesets.queue import give_task_back, handle_conflict, trim_changeset
from blueflame.session.clarifications import count_questions_left, find_deadline, find_late_answer
from blueflame.session.consequences import consequences_of
from blueflame.session.decide import next_events
from blueflame.session.effects import (
    AskGate,
    AttendAttempt,
    AwaitAnswer,
    AwaitBackoff,
    AwaitConfig,
    AwaitEnvironment,
    AwaitRuntime,
    BuildChangeset,
    CancelAttempt,
    CrossBoundary,
    DiagnoseTask,
    Effect,
    LandChangeset,
    RunHook,
    effects_due,
    name_act,
)
from blueflame.session.environment import (
    add_recovery,
    has_slot,
    is_held,
    is_retry_due,
    list_attempts_at_work,
    report_problem,
)
from blueflame.session.gates.answers import build_proposal
from blueflame.session.gates.questions import answer_error
from blueflame.session.next_try import is_backoff_over
from blueflame.session.replay import apply_event, replay
from blueflame.session.sizing.choose import conclude_sizing
from blueflame.session.state import Session, may_be_left_as_it_was
from blueflame.testing.simulated_outcomes import SimulatedOutcomes

SIMULATED_DAY = "2026-11-15"
SIMULATED_QUESTION = Question(text="which one?", guess="the first", options=("the first", "the second"))
SLOT_PAUSE = 1.0  # until it is asked again whether a slot is free

SimulatedMessage = Callable[[Session], Sequence[Event]]
"""A request from another terminal, turned into events when it arrives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledAttempt:
    """One attempt on the schedule."""

    attempt: Attempt
    begins: float
    ends: float


class Simulation:
    """One orchestrator and its surroundings. Only `journal` survives a crash."""

    def __init__(self, outcomes: SimulatedOutcomes, journal: Sequence[JournalEntry], *, agents: int = 1_000) -> None:
        self.outcomes = outcomes
        self.journal = list(journal)
        self.session = replay(self.journal)
        self.now = self.session.last_at
        self.head = _find_head(self.journal)
        self.transactions: list[int] = []  # length of the journal after each append: a crash leaves one of these
        self._capacity = Capacity(agents=agents)
        self._running: dict[Effect, None] = {}
        self._due: list[tuple[float, str, int, Effect | SimulatedMessage]] = []  # by time, then by name
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

    def send(self, message: SimulatedMessage, *, at: float) -> None:
        heappush(self._due, (max(at, self.now), "", next(self._order), message))

    def run(self) -> Simulation:
        """Run until the session has ended, is stopped, or waits for an answer that does not come."""
        while self.step():
            pass
        return self

    def step(self) -> bool:
        """Run one turn of the session loop; False when nothing more can happen."""
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
        """Start another orchestrator from the journal."""
        return Simulation(self.outcomes, self.journal, agents=self._capacity.agents)

    def _is_over(self) -> bool:
        session = self.session
        if session.ended:
            return not session.hooks_due
        if session.stopping and not list_attempts_at_work(session):
            self._append([OrchestratorStopped(reason=session.stopping)])
            return True
        return False

    def _decide(self) -> None:
        decided = False
        capacity = replace(self._capacity, day=SIMULATED_DAY, day_spend=self.session.spend)
        while events := next_events(self.session, capacity):
            intended = [each.attempt for each in events if isinstance(each, AttemptIntended)]
            if waiting := {each.role: wait for each in intended if (wait := self.outcomes.find_wait(each)) is not None}:
                capacity = replace(capacity, waiting={**capacity.waiting, **waiting})
                continue
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
        """Find when an effect ends. A warden outlives the orchestrator, so a crash does not delay an attempt."""
        if isinstance(effect, AwaitAnswer):
            return max(self.now, find_deadline(self.session.open_gates[effect.gate]) or 0.0)
        if isinstance(effect, AwaitRuntime):
            return max(self.now, self.session.parked[effect.runtime].until or 0.0)
        if isinstance(effect, AwaitEnvironment):
            pause = 0.0 if has_slot(self.session, effect.act) else SLOT_PAUSE
            return max(self.now + pause, self.session.problems[effect.act].until)
        if isinstance(effect, AwaitBackoff):
            return max(self.now, self.session.waiting[effect.task])
        if not isinstance(effect, AttendAttempt):
            return self.now + self.outcomes.pick_pause(effect)
        record = self.session.attempts[effect.attempt]
        assert record.started_at is not None, "an attempt that is attended has begun"
        return max(self.now, record.started_at + self.outcomes.pick_minutes(record.attempt))

    def _build_outcome(self, effect: Effect) -> Sequence[Event]:
        act = name_act(self.session, effect)
        times = self.session.problems[act].times if act in self.session.problems else 0
        if not isinstance(effect, NEVER_FAIL) and (reason := self.outcomes.find_problem(act, times)):
            return [report_problem(self.session, act, reason, self.now)]
        return add_recovery(self.session, act, EFFECT_OUTCOMES[type(effect)](self, effect))

    def _end_attended(self, effect: AttendAttempt) -> Sequence[Event]:
        record = self.session.attempts[effect.attempt]
        return () if record.ended else self._end_attempt(record.attempt, self.outcomes.pick_ending(record.attempt))

    def _end_cancelled(self, effect: CancelAttempt) -> Sequence[Event]:
        record = self.session.attempts[effect.attempt]
        ending = Ending.STALLED if record.cancelled_for_silence else Ending.CANCELLED
        return () if record.ended else self._end_attempt(record.attempt, ending)

    def _end_attempt(self, attempt: Attempt, ending: Ending) -> Sequence[Event]:
        base = self.session.attempts[attempt.id].base
        ended = AttemptOutcome(
            ending=ending,
            base=base,
            spend=self.outcomes.pick_spend(attempt),
            cause=self.outcomes.pick_cause(attempt),
            context_tokens=self.outcomes.pick_context(attempt) if attempt.duty is Duty.MAKE else 0,
            hand_off=self.outcomes.pick_hand_off(attempt) if attempt.stage is not None else None,
        )
        if ending is Ending.QUESTION:
            return self._end_with_question(attempt, ended)
        if attempt.duty is Duty.SIZE:
            return self._end_triager(attempt, ended)
        if attempt.duty is Duty.PLAN:
            return self._end_planner(attempt, ended)
        if attempt.duty is Duty.CURATE:
            return self._end_curator(attempt, ended)
        if attempt.duty is Duty.MAKE:
            idle = may_be_left_as_it_was(self.session, self.session.tasks[attempt.subject])
            if ending is Ending.NO_COMMITS:
                made = replace(ended, ending=Ending.NOTHING_TO_DO) if idle else ended
            else:
                made = replace(ended, tip=_format_tip(attempt), commits=1)
            return [AttemptEnded(attempt=attempt.id, ended=made)]
        if attempt.duty is Duty.MERGE:
            return self._end_merger(attempt, ended)
        reported = [
            VerdictGiven(
                task=attempt.subject,
                sha=base or "",
                verdict=self._build_verdict(attempt),
                attempt=attempt.id,
                stage=attempt.key,
            )
        ]
        return [AttemptEnded(attempt=attempt.id, ended=ended), *(reported if ending is Ending.PASSED else ())]

    def _end_with_question(self, attempt: Attempt, ended: AttemptOutcome) -> Sequence[Event]:
        if not count_questions_left(self.session, attempt.subject):  # then it is judged like any other
            return self._end_attempt(attempt, Ending.BAD_OUTPUT)
        tip = _format_tip(attempt) if attempt.duty is Duty.MAKE else None
        over = AttemptEnded(attempt=attempt.id, ended=replace(ended, tip=tip, commits=1 if tip else 0))
        return [over, QuestionAsked(attempt=attempt.id, question=SIMULATED_QUESTION)]

    def _end_merger(self, attempt: Attempt, ended: AttemptOutcome) -> Sequence[Event]:
        over = AttemptEnded(attempt=attempt.id, ended=ended)
        conflict = self.session.changesets[attempt.subject].conflict
        if ended.ending is not Ending.PASSED or conflict is None:
            return [over]
        if not self.outcomes.approves(attempt):
            return [over, give_task_back(self.session, attempt.subject, conflict, "both sides mean different things")]
        found = Resolution(ours=conflict.ours, theirs=conflict.theirs, commit=_format_tip(attempt), by=attempt.agent_id)
        return [over, ConflictResolved(changeset=attempt.subject, resolution=found)]

    def _end_curator(self, attempt: Attempt, ended: AttemptOutcome) -> Sequence[Event]:
        over = AttemptEnded(attempt=attempt.id, ended=ended)
        if ended.ending in BLAMELESS:
            return [over]
        if ended.ending is not Ending.PASSED:
            return [over, CurationProposed(attempt=attempt.id, problem="nothing proposed")]
        edit = KnowledgeEdit(file="mistakes", keys=("a",), old=("words",), why="they are not true")
        return [over, CurationProposed(attempt=attempt.id, edits=(edit,))]

    def _end_triager(self, attempt: Attempt, ended: AttemptOutcome) -> Sequence[Event]:
        over = AttemptEnded(attempt=attempt.id, ended=ended)
        if ended.ending in (Ending.CANCELLED, Ending.LOST, Ending.ENVIRONMENT):
            return [over]
        size = self.outcomes.pick_size(attempt) if ended.ending is Ending.PASSED else ended.ending.value
        return [over, conclude_sizing(self.session, size)]

    def _end_planner(self, attempt: Attempt, ended: AttemptOutcome) -> Sequence[Event]:
        over = AttemptEnded(attempt=attempt.id, ended=ended)
        if ended.ending in BLAMELESS:
            return [over]
        plan = self.outcomes.plan(attempt, self.session) if ended.ending is Ending.PASSED else ended.ending.value
        if isinstance(plan, str):
            return [over, PlanFailed(round=attempt.n, reason=plan)]
        return [over, build_proposal(self.session, plan, "planner", attempt.n)]

    def _build_verdict(self, attempt: Attempt) -> Verdict:
        status = VerdictStatus.PASS if self.outcomes.approves(attempt) else VerdictStatus.FAIL
        notes, confidence = f"{attempt.agent_id} says {status.value}", self.outcomes.pick_confidence(attempt)
        return Verdict(status=status, notes=notes, by=attempt.agent_id, confidence=confidence)

    def _cross_boundary(self, effect: CrossBoundary) -> Sequence[Event]:
        drift = self.outcomes.find_drift(self.session, effect)
        if drift is not None:
            return [drift]
        if effect.stage:
            return [WaveStarted(cycle=effect.cycle, stage=effect.stage, position=effect.position)]
        return [CycleStarted(cycle=effect.cycle, base_sha=self.head)]

    def _run_checks(self, effect: DiagnoseTask) -> Sequence[Event]:
        check = Check(name="make test", exit_code=0 if self.outcomes.is_green(effect) else 1, seconds=0.0)
        return [Checked(task=effect.task, sha=effect.sha, checks=(check,))]

    def _build_changeset(self, effect: BuildChangeset) -> Sequence[Event]:
        reason = self.outcomes.pick_eviction(effect.changeset, self.head)
        if reason:
            return [ChangesetEvicted(changeset=effect.changeset, reason=reason)]
        record = self.session.changesets[effect.changeset]
        tasks = record.changeset.tasks
        odd = self.outcomes.find_conflict(effect.changeset, self.head, tasks, len(record.resolutions))
        if odd:
            conflict = Conflict(ours=self.head, theirs=odd, task=odd, paths=("src/a.py",))
            return [handle_conflict(self.session, effect.changeset, conflict)]
        culprit = self.outcomes.find_culprit(effect.changeset, self.head, tasks)
        if culprit:
            return [trim_changeset(self.session, effect.changeset, (culprit,), "checks are red")]
        build = Build(base=self.head, commit=f"{effect.changeset} on {_shorten_sha(self.head)}")
        return [ChangesetBuilt(changeset=effect.changeset, build=build)]

    def _land_changeset(self, effect: LandChangeset) -> Sequence[Event]:
        build = self.session.changesets[effect.changeset].build
        assert build is not None, "only what is built is landed"
        landing = self.outcomes.pick_landing(effect.changeset, build.base)
        if landing == "moved":
            self.head = f"pushed over {_shorten_sha(self.head)}"
            return [BaseMoved(changeset=effect.changeset, expected=build.base, found=self.head)]
        self.head = build.commit
        return [Landed(changeset=effect.changeset, before=build.base, after=build.commit)]

    def _run_hook(self, effect: RunHook) -> Sequence[Event]:
        due = effect.hook
        return [HookRan(hook=due.name, key=due.key, exit_code=self.outcomes.run_hook(due))]

    def _answer_gate(self, effect: AskGate) -> Sequence[Event]:
        answer = self._find_answer(effect)
        if answer is None:
            return ()
        wrong = answer_error(self.session, effect.gate, answer)
        assert not wrong, f"the answer to {effect.gate} is not accepted: {wrong}"
        return [GateAnswered(gate=effect.gate, answer=answer)]

    def _resume_runtime(self, effect: AwaitRuntime) -> Sequence[Event]:
        parked = self.session.parked.get(effect.runtime)
        if parked is None or (parked.until or 0.0) > self.now:
            return ()
        return [RuntimeResumed(runtime=effect.runtime)]

    def _retry_act(self, effect: AwaitEnvironment) -> Sequence[Event]:
        due = is_held(self.session, effect.act) and is_retry_due(self.session.problems[effect.act], self.now)
        return [EnvironmentRetried(act=effect.act)] if due and has_slot(self.session, effect.act) else ()

    def _end_backoff(self, effect: AwaitBackoff) -> Sequence[Event]:
        until = self.session.waiting.get(effect.task)
        due = until is not None and is_backoff_over(self.session.limits, until, self.now)
        return [BackoffEnded(task=effect.task)] if due else ()

    def _stop_waiting(self, effect: AwaitAnswer) -> Sequence[Event]:
        return find_late_answer(self.session, effect.gate, self.now)

    def _repair_config(self, effect: AwaitConfig) -> Sequence[Event]:
        asked = effect.gate in self.session.open_gates
        return [GateWithdrawn(gate=effect.gate, reason="the configuration can be used again")] if asked else ()

    def _find_answer(self, effect: AskGate) -> Answer | None:
        gate = self.session.open_gates.get(effect.gate)
        return None if gate is None else self.outcomes.answer(gate, self.session)


EFFECT_OUTCOMES: dict[type, Callable[[Simulation, Any], Sequence[Event]]] = {
    AttendAttempt: Simulation._end_attended,
    CancelAttempt: Simulation._end_cancelled,
    CrossBoundary: Simulation._cross_boundary,
    DiagnoseTask: Simulation._run_checks,
    BuildChangeset: Simulation._build_changeset,
    LandChangeset: Simulation._land_changeset,
    RunHook: Simulation._run_hook,
    AskGate: Simulation._answer_gate,
    AwaitAnswer: Simulation._stop_waiting,
    AwaitConfig: Simulation._repair_config,
    AwaitRuntime: Simulation._resume_runtime,
    AwaitEnvironment: Simulation._retry_act,
    AwaitBackoff: Simulation._end_backoff,
}
NEVER_FAIL = (AskGate, AwaitAnswer, AwaitConfig, AwaitRuntime, AwaitEnvironment, AwaitBackoff)


def build_opening(
    *,
    workflow: Workflow | None = None,
    limits: Limits | None = None,
    request: str = "make it so",
    team: Team = NEW_TEAM,
) -> JournalEntry:
    """Build the first event of a simulated session. Without allowed paths, all may be written."""
    bounds = limits or Limits()
    event = SessionOpened(
        session="ses-20261115-120000",
        request=request,
        project="simulated",
        base_branch="main",
        base_sha="base",
        workflow=workflow or Workflow(),
        limits=replace(bounds, allowed_paths=bounds.allowed_paths or ("**",)),
        team=team,
    )
    return JournalEntry(1, 0.0, event)


def simulate_session(
    outcomes: SimulatedOutcomes, *, workflow: Workflow | None = None, limits: Limits | None = None, agents: int = 1_000
) -> Simulation:
    """Simulate a whole session."""
    return Simulation(outcomes, [build_opening(workflow=workflow, limits=limits)], agents=agents).run()


def request_stop(session: Session, *, now: bool = False) -> Sequence[Event]:
    """Stop the session."""
    cancels = [AttemptCancelled(attempt=name, reason="stopped by a person") for name in session.live]
    return [StopRequested(reason="stopped by a person", now=now), *cancels]


def request_proceed(session: Session, *, kill: bool = False) -> Sequence[Event]:
    """Proceed with the finished tasks."""
    if not session.cycle_open:
        return ()
    cancels = [AttemptCancelled(attempt=name, reason="left behind") for name in session.live if kill]
    return [ProceedRequested(by="a person", kill=kill), *cancels]


def report_stalls(session: Session) -> Sequence[Event]:
    """Report that every live agent has been silent for a while."""
    return [AttemptStalled(attempt=name, seconds=300.0) for name in session.live]


def ask_questions(session: Session) -> Sequence[Event]:
    """Let every live agent ask that may, and wait for the answer."""
    asking = (name for name, attempt in session.live.items() if count_questions_left(session, attempt.subject))
    return [QuestionAsked(attempt=name, question=SIMULATED_QUESTION) for name in asking]


def _format_tip(attempt: Attempt) -> str:
    return f"{attempt.subject}@{attempt.n}" if not attempt.stage else f"{attempt.subject}@{attempt.key}.{attempt.n}"


def _find_base(session: Session, attempt: Attempt) -> str:
    record = session.tasks.get(attempt.subject)
    kept = record and (record.start if attempt.duty is Duty.MAKE else record.result)
    return kept.sha if kept else session.base_sha


def _find_head(journal: Sequence[JournalEntry]) -> str:
    """Find where the base branch is, according to the journal."""
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
