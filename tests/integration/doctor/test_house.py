"""`blueflame doctor --house`: each repository and source is tried."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blueflame.cli.main import run
from support.houses import make_house


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


def test_a_house_without_a_configuration_says_how_to_write_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BLUEFLAME_HOUSE", str(tmp_path))
    assert run(["doctor", "--house"]) == 3
    assert "serve --init" in capsys.readouterr().out
