"""The loop of the house: take arrivals, follow sessions, start what is next; record before acting.

Every act is repeated safely: a session belongs to one request by the request's id, an answer to one message by its key.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from blueflame.dispatch.admission import admit_request
from blueflame.dispatch.queue import choose_starts
from blueflame.dispatch.state import BEGUN, RequestRecord, fold_request
from blueflame.house.answers import Answers
from blueflame.house.core import HouseCore, RequestIds, is_kept_id
from blueflame.house.processes import remove_request_files, start_session, write_request_files
from blueflame.house.repository import FAILURES, WatchedRepository, list_open_gates
from blueflame.journal.house import Settlement, WaitingArrival
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import ConfigError
from blueflame.model.event import GateOpened
from blueflame.model.exit_codes import ExitCode
from blueflame.model.house.arrival import IncomingRequest
from blueflame.model.house.event import (
    HOUSE,
    HouseEvent,
    Refusal,
    RepositoryFreed,
    RepositoryHeld,
    RequestCancelled,
    RequestEnded,
    RequestRefused,
    RequestState,
    SessionFound,
    SessionStopped,
    StartFailed,
    StartIntended,
)
from blueflame.model.ids import build_request_id
from blueflame.text.format import format_count

POLL_SECONDS = 0.5  # how soon a change in a repository is seen; an answer takes effect within a second
HOUR = 3600.0
FIRST_HOLD_SECONDS, MAX_HOLD_SECONDS = 5.0, 300.0
MAX_STARTS = 5  # processes in a row that end without ending the session
MAX_DURATIONS = 200
HINDERED = (ExitCode.USAGE, ExitCode.REFUSED, ExitCode.WORLD)  # something has to be fixed before it can go on


@dataclass(slots=True)
class Hold:
    """Why no session can be started in a repository, and when that is tried again."""

    reason: str
    until: float  # by the monotonic clock
    seconds: float


class HouseLoop:
    def __init__(self, build_core: Callable[[Callable[[], None]], HouseCore]) -> None:
        self._wake = asyncio.Event()
        self.core = build_core(self.wake)
        self.answers = Answers(self.core)
        self.holds: dict[str, Hold] = {}
        self.last_starts: dict[str, float] = {}
        self.durations: dict[str, deque[float]] = {name: deque(maxlen=20) for name in self.core.repositories}
        for name, seconds in self.core.journal.list_durations(MAX_DURATIONS):
            if name in self.durations:
                self.durations[name].append(seconds)
        self._taken = 0  # the newest arrival that was looked at
        self.stepped_at = self.core.clock.monotonic()

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        """Step when woken, and at least as often as repositories are looked at."""
        while True:
            self._wake.clear()
            await self.step()
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._wake.wait()

    async def step(self) -> None:
        self.core.journal.check_file()  # also while there is nothing to write: others may not open it meanwhile
        for repository in self.core.repositories.values():
            repository.look()
        self._take_arrivals()
        self._settle_removed()
        for repository in self.core.repositories.values():
            await self._follow(repository)
        self.answers.settle_sent()
        await self._start_next()
        self._publish_gates()
        self.stepped_at = self.core.clock.monotonic()

    # --- arrivals -------------------------------------------------------------------------------------------------

    def _take_arrivals(self) -> None:
        for waiting in self.core.journal.list_waiting(after=self._taken):
            self._taken = waiting.id
            if isinstance(waiting.arrival, IncomingRequest):
                self._admit(waiting, waiting.arrival)
            else:
                self.answers.take(waiting)

    def _admit(self, waiting: WaitingArrival, request: IncomingRequest) -> None:
        now = self.core.clock.now()
        name = request.key if is_kept_id(request.source, request.key) else ""
        if not name or self.core.journal.has_stream(name):
            name = build_request_id(now, RequestIds(self.core.journal))
        recent = self.core.journal.count_requests_since(now - HOUR, request.sender.address)
        events = admit_request(self.core.state, name, request, self.core.settings, recent=recent)
        reply, accepted = _describe_admission(events[-1]), not isinstance(events[-1], RequestRefused)
        self.core.record(name, *events, settles=[Settlement(waiting.id, name, reply, accepted)])

    def _settle_removed(self) -> None:
        """Requests of a repository that is no longer in house.yaml: what has no session is refused."""
        for record in tuple(self.core.state.requests.values()):
            if record.repository in self.core.repositories:
                continue
            why = f"{record.repository} was removed from house.yaml"
            if record.cancelled_by:
                self.core.record(record.id, RequestCancelled(by=record.cancelled_by))
            elif record.state in (RequestState.ASKED, RequestState.QUEUED, RequestState.STARTING):
                begun = "unless it has a session there, " if record.state is RequestState.STARTING else ""
                reason = f"{why}: {begun}add it there and send the request again"
                self.core.record(record.id, RequestRefused(why=Refusal.UNKNOWN_REPOSITORY, reason=reason))
            elif record.state is RequestState.RUNNING:
                reason = f"{why}: its session goes on there without the house, else 'blueflame resume' continues it"
                self.core.record(record.id, SessionStopped(reason=reason))

    # --- sessions -------------------------------------------------------------------------------------------------

    async def _follow(self, repository: WatchedRepository) -> None:
        for record in self.core.state.list_of(repository.name):
            if record.state in BEGUN or repository.may_have_session_of(record.id):
                await self._follow_request(repository, record)

    async def _follow_request(self, repository: WatchedRepository, record: RequestRecord) -> None:
        if repository.problem:  # it is shown; what runs there goes on
            if record.cancelled_by and repository.is_gone:
                self.core.record(record.id, RequestCancelled(by=record.cancelled_by))
            return
        if not record.session:
            await self._find_session(repository, record)
            return
        watch = repository.watch(record.session)
        if repository.problem:
            return
        if watch.ended:
            seconds = watch.last_at - watch.opened_at
            usd = watch.micro_usd / 1e6
            self.core.record(
                record.id, RequestEnded(outcome=watch.ended, reason=watch.reason, usd=usd, seconds=seconds)
            )
            self.durations[repository.name].append(seconds)
        elif repository.is_busy:
            if repository.pid is not None:
                self._free(repository.name)
            if record.state is RequestState.STOPPED and repository.unfinished == record.session:
                self.core.record(record.id, SessionFound(session=record.session))  # a person has resumed it
            if record.cancelled_by and repository.pid is not None:
                # once for each process: one that a person has resumed is stopped again
                key = f"cancel:{record.id}:{repository.pid}"
                with repository.note_problem():
                    self.answers.send_stop(repository, record.session, record.cancelled_by, key=key)
        elif record.cancelled_by:
            self.core.record(record.id, RequestCancelled(by=record.cancelled_by))
        elif lost := repository.describe_loss(record.session, record.id):
            self._hold(repository.name, lost, seconds=0.0)
        elif record.state is RequestState.RUNNING:
            await self._resume(repository, record)

    async def _find_session(self, repository: WatchedRepository, record: RequestRecord) -> None:
        command = repository.find_start_of(record.id)
        ended = command is not None and not command.process.is_running  # before the journal
        session = ""
        with repository.note_problem():
            session = repository.find_session_of(record.id)
        if repository.problem:
            return  # it may have a session
        if session:
            self.core.record(record.id, SessionFound(session=session))
            remove_request_files(self.core.paths, record.id)
            self._free(repository.name)
        elif ended:
            self._report_failed_start(repository, record)
        elif repository.command is None and record.state is RequestState.STARTING:
            if record.cancelled_by:
                self.core.record(record.id, RequestCancelled(by=record.cancelled_by))
            else:  # this house was started after it: a second start of the same request does no harm
                await self._start(repository, record)

    def _report_failed_start(self, repository: WatchedRepository, record: RequestRecord) -> None:
        command, repository.command = repository.command, None
        assert command is not None, "only a start that ended is reported"
        code, reason = command.process.code, command.describe_failure()
        if record.cancelled_by:
            self.core.record(record.id, RequestCancelled(by=record.cancelled_by))
        elif code == ExitCode.USAGE and _may_be_unusable(record.request) and repository.is_configured():
            self.core.record(record.id, RequestRefused(why=Refusal.CANNOT_START, reason=reason))
        else:
            if record.state is RequestState.STARTING:
                self.core.record(record.id, StartFailed(reason=reason))
            self._hold(repository.name, reason)

    async def _resume(self, repository: WatchedRepository, record: RequestRecord) -> None:
        """Its process is gone and its session has not ended: continue it, unless a person stopped it."""
        watch = repository.watch(record.session)
        command, repository.command = repository.command, None
        if watch.is_stopped_by_person and watch.seq > record.resumed_after:
            self.core.record(record.id, SessionStopped(reason=watch.reason))
        elif command is not None and command.process.code in HINDERED:
            self._hold(repository.name, command.describe_failure())
        elif record.starts >= MAX_STARTS:
            why = f"its process ended {format_count(record.starts, 'time')} without ending the session"
            self.core.record(
                record.id, SessionStopped(reason=f"{why}; look at 'blueflame log', then 'blueflame resume'")
            )
        elif not self._is_held(repository.name):
            # after a crash of the house it is not known whether the last process was started: it does not count
            await self._start(repository, record, again=command is None and bool(record.starts))

    # --- starting -------------------------------------------------------------------------------------------------

    async def _start_next(self) -> None:
        now = self.core.clock.now()
        closed = {name for name, each in self.core.repositories.items() if self._is_closed(each)}
        chosen = choose_starts(
            self.core.state,
            {name: each.priority for name, each in self.core.settings.repositories.items()},
            closed=closed,
            last_starts=self.last_starts,
            slots=self.core.settings.limits.sessions,
            now=now,
        )
        for record in chosen:
            await self._start(self.core.repositories[record.repository], record)

    def _is_closed(self, repository: WatchedRepository) -> bool:
        """Whether no session can start there: it is busy, or something has to be fixed first."""
        if repository.problem:
            self._hold(repository.name, repository.problem, seconds=0.0)
            return True
        if repository.is_busy or self._is_held(repository.name):
            return True
        if any(each.state in BEGUN for each in self.core.state.list_of(repository.name)):
            return True
        if repository.unfinished and not self._is_abandoned(repository):
            self._hold(
                repository.name,
                f"{repository.unfinished} is unfinished there and this house has no request for it: continue it with "
                f"'blueflame resume', or abandon it with 'blueflame run --fresh'",
                seconds=0.0,
            )
            return True
        if repository.name in self.holds and not self.holds[repository.name].seconds:
            self._free(repository.name)  # what stood against it is gone
        return False

    def _is_abandoned(self, repository: WatchedRepository) -> bool:
        """Whether the unfinished session is that of a request that was cancelled; the next one replaces it.

        Not if this house has no record of the request: its journal was lost, or another house started the session.
        """
        owner = fold_request(self.core.journal.read_stream(repository.watch(repository.unfinished).request_id))
        return owner is not None and owner.state is RequestState.CANCELLED

    async def _start(self, repository: WatchedRepository, record: RequestRecord, *, again: bool = False) -> None:
        """Start the process that opens or continues its session; what stands against it holds the repository.

        `again`: it was intended before.
        """
        now = self.core.clock.now()
        if not again and record.state is not RequestState.STARTING and repository.name not in self.holds:
            self.core.record(record.id, StartIntended(resumes=record.session))
        fresh = not record.session and bool(repository.unfinished)
        files = None if record.session else write_request_files(self.core.paths, record.id, record.request)
        try:
            project = repository.open_project()
            repository.command = await asyncio.to_thread(
                start_session, project, record, files, environ=self.core.environ, fresh=fresh
            )
        except FAILURES as error:
            reason = "; ".join(error.problems) if isinstance(error, ConfigError) else str(error)
            if self.core.state.requests[record.id].state is RequestState.STARTING:
                self.core.record(record.id, StartFailed(reason=reason))
            self._hold(repository.name, reason)
            return
        repository.started, self.last_starts[repository.name] = record.id, now

    # --- holds ----------------------------------------------------------------------------------------------------

    def _is_held(self, name: str) -> bool:
        return name in self.holds and self.holds[name].until > self.core.clock.monotonic()

    def _hold(self, name: str, reason: str, seconds: float = FIRST_HOLD_SECONDS) -> None:
        """Note why the repository cannot be used; a new reason is recorded, the same one is only tried later."""
        before = self.holds.get(name)
        if before is None or before.reason != reason:
            self.core.record(HOUSE, RepositoryHeld(repository=name, reason=reason))
        elif seconds:
            seconds = min(max(before.seconds, seconds) * 2, MAX_HOLD_SECONDS)
        self.holds[name] = Hold(reason, self.core.clock.monotonic() + seconds, seconds)

    def _free(self, name: str) -> None:
        if self.holds.pop(name, None) is not None:
            self.core.record(HOUSE, RepositoryFreed(repository=name))

    # --- gates ----------------------------------------------------------------------------------------------------

    def _publish_gates(self) -> None:
        gates = tuple(list_open_gates(self.core.state, self.core.repositories.values()))
        if gates != self.core.desk.gates:
            self.core.desk.gates = gates
            self.core.desk.announce()


def _may_be_unusable(request: IncomingRequest) -> bool:
    """Whether a session cannot start because of the request itself: any text can be used."""
    return bool(request.plan or request.workflow or request.tier is not None)


def _describe_admission(last: HouseEvent) -> str:
    if isinstance(last, RequestRefused):
        return f"refused: {last.reason}"
    return "an owner is asked" if isinstance(last, GateOpened) else "queued"
