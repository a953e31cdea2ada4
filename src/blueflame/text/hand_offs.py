"""Hand-offs as Markdown, for agents and people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from blueflame.model.hand_off import HandOff
from blueflame.session.hand_offs import StageHandOff
from blueflame.text.format import format_count
from blueflame.text.sanitize import shorten_line
from blueflame.text.tokens import estimate_tokens

MAX_TOKENS = 2_000  # of all hand-offs in a prompt
SIZES = (20, 10, 5, 3, 1, 0)  # entries of each part: the first size that fits is taken
MAX_PATH_CHARS = 200


def format_hand_off(hand_off: StageHandOff, *, most: int = SIZES[0]) -> str:
    """Format it, with at most this many entries of each part. Each is one line of a list: none passes for a heading."""
    left = hand_off.left
    files = [f"{shorten_line(file.path, MAX_PATH_CHARS)} ({file.how})" for file in left.files]
    learnings = "Learnings for Reviewer" if hand_off.to_judge else "Learnings for Next Agent"
    lines = [
        f"# HANDOFF: {hand_off.sender} → {hand_off.receiver}",
        "",
        f"## Task: {hand_off.task}",
        f"## Status: {hand_off.status.value}",
        f"## Confidence: {'not given' if left.confidence is None else f'{left.confidence:g}'}",
        *_format_part("Summary", left.summary, most),
        *_format_part("Files Changed", files, most, more=left.more_files),
        *_format_part(learnings, left.learnings, most),
        *_format_part("Blockers", left.blockers, most),
        *_format_part("Recommendations for Next Agent", left.recommendations, most),
        *(_format_part("Left Out", left.problems, most) if left.problems else ()),
    ]
    return "\n".join(lines) + "\n"


def _format_part(title: str, entries: Sequence[str], most: int, more: int = 0) -> Iterator[str]:
    hidden = max(len(entries) - most, 0) + more
    yield from ("", f"## {title}")
    yield from (f"- {entry}" for entry in (entries[:most] if entries else ("None",)))
    if hidden:
        yield f"- … and {hidden:,} more"


def select_hand_offs(received: Sequence[StageHandOff], budget: int = MAX_TOKENS) -> tuple[str, ...]:
    """Format what fits into the budget of tokens: the newest first, the others shorter or not at all; oldest on top."""
    chosen: list[str] = []
    for hand_off in reversed(received):
        room = budget - sum(map(estimate_tokens, chosen))
        texts = (format_hand_off(hand_off, most=size) for size in SIZES)
        if (text := next((each for each in texts if estimate_tokens(each) <= room), None)) is not None:
            chosen.append(text)
    return tuple(reversed(chosen))


def describe_words(left: HandOff) -> str:
    """`2 learnings, 1 blocker for the next agent`; empty when it has only a summary."""
    parts = (("learning", left.learnings), ("blocker", left.blockers), ("recommendation", left.recommendations))
    counted = ", ".join(format_count(len(entries), word) for word, entries in parts if entries)
    return f"{counted} for the next agent" if counted else ""
