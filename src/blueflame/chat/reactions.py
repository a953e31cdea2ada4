"""What a message or a tap leads to: a request, an answer, a command, a reply, or nothing for a stranger.

Decided from values: the update, the configuration, and what the chat has noted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

from blueflame.chat.outbox import Outgoing, Sent
from blueflame.chat.updates import Addressed, ButtonTap, ChatMessage, find_addressed
from blueflame.dispatch.people import find_answer_problem, find_sender
from blueflame.lazy_dataclass import dataclass
from blueflame.model.gate import GateKind, Option
from blueflame.model.house.arrival import Arrival, IncomingAnswer, IncomingCommand, IncomingRequest, Sender, Trust
from blueflame.model.house.event import OpenGate
from blueflame.model.settings.house import HouseSettings
from blueflame.text.sanitize import shorten_line

SOURCE = "telegram"
BUTTON, PROMPT, SETTLED, PAIR, PAIRED = "button:", "prompt:", "settled:", "pair:", "paired:"
MAX_TOAST_CHARS = 180
REASON_SECONDS = 900.0  # later, only a reply to the question is taken for the reason
HELP = """Write what is to be done: it becomes a request. `name: text` or #name chooses the repository.
/run TEXT the same, in groups too
/status what runs and waits
/gates what waits for your answer
/cost what sessions cost
/stop NAME stop the session of a repository; /resume NAME continues it
/cancel ID cancel a request: your own, or any as an owner
Reply to a question to give a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    messages: tuple[Outgoing, ...] = ()
    notes: Mapping[str, str | None] = field(default_factory=dict)
    arrivals: tuple[Arrival, ...] = ()
    toast: str = ""  # shown to the person who tapped
    asked: str = ""  # a command whose reply shows the state of the house: status, gates, cost
    warning: str = ""  # for the log: a stranger
    drops: tuple[str, ...] = ()  # messages that were sent and are not needed any more, by their keys


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatContext:
    """What is known when an update is judged."""

    settings: HouseSettings
    bot: str  # its user name
    notes: Mapping[str, str]
    sent: Mapping[str, Sent]
    now: float


def build_gate_key(found: OpenGate) -> str:
    return f"{found.repository}/{found.session}/{found.gate.id}"


def react_to_tap(tap: ButtonTap, context: ChatContext) -> Reaction:
    sender = find_allowed(tap.chat, tap.user, context)
    if sender is None:
        return Reaction(warning=describe_stranger(tap.chat, tap.user, "tapped a button"))
    button = read_note(context.notes, BUTTON + tap.data)
    if not button or button["chat"] != tap.chat:
        settled = context.notes.get(f"{SETTLED}{tap.chat}:{tap.message}")
        return Reaction(toast=settled or "This button is not valid any more: see /gates.")
    # whether the gate is still open is for the house to say: just after a start it is not known here
    if problem := find_answer_problem(context.settings.people, sender, GateKind(button["kind"])):
        return Reaction(toast=problem)
    if button.get("used"):
        return Reaction(toast=f"{button['used']} has answered: {button['choice']}.")
    if button["asks"]:
        return _ask_reason(tap, sender, button, context)
    used = {BUTTON + tap.data: json.dumps({**button, "used": sender.name})}
    reply_to = f"{tap.chat}:{tap.message}:{tap.data}"
    arrival = _build_answer(tap.id, sender, button, at=context.now, reply_to=reply_to)
    return Reaction(arrivals=(arrival,), notes=used, toast=f"{button['choice']}: passed on.")


def build_button_note(found: OpenGate, option: Option, chat: int) -> str:
    """What is known of a button by its id: all that a tap needs."""
    asks = f"{option.label}\n{shorten_line(found.gate.title, 200)}" if option.needs_note else ""
    note = {"gate": build_gate_key(found), "kind": found.gate.kind.value, "choice": option.name, "chat": chat}
    return json.dumps({**note, "asks": asks})


def _ask_reason(tap: ButtonTap, sender: Sender, button: Mapping[str, Any], context: ChatContext) -> Reaction:
    how = "Reply to this message with your reason or text. /cancel leaves the gate open."
    text = f"{sender.name}: {button['choice']}, {button['asks']}\n{how}"
    key = f"reason:{tap.id}"
    prompt = {"gate": button["gate"], "kind": button["kind"], "choice": button["choice"], "key": key}
    message = Outgoing(key=key, chat=tap.chat, text=text, reply_to=tap.message, asks_reply=True, kept=True)
    name = f"{PROMPT}{tap.chat}:{tap.user}"
    before = read_note(context.notes, name)
    note = {name: json.dumps({**prompt, "button": tap.data, "at": context.now})}
    drops = (before["key"],) if before else ()
    return Reaction(messages=(message,), notes=note, drops=drops, toast="Write the reason as a reply.")


def _build_answer(
    update: str, sender: Sender, chosen: Mapping[str, Any], *, at: float, reply_to: str, note: str = ""
) -> IncomingAnswer:
    repository, session, gate = str(chosen["gate"]).split("/", 2)
    return IncomingAnswer(
        source=SOURCE,
        key=update,
        sender=sender,
        at=at,
        repository=repository,
        session=session,
        gate=gate,
        choice=str(chosen["choice"]),
        note=note,
        reply_to=reply_to,
    )


def react_to_message(message: ChatMessage, context: ChatContext) -> Reaction:
    if reaction := _pair_chat(message, context):
        return reaction
    sender = find_allowed(message.chat, message.user, context)
    if sender is None:
        return Reaction(warning=describe_stranger(message.chat, message.user, "wrote"))
    prompt = read_note(context.notes, f"{PROMPT}{message.chat}:{message.user}")
    if message.text.startswith("/") and not message.is_forwarded and not message.is_edited:
        return _react_to_command(message, sender, context, prompt)
    if prompt and _is_reason(message, prompt, context):
        return _take_reason(message, sender, context, prompt)
    addressed = _find_addressed(message.text, message, context)
    if not message.is_private and not addressed.to_bot:
        return Reaction()  # people talk with each other in a group
    return _request(message, sender, addressed)


def _find_addressed(text: str, message: ChatMessage, context: ChatContext) -> Addressed:
    chat = context.settings.telegram.chats.get(message.chat) if context.settings.telegram else None
    default = (chat.repository if chat else None) or ""
    return find_addressed(text, context.settings.repositories, bot=context.bot, default=default)


def _request(message: ChatMessage, sender: Sender, addressed: Addressed) -> Reaction:
    if message.is_edited:
        return _reply(message, "Edited messages are not read: send it again as a new message.")
    if not addressed.text.strip():
        return _reply(message, "Files are not read: write what is to be done." if message.has_file else HELP)
    # what others wrote is data: an owner is asked before it starts anything
    trust = Trust.FEED if message.is_forwarded else sender.trust
    arrival = IncomingRequest(
        source=SOURCE,
        key=message.id,
        sender=replace(sender, trust=trust),
        at=message.at,
        text=addressed.text,
        repository=addressed.repository,
        origin="a forwarded message, or text of a bot" if message.is_forwarded else "",
        reply_to=f"{message.chat}:{message.message}",
    )
    left_out = [] if not message.has_file else [_build_reply(message, "The file is not read, only its caption.")]
    return Reaction(arrivals=(arrival,), messages=tuple(left_out))


def _is_reason(message: ChatMessage, prompt: Mapping[str, Any], context: ChatContext) -> bool:
    """In a group only a reply counts; in a private chat the next message does too, or it would start paid work."""
    if message.is_edited or message.is_forwarded:
        return False
    asked = context.sent.get(prompt["key"])  # None: the reply is faster than the note of what was sent
    if message.reply_to is not None:
        return asked is None or message.reply_to == asked.message
    return message.is_private and context.now < prompt["at"] + REASON_SECONDS


def _take_reason(message: ChatMessage, sender: Sender, context: ChatContext, prompt: Mapping[str, Any]) -> Reaction:
    forget: dict[str, str | None] = {f"{PROMPT}{message.chat}:{message.user}": None}
    drops = (prompt["key"],)
    if prompt.get("late"):
        text = f"Too late. {prompt['late']}\nIf this is a request, send it again."
        return replace(_reply(message, text, notes=forget), drops=drops)
    if problem := find_answer_problem(context.settings.people, sender, GateKind(prompt["kind"])):
        return replace(_reply(message, problem, notes=forget), drops=drops)
    reply_to = f"{message.chat}:{message.message}:{prompt['button']}"
    arrival = _build_answer(message.id, sender, prompt, at=message.at, reply_to=reply_to, note=message.text)
    return Reaction(arrivals=(arrival,), notes=forget, drops=drops)


def _react_to_command(
    message: ChatMessage, sender: Sender, context: ChatContext, prompt: Mapping[str, Any]
) -> Reaction:
    word = message.text.split(maxsplit=1)[0]
    rest = message.text.removeprefix(word)
    command, _, to = word[1:].partition("@")
    if to and to.casefold() != context.bot.casefold():
        return Reaction()  # to another bot of the group
    if command.casefold() in ("status", "gates", "cost"):
        return Reaction(asked=command.casefold())
    if prompt and command.casefold() == "cancel" and not rest.strip():
        note = {f"{PROMPT}{message.chat}:{message.user}": None}
        return replace(
            _reply(message, "Nothing was answered: the gate stays open.", notes=note), drops=(prompt["key"],)
        )
    build = COMMANDS.get(command.casefold())
    return build(message, sender, rest.strip(), context) if build else _reply(message, HELP)


def _run(message: ChatMessage, sender: Sender, rest: str, context: ChatContext) -> Reaction:
    return _request(message, sender, _find_addressed(rest, message, context))


def _stop(message: ChatMessage, sender: Sender, rest: str, context: ChatContext, verb: str = "stop") -> Reaction:
    chat = context.settings.telegram.chats.get(message.chat) if context.settings.telegram else None
    known = tuple(context.settings.repositories)
    name = rest.lstrip("#@") or (chat.repository if chat else None) or (known[0] if len(known) == 1 else "")
    if name not in known:
        return _reply(message, f"Which one? /{verb} NAME, with one of {', '.join(known)}")
    return _command(message, sender, verb, name)


def _cancel(message: ChatMessage, sender: Sender, rest: str, _context: ChatContext) -> Reaction:
    return _command(message, sender, "cancel", rest) if rest else _reply(message, "Which one? /cancel ID: see /status")


COMMANDS: Mapping[str, Callable[[ChatMessage, Sender, str, ChatContext], Reaction]] = {
    "run": _run,
    "stop": _stop,
    "resume": partial(_stop, verb="resume"),
    "cancel": _cancel,
}


def _command(message: ChatMessage, sender: Sender, verb: str, subject: str) -> Reaction:
    """The house decides whether the sender may do it."""
    arrival = IncomingCommand(
        source=SOURCE,
        key=message.id,
        sender=sender,
        at=message.at,
        verb=verb,
        subject=subject,
        reply_to=f"{message.chat}:{message.message}",
    )
    return Reaction(arrivals=(arrival,))


def _pair_chat(message: ChatMessage, context: ChatContext) -> Reaction | None:
    """A code that `blueflame telegram pair` printed tells the numbers of its sender and chat, once."""
    found = read_note(context.notes, f"{PAIR}{message.text.strip()}") if message.text else {}
    if not found or found["until"] < context.now or message.is_forwarded:
        return None
    numbers = json.dumps({"user": message.user, "chat": message.chat})
    notes = {f"{PAIR}{message.text.strip()}": None, f"{PAIRED}{message.text.strip()}": numbers}
    return _reply(message, f"Your number is {message.user}, this chat's is {message.chat}.", notes=notes)


def find_allowed(chat: int, user: int, context: ChatContext) -> Sender | None:
    """Return the person, if both the person and the chat are known; a person's own chat has the person's number."""
    chats: Sequence[int] = tuple(context.settings.telegram.chats) if context.settings.telegram else ()
    sender = find_sender(context.settings.people, f"{SOURCE}:{user}")
    return sender if chat in chats or chat == user else None


def describe_stranger(chat: int, user: int, did: str) -> str:
    return f"an unknown person {did}: user {user} in chat {chat}; no answer was given"


def read_note(notes: Mapping[str, str], key: str) -> dict[str, Any]:
    found = json.loads(notes[key]) if key in notes else {}
    assert isinstance(found, dict), "only we write it"
    return found


def _build_reply(message: ChatMessage, text: str) -> Outgoing:
    return Outgoing(key=f"reply:{message.id}", chat=message.chat, text=text, reply_to=message.message)


def _reply(message: ChatMessage, text: str, *, notes: Mapping[str, str | None] | None = None) -> Reaction:
    return Reaction(messages=(_build_reply(message, text),), notes=notes or {})
