"""The loop of a session: replay, decide, act, record, again.

Effects run as tasks beside the loop and return their outcomes; only the loop writes to the journal. Which effects
should be under way is a function of the session (`effects_due`), so after a crash the same ones are started again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from blueflame.git.checkouts import sweep_spares
from blueflame.git.locks import remove_stale_locks
from blueflame.git.repository import measure_tree
from blueflame.git.results import pack_refs
from blueflame.journal.journal import Journal, MessageSettlement
from blueflame.model.attempt import Attempt
from blueflame.model.errors import NoAnswer, Refused, WorldError, find_first_error
from blueflame.model.event import (
    AttemptCancelled,
    AttemptEnded,
    AttemptIntended,
    ConfigAdopted,
    EnvironmentRecovered,
    Event,
    GateAnswered,
    JournalEntry,
    OrchestratorStarted,
    OrchestratorStopped,
    RuntimeResumed,
    StopRequested,
)
from blueflame.model.gate import Answer, Gate, GateKind
from blueflame.orchestrator.attempts.check_commit import release_left_scratch, release_unneeded, run_diagnostics
from blueflame.orchestrator.attempts.clear import clear_attempt, is_checkout_kept, list_uncleared, wait_before_clearing
from blueflame.orchestrator.attempts.run import cancel_attempt, run_attempt
from blueflame.orchestrator.attempts.spares import prepare_spares
from blueflame.orchestrator.context import Emit, ScratchCheckout, SessionContext
from blueflame.orchestrator.cycle_boundary import await_config, cross_boundary, find_drift
from blueflame.orchestrator.engine.pool import find_pool
from blueflame.orchestrator.inbox import decide_message
from blueflame.orchestrator.monitors.accounts import find_shared_wait
from blueflame.orchestrator.monitors.environment import await_backoff, await_environment, describe_error
from blueflame.orchestrator.monitors.limits import DailySpend, LimitMonitor
from blueflame.orchestrator.monitors.overlaps import OverlapMonitor
from blueflame.orchestrator.monitors.person_locks import read_locks
from blueflame.orchestrator.monitors.questions import await_answer
from blueflame.orchestrator.monitors.rate_limits import await_runtime, remove_shared_wait
from blueflame.orchestrator.session_settings import load_settings
from blueflame.orchestrator.user_hooks import call_hook
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
from blueflame.session.environment import READ_LOCKS, add_recovery, is_held, list_attempts_at_work, report_problem
from blueflame.session.from_settings import find_runtime_kind
from blueflame.session.gates.questions import answer_error
from blueflame.session.replay import apply_event
from blueflame.session.state import Session
from blueflame.system.machine import measure_capacity, measure_free
from blueflame.system.wakeups import WATCH_LATER_SECONDS, watch_wakeups

EffectHandler = Callable[[SessionContext, Session, Any, Emit], Awaitable[Sequence[Event]]]


async def _build_or_land(
    context: SessionContext, session: Session, effect: BuildChangeset | LandChangeset, emit: Emit
) -> Sequence[Event]:
    from blueflame.orchestrator.merge_queue.build_and_land import build_changeset, land_changeset  # late: agents first

    if isinstance(effect, BuildChangeset):
        return await build_changeset(context, session, effect, emit)
    return await land_changeset(context, session, effect, emit)


EFFECT_HANDLERS: Mapping[type, EffectHandler] = {
    AttendAttempt: run_attempt,
    CancelAttempt: cancel_attempt,
    CrossBoundary: cross_boundary,
    DiagnoseTask: run_diagnostics,
    BuildChangeset: _build_or_land,
    LandChangeset: _build_or_land,
    RunHook: call_hook,
    AwaitAnswer: await_answer,
    AwaitConfig: await_config,
    AwaitRuntime: await_runtime,
    AwaitEnvironment: await_environment,
    AwaitBackoff: await_backoff,
}

IMPORT_SECONDS = 1.0
MERGE_QUEUE = "blueflame.orchestrator.merge_queue.build_and_land"
MONITOR_PAUSE_SECONDS = 5.0
MAX_CLEAR_TRIES, CLEAR_PAUSE_SECONDS = 3, 1.2
PACK_EVERY = 100  # attempts; each leaves a ref or two
STOP_MARGIN_SECONDS = 5.0  # for a warden to notice a stop, to kill after the grace and to record it


class GateAnswerer(Protocol):
    """Answers gates. May never return: another terminal may answer first."""

    async def ask(self, gate: Gate, session: Session, objection: str) -> Answer:
        """`objection` is why the last answer was not accepted, or ""."""


class Observer(Protocol):
    """Called with each batch of events after it was recorded: exports, the live view."""

    def see(self, session: Session, recorded: Sequence[JournalEntry]) -> None: ...


class Removal(NamedTuple):
    """Removes what is not needed any more, by the journal. The effect that used it does not start again before."""

    remove: Callable[[], None]
    effect: Effect | None = None
    wait: Callable[[], Awaitable[None]] | None = None  # until others need the disk no longer


class SessionLoop:
    def __init__(
        self,
        context: SessionContext,
        journal: Journal,
        session: Session,
        *,
        answerer: GateAnswerer,
        observers: Sequence[Observer] = (),
        until: Callable[[Session], bool] = lambda _session: False,
    ) -> None:
        self.context = context
        self.session = session
        self._journal = journal
        self._answerer = answerer
        self._observers = tuple(observers)
        self._until = until
        self._running: dict[Effect, asyncio.Task[None]] = {}
        self._asking = asyncio.Lock()
        self._unanswered: dict[str, NoAnswer] = {}  # by gate
        self._outcomes: list[Sequence[Event]] = []
        self._finished: list[Effect] = []
        self._wake = asyncio.Event()
        self._to_clear: list[Removal] = []
        self._unneeded: dict[Effect, list[ScratchCheckout]] = {}  # checkouts of checks that are not recorded yet
        self._clearing: set[asyncio.Task[None]] = set()
        self._uncleared: list[Removal] = []  # what could not be removed; at the end it is tried once more
        self._unpacked = 0  # attempts that left refs
        self._leave_agents = False
        self._ending: dict[bool, asyncio.Task[None]] = {}  # by whether they are killed at once
        self._daily_spend = DailySpend(journal)
        self._pool = find_pool(context.environ, context.paths)
        self._limit_monitor = LimitMonitor(lambda: self.context, session, self.submit)
        self._overlap_monitor = OverlapMonitor(lambda: self.context, session, self.submit)
        self._checkout_bytes = measure_tree(context.repo, context.repo.base_sha)

    async def run(self, started: OrchestratorStarted) -> None:
        """Run until the session has ended or was stopped."""
        self._record([started])
        try:
            async with asyncio.TaskGroup() as group:
                await asyncio.to_thread(sweep_spares, self.context.repo, self.context.paths.worktrees)
                preparing = partial(prepare_spares, self.context, self.session)
                monitors = (self._listen, self._limit_monitor.keep, self._overlap_monitor.keep, preparing)
                tasks = [group.create_task(_keep_watching(each)) for each in monitors]
                self._to_clear += map(self._plan_clearing, list_uncleared(self.context, self.session))
                await self._loop(group)
                await asyncio.gather(*self._clearing)
                for task in (*tasks, *self._running.values()):
                    task.cancel()
        except BaseExceptionGroup as group_error:
            raise find_first_error(group_error) from group_error
        if self.session.stopping and not self._leave_agents:
            await self._end_commands(now=self.session.stop_now)  # those that were started meanwhile
        if self.session.ended:
            self._take_messages()  # refuses late ones
        else:
            self._record([OrchestratorStopped(reason=self._describe_stop())])

    async def _end_commands(self, *, now: bool) -> None:
        """End the checks and hooks that run when a stop comes."""
        engine, session = self.context.engine, self.session
        names = [name for name in await engine.list_live(session.id) if name not in session.attempts]
        for name in names:
            with suppress(WorldError):  # it ends at its own time limit
                await engine.cancel(name, session.stopping, grace=0.0 if now else None)
        with suppress(TimeoutError, WorldError):
            async with asyncio.timeout(self._find_stop_timeout(now=now)):
                for name in names:
                    await engine.wait(name)

    def _find_stop_timeout(self, *, now: bool) -> float:
        """How long a stop waits for what it asked to end: a warden may hang."""
        return STOP_MARGIN_SECONDS if now else self.context.settings.limits.kill_grace + STOP_MARGIN_SECONDS

    def _give_up_waiting(self) -> None:
        """Stop waiting for agents that were asked to end."""
        if all(self.session.attempts[name].cancel_reason for name in self.session.live):
            self._leave_agents = True
            self._wake.set()

    def _describe_stop(self) -> str:
        session = self.session
        if not session.stopping:
            return "the requested part is done"
        left = [session.attempts[name] for name in session.live]
        late = ", ".join(record.attempt.agent_id for record in left if record.cancel_reason)
        return session.stopping + (f"; {late} did not end in time" if late else "")

    def stop(self, reason: str, *, now: bool = False, leave_agents: bool = False) -> None:
        """Stop new work and ask the agents to end, unless `leave_agents`. `now` kills them."""
        self._leave_agents = leave_agents
        events: list[Event] = [StopRequested(reason=reason, now=now)]
        if not leave_agents:
            events += [AttemptCancelled(attempt=name, reason=reason) for name in self.session.live]
        self.submit(events)

    async def _loop(self, group: asyncio.TaskGroup) -> None:
        while True:
            self._wake.clear()
            self._take_outcomes()
            self._take_messages()
            self._decide()
            self._check_unanswered()
            self._stop_commands(group)
            if self._is_over():
                if self.session.ended:
                    left = partial(release_left_scratch, self.context, self.session)
                    self._to_clear += [*self._uncleared, Removal(left)]
                self._clear_unneeded(group)
                return
            self._start_effects(group)
            self._clear_unneeded(group)
            self._stop_asking()
            await self._wake.wait()

    def _is_over(self) -> bool:
        session = self.session
        if session.ended:
            return not session.hooks_due
        if self._until(session) and not session.live:
            return True
        ending = bool(list_attempts_at_work(session)) or not all(task.done() for task in self._ending.values())
        return bool(session.stopping) and (self._leave_agents or not ending)

    def _stop_commands(self, group: asyncio.TaskGroup) -> None:
        """End commands at the same time as the agents, so that a stop does not wait for both in turn."""
        now = self.session.stop_now
        if self.session.stopping and not self._leave_agents and now not in self._ending:
            self._ending[now] = group.create_task(self._end_commands(now=now))
            self._ending[now].add_done_callback(lambda _task: self._wake.set())

    def _take_outcomes(self) -> None:
        """Record outcomes, then drop their effects: in the other order they would be started again."""
        outcomes, self._outcomes = self._outcomes, []
        finished, self._finished = self._finished, []
        for events in outcomes:
            self._record(events)
        for effect in finished:
            unneeded = self._unneeded.pop(effect, None)
            if unneeded:
                self._to_clear.append(Removal(partial(release_unneeded, self.context, unneeded), effect))
            else:
                self._running.pop(effect, None)

    def _take_messages(self) -> None:
        for message in self._journal.list_waiting(self.session.id):
            decision = decide_message(self.session, message, self._find_runtime_kinds())
            settlement = MessageSettlement(message.id, not decision.refused, decision.reply)
            if decision.refused:
                self._journal.settle(*settlement)
            else:
                self._leave_agents = decision.leave_agents or self._leave_agents
                self._record(decision.events, settles=[settlement])

    def _find_runtime_kinds(self) -> Mapping[str, str]:
        names = {attempt.runtime for attempt in self.session.live.values()}
        return {name: find_runtime_kind(self.context.settings, name) for name in names}

    def _record(self, events: Iterable[Event], settles: Sequence[MessageSettlement] = ()) -> None:
        """Append an outcome with all its consequences in one transaction: after a crash, the rest would be lost.

        A planner that has ended is not asked for its plan again, nor a reviewer for its verdict.
        """
        now, before = self.context.clock.now(), self.session.seq
        self._append(before, [each for event in events for each in self._apply_all(event, now)], now, settles)

    def _apply_all(self, cause: Event, now: float) -> Iterator[JournalEntry]:
        for event in tuple(consequences_of(self.session, cause, now)):
            recorded = JournalEntry(self.session.seq + 1, now, event)
            apply_event(self.session, recorded)
            yield recorded

    def _append(
        self, before: int, batch: Sequence[JournalEntry], now: float, settles: Sequence[MessageSettlement] = ()
    ) -> None:
        """Write the batch durably before anything reacts to it."""
        if not batch:
            return
        self._journal.append(self.session.id, before, [each.event for each in batch], now, settles=settles)
        for each in batch:
            self._react_to(each)
        for observer in self._observers:
            observer.see(self.session, batch)

    def _react_to(self, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, StopRequested):
            loop = asyncio.get_running_loop()
            loop.call_later(self._find_stop_timeout(now=recorded.event.now), self._give_up_waiting)
        if isinstance(recorded.event, AttemptEnded):
            attempt = self.session.attempts[recorded.event.attempt].attempt
            if not is_checkout_kept(attempt, recorded.event.ended):
                self._to_clear.append(self._plan_clearing(attempt))
            self._unpacked += 1
            if self._unpacked % PACK_EVERY == 0:
                self._to_clear.append(Removal(partial(pack_refs, self.context.repo)))
        if isinstance(recorded.event, RuntimeResumed) and recorded.event.by:
            remove_shared_wait(find_shared_wait(self.context, recorded.event.runtime))
        if isinstance(recorded.event, ConfigAdopted):
            settings = load_settings(self.context.paths, self.session.id, recorded.event.digest)
            assert settings is not None, "a configuration is saved before its gate is opened"
            self.context = replace(self.context, settings=settings, runtimes=self.context.make_runtimes(settings))

    def _decide(self) -> None:
        """Apply decisions until there are none, and append them in one transaction before any effect starts."""
        now = self.context.clock.now()
        locked = self._find_locked_paths(now)
        before = self.session.seq
        batch: list[JournalEntry] = []
        free = partial(measure_free, self.context.paths.worktrees)
        machine = measure_capacity(self.context.settings, len(self.session.live), free, self._checkout_bytes)
        capacity = self._daily_spend.add_to_capacity(machine, self.session, now)
        self._pool.keep(self.session, now)
        if locked:
            capacity = replace(capacity, locked=locked)
        while events := next_events(self.session, capacity):
            intended = [each.attempt for each in events if isinstance(each, AttemptIntended)]
            if waiting := {each.role: wait for each in intended if (wait := self._pool.ask(each, now)) is not None}:
                capacity = replace(capacity, waiting={**capacity.waiting, **waiting})
                continue
            batch += [each for cause in events for each in self._apply_all(cause, now)]
        self._append(before, batch, now)

    def _find_locked_paths(self, now: float) -> tuple[str, ...]:
        """The paths that people hold; all paths while that cannot be read, so that damage unlocks nothing."""
        try:
            locks = read_locks(self.context.paths.state)
        except WorldError as error:
            if not (self.session.stopping or self.session.ended or is_held(self.session, READ_LOCKS)):
                self._record([report_problem(self.session, READ_LOCKS, str(error), now)])
            return (".",)
        if READ_LOCKS in self.session.problems:
            self._record([EnvironmentRecovered(act=READ_LOCKS)])
        return tuple(path for paths in locks.values() for path in paths)

    def _start_effects(self, group: asyncio.TaskGroup) -> None:
        for effect in effects_due(self.session):
            if effect not in self._running:
                self._running[effect] = group.create_task(self._perform(effect), name=repr(effect))

    def _plan_clearing(self, attempt: Attempt) -> Removal:
        wait = partial(wait_before_clearing, self.context, self.session, attempt)
        return Removal(partial(clear_attempt, self.context, attempt), wait=wait)

    def _clear_unneeded(self, group: asyncio.TaskGroup) -> None:
        """Remove the checkouts of attempts and checks whose end is recorded."""
        removals, self._to_clear = self._to_clear, []
        for removal in removals:
            task = group.create_task(self._clear(removal))
            self._clearing.add(task)
            task.add_done_callback(self._clearing.discard)

    async def _clear(self, removal: Removal) -> None:
        """What cannot be removed, at the end neither, is left to the next orchestrator or `blueflame cleanup`."""
        if removal.wait is not None:
            await removal.wait()
        for _try in range(MAX_CLEAR_TRIES):
            try:
                await asyncio.to_thread(removal.remove)
                break
            except (WorldError, OSError):  # the lock of a killed git must be some seconds old to be removed
                await self.context.clock.sleep(CLEAR_PAUSE_SECONDS)
                with suppress(OSError):
                    await asyncio.to_thread(remove_stale_locks, self.context.repo)
        else:
            self._uncleared.append(removal)
        if removal.effect is not None:
            self._running.pop(removal.effect, None)
            self._wake.set()

    def _stop_asking(self) -> None:
        for effect, task in list(self._running.items()):
            if isinstance(effect, AskGate) and effect.gate not in self.session.open_gates:
                task.cancel()

    def _check_unanswered(self) -> None:
        """Stop at a gate without an answer, unless what was decided meanwhile has withdrawn it."""
        unanswered, self._unanswered = self._unanswered, {}
        for gate, error in unanswered.items():
            if gate in self.session.open_gates:
                raise error

    async def _perform(self, effect: Effect) -> None:
        try:
            self.submit(await (self._ask(effect.gate) if isinstance(effect, AskGate) else self._act(effect)))
        except NoAnswer as error:
            if not isinstance(effect, AskGate):
                raise
            self._unanswered[effect.gate] = error
        finally:
            self._finished.append(effect)
            self._wake.set()

    async def _act(self, effect: Effect) -> Sequence[Event]:
        """Act; what fails outside of us is held and tried again (session/environment), never a task's fault.

        The configuration may be what a person repaired: before another try it is read again.
        """
        act = name_act(self.session, effect)
        context = replace(self.context, unneeded=self._unneeded.setdefault(effect, []))
        try:
            is_known = bool(self.session.stopping) or self.session.is_asking(GateKind.DRIFT)
            is_retry = act in self.session.retrying and not is_known
            if is_retry and (drift := await find_drift(self.context, self.session)) is not None:
                return [drift]
            events = await EFFECT_HANDLERS[type(effect)](context, self.session, effect, self.submit)
        except (WorldError, Refused, OSError) as error:
            return [report_problem(self.session, act, describe_error(error), self.context.clock.now())]
        return add_recovery(self.session, act, events)

    def submit(self, events: Sequence[Event]) -> None:
        if events:
            self._outcomes.append(events)
        self._wake.set()

    async def _ask(self, name: str) -> Sequence[Event]:
        """Ask one gate at a time: a person has one terminal."""
        async with self._asking:
            wrong = ""
            while (gate := self.session.open_gates.get(name)) is not None:
                answer = await self._answerer.ask(gate, self.session, wrong)
                wrong = answer_error(self.session, name, answer)
                if not wrong:
                    return [GateAnswered(gate=name, answer=answer)]
                if answer.is_written_in_advance:
                    raise NoAnswer(f"the decisions file does not answer gate {gate.id}: {wrong}")
        return []

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        # while the first agents work, and not only when it is needed: Blue Flame may have been upgraded by then
        loop.call_later(IMPORT_SECONDS, import_module, MERGE_QUEUE)
        await asyncio.sleep(WATCH_LATER_SECONDS)
        # a message sent before the watch was set up gave no wakeup: check once afterwards
        loop.call_later(WATCH_LATER_SECONDS, self._wake.set)
        async for _names in watch_wakeups(self.context.paths.signals):
            self._wake.set()


async def _keep_watching(watch: Callable[[], Awaitable[None]]) -> None:
    """Run a monitor; start it again when it cannot read what it watches. None of them may end the session."""
    while True:
        try:
            return await watch()
        except (WorldError, OSError):
            await asyncio.sleep(MONITOR_PAUSE_SECONDS)
