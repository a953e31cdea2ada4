"""What a person at a terminal hands in while no house runs, and what the next house makes of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from blueflame.cli.main import run
from blueflame.config.house import load_house
from blueflame.house.client import list_kept
from blueflame.house.core import HouseCore
from blueflame.house.loop import HouseLoop
from blueflame.journal.house import HouseJournal
from blueflame.model.exit_codes import ExitCode
from blueflame.model.house.event import RequestCancelled, RequestQueued, RequestReceived
from support.houses import HouseStage, make_served_repository


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HouseStage:
    stage = HouseStage(tmp_path, ("shop",))
    make_served_repository(tmp_path / "shop")
    stage.write()
    monkeypatch.setenv("BLUEFLAME_HOUSE", str(stage.paths.root))
    monkeypatch.chdir(tmp_path / "shop")
    return stage


def test_a_kept_request_has_an_id_and_can_be_listed_shown_waited_for_and_cancelled(
    stage: HouseStage, capsys: pytest.CaptureFixture[str]
) -> None:
    def show(*words: str, code: ExitCode = ExitCode.OK) -> str:
        assert run([*words]) == code
        return capsys.readouterr().out

    kept = [json.loads(show("run", "--detach", "--json", text)) for text in ("Add a note", "Add a page")]
    note, page = [str(each["request"]) for each in kept]
    assert [each["state"] for each in kept] == ["waiting"] * 2
    assert "kept until 'blueflame serve' runs" in kept[0]["reply"]
    listed = json.loads(show("requests", "--json"))
    assert (listed["kept"], {each["request"]: each["state"] for each in listed["requests"]}) == (
        2,
        {note: "received", page: "received"},
    )
    assert "kept for the house: 2 requests" in show("requests")
    assert "kept until the house runs" in show("requests", "show", page)
    assert '"received"' in show("wait", page, "--timeout", "1ms", "--json", code=ExitCode.TIMED_OUT)
    assert '"received"' in show("wait", "--timeout", "1ms", "--json", code=ExitCode.TIMED_OUT)
    for each in (note, page):
        assert "kept until 'blueflame serve' runs" in show("requests", "cancel", each)
    status = json.loads(show("status", "--house", "--json"))
    assert (status["pid"], [each["name"] for each in status["repositories"]]) == (None, ["shop"])
    show("requests", "frob", code=ExitCode.USAGE)
    show("requests", "show", "req-9", code=ExitCode.USAGE)

    loaded = load_house(stage.paths.config)
    with HouseJournal.open(stage.paths.journal) as house:
        loop = HouseLoop(lambda wake: HouseCore(loaded, stage.paths, house, environ={}, login="alice", wake=wake))
        asyncio.run(loop.step())
        for each in (note, page):
            events = [type(entry.event) for entry in house.read_stream(each)]
            assert events[:3] == [RequestReceived, RequestQueued, RequestCancelled]
        assert list_kept(house) == ()
