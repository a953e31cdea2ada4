"""What the APIs have in common: their requests become a ModelQuestion, a ModelReply becomes their answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from blueflame.lazy_dataclass import dataclass


class Tokens(NamedTuple):
    """Token counts: input without cached tokens, output with thinking."""

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
    user: str  # the user's text before the model's first turn
    turn: int  # how many turns the model has had already
    tools: tuple[OfferedTool, ...]
    stream: bool
    size: int
    everything: str  # all texts, to search for the working directory
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
    """Bytes to send, and the usage reported to the client with them."""

    data: bytes
    reported: Tokens


class ApiDialect(ABC):
    """One model API: how its requests are parsed and its answers built."""

    @abstractmethod
    def parse_question(self, path: str, body: Mapping[str, Any], size: int) -> ModelQuestion: ...
    @abstractmethod
    def build_body(self, reply: ModelReply) -> Mapping[str, Any]: ...
    @abstractmethod
    def build_stream(self, reply: ModelReply) -> Iterator[StreamPiece]: ...
    @abstractmethod
    def build_error(self, status: int, message: str) -> Mapping[str, Any]: ...
    @abstractmethod
    def format_stream_error(self, message: str) -> bytes: ...

    def format_ping(self) -> bytes:
        return b": wait\n\n"  # a comment, which every reader of event streams ignores

    def count_billed(self, tokens: Tokens) -> Tokens:
        """Count cache writes as input: most APIs do not report them separately."""
        return tokens._replace(input=tokens.input + tokens.cache_write, cache_write=0, cache_write_1h=0)


PIECE_LENGTH = 24


def split_text(text: str) -> Iterator[str]:
    """Split into small parts, as models stream."""
    yield from (text[at : at + PIECE_LENGTH] for at in range(0, len(text), PIECE_LENGTH))


def iterate_texts(content: object) -> Iterator[str]:
    """Yield every text in a message's content, whatever the API calls its parts."""
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
    """Count the model's turns: its messages in a row are one turn, also with system messages in between."""
    spoken, last = 0, ""
    for role in roles:
        if role == "system":
            continue
        spoken += role == speaker and last != speaker
        last = role
    return spoken


def count_before_first(roles: Sequence[str], speaker: str) -> int:
    """Count the messages before the model's first one."""
    return next((at for at, role in enumerate(roles) if role == speaker), len(roles))
