"""What a person says to a running agent: who can be reached, how long it may be, how the agent reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from blueflame.model.attempt import Attempt, SentMessage
from blueflame.model.ids import build_attempt_id
from blueflame.model.runtime_support import can_take_messages
from blueflame.session.state import Session

MAX_CHARS = 2_000  # a refusal has room for twice that
WHAT_TO_DO = "(Your call was held back only to give you this message. Follow it, and repeat the call if you need it.)"


def list_live_attempts(session: Session, wanted: str) -> tuple[Attempt, ...]:
    """List the running attempts with this name: an agent's, a seat's, an attempt's with or without its session, or a
    task's."""
    return tuple(attempt for attempt in session.live.values() if wanted and wanted in _list_names(session, attempt))


def _list_names(session: Session, attempt: Attempt) -> tuple[str, ...]:
    short = attempt.id.removeprefix(f"{session.id}.")
    return attempt.agent_id, attempt.seat, attempt.id, short, attempt.subject


def find_message_problems(attempts: tuple[Attempt, ...], text: str, kinds: Mapping[str, str]) -> Iterator[str]:
    """Yield why a clean text cannot be sent. `kinds` has the kind of each runtime."""
    if not text:
        yield "the message is empty"
    if len(text) > MAX_CHARS:
        yield f"the message has {len(text):,} characters, the limit is {MAX_CHARS:,}: shorten it"
    for attempt in attempts:
        name = attempt.agent_id
        if attempt.interactive:
            yield f"{name} talks with a person in its terminal: use 'blueflame attach {name}'"
        elif not can_take_messages(kinds.get(attempt.runtime, attempt.runtime)):
            yield (
                f"the runtime {attempt.runtime} cannot take messages: use 'blueflame kill {name} -m \"...\"', "
                "and the next attempt has your words in its prompt"
            )


def format_message(message: SentMessage) -> str:
    """An answer is the result of a call that waits for it."""
    if message.gate:
        return f"{message.by}, who runs this session, answers your question: {message.text}"
    return f"{message.by}, who runs this session, says: {message.text}\n{WHAT_TO_DO}"


def list_earlier_messages(session: Session, attempt: Attempt) -> tuple[str, ...]:
    """List what people said to earlier attempts at the same task: the next one has not heard it.

    Answers to questions are not among them: they are in every prompt, with their questions.
    """
    earlier = (build_attempt_id(session.id, attempt.subject, attempt.label, n) for n in range(1, attempt.n))
    records = (session.attempts[name] for name in earlier if name in session.attempts)
    return tuple(message.text for record in records for message in record.messages if not message.gate)
