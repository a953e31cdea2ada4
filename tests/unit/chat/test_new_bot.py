"""A change of the bot's token: what was noted about messages of the old bot is of no use to the new one."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from blueflame.chat.new_bot import list_bot_changes
from blueflame.chat.outbox import Outgoing
from blueflame.chat.updates import format_cursor

REQUEST = {"repository": "shop", "title": "Add a page", "chat": 11}
KEPT = {
    "seen": "7",
    "held:11:7": "shop: done",
    "followed:shop/ses-1": "5",
    "paired:x": "{}",
    "sent:ask:shop/ses-1/plan:remind:anna": "{}",
}
OF_MESSAGES = dict.fromkeys(["sent:ask:shop/ses-1/plan:11", "button:g:x", "prompt:11:11", "settled:11:5"], "{}")


def dump(**fields: object) -> str:
    return json.dumps(asdict(Outgoing(**{"key": "event:7:11", "chat": 11, "text": "done", **fields})))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("notes", "cursor"),
    [
        ({"bot": "1", **OF_MESSAGES, **KEPT}, format_cursor(5, 0.0, "2")),
        (OF_MESSAGES, format_cursor(5, 0.0, "1")),  # before bots were noted
        (OF_MESSAGES, "6"),  # long before
        ({}, ""),
    ],
)
def test_the_same_bot_keeps_all_and_is_noted(notes: dict[str, str], cursor: str) -> None:
    assert list_bot_changes(notes, cursor, "1") == ({} if "bot" in notes else {"bot": "1"})


@pytest.mark.parametrize(("noted", "cursor"), [({"bot": "1"}, ""), ({}, format_cursor(5, 0.0, "1"))])
def test_another_bot_forgets_the_messages_and_sends_what_waits(noted: dict[str, str], cursor: str) -> None:
    waiting = {
        "out:1": dump(edits=5),
        "out:2": dump(key="ask:shop/ses-1/plan:11", buttons=[("approve", "g:x")]),
        "out:3": dump(key="file:ask:shop/ses-1/plan:11:diff", file="x.diff"),
        "out:4": dump(key="reason:1:7", asks_reply=True),
        "out:5": dump(reply_to=3),
    }
    notes = {**noted, **OF_MESSAGES, **KEPT, **waiting, "request:req-1": json.dumps({**REQUEST, "message": 3})}
    assert list_bot_changes(notes, cursor, "2") == {
        "bot": "2",
        **dict.fromkeys([*OF_MESSAGES, "out:1", "out:2", "out:3", "out:4"]),
        "out:5": dump(),
        "request:req-1": json.dumps({**REQUEST, "message": None}),
    }
