"""Read what Telegram delivers: who wrote or tapped what, where. All text is data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from blueflame.lazy_dataclass import dataclass
from blueflame.text.sanitize import clean_text

MAX_REQUEST_CHARS = 20_000
QUIET_SECONDS = 6 * 86_400.0  # after a week without updates, Telegram numbers the next one at random
FOREIGN_FIELDS = ("forward_origin", "forward_date", "forward_from", "via_bot")  # others wrote the text
FILE_FIELDS = ("document", "photo", "video", "audio", "voice", "animation", "sticker", "video_note")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    id: str  # of the update, with the number of the bot: another bot gives the same numbers
    chat: int
    user: int
    message: int
    at: float
    text: str  # the caption, if there is a file
    is_private: bool
    reply_to: int | None = None
    is_edited: bool = False
    is_forwarded: bool = False  # or written by an inline bot: not the person's own words
    has_file: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ButtonTap:
    id: str  # as that of a message
    chat: int
    user: int
    message: int
    query: str
    data: str
    text: str = ""  # of the message with the button


def read_update(id: str, update: Mapping[str, Any]) -> ChatMessage | ButtonTap | None:
    """None for what is neither a message of a person nor a tap of theirs, or lacks what we need."""
    try:
        tap = update.get("callback_query")
        if tap is not None:
            return _read_tap(id, tap)
        is_edited = update.get("message") is None
        found = update.get("edited_message" if is_edited else "message")
        return _read_message(id, found, is_edited=is_edited) if found else None
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _read_tap(id: str, tap: Mapping[str, Any]) -> ButtonTap:
    message = tap["message"]
    return ButtonTap(
        id=id,
        chat=int(message["chat"]["id"]),
        user=int(tap["from"]["id"]),
        message=int(message["message_id"]),
        query=str(tap["id"]),
        data=str(tap.get("data", "")),
        text=str(message.get("text", "")),
    )


def _read_message(id: str, message: Mapping[str, Any], *, is_edited: bool) -> ChatMessage:
    replied = message.get("reply_to_message")
    text = str(message.get("text") or message.get("caption") or "")
    return ChatMessage(
        id=id,
        chat=int(message["chat"]["id"]),
        user=int(message["from"]["id"]),
        message=int(message["message_id"]),
        at=float(message["date"]),
        text=clean_text(text).strip()[:MAX_REQUEST_CHARS],
        is_private=str(message["chat"].get("type")) == "private",
        reply_to=int(replied["message_id"]) if replied else None,
        is_edited=is_edited,
        is_forwarded=any(message.get(name) for name in FOREIGN_FIELDS),
        has_file=any(message.get(name) for name in FILE_FIELDS),
    )


def format_cursor(update: int, at: float, bot: str) -> str:
    """Note the last update that was committed, when, and of which bot (its number)."""
    return f"{update + 1} {at:.0f} {bot}"


def find_bot(cursor: str) -> str:
    """Find the number of the bot whose updates were read last; empty if that is not known."""
    return cursor.rpartition(" ")[2] if cursor.count(" ") > 1 else ""


def find_offset(cursor: str, bot: str, now: float) -> int:
    """Find the update to ask for next; 0 for the first that was not acknowledged.

    A higher number than that of the next update would acknowledge it unseen: after a quiet week, or with a new bot.
    """
    offset, _, rest = cursor.partition(" ")
    at, _, of = rest.partition(" ")
    if rest and (of != bot or abs(now - float(at)) > QUIET_SECONDS):
        return 0
    return int(offset or 0)


class Addressed(NamedTuple):
    """A text without the names of those whom it addresses."""

    text: str
    repository: str = ""
    to_bot: bool = False


def find_addressed(text: str, repositories: Iterable[str], *, bot: str, default: str = "") -> Addressed:
    """Find whom a text addresses: `name: text`, `#name` or `@name` anywhere, or the name as a word without a default.

    `bot` is the user name of the bot, which people write in groups: `@bot text`, `/command@bot`.
    """
    mention = f"@{bot}".casefold()
    words = text.split()
    to_bot = bool(bot) and any(word.casefold().rstrip(",:") == mention for word in words)
    if to_bot:
        text = " ".join(word for word in words if word.casefold().rstrip(",:") != mention)
    known = {name.casefold(): name for name in repositories}
    head, colon, rest = text.partition(":")
    if colon and (named := known.get(head.strip().lstrip("@#").casefold())):
        return Addressed(rest.strip(), named, True)
    marked = {word[1:].casefold().rstrip(".,;:!?") for word in text.split() if word[0] in "@#"}
    bare = set() if default else {word.casefold().strip(".,;:!?") for word in text.split()}
    for found in (marked & set(known), bare & set(known)):
        if len(found) == 1:
            return Addressed(text, known[found.pop()], to_bot or bool(marked & set(known)))
    return Addressed(text, default, to_bot)
