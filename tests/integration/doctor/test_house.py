"""`blueflame doctor --house`: each repository and source is tried."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blueflame.cli.main import run
from blueflame.journal.house import HouseJournal
from blueflame.journal.journal import Journal
from blueflame.model.event import CycleStarted
from blueflame.model.house.arrival import IncomingRequest
from blueflame.model.house.event import RequestQueued, RequestReceived, SessionFound, StartIntended
from support.houses import OPENED, OWNER, make_house


def test_each_repository_and_source_is_tried_and_what_is_broken_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with make_house(tmp_path, "shop") as stage:
        stage.write(
            "sources:\n  schedules: [{name: nightly, cron: '@daily', request: Tidy up, repository: shop}]\n"
            "  webhooks: {enabled: true, hooks: [{name: a, forge: github, project: a/b, secret_from: NO_SUCH}]}\n"
            "telegram: {token_from: NO_TOKEN}\npool: {roles: {bakend: 1, qa: 1}}\n",
            missing=["gone"],
        )
        monkeypatch.setenv("BLUEFLAME_HOUSE", str(stage.paths.root))
        assert run(["doctor", "--house", "--json"]) == 3
        found = {each["name"]: each for each in json.loads(capsys.readouterr().out)["findings"]}
        assert found["repository shop"]["state"] == "ok"
        assert found["repository gone"]["state"] == "bad"
        assert "blueflame init" in found["repository gone"]["details"]
        assert found["pool.roles.bakend"]["details"] == "no repository has this role; did you mean backend?"
        assert "pool.roles.qa" not in found
        assert found["schedules/nightly"]["details"].startswith("next at ")
        assert ("NO_SUCH" in found["webhooks"]["details"], "NO_TOKEN" in found["telegram"]["details"]) == (True, True)


def test_damaged_and_deleted_journals_of_repositories_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with make_house(tmp_path, "sound", "damaged", "garbage", "deleted") as stage:
        monkeypatch.setenv("BLUEFLAME_HOUSE", str(stage.paths.root))
        for name in ("sound", "damaged", "garbage"):
            with Journal.open(tmp_path / name / ".blueflame" / "journal.db") as journal:
                journal.append("ses-1", 0, [OPENED, *[CycleStarted(cycle=1, base_sha="f" * 4000)] * 9], 1.0)
        damaged, garbage = (tmp_path / name / ".blueflame" / "journal.db" for name in ("damaged", "garbage"))
        damaged.write_bytes(damaged.read_bytes()[:-20480] + bytes(20480))
        garbage.write_bytes(b"garbage" * 1000)
        with HouseJournal.open(stage.paths.journal) as house:
            asked = IncomingRequest(source="test", key="1", sender=OWNER, at=0.0, text="Add", repository="deleted")
            received = RequestReceived(request=asked, repository="deleted")
            begun = (received, RequestQueued(), StartIntended(), SessionFound(session="ses-9"))
            house.append([("req-1", event) for event in begun], 1.0)
        assert run(["doctor", "--house", "--json"]) == 3
        found = {each["name"]: each for each in json.loads(capsys.readouterr().out)["findings"]}
        names = ("sound", "damaged", "garbage", "deleted")
        assert [found[f"journal {name}"]["state"] for name in names] == ["ok", "bad", "bad", "bad"]
        assert "it is not a journal" in found["journal garbage"]["details"]
        assert "ses-9 is missing from" in found["journal deleted"]["details"]


def test_a_house_without_a_configuration_says_how_to_write_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BLUEFLAME_HOUSE", str(tmp_path))
    assert run(["doctor", "--house"]) == 3
    assert "serve --init" in capsys.readouterr().out
