from __future__ import annotations

import json
from dataclasses import replace

import pytest

from blueflame.model.activity import Health, HealthReport
from blueflame.model.event import BaseAdopted, CycleEnded, EnvironmentRetried, Event, GateAnswered, LandingUndone
from blueflame.model.gate import Answer
from blueflame.model.limits import Limits
from blueflame.model.spend import Budget, Spend, Unit
from blueflame.session.consequences import consequences_of
from blueflame.session.environment import report_problem
from blueflame.views.session import (
    PersonLocks,
    build_gates_json,
    build_session_json,
    build_status_view,
    build_summary_view,
    format_budget,
    list_commands_under_way,
)
from support.recorded_session import ID, Story
from support.session_examples import Outcomes, reported, task


def tell(story: Story, event: Event) -> None:
    """The event with all that follows from it, as the conductor records them."""
    story.tell(*tuple(consequences_of(story.session, event, story.now)), seconds=0)


@pytest.fixture
def cycle_over() -> Story:
    """One changeset landed, one was rejected."""
    story = Story().reviewing()
    tell(story, GateAnswered(gate="changeset-cs-1-auth", answer=Answer(choice="skip")))
    story = Story().reviewing()
    del story.session.open_gates["changeset-cs-1-auth"]
    story.lands("cs-1-auth").presents("cs-1-api")
    (gate,) = story.session.open_gates
    tell(story, GateAnswered(gate=gate, answer=Answer(choice="reject", note="примеры не работают")))
    tell(story, CycleEnded(cycle=1))
    return story


@pytest.mark.parametrize(
    ("budget", "line"),
    [
        (Budget(Unit.USD, 10_000_000), "$2.14 / $10.00 USD limit"),
        (Budget(Unit.TOKENS, 50_000), "12,450 / 50,000 token limit"),
        (Budget(Unit.USD, 0), "$2.14 (no limit)"),
        (Budget(Unit.TOKENS, 0), "12,450 tokens (no limit)"),
    ],
)
def test_the_budget_is_shown_in_its_unit(budget: Budget, line: str) -> None:
    assert format_budget(budget, Spend(micro_usd=2_140_000, input_tokens=12_000, output_tokens=450)) == line


def test_a_task_that_a_persons_lock_keeps_back_says_so() -> None:
    story, locked = Story().approved(), {"ada": ("internal",)}

    def wait(held: PersonLocks) -> object:
        return build_session_json(story.session, now=story.now, locked=held)["tasks"][0]["waits_for"]

    assert (wait({}), wait({"ada": ("docs",)})) == ("waits for a slot", "waits for a slot")
    assert wait(locked) == "waits for the lock internal held by ada"
    assert build_status_view(story.session, now=story.now, locked=locked).tasks[0].note == wait(locked)


def test_the_cost_for_machines_is_the_sum_of_its_attempts_also_of_running_ones() -> None:
    story = Story().approved().begins("task-001")
    (attempt,) = story.session.live
    used = {attempt: HealthReport(state=Health.WORKING, spend=Spend(micro_usd=250_000, input_tokens=7))}

    found = build_session_json(story.session, now=story.now, checkups=used)

    assert found["cost_usd"] == sum(each["cost_usd"] for each in found["attempts"]) > 0
    assert found["tokens"] == sum(each["tokens"] for each in found["attempts"])


def test_machines_get_json_at_every_point_of_a_session(cycle_over: Story) -> None:
    result = json.loads(json.dumps(build_session_json(cycle_over.session, now=cycle_over.now)))
    assert result["session"] == ID
    assert [task["state"] for task in result["tasks"]] == ["merged", "merged", "requeued"]
    assert result["cost_usd"] == 1.68
    assert result["gates"][0]["kind"] == "session"
    assert {attempt["ending"] for attempt in result["attempts"]} == {"passed", "timeout"}
    assert json.dumps(build_session_json(Story().session, now=0.0))
    assert build_gates_json([]) == []


def test_the_status_of_an_undone_task_says_so() -> None:
    story = Story().reviewing().lands("cs-1-auth")
    story.tell(LandingUndone(changeset="cs-1-auth", before="b", after="c" * 40, by="ann"))
    lines = {line.id: line for line in build_status_view(story.session, now=0.0).tasks}
    assert lines["task-001"].note == "undone by ann with cccccccccccc"
    assert [name for name, line in lines.items() if line.undone] == ["task-001", "task-002"]
    left = build_summary_view(story.session, now=0.0).not_landed
    assert [line.note for line in left if line.undone] == ["undone by ann with cccccccccccc"] * 2
    reasons = {each["id"]: each["reason"] for each in build_session_json(story.session, now=story.now)["tasks"]}
    assert reasons["task-001"] == "undone by ann with cccccccccccc"


def test_the_summary_says_how_work_whose_commits_are_gone_is_made_again() -> None:
    story = Story().reviewing().lands("cs-1-auth")
    story.tell(BaseAdopted(sha="d" * 40, without=("cs-1-auth",), gone=("cs-1-auth",)))
    line = build_summary_view(story.session, now=0.0).not_landed[0]
    assert (line.id, line.undone) == ("task-001", True)
    assert "its commits are gone; have it made again: blueflame add" in line.note


def test_a_rejected_task_does_not_show_the_praise_of_its_reviewer_as_the_reason() -> None:
    world = reported(Outcomes(task(1), answers={"changeset": "reject"}), limits=Limits(max_cycles=1))
    (line,) = build_summary_view(world.session, now=0.0).not_landed
    assert line.note == "rejected: because"


def test_a_deferred_task_shows_why() -> None:
    skipped = Answer(choice="skip", note="your checkout of main is not clean")
    world = reported(Outcomes(task(1), answers={"changeset": skipped}), limits=Limits(max_cycles=1))
    (line,) = build_summary_view(world.session, now=0.0).not_landed
    assert line.note == "your checkout of main is not clean"


def test_a_push_that_takes_long_is_named_with_its_remote_and_since_when() -> None:
    story = Story().reviewing()
    session = story.session
    session.limits = replace(session.limits, remote="origin")
    tell(story, GateAnswered(gate="changeset-cs-1-auth", answer=Answer(choice="approve")))
    later = story.now + 180
    words = "landing of cs-1-auth: pushing to origin, 3 min 00 s"
    assert build_session_json(session, now=later)["under_way"] == [words]
    assert ("Under way", words) in [fact[:2] for fact in build_status_view(session, now=later).facts]

    failed = report_problem(session, "landing of cs-1-auth", "no pull request could be opened: x", later)
    story.tell(failed)
    assert list_commands_under_way(session, later) == (), "it waits, which is shown as hindered"
    story.tell(EnvironmentRetried(act=failed.act))
    assert list_commands_under_way(session, failed.until + 2) == ("landing of cs-1-auth: pushing to origin, 2.0 s",)


def test_an_attempt_that_was_not_started_yet_waits_and_does_not_run() -> None:
    record = next(iter(Story().reviewing().session.attempts.values()))
    assert record.ending_words == "passed"
    assert replace(record, ended=None).ending_words == "running"
    assert replace(record, ended=None, started_at=None).ending_words == "waiting"
