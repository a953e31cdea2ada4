"""What an attempt has used, by the gateway's logs (usage.jsonl and sent.jsonl), and what it cost."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from blueflame.billing.prices import FALLBACK, build_fallback_row, build_listed_rows, compute_cost, find_row
from blueflame.billing.usage import Usage
from blueflame.lazy_dataclass import dataclass
from blueflame.model.spend import NO_SPEND, Spend
from blueflame.system.files import explain_file_errors, parse_json_object
from blueflame.system.lines import STEP_BYTES, FileTail

USAGE_FILE, SENT_FILE = "usage.jsonl", "sent.jsonl"
MAX_LINE_BYTES = 64 * 1024  # the gateway's lines have some 400 bytes
MAX_PRICE_FACTOR = 20  # a figure above ours times this is not credible
COUNT_KEYS = ("input", "output", "cache_read", "cache_write", "cache_write_1h", "web_search")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeteredUsage:
    """`calls` are those that reached a model. `listed` is the cost of each model's tokens by the built-in table."""

    spend: Spend = NO_SPEND
    calls: int = 0
    by_model: Mapping[str, Spend] = field(default_factory=dict)
    priced_as: frozenset[str] = frozenset()
    unpriced: tuple[str, ...] = ()  # models without a known price: the highest was taken
    incomplete: int = 0  # aborted calls: their usage is not fully known
    refused: int = 0
    damaged: int = 0  # unreadable lines
    listed: Mapping[str, int] = field(default_factory=dict)


def read_metered_usage(folder: Path, *, ended: bool = True) -> MeteredUsage:
    """Read an attempt's folder. Without a log nothing was metered; unreadable lines are counted.

    When the attempt has ended, a call that was sent and has no end counts by its last estimate: its gateway was killed.
    """
    totals = _UsageTotals()
    lines = [*_read_lines(folder / USAGE_FILE)]
    for line in (*lines, *(_list_unended(folder, lines) if ended else ())):
        totals.add_line(line)
    return totals.build_result()


def _list_unended(folder: Path, ended: Sequence[Mapping[str, Any] | None]) -> Iterator[Mapping[str, Any]]:
    """List the calls that were sent last, as far as they were not answered by an error and have not ended."""
    sent = {line.get("call"): line for line in _read_lines(folder / SENT_FILE) if line is not None}
    known = {line.get("call") for line in ended if line is not None}
    yield from (line for call, line in sent.items() if call not in known and "micro_usd" in line)


def settle_spend(metered: MeteredUsage, reported: Spend | None, *, own: Collection[str] = ()) -> Spend:
    """Return what an attempt cost. Tokens are always the gateway's.

    Money is what the agent's program reports, if it counted the same tokens and its figure is credible; else ours.
    `own` are the names of the person's own prices: where one was used, it counts.
    """
    if reported is None or not has_same_tokens(metered, reported) or metered.priced_as & set(own):
        return metered.spend
    if not is_credible(reported.micro_usd, metered.spend.micro_usd):
        return metered.spend
    return replace(metered.spend, micro_usd=reported.micro_usd)


def has_same_tokens(metered: MeteredUsage, reported: Spend) -> bool:
    """Both counted the same tokens of every kind, and our count is complete."""
    if metered.incomplete or metered.damaged or not metered.spend.tokens:
        return False
    return replace(metered.spend, micro_usd=0) == replace(reported, micro_usd=0)


def is_credible(reported: int, ours: int) -> bool:
    """Whether a reported price counts. One below ours never does: code that an agent ran may have written it."""
    return ours <= reported <= ours * MAX_PRICE_FACTOR


@dataclass(slots=True)
class _UsageTotals:
    calls: int = 0
    by_model: dict[str, Spend] = field(default_factory=dict)
    priced_as: set[str] = field(default_factory=set)
    unpriced: dict[str, None] = field(default_factory=dict)
    incomplete: int = 0
    refused: int = 0
    damaged: int = 0
    listed: dict[str, int] = field(default_factory=dict)

    def add_line(self, line: Mapping[str, Any] | None) -> None:
        counts = _parse_counts(line) if line is not None else None
        if line is None or counts is None:
            self.damaged += 1
            return
        if line.get("refused"):
            self.refused += 1
            return
        self.calls += 1
        self.incomplete += line.get("complete") is not True and _is_answered(line)
        usage = Usage(model=str(line.get("model", "")), complete=True, **counts)
        self._add_usage(usage, line["micro_usd"], str(line.get("priced_as", "")))

    def _add_usage(self, usage: Usage, micro_usd: int, priced_as: str) -> None:
        spend = Spend(
            micro_usd=micro_usd,
            input_tokens=usage.input,
            output_tokens=usage.output,
            cache_read_tokens=usage.cache_read,
            cache_write_tokens=usage.cache_write,
        )
        if spend == NO_SPEND and not usage.web_search:
            return
        self.by_model[usage.model] = self.by_model.get(usage.model, NO_SPEND) + spend
        self.priced_as.add(priced_as)
        table = build_listed_rows()
        row = find_row(table, usage, build_fallback_row(table))
        self.listed[usage.model] = self.listed.get(usage.model, 0) + compute_cost(row, usage)
        if priced_as == FALLBACK:
            self.unpriced[usage.model] = None

    def build_result(self) -> MeteredUsage:
        return MeteredUsage(
            spend=sum(self.by_model.values(), NO_SPEND),
            calls=self.calls,
            by_model=self.by_model,
            priced_as=frozenset(self.priced_as),
            unpriced=tuple(self.unpriced),
            incomplete=self.incomplete,
            refused=self.refused,
            damaged=self.damaged,
            listed=self.listed,
        )


def _is_answered(line: Mapping[str, Any]) -> bool:
    """False for an error of the API, which used nothing."""
    status = line.get("status")
    return not isinstance(status, int) or status < 400


def _parse_counts(line: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the line's figures; None if one is missing or not a count."""
    found = {name: line.get(name, 0) for name in COUNT_KEYS}
    figures = (*found.values(), line.get("micro_usd", 0 if line.get("refused") else None))
    return found if all(type(figure) is int and figure >= 0 for figure in figures) else None


def _read_lines(path: Path) -> Iterator[Mapping[str, Any] | None]:
    doing = "read what the gateway has metered"
    with explain_file_errors(doing, path), suppress(FileNotFoundError), path.open("rb") as file:
        while raw := file.readline(MAX_LINE_BYTES):
            yield parse_json_object(raw) if raw.endswith(b"\n") else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeteredCall:
    at: str
    model: str
    spend: Spend
    refused: str  # why it was refused: budget, parked; "" if it was not


class UsageTail:
    """Follow the usage of a running attempt. `spend` is None until the gateway has written its first line."""

    def __init__(self, folder: Path) -> None:
        self._tail = FileTail(folder / USAGE_FILE)
        self.spend: Spend | None = None

    def read_calls(self, *, most: int = STEP_BYTES) -> Iterator[MeteredCall]:
        for line in self._tail.read_objects(most=most):
            refused = str(line.get("refused", ""))
            call = MeteredCall(
                at=str(line.get("at", "")),
                model=str(line.get("model", "")),
                spend=NO_SPEND if refused else _parse_spend(line),
                refused=refused,
            )
            self.spend = (self.spend or NO_SPEND) + call.spend
            yield call

    def read_new(self, *, most: int = STEP_BYTES) -> None:
        for _call in self.read_calls(most=most):
            pass


def _parse_spend(line: Mapping[str, Any]) -> Spend:
    return Spend(
        micro_usd=_parse_count(line.get("micro_usd")),
        input_tokens=_parse_count(line.get("input")),
        output_tokens=_parse_count(line.get("output")),
        cache_read_tokens=_parse_count(line.get("cache_read")),
        cache_write_tokens=_parse_count(line.get("cache_write")),
    )


def _parse_count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
