"""The workflow of a request: what a person says, else the settings, else its size."""

from __future__ import annotations

import pytest

from blueflame.model.errors import UsageError
from blueflame.model.settings import Settings
from blueflame.model.sizing import ChosenBy, Sizing, Tier
from blueflame.session.sizing.choose import choose_workflow, find_triage_mode, refuse_contradiction

SMALL = Sizing(tier=Tier.DIRECT, confidence=0.9, reasons=("a typo",))
UNSURE = Sizing(tier=Tier.PLANNED, confidence=0.4, reasons=("unclear",))


def configure(**planning: str) -> Settings:
    own = {"quick": {"stages": ["work", "check", "merge"]}}
    return Settings.model_validate({"project": {"name": "p"}, "planning": planning, "workflows": own})


def choose(
    settings: Settings, sizing: Sizing = SMALL, tier: Tier | None = None, workflow: str | None = None
) -> tuple[int, str, ChosenBy]:
    return choose_workflow(settings, sizing, tier=tier, workflow=workflow, mode=find_triage_mode(settings))


def test_with_nothing_written_the_size_decides_and_what_is_unclear_is_planned() -> None:
    assert choose(configure()) == (1, "direct", ChosenBy.CODE)
    assert choose(configure(), UNSURE) == (3, "waves", ChosenBy.UNSURE)


def test_a_workflow_that_is_written_stays() -> None:
    assert choose(configure(workflow="waves")) == (3, "waves", ChosenBy.SETTINGS)
    assert choose(configure(workflow="single")) == (2, "single", ChosenBy.SETTINGS)


def test_with_auto_written_too_the_workflow_is_that_of_planned_requests() -> None:
    assert choose(configure(workflow="flow", triage="auto")) == (1, "direct", ChosenBy.CODE)
    assert choose(configure(workflow="flow", triage="auto"), UNSURE) == (3, "flow", ChosenBy.UNSURE)
    assert choose(configure(workflow="single", triage="auto"), UNSURE) == (3, "waves", ChosenBy.UNSURE)


def test_a_suggestion_changes_nothing() -> None:
    assert choose(configure(triage="suggest")) == (3, "waves", ChosenBy.SETTINGS)


@pytest.mark.parametrize(
    ("tier", "workflow", "chosen"),
    [
        (Tier.PLANNED, None, (3, "waves")),
        (Tier.SINGLE, None, (2, "single")),
        (None, "flow", (3, "flow")),
        (None, "single", (2, "single")),
        (None, "quick", (1, "quick")),  # for any request to one agent: its size stays
        (Tier.SINGLE, "quick", (2, "quick")),
        (Tier.PLANNED, "flow", (3, "flow")),
    ],
)
def test_a_person_overrides_size_and_settings(tier: Tier | None, workflow: str | None, chosen: tuple[int, str]) -> None:
    assert choose(configure(workflow="waves"), SMALL, tier, workflow) == (*chosen, ChosenBy.PERSON)


@pytest.mark.parametrize(
    ("tier", "workflow", "right"),
    [(1, "waves", "direct"), (1, "single", "direct"), (2, "direct", "single"), (3, "quick", "waves")],
)
def test_a_tier_and_a_workflow_that_contradict_each_other_are_refused(tier: int, workflow: str, right: str) -> None:
    with pytest.raises(UsageError, match=rf"--tier {tier} and --workflow {workflow} contradict.* runs {right}"):
        refuse_contradiction(configure(), Tier(tier), workflow)
