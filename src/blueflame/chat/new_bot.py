"""What is forgotten when the token of another bot is configured: it has its own messages, and their own numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping

from blueflame.chat.asking import ASK, REMINDER
from blueflame.chat.outbox import OUT, SENT
from blueflame.chat.reactions import BUTTON, PROMPT, SETTLED
from blueflame.chat.reports import REQUEST
from blueflame.chat.updates import find_bot

BOT = "bot"


def list_bot_changes(notes: Mapping[str, str], cursor: str, number: str) -> dict[str, str | None]:
    """Return what to change in the notes of a chat before the bot with this number uses them.

    Open gates are then asked again: a tap on the old message would reach the old bot. An edit would change another
    message, and a reply would point at one.
    """
    before = notes.get(BOT) or find_bot(cursor) or number
    changes: dict[str, str | None] = {} if notes.get(BOT) == number else {BOT: number}
    if before == number:
        return changes
    for key, value in notes.items():
        if key.startswith(SENT) and f":{REMINDER}:" in key:
            continue  # no one is reminded again
        if key.startswith((SENT, BUTTON, PROMPT, SETTLED)):
            changes[key] = None
        elif key.startswith(REQUEST):
            changes[key] = json.dumps({**json.loads(value), "message": None})
        elif key.startswith(OUT):
            changes[key] = _keep_waiting(value)
    return changes


def _keep_waiting(value: str) -> str | None:
    """A message that waits goes out by the new bot, unless it belongs to one of the old bot."""
    message = json.loads(value)
    if message["edits"] is not None or message["key"].startswith((ASK, f"file:{ASK}", "reason:")):
        return None
    return json.dumps({**message, "reply_to": None})
