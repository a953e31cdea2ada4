"""A stand-in for Telegram's Bot API on 127.0.0.1: updates, offsets, buttons, edits, files, and the errors it gives.

It refuses what the real one refuses: texts and button data that are too long, markup that cannot be parsed, edits that
change nothing, a second poller, a wrong token.
"""

from __future__ import annotations

import html
import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl

from blueflame.lazy_dataclass import dataclass
from blueflame.text.utf16 import count_units

MAX_TEXT_UNITS, MAX_CAPTION_UNITS, MAX_BUTTON_BYTES = 4096, 1024, 64
MAX_POLL_SECONDS = 50.0
JSON_FIELDS = ("reply_markup", "reply_parameters", "entities", "allowed_updates", "caption_entities")


class ApiError(NamedTuple):
    """An answer that is not ok: scripted by a test, or a refusal."""

    status: int
    description: str
    parameters: Mapping[str, Any] = {}


class ApiCall(NamedTuple):
    method: str
    fields: Mapping[str, Any]
    files: Mapping[str, tuple[str, bytes]]  # name of the field -> name and content of the file
    at: float


@dataclass(slots=True)
class ShownMessage:
    """A message of the bot, as its chat shows it now."""

    id: int
    chat: int
    text: str
    buttons: list[tuple[str, str]] = field(default_factory=list)  # label and data
    reply_to: int | None = None
    silent: bool = False
    asks_reply: bool = False
    document: tuple[str, bytes] | None = None
    edits: int = 0

    def find_button(self, label: str) -> str:
        """Return the data of the button whose label contains these words."""
        return next(data for text, data in self.buttons if label in text)


class BotApi:
    """`with BotApi() as api:` serves at `api.url` until the block ends. `errors` has scripted answers by method."""

    def __init__(self, token: str = "12345:stand-in", *, port: int = 0) -> None:  # noqa: S107 (of no real bot)
        self.token = token
        self._port = port
        self.errors: dict[str, list[ApiError]] = {}
        self.calls: list[ApiCall] = []
        self.messages: list[ShownMessage] = []
        self.toasts: list[tuple[str, str]] = []  # id of the tap, and what was shown
        self.blocked: set[int] = set()  # chats that have blocked the bot
        self._updates: list[dict[str, Any]] = []
        self._next_update, self._next_message = count(1000), count(1)
        self._changed = threading.Condition()
        self._polls = 0  # the newest poll; an older one that still waits is refused
        self._closing = False

    def __enter__(self) -> Self:
        self._server = _BotApiServer(("127.0.0.1", self._port), _RequestHandler)
        self._server.api = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="bot-api")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def number_updates_from(self, first: int) -> None:
        """Telegram numbers at random after a week without updates."""
        with self._changed:
            self._next_update = count(first)

    @property
    def pending(self) -> list[int]:
        """The updates that the bot has not acknowledged."""
        with self._changed:
            return [update["update_id"] for update in self._updates]

    # --- what people do ---------------------------------------------------------------------------------------------

    def write(self, chat: int, user: int, text: str, *, reply_to: int | None = None, **more: Any) -> int:  # noqa: ANN401 (fields of a message)
        """A person writes; `more` are fields of the message, such as caption or forward_origin."""
        message = {**self._build_incoming(chat, user), "text": text, **more}
        if reply_to is not None:
            message["reply_to_message"] = self._build_incoming(chat, 1) | {"message_id": reply_to}
        return self._add_update({"message": {name: value for name, value in message.items() if value is not None}})

    def tap(self, chat: int, user: int, data: str, *, message: int | None = None) -> int:
        """A person taps a button, or a program forges that."""
        shown = self._build_incoming(chat, 1)
        text = next((each.text for each in self.messages if each.id == message), "") or "a message"
        query = {
            "id": f"tap{next(self._next_message)}",
            "from": _build_user(user),
            "chat_instance": "1",
            "message": shown | {"message_id": message or shown["message_id"], "text": text},
            "data": data,
        }
        return self._add_update({"callback_query": query})

    def add_update(self, update: Mapping[str, Any]) -> int:
        """Any other update, as it comes from Telegram."""
        return self._add_update(dict(update))

    def list_shown(self, chat: int) -> list[ShownMessage]:
        with self._changed:
            return [message for message in self.messages if message.chat == chat]

    def count_calls(self, method: str) -> int:
        with self._changed:
            return sum(call.method == method for call in self.calls)

    def wait_until(self, holds: Callable[[], object], *, seconds: float = 20.0) -> None:
        """Wait until something holds that a call of the bot changes; TimeoutError if it does not in time."""
        until = time.monotonic() + seconds
        with self._changed:
            while not holds():
                left = until - time.monotonic()
                if left <= 0:
                    shown = [f"{each.chat}: {each.text[:300]!r} {each.buttons}" for each in self.messages]
                    raise TimeoutError("\n".join(["not in time; shown:", *shown]))
                self._changed.wait(left)

    def _build_incoming(self, chat: int, user: int) -> dict[str, Any]:
        kind = "private" if chat > 0 else "group"
        named = {"first_name": f"user{chat}"} if chat > 0 else {"title": f"group{chat}"}
        return {
            "message_id": next(self._next_message),
            "date": int(time.time()),
            "chat": {"id": chat, "type": kind, **named},
            "from": _build_user(user),
        }

    def _add_update(self, update: dict[str, Any]) -> int:
        with self._changed:
            number = next(self._next_update)
            self._updates.append({"update_id": number, **update})
            self._changed.notify_all()
        return number

    # --- what the bot calls -----------------------------------------------------------------------------------------

    def answer(self, token: str, call: ApiCall) -> dict[str, Any] | ApiError:
        with self._changed:
            self.calls.append(call)
            self._changed.notify_all()
            if token != self.token:
                return ApiError(401, "Unauthorized")
            if self.errors.get(call.method):
                return self.errors[call.method].pop(0)
            respond = METHODS.get(call.method)
            if respond is None:
                return ApiError(404, "Not Found: method not found")
            result = respond(self, call.fields, call.files)
            self._changed.notify_all()
        return result if isinstance(result, ApiError) else {"ok": True, "result": result}

    def get_me(self, _fields: Mapping[str, Any], _files: Mapping[str, Any]) -> Any:  # noqa: ANN401 (JSON)
        return {**_build_user(1), "is_bot": True, "username": "stand_in_bot"}

    def get_chat(self, fields: Mapping[str, Any], _files: Mapping[str, Any]) -> Any:  # noqa: ANN401 (JSON)
        chat = int(fields["chat_id"])
        if chat in self.blocked:
            return ApiError(400, "Bad Request: chat not found")
        kind = "private" if chat > 0 else "group"
        return {"id": chat, "type": kind, "accent_color_id": 0, "max_reaction_count": 0, "accepted_gift_types": GIFTS}

    def get_updates(self, fields: Mapping[str, Any], _files: Mapping[str, Any]) -> Any:  # noqa: ANN401 (JSON)
        offset = int(fields.get("offset") or 0)
        self._updates = [update for update in self._updates if update["update_id"] >= offset]
        self._polls += 1
        mine, until = self._polls, time.monotonic() + min(float(fields.get("timeout") or 0), MAX_POLL_SECONDS)
        self._changed.notify_all()
        while not self._updates and not self._closing and mine == self._polls and time.monotonic() < until:
            self._changed.wait(until - time.monotonic())
        if mine != self._polls:
            text = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
            return ApiError(409, text)
        return self._updates[: int(fields.get("limit") or 100)]

    def send_message(self, fields: Mapping[str, Any], _files: Mapping[str, Any]) -> Any:  # noqa: ANN401 (JSON)
        chat, text = int(fields["chat_id"]), str(fields.get("text", ""))
        problem = self._find_problem(chat, fields) or _find_text_problem(text, fields, MAX_TEXT_UNITS)
        return problem or self._add_message(fields, text=_read_markup(text, fields))

    def send_document(self, fields: Mapping[str, Any], files: Mapping[str, Any]) -> Any:  # noqa: ANN401 (JSON)
        chat, caption = int(fields["chat_id"]), str(fields.get("caption", ""))
        if problem := self._find_problem(chat, fields):
            return problem
        if caption and (problem := _find_text_problem(caption, fields, MAX_CAPTION_UNITS)):
            return problem
        named = str(fields.get("document", "")).removeprefix("attach://")
        found = files.get(named) or files.get("document")
        if not found or not found[1]:
            return ApiError(400, "Bad Request: there is no document in the request")
        return self._add_message(fields, text=_read_markup(caption, fields), document=found)

    def edit_message_text(self, fields: Mapping[str, Any], _files: Mapping[str, Any]) -> Any:  # noqa: ANN401 (JSON)
        chat, text = int(fields["chat_id"]), str(fields.get("text", ""))
        if problem := self._find_problem(chat, fields) or _find_text_problem(text, fields, MAX_TEXT_UNITS):
            return problem
        shown = next(
            (each for each in self.messages if (each.chat, each.id) == (chat, int(fields["message_id"]))), None
        )
        if shown is None:
            return ApiError(400, "Bad Request: message to edit not found")
        buttons, plain = _list_buttons(fields), _read_markup(text, fields)
        if (shown.text, shown.buttons) == (plain, buttons):
            return ApiError(400, "Bad Request: message is not modified: specified new message content is the same")
        shown.text, shown.buttons, shown.edits = plain, buttons, shown.edits + 1
        return self._show(shown)

    def answer_callback_query(self, fields: Mapping[str, Any], _files: Mapping[str, Any]) -> Any:  # noqa: ANN401 (JSON)
        self.toasts.append((str(fields["callback_query_id"]), str(fields.get("text", ""))))
        return True

    def _find_problem(self, chat: int, fields: Mapping[str, Any]) -> ApiError | None:
        if chat in self.blocked:
            return ApiError(403, "Forbidden: bot was blocked by the user")
        if any(not 1 <= len(data.encode()) <= MAX_BUTTON_BYTES for _, data in _list_buttons(fields)):
            return ApiError(400, "Bad Request: BUTTON_DATA_INVALID")
        return None

    def _add_message(
        self, fields: Mapping[str, Any], *, text: str, document: tuple[str, bytes] | None = None
    ) -> dict[str, Any]:
        replied = fields.get("reply_parameters") or {}
        message = ShownMessage(
            id=next(self._next_message),
            chat=int(fields["chat_id"]),
            text=text,
            buttons=_list_buttons(fields),
            reply_to=replied.get("message_id"),
            silent=str(fields.get("disable_notification", "")).lower() == "true",
            asks_reply=bool((fields.get("reply_markup") or {}).get("force_reply")),
            document=document,
        )
        self.messages.append(message)
        return self._show(message)

    def _show(self, message: ShownMessage) -> dict[str, Any]:
        kind = "private" if message.chat > 0 else "group"
        return {
            "message_id": message.id,
            "date": int(time.time()),
            "chat": {"id": message.chat, "type": kind},
            "text": message.text,
        }


GIFTS = dict.fromkeys(
    (
        "unlimited_gifts",
        "limited_gifts",
        "unique_gifts",
        "premium_subscription",
        "gifts_from_channels",
    ),
    False,
)
METHODS: Mapping[str, Callable[[BotApi, Mapping[str, Any], Mapping[str, Any]], Any]] = {
    "getMe": BotApi.get_me,
    "getChat": BotApi.get_chat,
    "getUpdates": BotApi.get_updates,
    "sendMessage": BotApi.send_message,
    "sendDocument": BotApi.send_document,
    "editMessageText": BotApi.edit_message_text,
    "answerCallbackQuery": BotApi.answer_callback_query,
}


def _build_user(user: int) -> dict[str, Any]:
    return {"id": user, "is_bot": False, "first_name": f"user{user}"}


def _list_buttons(fields: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows = (fields.get("reply_markup") or {}).get("inline_keyboard", [])
    return [(button["text"], button.get("callback_data", "")) for row in rows for button in row]


def _find_text_problem(text: str, fields: Mapping[str, Any], limit: int) -> ApiError | None:
    if fields.get("parse_mode") and re.search(r"<(?!/?(b|i|u|s|pre|code)>)|&(?!(lt|gt|amp|quot|#\d+);)", text):
        return ApiError(400, "Bad Request: can't parse entities: unsupported start tag")
    plain = _read_markup(text, fields)
    if not plain.strip():
        return ApiError(400, "Bad Request: message text is empty")
    return ApiError(400, "Bad Request: message is too long") if count_units(plain) > limit else None


def _read_markup(text: str, fields: Mapping[str, Any]) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", text)) if fields.get("parse_mode") else text


class _BotApiServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    api: BotApi

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 (as the library has it)
        """Print nothing: a bot that was killed has closed its connections."""


class _RequestHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _BotApiServer

    def do_POST(self) -> None:
        _, token, method = [*self.path.split("?")[0].split("/", 2), "", ""][:3]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fields, files = read_form(self.headers.get("Content-Type", ""), body)
        call = ApiCall(method, fields, files, time.monotonic())
        found = self.server.api.answer(token.removeprefix("bot"), call)
        if isinstance(found, ApiError):
            self._reply(found.status, _build_refusal(found))
        else:
            self._reply(200, found)

    def do_GET(self) -> None:
        self.do_POST()

    def _reply(self, status: int, data: Mapping[str, Any]) -> None:
        body = json.dumps(data).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True  # the bot was killed while it waited

    def log_message(self, format: str, *args: Any) -> None:  # noqa: ANN401 (as the library has it)
        """Write nothing: the path has the token."""


def _build_refusal(error: ApiError) -> dict[str, Any]:
    more = {"parameters": dict(error.parameters)} if error.parameters else {}
    return {"ok": False, "error_code": error.status, "description": error.description, **more}


def read_form(content_type: str, body: bytes) -> tuple[dict[str, Any], dict[str, tuple[str, bytes]]]:
    """Read what clients post: a form, a form with files, or JSON; nested values of a form are JSON."""
    files: dict[str, tuple[str, bytes]] = {}
    if content_type.startswith("application/json"):
        return json.loads(body or b"{}"), files
    fields: dict[str, Any] = {}
    if content_type.startswith("multipart/"):
        parsed = BytesParser(policy=HTTP).parsebytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body)
        for part in parsed.iter_parts():
            name, content = str(part.get_param("name", header="content-disposition")), part.get_payload(decode=True)
            if part.get_filename() is not None:
                files[name] = (str(part.get_filename()), bytes(content))
            else:
                fields[name] = bytes(content).decode()
    else:
        fields = dict(parse_qsl(body.decode(), keep_blank_values=True))
    return {name: json.loads(value) if name in JSON_FIELDS else value for name, value in fields.items()}, files
