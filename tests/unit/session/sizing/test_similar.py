"""What became of similar requests weighs in the next decision."""

from __future__ import annotations

from dataclasses import replace

import pytest

from blueflame.model.memory import Origin, SessionSummary
from blueflame.model.sizing import ChosenBy, PastRequest, Sizing, Tier
from blueflame.session.sizing.similar import list_past_requests, weigh_history

REQUEST = "Speed up the nightly import of invoices"
UNSURE = Sizing(tier=Tier.PLANNED, confidence=0.4, reasons=("unclear",), parts=3)
CLEAR = Sizing(tier=Tier.DIRECT, confidence=0.9, reasons=("a typo",))
PAST = PastRequest(
    session="ses-1",
    request="Speed up the nightly import of bills and invoices",
    at=1.0,
    tier=Tier.PLANNED,
    chosen_by=ChosenBy.UNSURE,
    tasks=1,
    landed=1,
    failed=0,
)


def test_without_similar_requests_nothing_changes() -> None:
    assert weigh_history(REQUEST, UNSURE, [replace(PAST, request="Paint the doors green")]) == UNSURE
    assert weigh_history(REQUEST, UNSURE, []) == UNSURE


@pytest.mark.parametrize(
    ("change", "tier"),
    [
        ({}, Tier.SINGLE),  # its plan had one task
        ({"tasks": 4, "landed": 4}, Tier.PLANNED),
        ({"tier": Tier.DIRECT}, Tier.DIRECT),
        ({"tier": Tier.DIRECT, "landed": 0, "failed": 1}, Tier.SINGLE),
        ({"tier": Tier.SINGLE, "landed": 0, "failed": 1}, Tier.PLANNED),
        ({"tier": Tier.DIRECT, "chosen_by": ChosenBy.PERSON, "tasks": 0, "landed": 0}, Tier.DIRECT),
    ],
)
def test_a_similar_request_decides_what_the_code_cannot(change: dict[str, int], tier: Tier) -> None:
    found = weigh_history(REQUEST, UNSURE, [replace(PAST, **change)])  # type: ignore[arg-type]  # of its fields
    assert (found.tier, found.is_clear, found.by_history) == (tier, True, True)
    assert "ses-1" in found.reasons[0]


def test_a_session_that_ended_before_it_said_anything_says_nothing() -> None:
    assert weigh_history(REQUEST, UNSURE, [replace(PAST, tasks=3, landed=1)]) == UNSURE


def test_what_a_person_chose_overrules_what_the_code_is_sure_of_and_one_landing_does_not() -> None:
    landed = replace(PAST, tier=Tier.SINGLE, request=REQUEST)
    assert weigh_history(REQUEST, CLEAR, [landed]) == CLEAR
    chosen = replace(landed, chosen_by=ChosenBy.PERSON)
    found = weigh_history(REQUEST, CLEAR, [chosen])
    assert (found.tier, found.by_history) == (Tier.SINGLE, True)
    assert "by its words alone it would be tier 1" in found.reasons


def test_agreement_makes_the_code_more_confident() -> None:
    found = weigh_history(REQUEST, CLEAR, [replace(PAST, tier=Tier.DIRECT)])
    assert (found.tier, found.by_history) == (Tier.DIRECT, False)
    assert found.confidence > CLEAR.confidence


def test_contradicting_sessions_decide_nothing() -> None:
    split = [replace(PAST, tier=Tier.DIRECT), replace(PAST, session="ses-2", tasks=3, landed=3)]
    assert weigh_history(REQUEST, UNSURE, split) == UNSURE


def test_a_summary_from_before_triage_counts_by_its_tasks() -> None:
    old = SessionSummary(key="session:s", origin=Origin(session="s"), request=REQUEST, tasks=1, merged=1)
    (past,) = list_past_requests([old])
    assert weigh_history(REQUEST, UNSURE, [past]).tier is Tier.SINGLE
