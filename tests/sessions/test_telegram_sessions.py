"""A whole session from a phone: a real house and repository, scripted agents, the stand-in for Telegram."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from blueflame.testing.bot_api import BotApi, ShownMessage
from support.houses import HouseStage, end_session, make_served_repository
from support.repositories import run_git

ANNA = 11
PATIENCE = 120.0
SETTINGS = "telegram:\n  api: {url}\n  chats:\n    11: {{repository: shop}}\n"
PEOPLE = "version: 1\npeople:\n  anna: {trust: owner, telegram: 11}\n"


def find_shown(api: BotApi, words: str, holds: Callable[[ShownMessage], object] = bool) -> ShownMessage:
    """Wait for a message to anna."""

    def look() -> list[ShownMessage]:
        return [each for each in api.messages if each.chat == ANNA and words in each.text and holds(each)]

    api.wait_until(look, seconds=PATIENCE)
    return look()[-1]


def test_a_message_becomes_a_landed_change_by_two_taps_though_the_house_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_served_repository(tmp_path / "shop", planning={"workflow": "waves", "triage": "off"})
    stage = HouseStage(tmp_path, ("shop",))
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", "12345:stand-in")
    with BotApi("12345:stand-in") as api, ExitStack() as undo:
        undo.callback(end_session, tmp_path / "shop")
        stage.write(SETTINGS.format(url=api.url), people=PEOPLE)
        with stage.serve() as house:
            api.write(ANNA, ANNA, "Add a page about search")
            find_shown(api, ": queued as req-")
            plan = find_shown(api, "Approve the plan of 1 task?")
            api.tap(ANNA, ANNA, plan.find_button("approve"), message=plan.id)
            os.kill(house.pid, signal.SIGKILL)
            house.wait(60)
        with stage.serve():
            find_shown(api, "Answered: approve, by anna\n\nshop", lambda each: each.id == plan.id)
            review = find_shown(api, "Changeset review", lambda each: each.buttons)
            api.wait_until(lambda: any(each.document for each in api.messages), seconds=PATIENCE)
            api.tap(ANNA, ANNA, review.find_button("approve"), message=review.id)
            find_shown(api, ": completed. ")
            find_shown(api, "shop: completed", lambda each: each.edits)
    (document,) = [each.document for each in api.messages if each.document]
    assert document is not None
    assert document[0].endswith(".diff")
    assert b"+++ b/src/" in document[1]
    assert "search" in run_git(tmp_path / "shop", "log", "--format=%s")
    assert "stand-in" not in (tmp_path / "serve.log").read_text()
    assert [each.text for each in api.messages if "Approve the plan" in each.text and each.buttons] == []
