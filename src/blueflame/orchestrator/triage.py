"""Size a request before a session is opened: read the map of the code and the memory, and let the code decide."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from blueflame.codebase.make import find_defining_files, find_word, list_files
from blueflame.memory.registry import build_memory
from blueflame.model.errors import MemoryFailed, UsageError, WorldError
from blueflame.model.event import RequestSized
from blueflame.model.memory import MemoryRecord
from blueflame.model.sizing import ChosenBy, CodeMap, Sizing, Tier, Triage
from blueflame.model.workflow import Workflow
from blueflame.orchestrator.project import Project
from blueflame.session.estimate import learn_figures
from blueflame.session.from_settings import build_session_limits, build_workflow
from blueflame.session.sizing.choose import (
    AUTO,
    OFF,
    choose_workflow,
    find_sizing_role,
    find_tier_workflow,
    refuse_contradiction,
)
from blueflame.session.sizing.forecast import TierPlan, forecast_tiers, is_one_agent_cheaper, learn_times
from blueflame.session.sizing.similar import list_past_requests
from blueflame.session.sizing.size import list_symbols, size_request


def triage_request(
    project: Project, request: str, *, mode: str, tier: Tier | None = None, workflow: str | None = None
) -> RequestSized | None:
    """Size a request and choose its workflow; None if triage is off and a person names no tier.

    `tier` and `workflow`: those of the command line. Changes nothing, and asks no model.
    """
    settings = project.settings
    refuse_contradiction(settings, tier, workflow)
    if mode == OFF and tier is None:
        return None
    records = list_known_records(project)
    sizing = _size(project, request, records)
    choice = choose_workflow(settings, sizing, tier=tier, workflow=workflow, mode=mode)
    plans = _list_tier_plans(project, records)
    forecasts = forecast_tiers(sizing.parts, plans, learn_times(records))
    flows = {tier: plan.workflow for tier, plan in plans.items()}
    is_open = choice.chosen_by is ChosenBy.UNSURE and mode == AUTO and Tier.PLANNED in flows
    role = find_sizing_role(settings) if is_open else ""
    triage = Triage(
        tier=choice.tier,
        workflow=choice.workflow,
        chosen_by=choice.chosen_by,
        sizing=sizing,
        forecasts=forecasts,
        is_one_agent_cheaper=is_one_agent_cheaper(forecasts),
        asks=role,
    )
    return RequestSized(
        triage=triage,
        workflow=flows[Tier.PLANNED].add_sizing(role) if role else None,
        one_agent=flows.get(Tier.SINGLE) if choice.tier is Tier.PLANNED else None,
        direct=flows.get(Tier.DIRECT) if role else None,
    )


def list_known_records(project: Project) -> tuple[MemoryRecord, ...]:
    """List what earlier sessions left; nothing if it cannot be read."""
    with suppress(MemoryFailed):  # then nothing is known of earlier sessions
        return tuple(build_memory(project.settings, project.paths, os.environ).list_records())
    return ()


def _size(project: Project, request: str, records: tuple[MemoryRecord, ...]) -> Sizing:
    repo, sha = project.repo, project.repo.base_sha
    try:
        files = list_files(repo, sha)
        symbols = {name: find_word(repo, sha, name) for name in list_symbols(request)}
        defined = find_defining_files(repo, project.paths.code_map, files, symbols)
    except WorldError as error:
        found = size_request(request, CodeMap(), {}, list_past_requests(records))
        return replace(found, reasons=(*found.reasons, f"the code base could not be read: {error}"))
    code = CodeMap(
        files=tuple(file.path for file in files),
        tests=frozenset(file.path for file in files if file.is_test),
        sources=sum(bool(file.language) for file in files),
        defined=defined,
    )
    return size_request(request, code, symbols, list_past_requests(records))


def _list_tier_plans(project: Project, records: tuple[MemoryRecord, ...]) -> Mapping[Tier, TierPlan]:
    """How each tier would run; a workflow that cannot run is left out, and refused only if it is chosen."""
    settings, figures = project.settings, learn_figures(records)
    found: dict[Tier, TierPlan] = {}
    for tier in Tier:
        with suppress(UsageError):
            flow: Workflow = build_workflow(settings, find_tier_workflow(settings, tier))
            found[tier] = TierPlan(flow, replace(build_session_limits(settings, flow.name), figures=figures))
    return found
