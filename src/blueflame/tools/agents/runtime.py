"""How an agent is driven: how to start one, and how to read what it says. The warden owns the process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from blueflame.model.spend import NOTHING, Spend
from blueflame.model.task import Task
from blueflame.tools.files import trouble

MAX_PARSED = 32 * 1024 * 1024  # bytes of a spool that are read; a flood is on disk, not in our memory
MAX_LINE = 4 * 1024 * 1024
KEPT_COMPLAINTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """What one agent is to do, in terms that every runtime understands."""

    attempt: str
    agent_id: str
    role: str
    subject: str
    n: int
    session: str
    worktree: str
    prompt: str
    model: str = ""
    schema: Mapping[str, Any] | None = None  # of the structured output that is expected
    base: str = ""
    branch: str = ""
    ports: tuple[int, ...] = ()
    request: str = ""
    task: Task | None = None
    allowed_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    argv: tuple[str, ...]
    env: Mapping[str, str]  # in addition to what every agent gets
    stdin: str


@dataclass(frozen=True, slots=True)
class Said:
    text: str


@dataclass(frozen=True, slots=True)
class Used:
    spend: Spend


@dataclass(frozen=True, slots=True)
class Produced:
    """The structured output: a plan, a verdict. The last one counts."""

    output: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Complained:
    """Something about the agent's output is wrong, or the agent itself reports an error."""

    text: str


@dataclass(frozen=True, slots=True)
class Acted:
    tool: str
    target: str


Signal: TypeAlias = Said | Used | Produced | Complained | Acted


class Runtime(Protocol):
    def launch(self, brief: Brief, *, directory: Path) -> Launch:
        """How to start an agent for this brief; files that it needs are put into the attempt's directory."""

    def read(self, line: str) -> tuple[Signal, ...]:
        """What one line of its output means. Never raises: a line that makes no sense is a complaint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What a whole spool amounts to. `metered` is False when the agent never said what it used: not the same as 0."""

    said: str = ""
    spend: Spend = NOTHING
    metered: bool = False
    output: Mapping[str, Any] | None = None
    complaints: tuple[str, ...] = ()
    complaint_count: int = 0
    actions: int = 0
    unread_bytes: int = 0


@dataclass(slots=True)
class _Gathering:
    said: str = ""
    spend: Spend = NOTHING
    metered: bool = False
    output: Mapping[str, Any] | None = None
    complaints: list[str] = field(default_factory=list)
    complaint_count: int = 0
    actions: int = 0

    def take(self, signal: Signal) -> None:
        match signal:
            case Said(text):
                self.said = text
            case Used(spend):
                self.spend, self.metered = self.spend + spend, True
            case Produced(output):
                self.output = output
            case Acted():
                self.actions += 1
            case Complained(text):
                self.complaint_count += 1
                if len(self.complaints) < KEPT_COMPLAINTS:
                    self.complaints.append(text)


def read_spool(runtime: Runtime, path: Path, *, max_bytes: int = MAX_PARSED) -> Gathered:
    """All that an ended agent said. Of a huge spool the beginning and the end, and the gap is a complaint."""
    gathering = _Gathering()
    unread = 0
    for part in _parts(path, max_bytes):
        if isinstance(part, int):
            unread = part
            gathering.take(Complained(f"{part} bytes in the middle of {path.name} were not read: it is too large"))
            continue
        for signal in runtime.read(part):
            gathering.take(signal)
    return Gathered(
        said=gathering.said,
        spend=gathering.spend,
        metered=gathering.metered,
        output=gathering.output,
        complaints=tuple(gathering.complaints),
        complaint_count=gathering.complaint_count,
        actions=gathering.actions,
        unread_bytes=unread,
    )


def follow(runtime: Runtime, path: Path, offset: int, *, max_bytes: int = MAX_LINE) -> tuple[tuple[Signal, ...], int]:
    """What was said since `offset`, whole lines only, and where to go on. For live views: call again and again."""
    data = _read(path, offset, max_bytes)
    end = data.rfind(b"\n") + 1
    if not end:
        if len(data) < max_bytes:
            return (), offset
        return (Complained(f"a line longer than {max_bytes} bytes was left out"),), offset + len(data)
    signals = tuple(signal for line in _lines(data[:end]) for signal in runtime.read(line))
    return signals, offset + end


def _parts(path: Path, max_bytes: int) -> Iterator[str | int]:
    """The lines; for a spool over the limit a number between head and tail: the bytes that were left out."""
    size = _size(path)
    if size <= max_bytes:
        yield from _lines(_read(path, 0, max_bytes))
        return
    half = max_bytes // 2
    head = _read(path, 0, half)
    head = head[: head.rfind(b"\n") + 1]
    tail = _read(path, size - half, half)
    tail = tail[tail.find(b"\n") + 1 :] if b"\n" in tail else b""
    yield from _lines(head)
    yield size - len(head) - len(tail)
    yield from _lines(tail)


def _lines(data: bytes) -> Iterator[str]:
    for line in data.split(b"\n"):
        if line.strip():
            yield line.decode("utf-8", "replace")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
    except OSError as e:
        raise trouble("read the agent's output", path, e) from e


def _read(path: Path, offset: int, max_bytes: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(max_bytes)
    except FileNotFoundError:
        return b""
    except OSError as e:
        raise trouble("read the agent's output", path, e) from e
