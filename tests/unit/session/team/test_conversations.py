from __future__ import annotations

from dataclasses import replace

from blueflame.model.attempt import Attempt, Ending
from blueflame.model.event import AttemptEnded
from blueflame.model.limits import Limits
from blueflame.model.seat import Allocation, ContextBudget, Seat, Team
from blueflame.model.task import Task
from blueflame.session.replay import replay
from blueflame.session.state import Session
from blueflame.session.team.conversations import measure_conversation
from blueflame.testing.simulation import Simulation, build_opening
from blueflame.text.event_lines import format_log_lines
from support.session_examples import FLOW, Outcomes, task

BUDGET = ContextBudget(tokens=1_000, tasks=3, seconds=100.0)
ONE_WORKER = Limits(workers=1, context_budget=BUDGET)


class Talking(Outcomes):
    """Agents whose conversations can be continued."""

    tokens = 10

    def pick_context(self, _attempt: Attempt) -> int:
        return self.tokens


def chain(*domains: str) -> tuple[Task, ...]:
    """Tasks that build on each other."""
    return tuple(
        task(n, *([n - 1] if n > 1 else []), locks=(f"{domain}/{n}.py",)) for n, domain in enumerate(domains, start=1)
    )


def run(outcomes: Outcomes, limits: Limits = ONE_WORKER) -> Session:
    return Simulation(outcomes, [build_opening(workflow=FLOW, limits=limits)]).run().session


def given(session: Session, n: int, *, role: str = "worker", attempt: int = 1) -> Allocation:
    found = session.attempts[f"{session.id}.task-{n:03}.{role}.{attempt}"].attempt.allocation
    assert found is not None
    return found


def test_the_next_task_of_the_domain_continues_the_conversation_of_work_that_it_builds_on() -> None:
    session = run(Talking(*chain("web", "web")))
    assert given(session, 1).continues == ""
    assert given(session, 2).continues == f"{session.id}.task-001.worker.1"
    assert given(session, 2).reset == ""


def test_a_reviewer_continues_no_conversation() -> None:
    session = run(Talking(*chain("web", "web")))
    assert [given(session, n, role="validator").continues for n in (1, 2)] == ["", ""]


def test_without_a_budget_or_with_a_runtime_that_cannot_each_task_begins_without_one() -> None:
    silent = Talking(*chain("web", "web"))
    silent.tokens = 0
    for session in (run(Talking(*chain("web", "web")), Limits(workers=1)), run(silent)):
        assert (given(session, 2).continues, given(session, 2).reset) == ("", "")


def test_a_conversation_ends_where_it_would_mislead() -> None:
    other_domain = run(Talking(*chain("web", "api")))
    assert given(other_domain, 2).reset == "the task is in another domain, api"
    apart = run(Talking(task(1, locks=("web/1.py",)), task(2, locks=("web/2.py",))))
    assert given(apart, 2).reset == "the task does not start from what it made for task-001"
    plan = replace(chain("web", "web")[1], model="opus")
    other_model = run(Talking(chain("web")[0], plan))
    assert given(other_model, 2).reset == "the task is made by another model"


def test_a_conversation_is_not_continued_after_work_that_did_not_pass() -> None:
    tasks = task(1, locks=("web/1.py",), priority=1), task(2, locks=("web/2.py",))
    endings = {"task-001.worker.1": Ending.POSTCHECK}
    session = run(Talking(*tasks, endings=endings), replace(ONE_WORKER, max_retries=0))
    assert given(session, 2).reset == "its work on task-001 did not pass"


def test_a_conversation_ends_after_its_last_task_which_is_asked_what_was_learned() -> None:
    session = run(Talking(*chain(*["web"] * 5)))
    found = [given(session, n) for n in range(1, 6)]
    assert [bool(each.continues) for each in found] == [False, True, True, False, True]
    assert [each.is_last for each in found] == [False, False, True, False, False]
    assert (found[3].reset, found[3].is_budget_reset) == ("it has had 3 tasks", True)


def test_a_conversation_ends_when_it_is_too_long_or_too_old() -> None:
    long = Talking(*chain("web", "web"))
    long.tokens = 1_500
    assert given(run(long), 2).reset == "it has 1,500 tokens"
    old = Talking(*chain("web", "web"), minutes={"task-001.worker.1": 600})
    assert given(run(old), 2).reset == "it is 10 minutes old"


def test_of_two_seats_whose_budgets_are_used_up_one_waits_until_its_next_task() -> None:
    """RESET-05."""
    limits = Limits(workers=2, context_budget=replace(BUDGET, tasks=1))
    tasks = (
        task(1, locks=("web/1.py",)),
        task(2, locks=("api/2.py",)),
        task(3, 1, 2, locks=("web/3.py",)),
        task(4, 1, 2, locks=("api/4.py",)),
        task(5, 3, 4, locks=("api/5.py",)),
    )
    session = run(Talking(*tasks), limits)
    assert (given(session, 3).is_budget_reset, given(session, 4).is_budget_reset) == (True, False)
    assert (given(session, 4).continues, given(session, 4).is_last) == (f"{session.id}.task-002.worker.1", True)
    assert given(session, 5).reset == "it has had 2 tasks"


def test_what_a_seat_did_in_an_earlier_session_is_no_conversation() -> None:
    team = Team(seats=(Seat(name="worker-1", role="worker", domain="web", tasks={"web": 4}),))
    opening = build_opening(workflow=FLOW, limits=ONE_WORKER, team=team)
    session = Simulation(Talking(*chain("web")), [opening]).run().session
    assert (given(session, 1).continues, given(session, 1).reset) == ("", "")


def test_the_length_of_a_conversation_is_known_until_the_session_ends() -> None:
    world = Simulation(Talking(*chain("web", "web")), [build_opening(workflow=FLOW, limits=ONE_WORKER)]).run()
    ended = [n for n, entry in enumerate(world.journal, start=1) if isinstance(entry.event, AttemptEnded)]
    assert measure_conversation(replay(world.journal[: ended[-1]]), "worker-1") == (2, 10)
    assert measure_conversation(world.session, "worker-1") == (0, 0)


def test_the_log_names_the_reset_and_what_is_continued() -> None:
    world = Simulation(Talking(*chain(*["web"] * 4)), [build_opening(workflow=FLOW, limits=ONE_WORKER)]).run()
    lines = [line.partition("] ")[2] for line in format_log_lines(world.journal)]
    assert "[worker-1] [CONTEXT_RESET] task-004 begins without its conversation: it has had 3 tasks" in lines
    assert any(line.endswith("continues its conversation of task-001 #1") for line in lines)
