from __future__ import annotations

from dataclasses import replace

import pytest

from blueflame.model.attempt import PLANNER, VALIDATOR, WORKER, Attempt, Ending
from blueflame.model.event import AttemptIntended, BudgetRaised, BudgetWarned, GateWithdrawn, StopRequested
from blueflame.model.gate import Answer
from blueflame.model.limits import Capacity, Limits
from blueflame.model.spend import NO_SPEND, UNLIMITED, Budget, Ceiling, Spend, Unit
from blueflame.model.task import Task, TaskState
from blueflame.session.budget import (
    MIN_SHARE_DIVISOR,
    BudgetGrant,
    BudgetRefusal,
    compute_reservation,
    find_exhausted_budget,
    find_nearest_limit,
    format_session_budget,
    grant_budget,
    should_warn_of_session_budget,
)
from blueflame.session.decide import next_events
from blueflame.session.gates.questions import answer_error
from blueflame.session.replay import replay
from blueflame.session.scheduling.ready_queue import ReadyQueue
from blueflame.session.state import Session
from blueflame.testing.simulation import SIMULATED_DAY, build_opening
from support.session_examples import FLOW, Outcomes, begun, events, moves, reported, states, task

USD_10 = Budget(Unit.USD, 10_000_000)
TOKENS_100 = Budget(Unit.TOKENS, 100)


CAPACITY = Capacity(agents=100)


def session(budget: Budget, spend: Spend = NO_SPEND, reserved: Spend = NO_SPEND, **roles: Budget) -> Session:
    opening = replay([build_opening(limits=Limits(session_budget=budget, role_budgets=roles))])
    opening.spend, opening.reserved = spend, reserved
    return opening


def granted(given: Session, role: str = WORKER, capacity: Capacity = CAPACITY) -> BudgetGrant:
    found = grant_budget(given, role, "plan" if role == PLANNER else "task-001", capacity)
    assert isinstance(found, BudgetGrant)
    return found


@pytest.mark.verification(51)
def test_without_a_limit_everything_is_granted_and_nothing_trips() -> None:
    """T51: 0 is no limit."""
    rich = session(UNLIMITED, Spend(micro_usd=10**12), worker=USD_10)
    assert granted(rich) == BudgetGrant(USD_10)
    assert granted(rich, VALIDATOR) == BudgetGrant(UNLIMITED)
    assert not find_exhausted_budget(rich, CAPACITY)
    assert not should_warn_of_session_budget(rich)
    assert format_session_budget(rich) == "$1000000.00 / no limit"


def test_what_is_reserved_is_no_longer_there() -> None:
    half = session(USD_10, Spend(micro_usd=3_000_000), Spend(micro_usd=5_000_000), worker=USD_10)
    assert granted(half) == BudgetGrant(USD_10, (Ceiling("session", Budget(Unit.USD, 2_000_000)),))


def test_a_role_gets_no_more_than_its_own_and_needs_no_ceiling_then() -> None:
    own = Budget(Unit.USD, 4_000_000)
    assert granted(session(USD_10, worker=own)) == BudgetGrant(own)


@pytest.mark.parametrize("own", [UNLIMITED, TOKENS_100])
def test_a_role_without_a_limit_in_the_sessions_unit_gets_a_ceiling_in_it(own: Budget) -> None:
    """Nothing else could start beside it, so all that is left is its own."""
    assert granted(session(USD_10, worker=own)) == BudgetGrant(own, (Ceiling("session", USD_10),))


def at_work(limits: Limits, *tasks: Task) -> list[Attempt]:
    """The workers that are started together, before any of them has ended."""
    turns = [turn for turn in reported(Outcomes(*tasks), limits=limits).schedule if turn.attempt.role == WORKER]
    return [turn.attempt for turn in turns if turn.begins == turns[0].begins]


def test_attempts_that_could_start_together_share_what_is_left() -> None:
    workers = at_work(Limits(session_budget=USD_10, workers=4), task(1), task(2), task(3), task(4), task(5))
    assert [a.ceilings for a in workers] == [(Ceiling("session", Budget(Unit.USD, 2_500_000)),)] * 4


def test_a_task_that_cannot_start_now_gets_no_share() -> None:
    workers = at_work(Limits(session_budget=USD_10, workers=4), task(1), task(2), task(3, 1, 2))
    assert [a.ceilings[0].budget.limit for a in workers] == [5_000_000, 5_000_000]


def test_no_part_is_a_crumb() -> None:
    poor = session(USD_10, Spend(micro_usd=9_400_000))
    poor.queue = ReadyQueue([task(n) for n in range(1, 9)])
    assert granted(poor).ceilings[0].budget.limit == USD_10.limit // MIN_SHARE_DIVISOR
    poor.reserved = Spend(micro_usd=500_000)
    assert granted(poor).ceilings[0].budget.limit == 100_000


def test_each_budget_has_its_unit_and_only_effective_ceilings_are_listed() -> None:
    limits = Limits(
        session_budget=USD_10,
        day_budget=Budget(Unit.USD, 20_000_000),
        task_budget=TOKENS_100,
        role_budgets={WORKER: Budget(Unit.TOKENS, 500)},
        workers=2,
    )
    (worker,) = at_work(limits, task(1))
    assert worker.budget == Budget(Unit.TOKENS, 500)
    assert worker.ceilings == (Ceiling("task", TOKENS_100), Ceiling("session", USD_10))
    assert compute_reservation(worker) == Spend(micro_usd=10_000_000, input_tokens=100)


@pytest.mark.parametrize("over", [0, 1])
def test_nothing_is_granted_when_all_is_used(over: int) -> None:
    poor = session(USD_10, Spend(micro_usd=USD_10.limit + over))
    assert grant_budget(poor, WORKER, "task-001", CAPACITY) == BudgetRefusal(final=True, by="session")
    assert find_exhausted_budget(poor, CAPACITY) == "session"


def test_the_warning_comes_at_the_threshold_once() -> None:
    poor = session(USD_10, Spend(micro_usd=7_999_999))
    assert not should_warn_of_session_budget(poor)
    poor.spend = Spend(micro_usd=8_000_000)
    assert should_warn_of_session_budget(poor)
    poor.budget_warned = True
    assert not should_warn_of_session_budget(poor)


@pytest.mark.verification(49)
def test_tokens_of_every_kind_count() -> None:
    """T49: a session that reads mostly from the cache spends as well (C-10)."""
    spend = Spend(input_tokens=10, output_tokens=20, cache_read_tokens=60, cache_write_tokens=10)
    assert find_exhausted_budget(session(TOKENS_100, spend), CAPACITY)
    assert format_session_budget(session(TOKENS_100, spend)) == "100 tokens / 100 tokens"


DOLLAR_BUDGET = Budget(Unit.USD, 1_000_000)
LIMITS = Limits(workers=1, session_budget=Budget(Unit.USD, 2_000_000), role_budgets={WORKER: DOLLAR_BUDGET})
DOLLAR = {WORKER: Spend(micro_usd=1_000_000)}


@pytest.mark.verification(27)
def test_a_session_that_reaches_its_limit_asks_and_continues_when_it_is_raised() -> None:
    """T27: pause and ask."""
    raised = Answer(choice="raise", note="$9.50", by="Ада")
    world = reported(Outcomes(task(1), task(2), task(3), spends=DOLLAR, answers={"budget": raised}), limits=LIMITS)
    assert events(world, BudgetRaised) == [BudgetRaised(limit=9_500_000, by="Ада")]
    assert [event.used for event in events(world, BudgetWarned)] == [2_000_000]
    assert world.session.outcome == "completed"


def test_no_attempt_starts_while_the_budget_gate_is_open_and_results_are_kept() -> None:
    world = reported(Outcomes(task(1), task(2), task(3), spends=DOLLAR, answers={"budget": None}), limits=LIMITS)
    assert list(world.session.open_gates) == ["budget"]
    assert states(world) == {
        "task-001": TaskState.DONE,
        "task-002": TaskState.DONE,
        "task-003": TaskState.PENDING,
    }


@pytest.mark.verification(49)
def test_a_limit_in_tokens_trips_the_breaker_too() -> None:
    """T49."""
    limits = Limits(session_budget=TOKENS_100, workers=1)
    spends = {WORKER: Spend(cache_read_tokens=70)}
    world = reported(Outcomes(task(1), task(2), task(3), spends=spends, answers={"budget": None}), limits=limits)
    assert world.session.open_gates["budget"].title == ("The session's budget is used up: 140 tokens / 100 tokens.")


@pytest.mark.verification(27)
def test_stop_puts_the_session_down_and_a_resume_asks_again() -> None:
    world = reported(Outcomes(task(1), task(2), task(3), spends=DOLLAR, answers={"budget": "stop"}), limits=LIMITS)
    assert world.session.stopping == "budget gate answered stop by Ада"
    assert not world.session.ended
    again = world.resume().run()
    assert list(again.session.gates) == ["plan", "budget", "budget-2"]
    assert len(events(again, StopRequested)) == 2


def test_landing_costs_nothing_and_is_not_held_up() -> None:
    limits = Limits(session_budget=Budget(Unit.USD, 1_000_000))
    world = reported(Outcomes(task(1), spends={VALIDATOR: Spend(micro_usd=5_000_000)}), limits=limits)
    assert world.session.outcome == "completed"
    assert "budget" not in world.session.gates


def test_review_waits_for_money() -> None:
    world = reported(
        Outcomes(task(1), spends=DOLLAR, answers={"budget": None}), FLOW, Limits(session_budget=DOLLAR_BUDGET)
    )
    assert list(world.session.open_gates) == ["budget"]
    assert states(world) == {"task-001": TaskState.DONE}


def test_a_planner_waits_for_money_as_well() -> None:
    outcomes = Outcomes(
        task(1), plans={1: "no plan"}, spends={PLANNER: Spend(micro_usd=1_000_000)}, answers={"budget": None}
    )
    world = reported(outcomes, limits=Limits(session_budget=DOLLAR_BUDGET))
    assert list(world.session.open_gates) == ["budget"]
    assert len(events(world, AttemptIntended)) == 1


def test_while_others_run_a_refusal_is_not_final() -> None:
    """The second worker waits for what the first may leave, and no gate is opened."""
    limits = Limits(session_budget=DOLLAR_BUDGET, role_budgets={WORKER: DOLLAR_BUDGET}, workers=2)
    world = reported(Outcomes(task(1), task(2)), limits=limits)
    turns = {turn.attempt.subject: turn for turn in world.schedule if turn.attempt.role == WORKER}
    assert turns["task-002"].begins == turns["task-001"].ends
    assert "budget" not in world.session.gates


def test_reservations_are_given_back() -> None:
    limits = Limits(role_budgets={WORKER: Budget(Unit.USD, 7), VALIDATOR: Budget(Unit.TOKENS, 9)})
    world = begun(Outcomes(task(1), task(2)), limits=limits)
    seen = set()
    while world.step():
        seen.add((world.session.reserved.micro_usd, world.session.reserved.tokens))
    assert {(7, 0), (0, 9)} <= seen
    assert world.session.reserved == NO_SPEND


DIMES = Limits(workers=1, max_retries=5, task_budget=Budget(Unit.USD, 1_000_000))
FAILING = {f"task-001.worker.{n}": Ending.FAILED for n in range(1, 9)}


def test_retries_are_charged_to_the_task_which_fails_when_its_budget_is_used_up() -> None:
    outcomes = Outcomes(
        task(1),
        task(2, 1),
        endings=FAILING,
        spends={WORKER: Spend(micro_usd=400_000)},
        answers={"session": "stop"},
    )
    world = reported(outcomes, limits=DIMES)
    assert moves(world, "task-001") == ["claim", "fail", "retry"] * 2 + ["claim", "fail"]
    assert world.session.tasks["task-001"].reason == "failed; the task's budget is used up: $1.20 / $1.00"
    assert states(world) == {"task-001": TaskState.FAILED, "task-002": TaskState.BLOCKED}
    ceilings = [event.attempt.ceilings for event in events(world, AttemptIntended) if event.attempt.role == WORKER]
    assert [each[0].budget.limit for each in ceilings] == [1_000_000, 600_000, 200_000]


def test_a_task_that_is_taken_up_again_without_money_is_blocked_and_says_why() -> None:
    outcomes = Outcomes(task(1), endings=FAILING, spends={WORKER: Spend(micro_usd=1_000_000)})
    world = reported(outcomes, limits=replace(DIMES, max_cycles=2))
    assert moves(world, "task-001") == ["claim", "fail", "renew", "block"]
    assert "the task's budget is used up" in world.session.tasks["task-001"].reason
    assert world.session.outcome == "max_cycles"


def test_a_review_that_the_task_cannot_pay_for_is_a_persons_to_do() -> None:
    outcomes = Outcomes(task(1), spends={WORKER: Spend(micro_usd=1_000_000)}, answers={"validator": "accept"})
    world = reported(outcomes, limits=DIMES)
    assert "cannot be reviewed: the task's budget is used up" in world.session.gates["validator-task-001"].title
    assert world.session.outcome == "completed"


class ShortOfMoney(Outcomes):
    """Its workers use up whatever they are given, and end for it."""

    def pick_spend(self, attempt: Attempt) -> Spend:
        return compute_reservation(attempt) if self.pick_ending(attempt) is Ending.BUDGET else NO_SPEND

    def pick_cause(self, attempt: Attempt) -> str:
        return attempt.ceilings[-1].name if attempt.ceilings else "attempt"


def test_an_attempt_that_the_session_could_not_pay_is_no_failure_of_its_task() -> None:
    outcomes = ShortOfMoney(task(1), endings={"task-001.worker.1": Ending.BUDGET}, answers={"budget": "raise"})
    outcomes.answers = {"budget": Answer(choice="raise", note="20")}
    world = reported(outcomes, limits=Limits(session_budget=USD_10, max_retries=0))
    assert moves(world, "task-001")[:3] == ["claim", "release", "claim"]
    assert world.session.tasks["task-001"].retries == 0
    assert world.session.outcome == "completed"
    assert [event.limit for event in events(world, BudgetRaised)] == [20_000_000]


def test_an_attempt_that_used_up_its_own_budget_has_failed() -> None:
    outcomes = ShortOfMoney(task(1), endings={"task-001.worker.1": Ending.BUDGET}, answers={"session": "stop"})
    own = {WORKER: Budget(Unit.USD, 1_000_000)}
    world = reported(outcomes, limits=Limits(session_budget=USD_10, role_budgets=own, max_retries=0))
    assert moves(world, "task-001") == ["claim", "fail"]


def test_a_planner_that_the_session_could_not_pay_is_asked_again() -> None:
    outcomes = ShortOfMoney(task(1), endings={"plan.planner.1": Ending.BUDGET})
    outcomes.answers = {"budget": Answer(choice="raise", note="20")}
    world = reported(outcomes, limits=Limits(session_budget=USD_10))
    assert world.session.plan_failures == ()
    assert world.session.attempts_on["plan", "planner"] == 2
    assert world.session.outcome == "completed"


def test_a_worker_that_is_cut_short_while_there_is_money_is_tried_again_with_more() -> None:
    outcomes = ShortOfMoney(task(1), task(2), endings={"task-001.worker.1": Ending.BUDGET})
    world = reported(outcomes, limits=Limits(session_budget=USD_10, workers=2, max_retries=0))
    tries = [e.attempt for e in events(world, AttemptIntended) if e.attempt.subject == "task-001"]
    assert [attempt.ceilings[0].budget.limit for attempt in tries[:2]] == [5_000_000, 5_000_000]
    assert "budget" not in world.session.gates
    assert world.session.outcome == "completed"


DAILY = Limits(workers=1, day_budget=Budget(Unit.USD, 2_000_000), role_budgets={WORKER: DOLLAR_BUDGET})


def test_a_day_whose_budget_is_used_up_asks_and_is_raised_for_that_day_alone() -> None:
    raised = Answer(choice="raise", note="$9.50", by="Ада")
    world = reported(Outcomes(task(1), task(2), task(3), spends=DOLLAR, answers={"budget": raised}), limits=DAILY)
    gate = world.session.gates["budget-day"]
    assert gate.title == "The budget of this day is used up: $2.00 / $2.00 by all sessions since midnight."
    assert events(world, BudgetRaised) == [BudgetRaised(limit=9_500_000, by="Ада", budget="day", day=SIMULATED_DAY)]
    assert [(event.budget, event.used) for event in events(world, BudgetWarned)] == [("day", 2_000_000)]
    assert world.session.outcome == "completed"
    assert world.session.limits.day_budget.limit == 2_000_000


def test_what_other_sessions_spent_counts_for_the_day() -> None:
    given = session(UNLIMITED, worker=DOLLAR_BUDGET)
    given.limits = replace(given.limits, day_budget=Budget(Unit.USD, 2_000_000))
    rest = Capacity(agents=9, day=SIMULATED_DAY, day_spend=Spend(micro_usd=1_700_000))
    assert granted(given, capacity=rest).ceilings == (Ceiling("day", Budget(Unit.USD, 300_000)),)
    gone = replace(rest, day_spend=Spend(micro_usd=2_000_000))
    assert grant_budget(given, WORKER, "task-001", gone) == BudgetRefusal(final=True, by="day")
    assert find_exhausted_budget(given, gone) == "day"


def test_a_limit_of_the_day_must_be_raised_above_what_the_day_has_used() -> None:
    world = reported(Outcomes(task(1), task(2), task(3), spends=DOLLAR, answers={"budget": None}), limits=DAILY)
    assert "$1.50 is not above" in answer_error(world.session, "budget-day", Answer(choice="raise", note="1.5"))
    assert not answer_error(world.session, "budget-day", Answer(choice="raise", note="0"))


def test_a_new_day_needs_no_answer() -> None:
    world = reported(Outcomes(task(1), task(2), task(3), spends=DOLLAR, answers={"budget": None}), limits=DAILY)
    tomorrow = next_events(world.session, Capacity(agents=9, day="2026-11-16"))
    assert tomorrow == (GateWithdrawn(gate="budget-day", reason="a new day has begun"),)


def test_what_was_spent_since_midnight_is_known_even_where_the_clock_was_set_back() -> None:
    world = reported(Outcomes(task(1), task(2), task(3), spends=DOLLAR), limits=Limits(workers=1))
    ends = [at for at, _ in world.session.spent_by]
    assert ends == sorted(ends)
    assert world.session.sum_spend_since(0) == world.session.spend
    assert world.session.sum_spend_since(ends[-1] + 1) == NO_SPEND
    workers = [turn.ends for turn in world.schedule if turn.attempt.role == WORKER]
    assert world.session.sum_spend_since(workers[1]).micro_usd == 2_000_000


def test_the_nearest_limit_is_found() -> None:
    worker = replace(
        at_work(Limits(role_budgets={WORKER: DOLLAR_BUDGET}), task(1))[0],
        ceilings=(Ceiling("session", TOKENS_100),),
    )
    assert find_nearest_limit(worker, Spend(micro_usd=790_000, input_tokens=79), 0.8) is None
    assert find_nearest_limit(worker, Spend(micro_usd=800_000), 0.8) == Ceiling("attempt", DOLLAR_BUDGET)
    assert find_nearest_limit(worker, Spend(micro_usd=800_000, input_tokens=90), 0.8) == Ceiling("session", TOKENS_100)
