"""What is read of an update: nothing of it is trusted, and what is odd is no message."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from blueflame.chat.updates import ButtonTap, ChatMessage, find_addressed, find_offset, format_cursor, read_update

MESSAGE: dict[str, Any] = {
    "message_id": 5,
    "date": 1_794_916_800,
    "chat": {"id": -100, "type": "group"},
    "from": {"id": 11, "is_bot": False},
    "text": " Add a page \x07",
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*MESSAGE, "data"]), inner, max_size=4),
    max_leaves=8,
)


def test_a_message_has_its_sender_its_chat_and_its_text() -> None:
    found = read_update("1:7", {"message": {**MESSAGE, "reply_to_message": {"message_id": 3}}})

    assert isinstance(found, ChatMessage)
    assert (found.id, found.chat, found.user, found.message, found.reply_to) == ("1:7", -100, 11, 5, 3)
    assert (found.text, found.is_private, found.is_edited, found.is_forwarded) == ("Add a page ␇", False, False, False)


def test_a_caption_is_the_text_of_a_file() -> None:
    found = read_update(
        "1:7", {"message": {**MESSAGE, "text": None, "caption": "Use this", "document": {"file_id": "x"}}}
    )

    assert isinstance(found, ChatMessage)
    assert (found.text, found.has_file) == ("Use this", True)


def test_a_tap_has_the_person_who_tapped_not_the_author_of_the_message() -> None:
    tap = {"id": "q", "from": {"id": 22}, "message": MESSAGE, "data": "g:x"}

    found = read_update("1:8", {"callback_query": tap})
    assert found == ButtonTap(id="1:8", chat=-100, user=22, message=5, query="q", data="g:x", text=MESSAGE["text"])


@given(st.dictionaries(st.sampled_from(["message", "edited_message", "callback_query", "poll"]), JSON, max_size=2))
def test_odd_updates_are_no_error(update: dict[str, Any]) -> None:
    assert isinstance(read_update("1:1", update), ChatMessage | ButtonTap | None)


@given(st.text(max_size=60), st.sampled_from(["", "shop"]))
def test_every_text_is_addressed_to_a_known_repository_or_none(text: str, default: str) -> None:
    assert find_addressed(text, ["shop", "docs"], bot="bot", default=default).repository in ("shop", "docs", "")


def test_after_a_quiet_week_or_with_a_new_bot_the_first_update_is_asked_for_whatever_its_number() -> None:
    cursor, day = format_cursor(41, 1_000.0, "7"), 86_400

    assert [find_offset(cursor, "7", 1_000 + days * day) for days in (-60, 0, 5, 7, 60)] == [0, 42, 42, 0, 0]
    assert find_offset(cursor, "8", 1_000) == 0
    assert [find_offset(text, "7", 1_000) for text in ("", "42")] == [0, 42]  # "42": written by an earlier version
