"""Draws the house: its repositories, gates and requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from blueflame.cli.console import build_columns
from blueflame.model.house.event import RequestState
from blueflame.text.sanitize import shorten_line
from blueflame.views.house import (
    HouseView,
    PoolRole,
    PoolView,
    RequestRow,
    describe_state,
    format_day_cost,
    format_kept,
    format_wait,
    list_pool_roles,
)

MAX_NAME = 24  # letters of a repository's name: a longer one would leave no room for the rest
MAX_SHOWN = 20  # requests
_GOOD = (RequestState.RUNNING, RequestState.STARTING, RequestState.QUEUED)


def render_requests(rows: Sequence[RequestRow]) -> RenderableType:
    """Two lines each: 80 columns have no room for all of it side by side. Sessions are in `requests show`."""
    lines: list[Text] = []
    for row in rows:
        request = row.record.request
        lines.append(Text.assemble("  ", (row.record.id, "id"), "  ", (describe_state(row), _choose_tone(row))))
        asked = shorten_line(request.title or request.text, 120)
        name = shorten_line(row.record.repository, MAX_NAME) or "no repository"
        where = f"{name}, from {shorten_line(request.sender.name, MAX_NAME)}"
        lines.append(Text(f"    {where}: {asked}", no_wrap=True, overflow="ellipsis"))
    return Group(*lines)


def _choose_tone(row: RequestRow) -> str:
    return "good" if row.record.state in _GOOD or row.record.outcome == "completed" else "warn"


def render_house(view: HouseView) -> RenderableType:
    where = f"house {view.folder}, " + (f"served (pid {view.pid})" if view.pid else "not served: 'blueflame serve'")
    parts: list[RenderableType] = [Text(where, "quiet" if view.pid else "warn"), Text("")]
    head = ("repository", "state", "queued", "")
    cells = [
        (
            Text(shorten_line(row.name, MAX_NAME), "id"),
            Text(row.state, "warn" if row.state in ("held", "stopped") else "good"),
            str(row.queued),
            shorten_line(row.detail, 300),
        )
        for row in view.repositories
    ]
    none = Text(f"  no repository: add one under repositories in {view.folder}/house.yaml", "warn")
    parts.append(build_columns(cells, head=head, right=(2,), whole=(0, 1)) if cells else none)
    if view.gates:
        gates = [
            (
                Text(each.gate.id, "id"),
                shorten_line(each.repository, MAX_NAME) or "house",
                each.session,
                shorten_line(each.gate.title, 120),
            )
            for each in view.gates
        ]
        parts += [Text(""), Text("Open gates", "quiet"), build_columns(gates, whole=(0, 1, 2))]
    if view.requests:
        parts += [Text(""), render_requests(view.requests[:MAX_SHOWN])]
    if len(view.requests) > MAX_SHOWN:
        parts.append(Text(f"  and {len(view.requests) - MAX_SHOWN} more: see 'blueflame requests'", "quiet"))
    if view.kept:
        parts += [Text(""), Text(format_kept(view.kept), "warn")]
    parts += [Text(""), *_render_pool(view.pool)]
    for warned in view.warnings:
        parts += [Text(""), Text(f"{warned.source}: {shorten_line(warned.text, 300)}", "warn")]
    return Group(*parts)


def _render_pool(pool: PoolView) -> Iterator[RenderableType]:
    yield Text(f"{len(pool.leases)} of {pool.limits.agents} agents of the pool work, {format_day_cost(pool)}", "quiet")
    if roles := list_pool_roles(pool):
        cells = [
            (
                Text(row.role, "id"),
                _count_at_work(row),
                f"{row.waiting}{format_wait(row.wait_seconds)}",
                "; ".join(row.at_work),
            )
            for row in roles
        ]
        yield build_columns(cells, head=("role", "at work", "waiting", "by"), whole=(0, 1, 2))
    if pool.waits:
        yield Text("")
        waits = [(want.role, want.session, f"{wait.subject}: {wait.queue}", wait.reason) for want, wait in pool.waits]
        yield build_columns(waits, whole=(0, 1, 2))


def _count_at_work(row: PoolRole) -> str:
    """`1 of 1, 1 ad hoc`"""
    core = f"{len(row.at_work) - row.ad_hoc}" + (f" of {row.core}" if row.core is not None else "")
    return f"{core}, {row.ad_hoc} ad hoc" if row.ad_hoc else core
