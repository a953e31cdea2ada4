"""Choose the workflow of a request: what a person says, else the settings, else its size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from blueflame.model.attempt import PLANNER, Duty
from blueflame.model.errors import UsageError
from blueflame.model.event import RequestSized
from blueflame.model.settings import Settings
from blueflame.model.settings.roles import is_planned
from blueflame.model.sizing import ChosenBy, SizeAnswer, Sizing, Tier
from blueflame.session.from_settings import choose_runtime
from blueflame.session.state import Session

AUTO, CODE, SUGGEST, OFF = "auto", "code", "suggest", "off"


class Choice(NamedTuple):
    tier: Tier
    workflow: str
    chosen_by: ChosenBy


def find_triage_mode(settings: Settings) -> str:
    """Return `planning.triage`; left out, it leaves a `planning.workflow` that was written alone.

    `settings`: as they were read, without the options of the command line, which write every key.
    """
    written = "workflow" in settings.planning.model_fields_set
    return settings.planning.triage or (SUGGEST if written else AUTO)


def find_tier_workflow(settings: Settings, tier: Tier) -> str:
    """Return the workflow of a tier; the highest one runs `planning.workflow`, if that plans."""
    usual = settings.planning.workflow
    return _list_small(settings).get(tier) or (
        usual if is_planned(settings.workflows[usual], settings.roles) else "waves"
    )


def list_tiers(settings: Settings, workflow: str) -> tuple[Tier, ...]:
    """The tiers that a workflow is for: one without a plan that is not built in is for any request to one agent."""
    if is_planned(settings.workflows[workflow], settings.roles):
        return (Tier.PLANNED,)
    small = _list_small(settings)
    return tuple(tier for tier, name in small.items() if name == workflow) or tuple(small)


def _list_small(settings: Settings) -> Mapping[Tier, str]:
    """The workflows of the tiers that need no plan."""
    return {Tier.DIRECT: settings.planning.tier_1, Tier.SINGLE: settings.planning.tier_2}


def refuse_contradiction(settings: Settings, tier: Tier | None, workflow: str | None) -> None:
    """Refuse a workflow that is not for the tier. Unknown workflows are refused elsewhere."""
    if tier is None or workflow is None or workflow not in settings.workflows:
        return
    if tier not in list_tiers(settings, workflow):
        right = find_tier_workflow(settings, tier)
        raise UsageError(
            f"--tier {tier.value} and --workflow {workflow} contradict each other: tier {tier.value} runs {right}; "
            "give one of the two"
        )


def choose_workflow(
    settings: Settings, sizing: Sizing, *, tier: Tier | None, workflow: str | None, mode: str
) -> Choice:
    """`tier` and `workflow`: those of the command line; `mode`: of `find_triage_mode`."""
    if tier is not None or workflow is not None:
        return _follow_person(settings, sizing, tier, workflow)
    if mode not in (AUTO, CODE):
        usual = settings.planning.workflow
        return Choice(_find_nearest_tier(settings, sizing, usual), usual, ChosenBy.SETTINGS)
    if not sizing.is_clear:
        return Choice(Tier.PLANNED, find_tier_workflow(settings, Tier.PLANNED), ChosenBy.UNSURE)
    by = ChosenBy.HISTORY if sizing.by_history else ChosenBy.CODE
    return Choice(sizing.tier, find_tier_workflow(settings, sizing.tier), by)


def find_sizing_role(settings: Settings) -> str:
    """Return the role that sizes what the code could not: one of the team's own, else the built-in one.

    None ("") if it names no runtime and the planner's is another: then it would be the only one that needs the default.
    """
    name = next(name for name in reversed(tuple(settings.roles)) if Duty(settings.roles[name].duty) is Duty.SIZE)
    sizes, plans = settings.roles[name], settings.roles[PLANNER]
    usable = sizes.runtime is not None or choose_runtime(settings, sizes) == choose_runtime(settings, plans)
    return name if usable else ""


def conclude_sizing(session: Session, answer: SizeAnswer | str) -> RequestSized:
    """Continue as the agent that was asked says; `answer` is a text where it gave no size: then the request is planned.

    A workflow that cannot run here is not offered, and the next larger one is taken.
    """
    assert session.triage is not None, "an agent sizes only what the code has sized before"
    triage, planned = replace(session.triage, asks=""), session.workflow.drop_sizing()
    if isinstance(answer, str):
        sizing = replace(triage.sizing, reasons=(*triage.sizing.reasons, answer))
        return RequestSized(triage=replace(triage, sizing=sizing), workflow=planned, one_agent=session.one_agent)
    offered = {Tier.DIRECT: session.direct or session.one_agent, Tier.SINGLE: session.one_agent}
    flow = offered.get(answer.tier) or planned
    sizing = replace(triage.sizing, tier=answer.tier, reasons=(answer.reason, *triage.sizing.reasons))
    chosen = replace(triage, tier=answer.tier, workflow=flow.name, chosen_by=ChosenBy.AGENT, sizing=sizing)
    return RequestSized(triage=chosen, workflow=flow, one_agent=session.one_agent if flow is planned else None)


def _follow_person(settings: Settings, sizing: Sizing, tier: Tier | None, workflow: str | None) -> Choice:
    refuse_contradiction(settings, tier, workflow)
    if workflow is None:
        assert tier is not None, "the person named neither"
        return Choice(tier, find_tier_workflow(settings, tier), ChosenBy.PERSON)
    return Choice(tier or _find_nearest_tier(settings, sizing, workflow), workflow, ChosenBy.PERSON)


def _find_nearest_tier(settings: Settings, sizing: Sizing, workflow: str) -> Tier:
    tiers = list_tiers(settings, workflow)
    return sizing.tier if sizing.tier in tiers else tiers[-1]
