"""The Bot API through python-telegram-bot's `Bot`: what is received as values, what fails as one of four errors.

The token is part of every address: it is taken out of all that we log, show or raise.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from blueflame.model.errors import Refused, UsageError, WorldError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from telegram import Bot, InlineKeyboardMarkup

POLL_SECONDS = 25
REQUEST_SECONDS = 20.0
TOKEN = re.compile(r"\d+:[\w-]{6,}")
ALLOWED_UPDATES = ("message", "edited_message", "callback_query")


class TelegramFailed(WorldError):
    """Telegram could not be reached, or answered with an error of its own: try again later."""


class RateLimited(TelegramFailed):
    def __init__(self, seconds: float) -> None:
        super().__init__(f"Telegram asks to wait for {seconds:.0f} s")
        self.seconds = seconds


class AnotherPoller(TelegramFailed):
    """409: another program polls this bot, or our own last request has not ended yet."""


class MessageRefused(WorldError):
    """This message cannot be sent: another try would not help."""


class ChatClosed(MessageRefused):
    """The person has blocked the bot, or it is not in the chat any more."""


class Update(NamedTuple):
    """What Telegram delivers, as plain values; `data` is the update as JSON."""

    id: int
    data: dict[str, Any]


class Button(NamedTuple):
    label: str
    data: str


@asynccontextmanager
async def open_client(token: str, api: str) -> AsyncIterator[TelegramClient]:
    """Raises UsageError for what cannot be a token, Refused without python-telegram-bot."""
    if not TOKEN.fullmatch(token):
        raise UsageError("the token of the bot is not valid: copy it from BotFather, such as 12345:AbC...")
    for name in ("httpx", "httpcore", "telegram"):
        # they log the address, with the token, and a traceback for each page of a proxy; we report failures ourselves
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        from telegram import Bot
        from telegram.request import HTTPXRequest
        from telegram.warnings import PTBDeprecationWarning
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("telegram", "httpx"):
            raise
        raise Refused("python-telegram-bot is not installed: pip install 'blueflame[telegram]'") from error
    warnings.filterwarnings("ignore", category=PTBDeprecationWarning)  # its own RetryAfter causes one

    def build_request(connections: int) -> HTTPXRequest:
        limit = REQUEST_SECONDS
        return HTTPXRequest(connections, connect_timeout=limit, read_timeout=limit, pool_timeout=limit)

    calls, polls = build_request(8), build_request(2)
    try:
        yield TelegramClient(Bot(token, base_url=f"{api}/bot", request=calls, get_updates_request=polls), token)
    finally:
        for request in (calls, polls):
            await request.shutdown()


class TelegramClient:
    def __init__(self, bot: Bot, token: str) -> None:
        self._bot = bot
        self._secret = token

    async def read_name(self) -> str:
        """Return the user name of the bot."""
        with self._translate_errors():
            return str((await self._bot.get_me()).username)

    async def check_chat(self, chat: int) -> None:
        """Raise MessageRefused if the bot cannot write to the chat."""
        with self._translate_errors():
            await self._bot.get_chat(chat)

    async def receive(self, offset: int) -> list[Update]:
        """Wait for updates; those below `offset` are acknowledged by this call."""
        with self._translate_errors():
            found = await self._bot.get_updates(
                offset=offset, timeout=POLL_SECONDS, read_timeout=REQUEST_SECONDS, allowed_updates=ALLOWED_UPDATES
            )
        return [Update(each.update_id, each.to_dict()) for each in found]

    async def send(
        self,
        chat: int,
        text: str,
        *,
        buttons: Sequence[Button] = (),
        reply_to: int | None = None,
        silent: bool = False,
        asks_reply: bool = False,
        fixed: tuple[int, int] | None = None,
    ) -> int:
        """Send a message without markup; `fixed` is the part in a fixed width. Return its number."""
        from telegram import ForceReply

        markup = ForceReply(selective=True) if asks_reply else _build_markup(buttons)
        with self._translate_errors():
            sent = await self._bot.send_message(
                chat,
                text,
                reply_markup=markup,
                reply_parameters=_build_reply(reply_to),
                disable_notification=silent,
                entities=_build_entities(fixed),
            )
        return sent.message_id

    async def edit(
        self,
        chat: int,
        message: int,
        text: str,
        *,
        buttons: Sequence[Button] = (),
        fixed: tuple[int, int] | None = None,
    ) -> None:
        """Change a message; that it is the same already is a success."""
        with self._translate_errors(expected="message is not modified"):
            markup = _build_markup(buttons)
            await self._bot.edit_message_text(text, chat, message, reply_markup=markup, entities=_build_entities(fixed))

    async def send_file(self, chat: int, name: str, content: bytes, *, reply_to: int | None = None) -> None:
        with self._translate_errors():
            await self._bot.send_document(
                chat,
                content,
                filename=name,
                reply_parameters=_build_reply(reply_to),
                disable_notification=True,
                disable_content_type_detection=True,
            )

    async def confirm_tap(self, query: str, text: str = "") -> None:
        """End the spinning of a button; one that is too old for it was still taken."""
        with suppress(MessageRefused), self._translate_errors():
            await self._bot.answer_callback_query(query, text or None)

    @contextmanager
    def _translate_errors(self, *, expected: str = "") -> Iterator[None]:
        from telegram.error import (
            BadRequest,
            ChatMigrated,
            Conflict,
            Forbidden,
            InvalidToken,
            RetryAfter,
            TelegramError,
        )

        try:
            yield
        except RetryAfter as error:
            raise RateLimited(_count_seconds(error.retry_after)) from None
        except Conflict:
            raise AnotherPoller("another program polls this bot: stop it, or give each its own bot") from None
        except InvalidToken:
            raise UsageError("Telegram does not know the token of the bot: copy it again from BotFather") from None
        except Forbidden as error:
            raise ChatClosed(self.scrub(f"the bot may not write to the chat: {error.message}")) from None
        except ChatMigrated as error:
            raise ChatClosed(f"the group has the number {error.new_chat_id} now: change it in house.yaml") from None
        except BadRequest as error:
            if not expected or expected not in error.message.lower():
                raise MessageRefused(self.scrub(f"Telegram refused it: {error.message}")) from None
        except TelegramError as error:
            fix = "look at the network, and at telegram.api in house.yaml"
            raise TelegramFailed(self.scrub(f"Telegram cannot be reached: {error.message}; {fix}")) from None

    def scrub(self, text: str) -> str:
        return TOKEN.sub("<token>", text.replace(self._secret, "<token>"))


def _count_seconds(given: object) -> float:
    seconds: Callable[[], float] | None = getattr(given, "total_seconds", None)  # a timedelta in later versions
    return seconds() if seconds is not None else float(str(given))


def _build_markup(buttons: Sequence[Button]) -> InlineKeyboardMarkup | None:
    from telegram import InlineKeyboardButton, InlineKeyboardMarkup

    if not buttons:
        return None
    return InlineKeyboardMarkup([[InlineKeyboardButton(each.label, callback_data=each.data)] for each in buttons])


def _build_reply(message: int | None) -> Any:  # noqa: ANN401 (of a library that is imported late)
    from telegram import ReplyParameters

    return ReplyParameters(message, allow_sending_without_reply=True) if message is not None else None


def _build_entities(fixed: tuple[int, int] | None) -> Any:  # noqa: ANN401 (of a library that is imported late)
    """A part in a fixed width as an entity, counted in UTF-16 units: no text has to be escaped for it."""
    from telegram import MessageEntity

    return [MessageEntity("pre", *fixed)] if fixed is not None else None
