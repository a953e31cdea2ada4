"""What the apis have in common: questions in their words become ours, replies of ours become pieces of theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol


class Tokens(NamedTuple):
    """As a meter counts them: input without what was cached, output with what was thought."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    thinking: int = 0
    web_search: int = 0


class OfferedTool(NamedTuple):
    name: str
    freeform: bool = False  # takes a text, not JSON
    keys: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelQuestion:
    api: str
    model: str
    system: str
    user: str  # all that was said before the model's first turn
    turn: int  # counted from 0: how often the model has spoken already
    tools: tuple[OfferedTool, ...]
    stream: bool
    size: int
    everything: str  # all texts, to look for places in them
    wants_usage: bool = True

    @property
    def tool_names(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self.tools)


class ModelToolCall(NamedTuple):
    id: str
    name: str
    input: Mapping[str, Any] | str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    id: str
    model: str
    text: str
    thinking: str
    calls: tuple[ModelToolCall, ...]
    tokens: Tokens
    wants_usage: bool = True


class StreamPiece(NamedTuple):
    """Bytes to send, and what the client knows to have used once it has them."""

    data: bytes
    told: Tokens


class ApiDialect(Protocol):
    """One model API: how its questions are read and its answers written."""

    def parse_question(
        self, path: str, query: Mapping[str, str], body: Mapping[str, Any], size: int
    ) -> ModelQuestion: ...
    def build_body(self, reply: ModelReply) -> Mapping[str, Any]: ...
    def build_stream(self, reply: ModelReply) -> Iterator[StreamPiece]: ...
    def build_error(self, status: int, words: str) -> Mapping[str, Any]: ...
    def format_stream_error(self, words: str) -> bytes: ...
    def format_ping(self) -> bytes: ...
    def count_billed(self, tokens: Tokens) -> Tokens: ...


PIECE_LENGTH = 24
COMMENT_EVENT = b": wait\n\n"  # a sign of life for every reader of event streams


def split_text(text: str, size: int = PIECE_LENGTH) -> Iterator[str]:
    """In small parts, as models speak."""
    yield from (text[at : at + size] for at in range(0, len(text), size))


def iterate_texts(content: object) -> Iterator[str]:
    """Every text in a message's content, whatever the api calls its parts."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, Mapping):
        for key in ("text", "content", "parts", "output"):
            yield from iterate_texts(content.get(key))
    elif isinstance(content, Sequence):
        for part in content:
            yield from iterate_texts(part)


def join_texts(content: object) -> str:
    return "\n".join(iterate_texts(content))


def count_turns(roles: Sequence[str], speaker: str) -> int:
    """How often the model has spoken: its messages in a row are one turn, asides of the system do not part them."""
    spoken, last = 0, ""
    for role in roles:
        if role == "system":
            continue
        spoken += role == speaker and last != speaker
        last = role
    return spoken


def count_before_first(roles: Sequence[str], speaker: str) -> int:
    """How many messages stand before the model's first one."""
    return next((at for at, role in enumerate(roles) if role == speaker), len(roles))


def fold_cache_writes(tokens: Tokens) -> Tokens:
    """For apis that do not tell cache writes apart: they are input like any other."""
    return tokens._replace(input=tokens.input + tokens.cache_write, cache_write=0, cache_write_1h=0)
