from __future__ import annotations

from dataclasses import replace

import pytest

from blueflame.model.attempt import AttemptOutcome, Ending
from blueflame.model.errors import Refused, UsageError
from blueflame.model.event import (
    AttemptEnded,
    CycleEnded,
    MessageDelivered,
    MessageSent,
    PlanProposed,
    RuntimeParked,
    WaveStarted,
)
from blueflame.session.state import Session
from blueflame.views.items import CommitRange, Item, build_item_json, build_item_view, find_item, find_item_diff
from blueflame.views.parts import DetailsView, NamedValue
from blueflame.views.session import find_wait_reason
from support.recorded_session import ID, TASKS, Story


@pytest.fixture
def session() -> Session:
    return Story().reviewing().session


def find_range(session: Session, name: str) -> CommitRange | str:
    return find_item_diff(session, find_item(session, name))


def test_everything_is_found_by_its_names_and_their_beginnings(session: Session) -> None:
    attempt = f"{ID}.task-003.worker.2"
    agent = session.attempts[attempt].attempt.agent_id
    for name in (attempt, "task-003.worker.2", agent, agent[:11]):
        assert find_item(session, name) == Item("attempt", attempt)
    assert find_item(session, "task-003") == Item("task", "task-003")
    assert find_item(session, "cs-1-au") == Item("changeset", "cs-1-auth")
    assert find_item(session, "plan") == Item("plan", "plan")


def test_without_a_name_it_is_what_waits_for_an_answer(session: Session) -> None:
    assert find_item(session, None) == Item("gate", "changeset-cs-1-auth")
    assert find_item(Story().planned().session, None) == Item("plan", "plan")


@pytest.mark.parametrize(("name", "says"), [("task-9", "no plan, task"), ("cs-1", "names: cs-1-api, cs-1-auth")])
def test_an_unknown_or_ambiguous_name_is_refused(session: Session, name: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        find_item(session, name)


def test_the_diff_is_that_of_the_commits_that_were_made(session: Session) -> None:
    assert find_range(session, "cs-1-auth") == find_range(session, "changeset-cs-1-auth")
    assert find_range(session, "cs-1-auth") == CommitRange("a" * 40, "c" * 40)
    assert find_range(session, "task-001") == CommitRange("a" * 40, "b" * 40)
    assert find_range(session, "task-003.worker.2") == CommitRange("a" * 40, "b" * 40)


@pytest.mark.parametrize(
    ("name", "why"),
    [("task-003.worker.1", "it left nothing"), ("cs-1-api", "it is not built"), ("plan", "it was not changed")],
)
def test_what_has_no_diff_says_why(session: Session, name: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        find_range(session, name)


def test_a_running_attempt_has_no_diff_yet() -> None:
    session = Story().working().session
    with pytest.raises(Refused, match="still working; its files are in /tmp/w"):
        find_range(session, "task-001.worker.1")
    with pytest.raises(Refused, match="no work on it yet"):
        find_range(session, "task-001")


def test_an_edited_plan_has_the_diff_of_its_text() -> None:
    story = Story().planned()
    edited = (replace(TASKS[0], description="Check the token."), *TASKS[1:])
    story.tell(PlanProposed(round=1, tasks=edited, origin="edit"))
    assert '+    description: "Check the token."\n' in str(find_range(story.session, "plan"))
    shown = build_item_json(story.session, Item("plan", "plan"), now=0)
    assert shown["plan"]["changes"] == ["task-001: the description was changed"]


def test_a_task_is_shown_with_its_state_description_and_history(session: Session) -> None:
    view = build_item_view(session, Item("task", "task-003"))
    assert isinstance(view, DetailsView)
    assert view.aside == ("validated", "priority 3")
    assert view.quote == ("…",)
    assert view.history == (("attempt 1", "failed", Ending.TIMEOUT.value),)
    assert {"Group", "Locks", "Result", "Cost"} <= {fact.name for fact in view.facts}


def test_a_proposed_task_is_shown_before_it_is_approved() -> None:
    view = build_item_view(Story().planned().session, Item("task", "task-002"))
    assert isinstance(view, DetailsView)
    assert view.aside[0] == "proposed"


def test_an_attempt_is_shown_with_its_end_and_where_its_output_is(session: Session) -> None:
    view = build_item_view(session, Item("attempt", f"{ID}.task-003.worker.1"))
    assert isinstance(view, DetailsView)
    facts = {fact.name: fact.text for fact in view.facts}
    assert facts["Ended"] == "timeout, after 1 min 02 s"
    assert facts["Prompt and output"] == f".blueflame/attempts/{ID}.task-003.worker.1/"


def test_the_json_of_each_kind_has_its_content(session: Session) -> None:
    names = ("plan", "task-001", "cs-1-auth", "changeset-cs-1-auth", "task-003.worker.1")
    for item in (find_item(session, name) for name in names):
        shown = build_item_json(session, item, now=0)
        assert (shown["session"], shown["id"]) == (ID, item.id)
        assert shown[item.kind]


def test_work_that_was_not_committed_is_shown_and_has_a_diff() -> None:
    story = Story().working()
    attempt = next(iter(story.session.live))
    story.tell(
        AttemptEnded(attempt=attempt, ended=AttemptOutcome(ending=Ending.TIMEOUT, base="a" * 40, unfinished="d" * 40))
    )
    item = find_item(story.session, attempt)
    assert find_item_diff(story.session, item) == CommitRange("a" * 40, "d" * 40)
    view = build_item_view(story.session, item)
    assert isinstance(view, DetailsView)
    assert NamedValue("Uncommitted", "kept as dddddddddddd for the next attempt") in view.facts


def test_messages_are_shown_with_what_became_of_them() -> None:
    story = Story().working()
    attempt = next(iter(story.session.live))
    for text in ("first", "second"):
        story.tell(MessageSent(attempt=attempt, text=text, by="Ada"))
    story.tell(MessageDelivered(attempt=attempt, number=1))
    item = find_item(story.session, attempt)
    view = build_item_view(story.session, item)
    assert isinstance(view, DetailsView)
    assert [line.text for line in view.lines] == [
        "Ada said: first",
        "Ada said: second (not delivered, it waits for the next tool call)",
    ]
    shown = build_item_json(story.session, item, now=0)["attempt"]["messages"]
    assert [each["delivered_at"] is None for each in shown] == [False, True]


def test_a_task_that_is_done_waits_for_its_checks() -> None:
    story = Story().working().ends("task-001")
    assert find_wait_reason(story.session, "task-001", 0.0) == ""
    story.tell(WaveStarted(cycle=1, stage="validate"))
    assert find_wait_reason(story.session, "task-001", 0.0) == "waits for its checks"


def test_a_task_whose_runtime_is_parked_waits_for_its_model() -> None:
    story = Story().approved()
    assert find_wait_reason(story.session, "task-001", 0.0) == "waits for a slot"
    story.tell(RuntimeParked(runtime="scripted", kind="outage", reason="500: overloaded"))
    assert find_wait_reason(story.session, "task-001", 0.0) == "waits for its model"


def test_between_two_cycles_a_task_waits_for_the_next() -> None:
    story = Story().working()
    assert find_wait_reason(story.session, "task-002", 0.0) == "waits for task-001"
    story.tell(CycleEnded(cycle=1))
    assert find_wait_reason(story.session, "task-002", 0.0) == "waits for cycle 2"
