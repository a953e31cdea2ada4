"""What `blueflame wait` looks at: a session of a repository, or a request of the house."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from blueflame.dispatch.state import replay_house
from blueflame.house.client import HouseClient, find_record, list_kept, open_house
from blueflame.house.repository import WatchedRepository
from blueflame.journal.house import HouseJournal
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import BlueFlameError, Refused, UsageError
from blueflame.model.exit_codes import ExitCode
from blueflame.model.house.event import RequestState
from blueflame.orchestrator.project import Project
from blueflame.orchestrator.sessions import find_running_pid, find_session, load_session, open_journal


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    state: str
    session: str = ""
    gates: tuple[str, ...] = ()
    code: ExitCode | None = None  # at the end
    note: str = ""  # why it may take long


def watch_session(project: Project, name: str | None) -> Callable[[], Waited]:
    with open_journal(project) as journal:
        session = find_session(journal, name)
    watched = WatchedRepository("", project.config)

    def look() -> Waited:
        running = find_running_pid(project) is not None  # before the journal: what it wrote at its end is read
        watch = watched.watch(session)
        watched.look()
        if watch.ended:
            return Waited(state=watch.ended, session=session, code=_find_code(project, session))
        note = ""
        if not running and not watch.gates:
            if not watch.request_id or watch.is_stopped_by_person:
                raise Refused(f"no process runs {session}: continue it with 'blueflame resume'")
            note = f"no process runs {session}: its house continues it, if it is served"
        return Waited(state="running", session=session, gates=tuple(watch.gates), note=note)

    return look


def _find_code(project: Project, session: str) -> ExitCode:
    with open_journal(project) as journal:
        return load_session(journal, session).exit_code


def find_own_request(project: Project, house: Path | None) -> str | None:
    """The newest open request that the person at this terminal made for the repository, if it is served."""
    with suppress(BlueFlameError):
        client = open_house(house)
        name, me = client.find_repository(project.config), client.sender.address
        with HouseJournal.open_read_only(client.paths.journal) as journal:
            found = [*replay_house(journal.read_open_streams()).requests.values(), *list_kept(journal)]
        ours = [each.id for each in found if (each.repository, each.request.sender.address) == (name, me)]
        return ours[-1] if ours else None
    return None


def watch_request(client: HouseClient, request: str) -> Callable[[], Waited]:
    def look() -> Waited:
        with HouseJournal.open_read_only(client.paths.journal) as journal:
            record = find_record(journal, request)
        if record is None:
            raise UsageError(f"no request is called {request!r}: see 'blueflame requests'")
        if record.state is RequestState.STOPPED:
            raise Refused(f"{request} is stopped: {record.problem}. Continue it with 'blueflame resume'")
        if record.state in (RequestState.REFUSED, RequestState.CANCELLED):
            return Waited(state=record.state.value, code=ExitCode.REFUSED)
        gates = (record.gate.id,) if record.gate is not None else ()
        settings = client.loaded.settings.repositories.get(record.repository)
        if not record.session or settings is None:
            note = "" if client.find_pid() else "the house is not running: start it with 'blueflame serve'"
            return Waited(state=record.state.value, gates=gates, note=note)
        project = Project(client.loaded.find_config(settings))
        if record.state is RequestState.ENDED:
            return Waited(state=record.outcome, session=record.session, code=_find_code(project, record.session))
        watch = WatchedRepository(record.repository, project.config).watch(record.session)
        return Waited(state="running", session=record.session, gates=tuple(watch.gates))

    return look
