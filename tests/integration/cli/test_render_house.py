"""The house at a terminal."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console

from blueflame.cli.render.house import render_house
from blueflame.dispatch.pool import Lease, PoolLimits, PoolState, Want, describe_wait
from blueflame.model.gate import FORMS, Gate, GateKind
from blueflame.model.house.event import OpenGate
from blueflame.views.house import HouseView, PoolView, build_house_json, format_day_cost
from support.json_page import keys_in, section

LIMITS = PoolLimits(agents=6, roles={"backend": 1, "qa": 2})


def lease(session: str, task: str, repository: str, *, ad_hoc: bool = False) -> Lease:
    attempt = f"{session}.{task}.backend.1"
    return Lease(attempt=attempt, role="backend", repository=repository, session=session, since=0.0, ad_hoc=ad_hoc)


def test_the_pool_shows_agents_queue_and_wait_of_each_role() -> None:
    leases = (lease("ses-1", "task-003", "/code/shop"), lease("ses-2", "task-001", "/code/blog", ad_hoc=True))
    want = Want(
        attempt="ses-3.task-015.backend.1",
        role="backend",
        repository="/code/site",
        session="ses-3",
        since=1.0,
        asked_at=600.0,
    )
    wait = describe_wait(want, PoolState(leases=leases, wants=()), LIMITS, {"backend": [1500.0]})
    assert wait is not None
    pool = PoolView(limits=LIMITS, leases=leases, waits=((want, wait),), day_micro_usd=3_640_000)
    view = HouseView(folder="/h", pid=7, repositories=(), requests=(), kept=2, gates=(), pool=pool, warnings=())
    console = Console(width=120)
    with console.capture() as shown:
        console.print(render_house(view))
    words = [" ".join(line.split()) for line in shown.get().splitlines()]
    assert "2 of 6 agents of the pool work, $3.64 spent today" in words
    assert "backend 1 of 1, 1 ad hoc 1, about 15 min shop task-003; blog task-001 (ad hoc)" in words
    assert "qa 0 of 2 0" in words
    assert "kept for the house: 2 requests; 'blueflame serve' takes them" in words
    assert any(line.startswith("backend ses-3 task-015: about 15 min, next in the queue") for line in words)
    assert {*keys_in(build_house_json(view))} <= section("status --house")
    limited = replace(pool, limits=replace(LIMITS, day_micro_usd=15_000_000))
    assert format_day_cost(limited) == "$3.64 of $15.00 spent today"
    (first, *_) = build_house_json(view)["pool"]["roles"]
    assert (first["role"], first["core"], first["ad_hoc"], first["waiting"]) == ("backend", 1, 1, 1)


def test_the_title_of_a_gate_cannot_move_the_cursor() -> None:
    form = FORMS[GateKind.CLARIFICATION]
    gate = Gate(
        id="q-1",
        kind=GateKind.CLARIFICATION,
        subject="task-001",
        title="Why\x1b[2J\x1b]0;x\x07 [/red] not?",
        options=form.options,
        default=form.safe,
    )
    gates = (OpenGate(repository="shop", session="ses-1", request="", gate=gate, opened_at=0.0),)
    pool = PoolView(limits=LIMITS, leases=(), waits=(), day_micro_usd=0)
    view = HouseView(folder="/h", pid=7, repositories=(), requests=(), kept=0, gates=gates, pool=pool, warnings=())
    console = Console(width=120, markup=False)
    with console.capture() as shown:
        console.print(render_house(view))
    assert "Why␛[2J␛]0;x␇ [/red] not?" in shown.get()
