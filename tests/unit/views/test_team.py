from __future__ import annotations

from dataclasses import replace

from blueflame.model.event import AttemptIntended
from blueflame.model.seat import Seat
from blueflame.session.replay import replay
from blueflame.testing.simulation import Simulation, build_opening
from blueflame.views.team import TeamRow, build_team, build_team_json
from support.memory_records import summary
from support.session_examples import FLOW, Outcomes, task

KNOWN = Seat(name="worker-1", role="worker", domain="web", tasks={"web": 2}, landed=2, first_time=1, last_at=5.0)


def test_without_a_session_the_team_is_what_memory_knows() -> None:
    assert build_team([summary(1, seats=(KNOWN,))], None) == (TeamRow(seat=KNOWN),)


def test_the_work_of_the_present_session_is_added_once_also_where_memory_has_it_already() -> None:
    journal = Simulation(Outcomes(task(1, locks=("web/a.py",))), [build_opening(workflow=FLOW)]).run().journal
    intended = [n for n, each in enumerate(journal, start=1) if isinstance(each.event, AttemptIntended)]
    session = replay(journal[: intended[-1]])  # while the work is reviewed
    earlier = summary(1, seats=(KNOWN,))
    saved = summary(2, seats=(Seat(name="worker-1", role="worker", domain="web", tasks={"web": 7}),))
    saved = replace(saved, origin=replace(saved.origin, session=session.id))
    rows = build_team([earlier, saved], session)
    assert [(row.seat.name, row.seat.tasks, row.works_on) for row in rows] == [
        ("validator-1", {}, "task-001"),
        ("worker-1", {"web": 3}, ""),
    ]
    assert [each["works_on"] for each in build_team_json(rows)["seats"]] == ["task-001", None]
