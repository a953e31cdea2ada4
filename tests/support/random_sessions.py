"""Random plans, random outcomes, and what must be true of a session at every moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from blueflame.model.attempt import PASSING, VALIDATOR, WORKER, Attempt, Duty, Ending
from blueflame.model.changeset import ChangesetState
from blueflame.model.event import ConfigDrifted, JournalEntry, RequestSized
from blueflame.model.gate import Answer, Gate, GateKind
from blueflame.model.limits import PASSED, REVIEWED, Limits
from blueflame.model.seat import ContextBudget, Seat, Team
from blueflame.model.sizing import ChosenBy, SizeAnswer, Sizing, Tier, Triage
from blueflame.model.spend import NO_SPEND, UNLIMITED, Budget, Spend, Unit
from blueflame.model.task import FINISHED, VERIFIED, VERIFIED_NOT_LANDED, Assignment, Task, TaskRecord, TaskState
from blueflame.model.workflow import Workflow, build_stages
from blueflame.paths.locks import do_locks_overlap
from blueflame.session.budget import compute_reservation
from blueflame.session.changesets.queue import find_next_changeset
from blueflame.session.effects import CrossBoundary, DiagnoseTask, Effect
from blueflame.session.foundations import are_foundations_valid
from blueflame.session.gates.edits import build_edit_payload
from blueflame.session.state import ACTIVE_STATES, POSTPONED, HookDue, Session, list_judged
from blueflame.testing.simulated_outcomes import SimulatedOutcomes, hash_to_fraction
from blueflame.testing.simulation import Simulation, build_opening
from support.settled_tasks import find_settled_tasks

PATHS = ("src/", "src/a.py", "src/b.py", "src/ядро/", "src/ядро/c d.py", "docs/e.md", "tests/f.py", "lib/g.py")
GROUPS = ("main", "api", "ui")
STAGES = (
    ("plan", "work", "validate", "merge"),
    ("plan", "work", "check", "merge"),
    ("plan", "work", "check", "validate", "merge"),
    ("plan", "work", "merge"),
)


@st.composite
def plans(draw: st.DrawFn, most: int = 9) -> tuple[Task, ...]:
    size = draw(st.integers(1, most))
    names = [f"task-{n:03}" for n in range(1, size + 1)]
    return tuple(
        Task(
            id=name,
            title=f"the {n}th thing",
            description="",
            priority=draw(st.integers(1, 3)),
            cohesion_group=draw(st.sampled_from(GROUPS)),
            dependencies=tuple(sorted(draw(st.sets(st.sampled_from(names[:n]), max_size=2)))) if n else (),
            file_locks=tuple(sorted(draw(st.sets(st.sampled_from(PATHS), min_size=1, max_size=2)))),
        )
        for n, name in enumerate(names)
    )


units = st.sampled_from((Unit.TOKENS, Unit.TOKENS, Unit.USD))


CONTEXT_BUDGETS = st.builds(
    ContextBudget, tokens=st.integers(50, 200), tasks=st.integers(1, 4), seconds=st.sampled_from((5.0, 600.0))
)


@st.composite
def bounds(draw: st.DrawFn) -> Limits:
    hooks = draw(st.sets(st.sampled_from(("post_plan", "pre_validation", "post_merge", "on_failure"))))
    return Limits(
        workers=draw(st.integers(1, 4)),
        validators=draw(st.integers(1, 2)),
        max_retries=draw(st.integers(0, 2)),
        retry_wait=draw(st.sampled_from((0.0, 0.0, 0.5, 7.0))),
        ladder=tuple(draw(st.lists(st.sampled_from(RUNGS), max_size=2))),
        max_attempts=draw(st.sampled_from((0, 1, 3, 8))),
        on_exhausted=draw(st.sampled_from(("fail", "ask"))),
        makers=(WORKER, "backend", "frontend"),
        role_runtimes=dict.fromkeys((WORKER, "backend", "frontend"), "scripted"),
        validator_retries=draw(st.integers(0, 1)),
        max_cycles=draw(st.integers(1, 4)),
        max_history=draw(st.integers(1, 3)),
        session_budget=Budget(draw(units), draw(st.sampled_from((0, 0, 30, 100)))),
        task_budget=Budget(draw(units), draw(st.sampled_from((0, 0, 0, 25)))),
        day_budget=Budget(draw(units), draw(st.sampled_from((0, 0, 0, 80)))),
        role_budgets={role: Budget(draw(units), draw(st.sampled_from((0, 10, 10)))) for role in (WORKER, VALIDATOR)},
        on_validation_failed=draw(st.sampled_from(("ask", "requeue", "drop"))),
        on_stall=draw(st.sampled_from(("warn", "ask", "kill"))),
        max_questions=draw(st.integers(0, 2)),
        question_wait=draw(st.sampled_from((1.0, 20.0))),
        hooks=tuple(sorted(hooks)),
        context_budget=draw(st.none() | CONTEXT_BUDGETS),
        dependents=draw(st.sampled_from((PASSED, REVIEWED))),
        allowed_paths=("**",),
    )


RUNGS = (Assignment(model="opus"), Assignment(runtime="codex", model="gpt-5.5"))
ROLES = {"backend": Duty.MAKE, "frontend": Duty.MAKE, "review-git": Duty.JUDGE, "qa": Duty.JUDGE}
BETWEEN = st.lists(st.sampled_from(("work", "check", "validate", *ROLES)), max_size=5)


@st.composite
def pipelines(draw: st.DrawFn) -> Workflow:
    """Up to eight stages in any order that a configuration may have."""
    names = ("plan", draw(st.sampled_from(("work", "backend"))), *draw(BETWEEN), "merge")
    return Workflow(name="mine", stages=names, barrier=draw(st.booleans()), steps=build_stages(names, ROLES))


workflows = st.one_of(st.builds(Workflow, stages=st.sampled_from(STAGES), barrier=st.booleans()), pipelines())


@dataclass(frozen=True, slots=True, kw_only=True)
class Odds:
    """How often things go wrong, from never (0) to always (1)."""

    fail: float = 0.2
    lose: float = 0.1
    refuse: float = 0.2
    unsure: float = 0.2  # validators that fail themselves
    red: float = 0.1
    evict: float = 0.1
    conflict: float = 0.1
    disturb: float = 0.1  # the base moves
    veto: float = 0.1
    drift: float = 0.1
    hinder: float = 0.1  # what the orchestrator has to do itself fails
    ask: float = 0.1  # agents that end with a question
    contrary: float = 0.4  # how often a person does not simply say yes


NO_FAILURES = (*PASSING, Ending.CANCELLED, Ending.LOST, Ending.QUESTION)
FAILURES = tuple(ending for ending in Ending if ending not in NO_FAILURES)


class Dice(SimulatedOutcomes):
    """Random failures, the same for the same seed."""

    def __init__(self, tasks: Sequence[Task], seed: int, odds: Odds) -> None:
        super().__init__(tasks)
        self.seed = seed
        self.odds = odds

    def roll(self, *about: object) -> float:
        return hash_to_fraction(self.seed, *about)

    def pick(self, choices: Sequence[str], *about: object) -> str:
        return choices[int(self.roll("pick", *about) * len(choices))]

    def pick_size(self, attempt: Attempt) -> SizeAnswer:
        return SizeAnswer(tier=Tier(1 + int(3 * self.roll("size", attempt.id))), reason="it looks so")

    def plan(self, attempt: Attempt, session: Session) -> tuple[Task, ...] | str:
        if self.roll("plan", attempt.id) < self.odds.fail:
            return "no plan"
        landed = {name for name, record in session.tasks.items() if record.state is TaskState.MERGED}
        left = [task for task in self.tasks if task.id not in landed]
        return tuple(left if attempt.n == 1 else left[: 1 + int(len(left) * self.roll("shorter", attempt.id))])

    def pick_minutes(self, attempt: Attempt) -> float:
        return round(0.5 + 5 * self.roll("minutes", attempt.id), 1)

    def pick_pause(self, effect: Effect) -> float:
        return round(3 * self.roll("pause", effect), 1) if self.roll("paused", effect) < 0.5 else 0.0

    def pick_ending(self, attempt: Attempt) -> Ending:
        if self.roll("lose", attempt.id) < self.odds.lose:
            return Ending.LOST
        if self.roll("ask", attempt.id) < self.odds.ask:
            return Ending.QUESTION
        odds = self.odds.unsure if attempt.duty is Duty.JUDGE else self.odds.fail
        if self.roll("fail", attempt.id) < odds:
            return FAILURES[int(self.roll("how", attempt.id) * len(FAILURES))]
        return Ending.PASSED

    def pick_context(self, attempt: Attempt) -> int:
        return int(100 * self.roll("context", attempt.id))

    def pick_spend(self, attempt: Attempt) -> Spend:
        """Spend at most the budget; all of it if the attempt ended for that reason."""
        most = compute_reservation(attempt)
        part = 1.0 if self.pick_ending(attempt) is Ending.BUDGET else self.roll("spend", attempt.id)
        return Spend(input_tokens=int((most.input_tokens or 10) * part), micro_usd=int((most.micro_usd or 10) * part))

    def pick_cause(self, attempt: Attempt) -> str:
        return self.pick(("", "attempt", "task", "session", "day"), "cause", attempt.id)

    def approves(self, attempt: Attempt) -> bool:
        return self.roll("verdict", attempt.id) >= self.odds.refuse

    def is_green(self, effect: DiagnoseTask) -> bool:
        return self.roll("green", effect) >= self.odds.red

    def pick_eviction(self, changeset: str, base: str) -> str:
        return "conflict in src/a.py" if self.roll("evict", changeset, base) < self.odds.evict else ""

    def find_conflict(self, changeset: str, base: str, tasks: tuple[str, ...], resolved: int) -> str:
        if self.roll("conflict", changeset, base, tasks, resolved) < self.odds.conflict:
            return self.pick(tasks, "odd", changeset, base, tasks)
        return ""

    def find_culprit(self, changeset: str, base: str, tasks: tuple[str, ...]) -> str:
        if self.roll("culprit", changeset, base, tasks) < self.odds.evict:
            return self.pick(tasks, "culprit", changeset, base, tasks)
        return ""

    def pick_landing(self, changeset: str, base: str) -> str:
        return "moved" if self.roll("land", changeset, base) < self.odds.disturb else "landed"

    def find_problem(self, act: str, times: int) -> str:
        return "no space left on device" if self.roll("problem", act, times) < self.odds.hinder else ""

    def run_hook(self, due: HookDue) -> int:
        return int(self.roll("hook", due) < self.odds.veto)

    def find_drift(self, session: Session, effect: CrossBoundary) -> ConfigDrifted | None:
        digest = f"{effect.cycle}:{effect.stage}"
        if digest in session.drift_kept or digest == session.config_digest:
            return None
        if self.roll("drift", effect) >= self.odds.drift:
            return None
        return ConfigDrifted(
            digest=digest, changes=("limits: as a person likes them",), limits=self._limits(session, digest)
        )

    def _limits(self, session: Session, digest: str) -> Limits:
        hooks = tuple(name for name in session.limits.hooks if self.roll("keep", name, digest) < 0.5)
        return replace(
            session.limits,
            workers=1 + int(4 * self.roll("workers", digest)),
            validator_retries=int(2 * self.roll("validators", digest)),
            max_retries=int(3 * self.roll("retries", digest)),
            hooks=hooks,
        )

    def answer(self, gate: Gate, session: Session) -> Answer | None:
        choices = [option.name for option in gate.options]
        if gate.kind is GateKind.SESSION:
            choices = ["continue", "continue", *choices]
        if gate.kind in (GateKind.DRIFT, GateKind.BUDGET, GateKind.RATE_LIMIT, GateKind.ENVIRONMENT):
            choices.remove("stop")
        contrary = self.roll("contrary", gate.id) < self.odds.contrary
        if gate.kind is GateKind.CLARIFICATION and contrary and self.roll("late", gate.id) < 0.5:
            return None
        choice = self.pick(choices, gate.id) if contrary or gate.kind is GateKind.VALIDATION else choices[0]
        note = "0" if gate.kind is GateKind.BUDGET else "because"
        if gate.kind is GateKind.ESCALATION:  # giving up comes first: trying again might have no end
            choice = self.pick(("abort", "retry", "reassign"), gate.id) if contrary else "abort"
            note = self.pick(("model=opus because", "role=worker", "runtime=scripted model=haiku"), "who", gate.id)
        payload = self._edits(gate, session) if choice == "edit" else {}
        return Answer(choice=choice, note=note, payload=payload)

    def _edits(self, gate: Gate, session: Session) -> dict[str, object]:
        if gate.kind is GateKind.VALIDATION:
            task = session.tasks[gate.subject].task
            locks = (self.pick(PATHS, "edited", gate.id),)
            return build_edit_payload([replace(task, file_locks=locks, cohesion_group=self.pick(GROUPS, gate.id))])
        landed = {name for name, record in session.tasks.items() if record.state is TaskState.MERGED}
        return build_edit_payload([task for task in self.tasks if task.id not in landed])


@st.composite
def odds(draw: st.DrawFn) -> Odds:
    rate = st.sampled_from((0.0, 0.1, 0.3, 0.6))
    return Odds(**{name: draw(rate) for name in Odds.__dataclass_fields__})


@st.composite
def worlds(draw: st.DrawFn, *, most: int = 9, hasty: bool = False) -> Simulation:
    """A world at its beginning. In a hasty one nothing but attempts takes time."""
    dice = Hasty if hasty else Dice
    tasks, workflow = draw(plans(most)), draw(workflows)
    chosen = {} if workflow.barrier else {flow.name: flow for flow in draw(st.lists(task_workflows(), max_size=2))}
    tasks = tuple(replace(task, workflow=draw(st.sampled_from((None, *chosen)))) for task in tasks)
    limits = replace(draw(bounds()), task_workflows=chosen)
    opening = build_opening(workflow=workflow, limits=limits, team=draw(teams()))
    outcomes = dice(tasks, draw(st.integers(0, 2**32)), draw(odds()))
    sized = [JournalEntry(2, 0.0, size) for size in [draw(st.none() | sizes(workflow))] if size is not None]
    return Simulation(outcomes, [opening, *sized])


class Stubborn(Dice):
    """People often want one more attempt, and change the ceiling under way."""

    def answer(self, gate: Gate, session: Session) -> Answer | None:
        answer = super().answer(gate, session)
        if gate.kind is GateKind.ESCALATION and answer is not None and self.roll("stubborn", gate.id) < 0.4:
            return replace(answer, choice="retry")
        return answer

    def _limits(self, session: Session, digest: str) -> Limits:
        return replace(super()._limits(session, digest), max_attempts=1 + int(3 * self.roll("ceiling", digest)))


@st.composite
def failing_worlds(draw: st.DrawFn) -> Simulation:
    """Worlds in which few attempts are allowed, and work fails in every way it can, mostly several times."""
    tasks, workflow = draw(plans(4)), draw(workflows)
    limits = replace(
        draw(bounds()),
        max_attempts=draw(st.integers(1, 3)),
        max_cycles=draw(st.integers(2, 6)),
        session_budget=UNLIMITED,
        day_budget=UNLIMITED,
    )
    rate = st.sampled_from((0.0, 0.2, 0.5))
    odds = Odds(**{name: draw(rate) for name in Odds.__dataclass_fields__})
    return Simulation(
        Stubborn(tasks, draw(st.integers(0, 2**32)), odds), [build_opening(workflow=workflow, limits=limits)]
    )


@st.composite
def related_worlds(draw: st.DrawFn) -> Simulation:
    """Tasks of two domains that mostly build on each other, so that seats have conversations to continue."""
    places = draw(st.lists(st.sampled_from(("web", "api")), min_size=2, max_size=9))
    tasks = tuple(
        Task(
            id=f"task-{n:03}",
            title=f"the {n}th thing",
            description="",
            dependencies=tuple(f"task-{need:03}" for need in (n - 2, n - 1) if need > 0 and draw(st.booleans())),
            file_locks=(draw(st.sampled_from((f"{place}/", f"{place}/{n}.py"))),),
        )
        for n, place in enumerate(places, start=1)
    )
    limits = Limits(workers=draw(st.integers(1, 3)), context_budget=draw(CONTEXT_BUDGETS), max_retries=1)
    rate = draw(st.sampled_from((0.0, 0.1, 0.3)))
    odds = Odds(fail=rate, lose=rate, refuse=rate, unsure=0.0, red=rate, drift=0.0, ask=0.0, contrary=0.0)
    workflow = Workflow(name="flow", barrier=draw(st.booleans()))
    return Simulation(Dice(tasks, draw(st.integers(0, 2**32)), odds), [build_opening(workflow=workflow, limits=limits)])


@st.composite
def teams(draw: st.DrawFn) -> Team:
    """What earlier sessions left: now and then more seats than may work at once."""
    names = draw(st.lists(st.tuples(st.sampled_from(SEATED_ROLES), st.integers(1, 6)), max_size=6, unique=True))
    places, counts = st.sampled_from(DOMAINS), st.dictionaries(st.sampled_from(DOMAINS), st.integers(1, 9), max_size=3)
    seats = [Seat(name=f"{role}-{n}", role=role, domain=draw(places), tasks=draw(counts)) for role, n in names]
    return Team(seats=tuple(seats), split=draw(st.sampled_from(((), ("src/ядро",)))))


SEATED_ROLES = (WORKER, VALIDATOR, *ROLES)
DOMAINS = (".", "src", "ядро", "docs", "lib")


@st.composite
def task_workflows(draw: st.DrawFn) -> Workflow:
    """A workflow that a plan may choose for a task."""
    name = draw(st.sampled_from(("one", "two")))
    threshold, retries = draw(st.sampled_from((None, 0.5))), draw(st.sampled_from((None, 0, 2)))
    return replace(draw(pipelines()), name=name, barrier=False, review_threshold=threshold, max_retries=retries)


ONE_AGENT = Workflow(name="single", stages=("work", "check", "merge"), barrier=False)
DIRECT = replace(ONE_AGENT, name="direct", steps=build_stages(ONE_AGENT.stages, maker="lead"))


@st.composite
def sizes(draw: st.DrawFn, workflow: Workflow) -> RequestSized:
    """The size of a request, with or without one agent among the choices at the plan gate."""
    sizing = Sizing(tier=draw(st.sampled_from(Tier)), confidence=draw(st.floats(0, 1)), reasons=("it looks so",))
    chosen_by = draw(st.sampled_from(ChosenBy))
    triage = Triage(tier=Tier.PLANNED, workflow=workflow.name, chosen_by=chosen_by, sizing=sizing)
    asks = workflow.add_sizing("triager") if workflow.is_planned and draw(st.booleans()) else None
    one_agent, direct = draw(st.sampled_from((None, ONE_AGENT))), draw(st.sampled_from((None, DIRECT)))
    return RequestSized(triage=triage, workflow=asks, one_agent=one_agent, direct=direct)


class Hasty(Dice):
    """Nothing but attempts takes time, and nothing fails that a resume tries again."""

    def pick_pause(self, _effect: Effect) -> float:
        return 0.0

    def find_problem(self, _act: str, _times: int) -> str:
        return ""

    def find_drift(self, _session: Session, _effect: CrossBoundary) -> None:
        return None

    def pick_ending(self, attempt: Attempt) -> Ending:
        ending = super().pick_ending(attempt)
        return Ending.FAILED if ending in TRIED_AGAIN else ending


TRIED_AGAIN = (Ending.LOST, Ending.ENVIRONMENT, Ending.ACCOUNT, Ending.OUTAGE)


def faults(session: Session) -> Iterator[str]:
    """Return what is wrong with a session between two transactions; nothing if the rules are right."""
    yield from _lock_faults(session)
    yield from _index_faults(session)
    yield from _stuck_faults(session)
    yield from _foundation_faults(session)
    yield from _money_faults(session)
    yield from _gate_faults(session)
    yield from _seat_faults(session)


def _seat_faults(session: Session) -> Iterator[str]:
    about_tasks = [attempt for attempt in session.live.values() if attempt.duty in (Duty.MAKE, Duty.JUDGE)]
    at_work = [attempt.seat for attempt in about_tasks]
    if "" in at_work or len(set(at_work)) < len(at_work):
        yield f"not each attempt has a seat of its own: {sorted(at_work)}"
    if sum(attempt.allocation is not None and attempt.allocation.is_budget_reset for attempt in about_tasks) > 1:
        yield f"several seats begin without their conversations at once: {sorted(at_work)}"
    for attempt in about_tasks:
        if session.seats[attempt.seat].role != attempt.role:
            yield f"{attempt.seat} works as {attempt.role}"


def _lock_faults(session: Session) -> Iterator[str]:
    claimed = [session.tasks[name].task for name in session.list_in_state(TaskState.CLAIMED)]
    for n, one in enumerate(claimed):
        for other in claimed[n + 1 :]:
            if any(do_locks_overlap(a, b) for a in one.file_locks for b in other.file_locks):
                yield f"{one.id} and {other.id} run with overlapping locks"


def _index_faults(session: Session) -> Iterator[str]:
    for state in TaskState:
        there = sorted(name for name, record in session.tasks.items() if record.state is state)
        if sorted(session.states[state]) != there:
            yield f"the index of {state} says {sorted(session.states[state])}, the records {there}"
    settled = find_settled_tasks(
        {name: record.task.cohesion_group for name, record in session.tasks.items()},
        {name: record.state for name, record in session.tasks.items()},
        {name: [below.task for below in r.result.built_on] for name, r in session.tasks.items() if r.result},
    )
    if sorted(session.settled.list_tasks()) != settled:
        yield f"the index has {sorted(session.settled.list_tasks())} as settled, not {settled}"
    at_work = [attempt.subject for attempt in session.live.values() if attempt.duty is Duty.MAKE]
    asking = session.list_waiting_for_answer()
    if not all(session.is_asking(GateKind.CLARIFICATION, name) for name in asking):
        yield f"no agent is at {asking}, and no question is open"
    busy = sorted((*at_work, *asking))
    if busy != list(session.list_in_state(TaskState.CLAIMED)):
        yield f"workers are at {busy}, but claimed are {session.list_in_state(TaskState.CLAIMED)}"
    waits = {
        name: record.until
        for name, record in session.tasks.items()
        if record.until and record.state in (TaskState.PENDING, TaskState.PARTIAL)
    }
    if session.waiting != waits:
        yield f"{session.waiting} wait before they are tried again, not {waits}"
    slots = [attempt.slot for attempt in session.live.values()]
    if len(set(slots)) != len(slots):
        yield f"two attempts have one slot: {slots}"
    for duty in Duty:
        if session.count_running(duty) != sum(attempt.duty is duty for attempt in session.live.values()):
            yield f"{session.count_running(duty)} attempts that {duty} are counted"


def _stuck_faults(session: Session) -> Iterator[str]:
    """A task that is done, in whole or in part, waits for exactly one thing."""
    for name in session.list_in_state(TaskState.DONE, TaskState.PARTIAL):
        waits = [
            name in session.to_check,
            name in session.to_review,
            name in session.to_continue,
            session.find_live_attempt(name, Duty.JUDGE) is not None,
            session.is_asking(GateKind.VALIDATION, name),
            session.is_asking(GateKind.VALIDATOR, name),
            session.is_asking(GateKind.CLARIFICATION, name) and session.find_live_attempt(name, Duty.JUDGE) is None,
        ]
        if sum(waits) != 1:
            yield f"{name} is {session.tasks[name].state} and waits for {sum(waits)} things: {waits}"
    for queue in (session.to_check, session.to_review, session.to_continue):
        for name in queue.list_all():
            if name not in queue.list_at(session.tasks[name].stage):
                yield f"{name} waits, but not at its stage"
    for name in (*session.to_check.list_all(), *session.to_review.list_all()):
        if name not in list_judged(session):
            yield f"{name} is {session.tasks[name].state} and stands in line"
    for name, record in session.tasks.items():
        yield from (f"{name}: {fault}" for fault in _stage_faults(session, record))


def _stage_faults(session: Session, record: TaskRecord) -> Iterator[str]:
    """Where a task is agrees with what was made of it."""
    stage, made = session.find_stage(record.task.id), session.find_workflow(record.task).is_made(record.stage)
    if record.state in (TaskState.PENDING, TaskState.CLAIMED) and stage.duty is not Duty.MAKE:
        yield f"{record.state} in a stage with duty {stage.duty}"
    if record.state is TaskState.PENDING and (record.stage or record.start):
        yield f"pending in stage {record.stage} with {record.start}"
    if record.state is TaskState.PARTIAL and (
        (made != (stage.duty is Duty.MAKE) and made) or not (record.start or record.result)
    ):
        yield f"made in part in stage {record.stage} with {record.start} and {record.result}"
    if record.state is TaskState.DONE and not made:
        yield f"done in stage {record.stage}, and more is to be made"
    if record.result is not None and record.start is not None and record.result.base != record.start.base:
        yield f"its result is from {record.result.base}, what it started from is from {record.start.base}"
    for name in session.list_in_state(TaskState.PENDING):
        lost = [n for n in session.tasks[name].task.dependencies if session.tasks[n].state is TaskState.DROPPED]
        if lost:
            yield f"{name} is pending though {lost} were dropped"


def _foundation_faults(session: Session) -> Iterator[str]:
    for name, record in session.tasks.items():
        if record.state in VERIFIED_NOT_LANDED or record.state is TaskState.MERGED:
            assert record.result is not None
            if not are_foundations_valid(session, record.result.built_on):
                yield f"{name} is {record.state} on what has fallen"
        if record.state is TaskState.MERGED and record.result is not None:
            for foundation in record.result.built_on:
                if session.tasks[foundation.task].state is not TaskState.MERGED:
                    yield f"{name} landed with the commits of {foundation.task}, which has not"
        if record.state is TaskState.CLAIMED:
            attempt = session.find_live_attempt(name)
            assert attempt is not None or name in session.list_waiting_for_answer()
            if attempt is not None and name in {foundation.task for foundation in attempt.built_on}:
                yield f"{name} is built on itself"


def _money_faults(session: Session) -> Iterator[str]:
    spent = sum((r.ended.spend for r in session.attempts.values() if r.ended), NO_SPEND)
    if session.spend != spent or sum(session.spend_by_role.values(), NO_SPEND) != spent:
        yield f"{session.spend} is counted, {spent} was spent"
    reserved = sum((compute_reservation(attempt) for attempt in session.live.values()), NO_SPEND)
    if session.reserved != reserved:
        yield f"{session.reserved} is counted as reserved, {reserved} is"
    if session.sum_spend_since(float("-inf")) != spent:
        yield f"{session.sum_spend_since(float('-inf'))} was spent ever since, not {spent}"


PRESENTABLE = (ChangesetState.BUILT, ChangesetState.APPROVED)


def _gate_faults(session: Session) -> Iterator[str]:
    asked = [gate for gate in session.open_gates.values() if gate.kind is GateKind.CHANGESET]
    if len(asked) > 1:
        yield f"{[gate.id for gate in asked]} are asked at once, though each landing moves the base"
    for gate in asked:
        state = session.changesets[gate.subject].state
        if state is not ChangesetState.BUILT or gate.subject != find_next_changeset(session):
            yield f"gate {gate.id} asks about a changeset that is {state}"
        earlier = list(session.merging)[: list(session.merging).index(gate.subject)]
        # only one that waits for a merger, or has just come back from it, lets others pass
        passed = [name for name in earlier if session.changesets[name].state in PRESENTABLE]
        if passed:
            yield f"gate {gate.id} is asked before {passed}, which came first"
    active = [name for name, record in session.changesets.items() if record.state in ACTIVE_STATES]
    for state, index in ((ChangesetState.CONFLICTED, session.conflicted), (ChangesetState.APPROVED, session.approved)):
        there = sorted(name for name, record in session.changesets.items() if record.state is state)
        if sorted(index) != there:
            yield f"the index of {state} says {sorted(index)}, the records {there}"
    put_off = Counter(
        task for each in session.changesets.values() if each.state in POSTPONED for task in each.changeset.tasks
    )
    if +Counter(session.postponements) != put_off:
        yield f"{session.postponements} are counted as postponed, not {put_off}"
    if active != list(session.merging):
        yield f"{active} are active, {list(session.merging)} are being merged"
    for name in active:
        for task in session.changesets[name].changeset.tasks:
            if session.tasks[task].state is not TaskState.VALIDATED:
                yield f"{task} of {name} is {session.tasks[task].state}"


def ended_well(session: Session) -> bool:
    done = {record.state for record in session.tasks.values()} <= FINISHED
    return session.ended and (done or session.outcome != "completed")


def dependencies_verified(session: Session, task: str) -> bool:
    return all(session.tasks[need].state in VERIFIED for need in session.tasks[task].task.dependencies)
