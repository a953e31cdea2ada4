"""One agent's transcript, entry by entry."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from blueflame.model.audit import ALLOW, BLOCK
from blueflame.telemetry.transcript import AgentComplaint, AgentWords, ModelCharge, TranscriptCall, TranscriptEntry
from blueflame.text.marks import BAD, DOT, NOTE, OK
from blueflame.views.activity import format_usage
from blueflame.views.parts import MarkedLine


def describe_entry(entry: TranscriptEntry) -> MarkedLine:
    """`✓ Edit src/a.py`."""
    match entry:
        case AgentWords(text):
            return MarkedLine("»", "quiet", text)
        case AgentComplaint(text):
            return MarkedLine(NOTE, "warn", text)
        case ModelCharge():
            return MarkedLine("$", "quiet", _describe_charge(entry))
        case TranscriptCall():
            mark, tone = {True: (OK, "good"), False: (BAD, "bad"), None: (DOT, "quiet")}[entry.allowed]
            refused = f" refused: {entry.why}" if entry.why else " refused"
            return MarkedLine(mark, tone, f"{entry.tool} {entry.target}" + (refused if entry.allowed is False else ""))


def get_entry_time(entry: TranscriptEntry) -> float | None:
    """None for entries without their own time, or with one that cannot be read."""
    stamp = entry.at if isinstance(entry, ModelCharge | TranscriptCall) else ""
    try:
        return datetime.fromisoformat(stamp).timestamp() if stamp else None
    except ValueError:
        return None


def _describe_charge(charge: ModelCharge) -> str:
    if charge.refused:
        return f"model call refused: {charge.refused}"
    of = f" of {charge.model}" if charge.model else ""
    used, total = format_usage(charge.spend) or "nothing", format_usage(charge.total) or "nothing"
    return f"{used}{of}" + (f"; {total} so far" if charge.total != charge.spend else "")


def build_entry_json(entry: TranscriptEntry, *, agent: str, now: float | None) -> dict[str, Any]:
    """`now` is the time for entries without their own."""
    common = {"agent": agent, "at": get_entry_time(entry) or now}
    match entry:
        case AgentWords(text):
            return common | {"kind": "words", "words": text}
        case AgentComplaint(text):
            return common | {"kind": "trouble", "words": text}
        case ModelCharge():
            spent = {"tokens": entry.spend.tokens, "cost_usd": entry.spend.usd}
            total = {"total_tokens": entry.total.tokens, "total_cost_usd": entry.total.usd}
            about = {"model": entry.model, "refused": entry.refused}
            return common | {"kind": "used"} | spent | total | about
        case TranscriptCall():
            decision = {True: ALLOW, False: BLOCK, None: None}[entry.allowed]
            call = {"tool": entry.tool, "target": entry.target, "decision": decision, "why": entry.why}
            return common | {"kind": "call"} | call
