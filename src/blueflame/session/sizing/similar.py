"""What similar requests of earlier sessions say about the size of a new one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from blueflame.lazy_dataclass import dataclass
from blueflame.model.memory import MemoryRecord, SessionSummary
from blueflame.model.sizing import ChosenBy, PastRequest, Sizing, Tier

WORD = re.compile(r"\w{3,}")
COMMON_WORDS = (
    "the and for with that this from into when then than are was were has have not but all any can should would make "
    "add use new our its file files code task tasks please"
)
COMMON = frozenset(COMMON_WORDS.split())

SIMILAR = 0.5  # the share of words that two requests have in common
MAX_SIMILAR = 5  # the most similar ones count
STRONG = 2.0  # weight of what a person chose, and of a tier that failed
CONTRADICTING = 1.4  # weight from which history overrules what the code is sure of
MAJORITY = 0.6
DECIDED, CONFIRMED = 0.8, 0.95  # confidence


def extract_words(text: str) -> frozenset[str]:
    """The significant words of a text; a path is split."""
    return frozenset(word for word in WORD.findall(text.casefold().replace("_", " ")) if word not in COMMON)


@dataclass(frozen=True, slots=True)
class Vote:
    tier: Tier
    weight: float
    reason: str


def weigh_history(request: str, sizing: Sizing, history: Iterable[PastRequest]) -> Sizing:
    """Confirm, decide or overrule a sizing by what became of similar requests."""
    votes = list(_iter_votes(request, history))
    if not votes:
        return sizing
    weights = {tier: sum(vote.weight for vote in votes if vote.tier is tier) for tier in Tier}
    tier = max(Tier, key=lambda each: (weights[each], each))
    share = weights[tier] / sum(weights.values())
    reasons = tuple(vote.reason for vote in votes if vote.tier is tier)[:2]
    if share < MAJORITY:
        return sizing
    if tier is sizing.tier and sizing.is_clear:
        return replace(sizing, confidence=CONFIRMED, reasons=(*sizing.reasons, *reasons))
    if sizing.is_clear and weights[tier] < CONTRADICTING:
        return sizing
    parts = sizing.parts if tier is sizing.tier else 1 if tier is not Tier.PLANNED else max(sizing.parts, 3)
    overruled = (f"by its words alone it would be tier {sizing.tier.value}",) if sizing.is_clear else sizing.reasons
    return Sizing(tier=tier, confidence=DECIDED, reasons=(*reasons, *overruled), parts=parts, by_history=True)


def _iter_votes(request: str, history: Iterable[PastRequest]) -> Iterator[Vote]:
    """The most similar first, then the newest."""
    wanted = extract_words(request)
    near = [(compare_words(wanted, extract_words(past.request)), past) for past in history]
    ranked = sorted(near, key=lambda each: (-each[0], -each[1].at, each[1].session))
    for likeness, past in ranked[:MAX_SIMILAR]:
        learned = _learn_tier(past) if likeness >= SIMILAR else None
        if learned is not None:
            tier, weight, what = learned
            yield Vote(tier, weight * likeness, f"a similar request {what} ({past.session})")


def compare_words(one: frozenset[str], other: frozenset[str]) -> float:
    """The share that both have."""
    return len(one & other) / len(one | other) if one and other else 0.0


def _learn_tier(past: PastRequest) -> tuple[Tier, float, str] | None:
    """What the session of a request says about its size; None for one that ended before it said anything."""
    if past.failed and past.tier is not Tier.PLANNED:
        return Tier(past.tier + 1), STRONG, f"failed in tier {past.tier.value}"
    if past.chosen_by is ChosenBy.PERSON:
        return past.tier, STRONG, f"was set to tier {past.tier.value} by a person"
    if not past.landed or past.landed < past.tasks:
        return None
    if past.tier is Tier.PLANNED and past.tasks == 1:
        return Tier.SINGLE, 1.0, "was planned as one task and landed"
    landed = f"landed as {past.tasks} tasks" if past.tier is Tier.PLANNED else f"landed in tier {past.tier.value}"
    return past.tier, 1.0, landed


def list_past_requests(records: Iterable[MemoryRecord]) -> tuple[PastRequest, ...]:
    """Return the requests of earlier sessions, as the memory keeps them."""
    return tuple(_build_past(record) for record in records if isinstance(record, SessionSummary))


def _build_past(record: SessionSummary) -> PastRequest:
    """A session from before triage was planned, or its workflow is not known: its tasks tell."""
    return PastRequest(
        session=record.origin.session,
        request=record.request,
        at=record.origin.at,
        tier=record.tier or Tier.PLANNED,
        chosen_by=record.chosen_by or ChosenBy.SETTINGS,
        tasks=record.tasks,
        landed=record.merged,
        failed=record.failed,
    )
