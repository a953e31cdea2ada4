"""A served house with real repositories and real processes of sessions."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from blueflame.config.house import load_house
from blueflame.house.background import BackgroundCommand
from blueflame.house.core import HouseCore
from blueflame.house.desk import HouseDesk
from blueflame.house.loop import HouseLoop
from blueflame.house.serve import ServeOptions, hold_house, serve_house
from blueflame.journal.house import HouseJournal
from blueflame.journal.journal import Journal
from blueflame.model.errors import JournalError
from blueflame.model.event import OrchestratorStopped
from blueflame.model.house.arrival import IncomingCommand, IncomingRequest, Sender, Trust
from blueflame.model.house.event import (
    HOUSE,
    AnswerSettled,
    CommandSettled,
    HouseEvent,
    HouseStarted,
    HouseStopped,
    RepositoryHeld,
    RequestCancelled,
    RequestEnded,
    RequestQueued,
    RequestReceived,
    RequestRefused,
    RequestState,
    SessionFound,
    StartFailed,
    StartIntended,
)
from blueflame.system.flock import read_lock_holder
from blueflame.system.layout import StatePaths
from blueflame.system.process import start_background
from blueflame.testing.clock import FakeClock
from support.command_line import here
from support.disks import fill, mounted
from support.houses import OPENED, OWNER, HouseStage, make_house, make_served_repository
from support.repositories import run_git

ASKED = IncomingRequest(source="test", key="1", sender=OWNER, at=0.0, text="Add a note", repository="shop")
QUEUED = (RequestReceived(request=ASKED, repository="shop"), RequestQueued())
RUNNING = (*QUEUED, StartIntended(), SessionFound(session="ses-1"))
ENDED, CANCELLED = (*RUNNING, RequestEnded(outcome="completed")), (*RUNNING, RequestCancelled(by="alice"))
BOB = Sender(name="bob", trust=Trust.MEMBER, address="telegram:7")


def is_in(stage: HouseStage, arrival: object, *states: RequestState) -> bool:
    record = stage.find_request(arrival)  # type: ignore[arg-type] # an arrival of the test
    return record is not None and record.state in states


def test_a_request_of_a_member_is_asked_about_runs_and_lands_while_another_repository_is_broken(
    tmp_path: Path,
) -> None:
    with make_house(tmp_path, "shop") as stage:
        stage.write(missing=["gone"])
        (tmp_path / "shop" / "notes.txt").write_text("of the person; git does not track it, and agents do not see it")
        asked = stage.ask("Add a note", sender=BOB)
        broken = stage.ask("Add a note", repository="gone")
        with stage.serve() as house:
            (gate,) = stage.until(stage.list_gates, "the gate of the house")
            assert (gate.gate.kind.value, gate.request, stage.list_sessions("shop")) == ("request", gate.request, [])
            stage.hand_in(stage.build_answer(gate, sender=BOB))  # a member may not approve
            refused = stage.until(
                lambda: stage.list_events(AnswerSettled),
                "the refusal",
            )
            assert (refused[0].accepted, "alice" in refused[0].reply) == (False, True)
            stage.hand_in(stage.build_answer(gate))
            stage.until(lambda: [each for each in stage.list_gates() if each.session], "the gate of the session")
            os.kill(house.pid, signal.SIGKILL)
            house.wait()
        stage.approve_all()
        with stage.serve():
            stage.until(lambda: is_in(stage, asked, RequestState.ENDED), "the end of the session")
            stage.until(lambda: is_in(stage, broken, RequestState.QUEUED), "the other request")
            held = {each.repository for each in stage.list_events(RepositoryHeld)}
            assert held == {"gone"}
        record = stage.find_request(asked)
        assert record is not None
        (session,) = stage.list_sessions("shop")
        assert (record.outcome, session.request_id, record.session) == ("completed", record.id, session.session)
        assert len(run_git(tmp_path / "shop", "log", "--oneline").splitlines()) > 2
        assert list(stage.paths.requests.iterdir()) == []
        settled = stage.list_events(AnswerSettled)
        assert [each.accepted for each in settled] == [False, True, True]
        assert isinstance(stage.read_events()[-1].event, HouseStopped)


def test_a_held_request_starts_when_that_is_fixed_is_cancelled_and_the_next_one_replaces_its_session(
    tmp_path: Path,
) -> None:
    with make_house(tmp_path, "shop") as stage:
        (tmp_path / "shop" / "src" / "app.py").write_text("changed by hand\n")
        first, second = stage.ask("Add one"), stage.ask("Add two")
        with stage.serve():
            held = stage.until(lambda: stage.list_events(RepositoryHeld), "the hold")
            assert "src/app.py" in held[0].reason
            run_git(tmp_path / "shop", "checkout", "-q", "--", ".")
            (gate,) = stage.until(stage.list_gates, "the gate")
            assert len(stage.list_events(StartIntended)) == 1
            cancel = IncomingCommand(source="test", key="c", sender=OWNER, at=1.0, verb="cancel", subject=gate.request)
            stage.hand_in(cancel)
            stage.until(lambda: is_in(stage, first, RequestState.CANCELLED), "the cancellation")
            stage.until(lambda: is_in(stage, second, RequestState.RUNNING), "the second session")
            (other,) = stage.until(
                lambda: [each for each in stage.list_gates() if each.session != gate.session], "its gate"
            )
            stage.hand_in(stage.build_answer(other), stage.build_answer(gate))
            stage.until(lambda: is_in(stage, second, RequestState.ENDED), "the end")
            late = stage.until(
                lambda: [each for each in stage.list_events(AnswerSettled) if not each.accepted],
                "the late answer",
            )
            assert late[0].gate == gate.gate.id
        (settled,) = stage.list_events(CommandSettled)
        assert settled.accepted
        assert len(stage.list_sessions("shop")) == 2


def test_the_service_manager_hears_ready_alive_and_stopping(tmp_path: Path) -> None:
    with make_house(tmp_path) as stage:
        address = str(tmp_path / "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(address)
            manager.settimeout(60)
            env = dict(os.environ) | {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "400000"}
            argv = [sys.executable, "-m", "blueflame", "serve", "--house", str(stage.paths.root)]
            with subprocess.Popen(argv, env=env, stderr=subprocess.DEVNULL) as house:
                heard = [manager.recv(4096).decode() for _ in range(4)]
                assert "READY=1" in heard
                assert any(text.startswith("WATCHDOG=1\nSTATUS=0 sessions, 0 open gates") for text in heard)
                house.terminate()
                while "STOPPING=1" not in heard:
                    heard.append(manager.recv(4096).decode())
            assert house.returncode == 0


@pytest.mark.parametrize("turns", range(6))
def test_a_house_that_is_stopped_just_as_it_is_woken_ends(tmp_path: Path, turns: int) -> None:
    stage = HouseStage(tmp_path, ())
    stage.write()

    async def wake_and_stop(journal: HouseJournal) -> None:
        loaded = load_house(stage.paths.config)
        loop = HouseLoop(lambda wake: HouseCore(loaded, stage.paths, journal, environ={}, login="alice", wake=wake))
        task = asyncio.create_task(loop.run())
        await _take_turns(5)
        loop.wake()
        await _take_turns(turns)
        task.cancel()
        await _take_turns(5)
        assert task.cancelled()

    with HouseJournal.open(stage.paths.journal) as journal:
        asyncio.run(wake_and_stop(journal))


@pytest.mark.parametrize("fault", ["full disk", "deleted folder"])
def test_the_house_stands_still_and_continues_after_a(tmp_path: Path, fault: str) -> None:
    said: list[str] = []
    holders: list[str | None] = []  # of the lock, when it has continued

    def fix(text: str) -> None:
        said.append(text)
        (stage.paths.root / "filler").unlink(missing_ok=True)

    class Vandal:
        name = "vandal"

        async def run(self, desk: HouseDesk) -> None:
            if len(said) > 1:
                holders.append(read_lock_holder(stage.paths.lock))
                os.kill(os.getpid(), signal.SIGTERM)
            elif fault == "full disk":
                fill(stage.paths.root / "filler")
            else:
                for each in stage.paths.root.iterdir():
                    shutil.rmtree(each) if each.is_dir() else each.unlink()

    with mounted(tmp_path / "the house", 1):
        stage = HouseStage(tmp_path, ())
        stage.write()
        loaded = load_house(stage.paths.config)
        options = ServeOptions(loaded=loaded, paths=stage.paths, environ={}, login="alice", report=fix)
        with hold_house(stage.paths):
            asyncio.run(serve_house(options, lambda _core: [Vandal()]))
        kinds = [type(each.event) for each in stage.read_events()]
    assert [text.partition(":")[0].partition(";")[0] for text in said] == [
        "serving no repository",
        "the house stands still",
        "serving no repository",
    ]
    assert kinds[0] == kinds[1] == HouseStarted
    assert all(holders), "a second house is refused"
    assert kinds[-1] == HouseStopped


def test_a_damaged_journal_is_refused_before_it_is_written(tmp_path: Path) -> None:
    class Stopper:
        name = "stopper"

        async def run(self, desk: HouseDesk) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

    stage = HouseStage(tmp_path, ())
    stage.write()
    with HouseJournal.open(stage.paths.journal) as journal:
        journal.append([("req-1", event) for event in CANCELLED], 1.0)
    content = stage.paths.journal.read_bytes()
    stage.paths.journal.write_bytes(content[:-4096] + bytes(4096))
    options = ServeOptions(loaded=load_house(stage.paths.config), paths=stage.paths, environ={}, login="alice")
    with pytest.raises(JournalError, match="it is damaged"):
        asyncio.run(serve_house(options, lambda _core: [Stopper()]))


def test_a_repository_that_is_held_is_tried_again_in_time_although_the_clock_is_set_back(tmp_path: Path) -> None:
    stage, clock = HouseStage(tmp_path, ("shop",)), FakeClock()
    stage.write()
    with HouseJournal.open(stage.paths.journal) as journal:
        loaded = load_house(stage.paths.config)
        loop = HouseLoop(lambda wake: HouseCore(loaded, stage.paths, journal, environ={}, login="alice", wake=wake))
        loop.core.clock = clock  # type: ignore[assignment] # one that a test sets
        loop._hold("shop", "no disk space")
        clock.set_back(3_600)
        assert loop._is_held("shop")
        clock.advance(6)
        assert not loop._is_held("shop")


@pytest.mark.parametrize(
    ("text", "own", "last"),
    [
        ("{", {"workflow": "waves"}, StartFailed),
        ("", {"workflow": "waves"}, RequestRefused),
        ("", {"plan": "tasks: []"}, RequestRefused),
        ("", {}, StartFailed),  # a text can always be used: it is the script of the scripted agents, or a workflow
    ],
)
def test_a_request_is_not_refused_for_a_configuration_that_broke_while_it_started(
    tmp_path: Path, text: str, own: dict[str, str], last: type[HouseEvent]
) -> None:
    config = make_served_repository(tmp_path / "shop") / "blueflame.yaml"
    config.write_text(text or config.read_text())
    stage = HouseStage(tmp_path, ("shop",))
    stage.write()
    process = start_background([sys.executable, "-c", "raise SystemExit(2)"], log=tmp_path / "log", env={})
    stage.until(lambda: not process.is_running, "the end of the process")
    request = replace(ASKED, **own)  # type: ignore[arg-type] # fields of the request
    with HouseJournal.open(stage.paths.journal) as journal:
        begun = (RequestReceived(request=request, repository="shop"), RequestQueued(), StartIntended())
        journal.append([("req-1", event) for event in begun], 0.0)
        loaded = load_house(stage.paths.config)
        loop = HouseLoop(lambda wake: HouseCore(loaded, stage.paths, journal, environ={}, login="alice", wake=wake))
        repository = loop.core.repositories["shop"]
        repository.command, repository.started = BackgroundCommand(process, tmp_path / "log", 0), "req-1"
        asyncio.run(loop.step())
        assert isinstance(journal.read_stream("req-1")[-1].event, last)


def test_a_house_that_is_killed_while_it_resumes_a_session_does_not_give_it_up(tmp_path: Path) -> None:
    config = make_served_repository(tmp_path / "shop") / "blueflame.yaml"
    with Journal.open(StatePaths(tmp_path / "shop").journal) as sessions:
        sessions.append("ses-1", 0, [OPENED], 1.0)
    config.write_text("{")  # no process is started
    stage = HouseStage(tmp_path, ("shop",))
    stage.write()
    request = IncomingRequest(source="test", key="1", sender=OWNER, at=0.0, text="Add a note", repository="shop")
    begun = (RequestReceived(request=request, repository="shop"), RequestQueued(), StartIntended())
    with HouseJournal.open(stage.paths.journal) as journal:
        journal.append([("req-1", event) for event in (*begun, SessionFound(session="ses-1"))], 0.0)
        loaded = load_house(stage.paths.config)
        for _ in range(7):  # lives of the house
            loop = HouseLoop(lambda wake: HouseCore(loaded, stage.paths, journal, environ={}, login="alice", wake=wake))
            asyncio.run(loop.step())
        assert loop.core.state.requests["req-1"].state is RequestState.RUNNING


def test_a_request_cancelled_while_its_start_is_tried_again_is_stopped_and_not_forgotten(tmp_path: Path) -> None:
    """Starts that are tried again are not recorded: it is still queued while its session begins."""
    make_served_repository(tmp_path / "shop")
    stage = HouseStage(tmp_path, ("shop",))
    stage.write()
    process = start_background([sys.executable, "-c", "import time; time.sleep(600)"], log=tmp_path / "log", env={})
    with HouseJournal.open(stage.paths.journal) as journal:
        journal.append([("req-1", event) for event in QUEUED], 0.0)
        loaded = load_house(stage.paths.config)
        loop = HouseLoop(lambda wake: HouseCore(loaded, stage.paths, journal, environ={}, login="alice", wake=wake))
        repository = loop.core.repositories["shop"]
        repository.command, repository.started = BackgroundCommand(process, tmp_path / "log", 0), "req-1"
        cancel = IncomingCommand(source="test", key="c", sender=OWNER, at=1.0, verb="cancel", subject="req-1")
        journal.receive("test", [cancel])
        asyncio.run(loop.step())
        record = loop.core.state.requests["req-1"]
        assert (record.state, bool(record.cancelled_by)) == (RequestState.STARTING, True)
        os.kill(process.pid, signal.SIGKILL)
        stage.until(lambda: not process.is_running, "the end of the process")
        asyncio.run(loop.step())
        assert isinstance(journal.read_stream("req-1")[-1].event, RequestCancelled)


def test_a_house_finds_the_session_whose_start_was_tried_again_by_one_that_was_killed(tmp_path: Path) -> None:
    config = make_served_repository(tmp_path / "shop") / "blueflame.yaml"
    with Journal.open(StatePaths(tmp_path / "shop").journal) as sessions:
        sessions.append("ses-1", 0, [OPENED], 1.0)
    config.write_text("{")  # no process is started
    stage = HouseStage(tmp_path, ("shop",))
    stage.write()
    with HouseJournal.open(stage.paths.journal) as journal:
        journal.append([("req-1", event) for event in QUEUED], 0.0)
        loaded = load_house(stage.paths.config)
        loop = HouseLoop(lambda wake: HouseCore(loaded, stage.paths, journal, environ={}, login="alice", wake=wake))
        asyncio.run(loop.step())
        asyncio.run(loop.step())
        assert loop.core.state.requests["req-1"].state is RequestState.RUNNING


@pytest.mark.parametrize("known", [(), ENDED, CANCELLED])
def test_only_the_session_of_a_request_that_was_cancelled_is_replaced(
    tmp_path: Path, known: tuple[HouseEvent, ...]
) -> None:
    """Not one of which this house has no record: its journal was lost, or another house started it."""
    config = make_served_repository(tmp_path / "shop") / "blueflame.yaml"
    with Journal.open(StatePaths(tmp_path / "shop").journal) as sessions:
        sessions.append("ses-1", 0, [OPENED], 1.0)
    config.write_text("{")  # no process is started
    stage = HouseStage(tmp_path, ("shop",))
    stage.write()
    with HouseJournal.open(stage.paths.journal) as journal:
        journal.append([("req-1", event) for event in known], 0.0)
        journal.append([("req-2", event) for event in QUEUED], 1.0)
        loaded = load_house(stage.paths.config)
        loop = HouseLoop(lambda wake: HouseCore(loaded, stage.paths, journal, environ={}, login="alice", wake=wake))
        asyncio.run(loop.step())
        assert ("ses-1 is unfinished there" in loop.holds["shop"].reason) == (known != CANCELLED)


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        ("stopped by the house", RequestState.RUNNING),  # that was served with --stop-sessions
        ("stopped by SIGTERM", RequestState.RUNNING),
        ("stopped by anna", RequestState.STOPPED),
    ],
)
def test_a_house_continues_what_no_person_has_stopped(tmp_path: Path, reason: str, state: RequestState) -> None:
    config = make_served_repository(tmp_path / "shop") / "blueflame.yaml"
    with Journal.open(StatePaths(tmp_path / "shop").journal) as sessions:
        sessions.append("ses-1", 0, [OPENED, OrchestratorStopped(reason=reason)], 1.0)
    config.write_text("{")  # no process is started
    stage = HouseStage(tmp_path, ("shop",))
    stage.write()
    with HouseJournal.open(stage.paths.journal) as journal:
        journal.append([("req-1", event) for event in RUNNING], 0.0)
        loaded = load_house(stage.paths.config)
        loop = HouseLoop(lambda wake: HouseCore(loaded, stage.paths, journal, environ={}, login="alice", wake=wake))
        asyncio.run(loop.step())
        assert loop.core.state.requests["req-1"].state is state


async def _take_turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


def test_a_second_house_is_refused_with_the_pid_of_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with make_house(tmp_path) as stage, stage.serve() as house:
        stage.until(lambda: read_lock_holder(stage.paths.lock), "the lock")
        second = here(capsys, "serve", "--house", stage.paths.root)
        assert (second.code, str(house.pid) in second.err) == (3, True)


def test_the_verbs_show_what_the_house_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a house a request is kept; --json is one object."""
    with make_house(tmp_path, "shop") as stage:
        monkeypatch.setenv("BLUEFLAME_HOUSE", str(stage.paths.root))
        monkeypatch.chdir(tmp_path / "shop")
        assert here(capsys, "run", "--detach", "--json", "Add a note").json["state"] == "waiting"
        with HouseJournal.open_read_only(stage.paths.journal) as journal:
            assert len(journal.list_waiting()) == 1
        assert "kept for the house: 1 request" in here(capsys, "requests").out
        assert "No such command 'frob'" in here(capsys, "requests", "frob").err
        status = here(capsys, "status", "--house", "--json").json
        assert (status["pid"], [each["name"] for each in status["repositories"]]) == (None, ["shop"])
        assert "no request is called 'req-9'" in here(capsys, "requests", "show", "req-9").err


def test_a_repository_whose_session_cannot_go_on_is_shown_as_held(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_served_repository(tmp_path / "shop")
    stage = HouseStage(tmp_path, ("shop",))
    stage.write()
    with HouseJournal.open(stage.paths.journal) as journal:
        journal.append([("req-1", event) for event in RUNNING], 1.0)
        journal.append([(HOUSE, RepositoryHeld(repository="shop", reason="its journal is gone"))], 2.0)
    monkeypatch.setenv("BLUEFLAME_HOUSE", str(stage.paths.root))
    (row,) = here(capsys, "status", "--house", "--json").json["repositories"]
    assert (row["state"], row["detail"]) == ("held", "its journal is gone")
