"""One agent's transcript, entry by entry, as lines and as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from rich.text import Text

from blueflame.model.audit import ALLOW, BLOCK
from blueflame.telemetry.transcript import AgentComplaint, AgentWords, ModelCharge, TranscriptCall, TranscriptEntry
from blueflame.text.marks import BAD, DOT, NOTE, OK
from blueflame.text.sanitize import clean_line
from blueflame.views.activity import format_usage

NO_TIME = " " * 8


def format_entry(entry: TranscriptEntry, *, now: float | None) -> Text:
    """`14:30:27  ✓ Edit src/a.py`; `now` is the time for entries without their own."""
    match entry:
        case AgentWords(text):
            return _build_line(_format_clock(now), "»", "quiet", clean_line(text))
        case AgentComplaint(text):
            return _build_line(_format_clock(now), NOTE, "warn", clean_line(text))
        case ModelCharge():
            return _build_line(
                _format_clock(_parse_stamp(entry.at) or now), "$", "quiet", _describe_bill(entry), style="quiet"
            )
        case TranscriptCall():
            mark, style = {True: (OK, "good"), False: (BAD, "bad"), None: (DOT, "quiet")}[entry.allowed]
            refused = f"  refused: {clean_line(entry.why)}" if entry.why else "  refused"
            words = clean_line(f"{entry.tool} {entry.target}") + (refused if entry.allowed is False else "")
            return _build_line(_format_clock(_parse_stamp(entry.at) or now), mark, style, words)


def _build_line(at: str, mark: str, mark_style: str, words: str, *, style: str = "") -> Text:
    return Text.assemble((f"{at}  ", "quiet"), (f"{mark} ", mark_style), (words, style))


def _describe_bill(bill: ModelCharge) -> str:
    if bill.refused:
        return f"model call refused: {clean_line(bill.refused)}"
    of = f" of {clean_line(bill.model)}" if bill.model else ""
    used, total = format_usage(bill.spend) or "nothing", format_usage(bill.total) or "nothing"
    return f"{used}{of}" + (f"; {total} so far" if bill.total != bill.spend else "")


def build_entry_json(entry: TranscriptEntry, *, agent: str, now: float | None) -> dict[str, Any]:
    told: dict[str, Any] = {"agent": agent, "at": now, "kind": "words"}
    match entry:
        case AgentWords(text):
            return told | {"words": text}
        case AgentComplaint(text):
            return told | {"kind": "trouble", "words": text}
        case ModelCharge():
            spent = {"tokens": entry.spend.tokens, "cost_usd": entry.spend.usd}
            total = {"total_tokens": entry.total.tokens, "total_cost_usd": entry.total.usd}
            about = {"model": entry.model, "refused": entry.refused}
            return told | {"kind": "used", "at": _parse_stamp(entry.at) or now} | spent | total | about
        case TranscriptCall():
            decision = {True: ALLOW, False: BLOCK, None: None}[entry.allowed]
            call = {"tool": entry.tool, "target": entry.target, "decision": decision, "why": entry.why}
            return told | {"kind": "call", "at": _parse_stamp(entry.at) or now} | call


def _format_clock(at: float | None) -> str:
    return NO_TIME if at is None else f"{datetime.fromtimestamp(at).astimezone():%H:%M:%S}"


def _parse_stamp(stamp: str) -> float | None:
    try:
        return datetime.fromisoformat(stamp).timestamp() if stamp else None
    except ValueError:
        return None
