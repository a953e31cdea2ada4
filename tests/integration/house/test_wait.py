"""`blueflame wait` on requests of a house that is not running."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from blueflame.cli.main import run
from blueflame.dispatch.state import fold_request
from blueflame.journal.house import HouseJournal
from blueflame.journal.journal import Journal
from blueflame.model.event import OrchestratorStopped
from blueflame.model.exit_codes import ExitCode
from blueflame.model.house.arrival import IncomingRequest
from blueflame.model.house.event import Refusal, RequestQueued, RequestReceived, RequestRefused
from blueflame.views.house import RequestRow, build_request_json
from support.houses import OPENED, OWNER, HouseStage, make_served_repository
from support.json_page import keys_in, table_keys

REQUEST = IncomingRequest(source="test", key="1", sender=OWNER, at=1.0, text="Add a note", repository="shop")
RECEIVED = RequestReceived(request=REQUEST, repository="shop")


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HouseStage:
    stage = HouseStage(tmp_path, ("shop",))
    stage.write()
    monkeypatch.setenv("BLUEFLAME_HOUSE", str(stage.paths.root))
    with HouseJournal.open(stage.paths.journal) as journal:
        refused = RequestRefused(why=Refusal.DUPLICATE, reason="the same request is queued already")
        events = (RECEIVED, RequestQueued())
        journal.append([("req-1", each) for each in events] + [("req-2", each) for each in (RECEIVED, refused)], 1.0)
    return stage


def test_the_time_is_over_with_the_state_as_json_and_the_reason_for_the_wait(
    stage: HouseStage, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["wait", "req-1", "--timeout", "1ms", "--json"]) == ExitCode.TIMED_OUT
    shown = capsys.readouterr()
    assert json.loads(shown.out) == {"state": "queued", "session": None, "gates": []}
    assert "the house is not running: start it with 'blueflame serve'" in shown.err
    assert "still queued: --timeout is over" in shown.err


def test_a_refused_request_ends_the_wait(stage: HouseStage, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["wait", "req-2", "--for", "gate"]) == ExitCode.REFUSED
    assert capsys.readouterr().out == "req-2: refused\n"
    assert run(["wait", "req-3"]) == ExitCode.USAGE


def test_a_session_that_its_house_resumes_is_waited_for(
    stage: HouseStage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Between a killed process and the next one nothing runs it."""
    repository = make_served_repository(stage.root / "shop")
    monkeypatch.chdir(repository)
    stopped = OrchestratorStopped(reason="stopped by a person")
    with Journal.open(repository / ".blueflame" / "journal.db") as journal:
        journal.append("ses-1", 0, [OPENED], 1.0)
        journal.append("ses-2", 0, [replace(OPENED, session="ses-2"), stopped], 1.0)
        journal.append("ses-3", 0, [replace(OPENED, session="ses-3", request_id="")], 1.0)
    assert run(["wait", "ses-1", "--timeout", "1ms"]) == ExitCode.TIMED_OUT
    assert "its house continues it" in capsys.readouterr().err
    for session in ("ses-2", "ses-3"):
        assert run(["wait", session, "--timeout", "1ms"]) == ExitCode.REFUSED
        assert "continue it with 'blueflame resume'" in capsys.readouterr().err


def test_without_a_name_the_open_request_of_this_person_is_waited_for(
    stage: HouseStage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(make_served_repository(stage.root / "shop"))
    monkeypatch.setenv("LOGNAME", "alice")
    assert run(["wait", "--timeout", "1ms"]) == ExitCode.TIMED_OUT
    assert "still queued" in capsys.readouterr().err
    monkeypatch.setenv("LOGNAME", "bob")
    assert run(["wait", "--timeout", "1ms"]) == ExitCode.USAGE
    assert "nothing has been run" in capsys.readouterr().err


def test_every_key_of_a_request_is_documented(stage: HouseStage) -> None:
    with HouseJournal.open_read_only(stage.paths.journal) as journal:
        record = fold_request(journal.read_stream("req-1"))
    assert record is not None
    assert {*keys_in(build_request_json(RequestRow(record=record)))} == table_keys("requests")
