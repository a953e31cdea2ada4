from __future__ import annotations

from itertools import product

import pytest

from blueflame.model.errors import InternalError
from blueflame.model.task import Cause, TaskState
from blueflame.session.task_states import MOVES, find_next_state

LEGAL = """
pending    claim->claimed fail->failed block->blocked drop->dropped
claimed    complete->done hand_over->partial fail->failed release->pending requeue->requeued
partial    claim->claimed hand_over->partial fail->failed requeue->requeued block->blocked drop->dropped
done       hand_over->done validate->validated fail->failed requeue->requeued defer->deferred drop->dropped
validated  land->merged requeue->requeued defer->deferred drop->dropped
merged
failed     retry->pending renew->pending drop->dropped
blocked    unblock->pending drop->dropped
requeued   renew->pending block->blocked drop->dropped
deferred   present->done fail->failed requeue->requeued drop->dropped
dropped
"""


def legal() -> dict[tuple[TaskState, Cause], TaskState]:
    found = {}
    for line in LEGAL.strip().splitlines():
        state, *steps = line.split()
        for step in steps:
            cause, after = step.split("->")
            found[TaskState(state), Cause(cause)] = TaskState(after)
    return found


@pytest.mark.verification(4)
def test_every_move_is_on_the_page_and_no_other() -> None:
    assert dict(MOVES) == legal()


@pytest.mark.verification(4)
def test_what_is_not_on_the_page_is_refused_in_words() -> None:
    on_page, wrong = legal(), []
    for state, cause in product(TaskState, Cause):
        try:
            result: object = find_next_state(state, cause)
        except InternalError as error:
            is_right = (state, cause) not in on_page and f"a {state.value} task cannot {cause.value}" in str(error)
            result = error
        else:
            is_right = on_page.get((state, cause)) is result
        if not is_right:
            wrong.append((state, cause, result))
    assert wrong == []


@pytest.mark.parametrize("state", [TaskState.MERGED, TaskState.DROPPED])
def test_nothing_leaves_a_finished_state(state: TaskState) -> None:
    assert not [cause for where, cause in MOVES if where is state]


@pytest.mark.parametrize("state", [state for state in TaskState if state not in (TaskState.MERGED, TaskState.DROPPED)])
def test_from_every_other_state_a_task_can_still_land(state: TaskState) -> None:
    seen, frontier = {state}, [state]
    while frontier:
        here = frontier.pop()
        for (where, _), after in MOVES.items():
            if where is here and after not in seen:
                seen.add(after)
                frontier.append(after)
    assert TaskState.MERGED in seen
