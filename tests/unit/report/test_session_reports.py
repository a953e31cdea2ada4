"""The report of any session agrees with the session."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from blueflame.model.attempt import Ending
from blueflame.model.event import JournalEntry, OrchestratorStarted
from blueflame.model.spend import NO_SPEND, Spend
from blueflame.report.build import Report, build_report
from blueflame.report.evidence import Evidence
from blueflame.report.page import render_page
from blueflame.session.accounts import CostEntry
from blueflame.session.replay import apply_event, replay
from blueflame.session.state import Session
from blueflame.testing.simulation import Simulation
from support.random_sessions import worlds
from support.session_examples import Outcomes, reported, task


def account(session: Session) -> list[CostEntry]:
    return [
        CostEntry(
            session=session.id,
            attempt=record.attempt.id,
            agent=record.attempt.agent_id,
            role=record.attempt.role,
            subject=record.attempt.subject,
            n=record.attempt.n,
            day="",
            ending=record.ended.ending.value if record.ended else "",
            spend=record.ended.spend if record.ended else NO_SPEND,
        )
        for record in session.attempts.values()
    ]


def report(world: Simulation) -> Report:
    session = replay(world.journal)
    return build_report(world.journal, session, account(session), now=session.last_at + 60)


def test_failures_decisions_and_landings_are_reported() -> None:
    endings = {"task-001.worker.1": Ending.TIMEOUT}
    spends = {"worker": Spend(micro_usd=100_000), "validator": Spend(micro_usd=10_000)}
    made = report(reported(Outcomes(task(1), task(2, 1), endings=endings, spends=spends)))
    assert (made.outcome, made.work.landed) == ("completed", 2)
    assert [(each.subject, each.ending) for each in made.failures] == [("task-001", Ending.TIMEOUT)]
    assert [(each.gate.kind.value, each.choice) for each in made.decisions] == [
        ("plan", "approve"),
        ("changeset", "approve"),
    ]
    assert [mark.name for mark in made.timeline.landings] == ["cs-001"]
    assert {total.name: total.spend.micro_usd for total in made.accounts["role"]}["worker"] == 300_000
    assert [line.spend.micro_usd for line in made.tasks] == [210_000, 110_000]


def test_an_orchestrator_that_vanished_and_a_weaker_sandbox_are_incidents() -> None:
    world = reported(Outcomes(task(1), answers={"plan": None}))
    again = JournalEntry(world.session.seq + 1, world.now + 5, OrchestratorStarted(pid=77, degraded="no sandbox"))
    apply_event(world.session, again)
    world.journal.append(again)
    crash, isolation = report(world).incidents
    assert (crash.kind, "pid 77" in crash.words) == ("crash", True)
    assert (isolation.kind, isolation.words) == ("isolation", "no sandbox")


@settings(max_examples=15)
@given(worlds(), st.integers(1, 400))
def test_any_session_at_any_moment_has_a_report_and_a_page(world: Simulation, length: int) -> None:
    world.run()
    world.journal = world.journal[:length]
    session, made = replay(world.journal), report(world)
    assert len(made.attempts) == len(session.attempts)
    assert made.spend == session.spend
    assert {each.id: each.state for each in made.tasks} == {name: each.state for name, each in session.tasks.items()}
    assert [each.gate.id for each in made.decisions if each.settled is None] == list(session.open_gates)
    page = render_page(made, Evidence(), made_at=made.until)
    assert page.rstrip().endswith("</html>")
