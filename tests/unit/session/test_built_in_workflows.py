"""Each built-in workflow runs with no configuration, from the request to the landing."""

from __future__ import annotations

import pytest

from blueflame.model.attempt import Attempt
from blueflame.model.event import AttemptIntended, VerdictGiven
from blueflame.model.settings import Settings
from blueflame.session.from_settings import build_session_limits, build_workflow
from blueflame.testing.simulation import Simulation
from support.session_examples import Outcomes, events, reported, task

SETTINGS = Settings.model_validate({"project": {"name": "x"}})
REVIEWED_TWICE = ["backend", "review-git", "frontend", "review-git-2", "qa"]
STAGES = {
    "waves": ["worker", "validator"],
    "flow": ["worker", "validator"],
    "single": ["worker"],
    "direct": ["lead"],
    "curate": [],
    "single_verified": ["worker", "build-validator"],
    "waves_verified": ["worker", "build-validator", "verify-app"],
    "default": REVIEWED_TWICE,
    "backend_only": ["backend", "review-git", "qa"],
    "frontend_only": ["frontend", "review-git", "qa"],
    "full_stack": ["database", *REVIEWED_TWICE],
}


class Confident(Outcomes):
    def __init__(self, confidence: float) -> None:
        super().__init__(task(1), answers={"validation": "drop"})
        self.confidence = confidence

    def pick_confidence(self, _attempt: Attempt) -> float:
        return self.confidence


def play(name: str, confidence: float = 1.0) -> Simulation:
    workflow, limits = build_workflow(SETTINGS, name), build_session_limits(SETTINGS, name, scripted=True)
    return reported(Confident(confidence), workflow, limits)


@pytest.mark.parametrize("name", sorted(SETTINGS.workflows))
def test_a_request_goes_through_every_stage_and_lands(name: str) -> None:
    world = play(name)
    assert world.session.outcome == "completed"
    made = [event.attempt for event in events(world, AttemptIntended) if event.attempt.stage is not None]
    assert [attempt.label for attempt in made] == STAGES[name]


@pytest.mark.parametrize(
    ("name", "threshold"), [("default", 0.8), ("backend_only", 0.85), ("frontend_only", 0.75), ("full_stack", 0.8)]
)
def test_a_review_passes_at_the_threshold_and_not_below(name: str, threshold: float) -> None:
    assert all(event.verdict.passed for event in events(play(name, threshold), VerdictGiven))
    assert not events(play(name, threshold - 0.01), VerdictGiven)[0].verdict.passed
