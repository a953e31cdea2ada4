"""Reads what an agent leaves for the next one. Nothing in it decides anything: what does not fit is left out, and said.

An agent that answers in prose, or not at all, has a hand-off too: its last words are the summary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from blueflame.model.hand_off import WORDS, HandOff
from blueflame.text.notes import clean_notes

MAX_ENTRIES, MAX_ENTRY_CHARS = 20, 400


def parse_hand_off(answer: Mapping[str, Any] | None, text: str) -> HandOff:
    """Read the answer; without one that names a part of a hand-off, the text."""
    if answer is None or WORDS.keys().isdisjoint(answer):
        return _build_hand_off({"summary": _split_text(text)})
    texts = {name: _read_texts(answer.get(name)) for name in WORDS}
    wrong = [f"{name} is not a list of texts: left out" for name, found in texts.items() if found is None]
    confidence = answer.get("confidence")
    if not is_confidence(confidence):
        wrong.append("confidence is not a number from 0 to 1: left out")
        confidence = None
    return _build_hand_off({name: found or () for name, found in texts.items()}, confidence, wrong)


def read_verdict_words(answer: Mapping[str, Any]) -> HandOff:
    """Read a reviewer's answer: its notes sum it up, and its issues stop the task."""
    return parse_hand_off({"blockers": answer.get("issues"), **answer, "summary": answer.get("notes")}, "")


def is_confidence(value: object) -> bool:
    """Whether it is a number from 0 to 1, or left out."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1)


def _split_text(text: str) -> tuple[str, ...]:
    """Split prose into its lines, without their bullets."""
    return tuple(line for line in (each.strip().removeprefix("- ") for each in text.splitlines()) if line)


def _read_texts(value: object) -> Sequence[str] | None:
    """Return a list of texts, also for one text and for nothing; None for anything else."""
    if value is None or isinstance(value, str):
        return _split_text(value or "")
    return value if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value) else None


def _build_hand_off(
    texts: Mapping[str, Sequence[str]], confidence: float | None = None, problems: Sequence[str] = ()
) -> HandOff:
    cleaned = {name: clean_notes(found[:MAX_ENTRIES], MAX_ENTRY_CHARS) for name, found in texts.items()}
    words = {name: tuple(each for each in entries if not _is_empty(each)) for name, entries in cleaned.items()}
    return HandOff(
        summary=words.get("summary", ()),
        learnings=words.get("learnings", ()),
        blockers=words.get("blockers", ()),
        recommendations=words.get("recommendations", ()),
        confidence=None if confidence is None else float(confidence),
        problems=(*problems, *_list_cuts(texts)),
    )


def _is_empty(entry: str) -> bool:
    """Whether it says that there is nothing: a blocker called `None` would block its stage."""
    return entry.strip().strip(".").casefold() in ("", "-", "none", "n/a", "nothing")


def _list_cuts(texts: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for name, found in texts.items():
        if len(found) > MAX_ENTRIES:
            yield f"{name} has {len(found):,} entries: the first {MAX_ENTRIES} are kept"
        if long := sum(len(entry) > MAX_ENTRY_CHARS for entry in found[:MAX_ENTRIES]):
            yield f"{name} has {long} entries of more than {MAX_ENTRY_CHARS} characters: cut"
