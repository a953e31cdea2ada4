"""Derive a session's limits and workflow from the settings; compare settings, and find doubtful ones."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from blueflame.model.attempt import Duty, find_usual_duty
from blueflame.model.errors import UsageError
from blueflame.model.limits import PASSED, REVIEWED, Hook, Limits
from blueflame.model.runtime_support import RUNTIMES, Enforcement, find_enforcement
from blueflame.model.seat import ContextBudget
from blueflame.model.settings import SeatSettings, Settings
from blueflame.model.settings.roles import RoleSettings, WorkflowSettings
from blueflame.model.spend import UNLIMITED, Budget, Unit, to_micro_usd
from blueflame.model.suggestions import suggest
from blueflame.model.task import Assignment
from blueflame.model.workflow import STAGE_DUTIES, Stage, Workflow, build_stages

ROUNDS_OF_ATTEMPTS = 2  # in a session, of all that a task may have in a row
MAX_DEFAULT_REVIEW_SECONDS = 600.0  # a review reads; one that takes longer has lost its way


def build_session_limits(
    settings: Settings, workflow: str | None = None, *, scripted: bool = False, interactive: bool = False
) -> Limits:
    """Build the limits of a session; those of its workflow take precedence over the general ones.

    `interactive`: there is a terminal where the planner can talk with a person.
    """
    chosen, roles = _find_workflow(settings, workflow), settings.roles
    retries, ladder = _find_max_retries(settings, chosen), build_ladder(settings, workflow, scripted=scripted)
    flows = _build_task_workflows(settings, workflow, scripted=scripted)
    in_a_row = [1 + retries + len(ladder), *(1 + (each.max_retries or 0) + len(each.ladder) for each in flows.values())]
    diagnostics = settings.validation.validator_diagnostics
    return Limits(
        workers=settings.concurrency.development,
        validators=settings.concurrency.validation,
        max_retries=retries,
        ladder=ladder,
        max_attempts=settings.limits.max_attempts or ROUNDS_OF_ATTEMPTS * max(in_a_row),
        on_exhausted=settings.gates.on_exhausted,
        retry_wait=(chosen.retry_backoff_base_ms or 0) / 1000,
        validator_retries=settings.gates.validator_retries,
        max_cycles=settings.limits.max_wave_cycles,
        max_replans=settings.gates.max_replans,
        max_history=settings.limits.max_history,
        session_budget=build_budget(settings.limits.max_session_cost_usd, settings.limits.max_session_tokens),
        task_budget=build_budget(settings.limits.max_task_cost_usd, settings.limits.max_task_tokens),
        day_budget=build_budget(settings.limits.max_day_cost_usd, settings.limits.max_day_tokens),
        role_budgets={name: build_budget(role.budget_usd, role.budget_tokens) for name, role in roles.items()},
        warn_threshold=settings.limits.warn_threshold,
        role_timeouts={name: role.timeout or _find_default_timeout(settings, name) for name, role in roles.items()},
        role_models={name: role.model for name, role in roles.items()},
        role_runtimes={name: choose_runtime(settings, role, scripted=scripted) for name, role in roles.items()},
        makers=tuple(name for name, role in roles.items() if Duty(role.duty) is Duty.MAKE),
        group_validator_models=dict(settings.validation.validator_models),
        on_stall=settings.limits.on_stall,
        on_rate_limit=settings.gates.on_rate_limit,
        on_overlap=settings.gates.on_overlap,
        max_questions=settings.gates.max_questions,
        question_wait=settings.gates.question_wait,
        interactive_planning=interactive and is_planner_interactive(settings, workflow, scripted=scripted),
        rate_limit_wait=settings.limits.rate_limit_wait,
        retry_from=settings.limits.retry_from,
        on_validation_failed=settings.gates.on_validation_failed,
        review_threshold=chosen.review_threshold,
        on_conflict=settings.merging.on_conflict,
        remote=settings.landing.remote if settings.landing.mode == "pull-request" else "",
        dependents=settings.schedule.dependents or _choose_dependents(settings, workflow),
        hooks=tuple(hook.value for hook in Hook if getattr(settings.hooks, hook.value)),
        checks=diagnostics.commands if diagnostics.enabled else (),
        task_models=settings.planning.models,
        task_workflows=flows,
        allowed_paths=settings.permissions.allowed_paths,
        domains=dict(settings.domains),
        context_budget=_build_context_budget(settings.seats),
        blocked_paths=settings.permissions.blocked_paths,
        unguarded=_list_unguarded(settings),
    )


def _list_unguarded(settings: Settings) -> Mapping[str, str]:
    kinds = {name: RUNTIMES.get(find_runtime_kind(settings, name)) for name in (*RUNTIMES, *settings.runtimes)}
    return {name: kind.unguarded for name, kind in kinds.items() if kind is not None and kind.unguarded}


def _build_context_budget(seats: SeatSettings) -> ContextBudget | None:
    if not seats.conversation:
        return None
    return ContextBudget(tokens=seats.context_tokens, tasks=seats.tasks, seconds=seats.max_age)


def build_ladder(settings: Settings, workflow: str | None = None, *, scripted: bool = False) -> tuple[Assignment, ...]:
    """Build the rungs of a workflow; in a rehearsal each keeps its model, and the script is played."""
    return tuple(
        Assignment(
            model=rung.model or _find_model_for(settings, rung.runtime or ""),
            runtime="" if scripted else rung.runtime or "",
        )
        for rung in _find_workflow(settings, workflow).escalate or ()
    )


def _find_model_for(settings: Settings, runtime: str) -> str:
    """Return a model for a rung that names only its runtime; "" for that of the role, where the runtime knows it."""
    kind = RUNTIMES.get(find_runtime_kind(settings, runtime))
    if not runtime or (kind is not None and kind.knows_claude_models):
        return ""
    return next((role.model for role in settings.roles.values() if role.runtime == runtime), "")


def _choose_dependents(settings: Settings, name: str | None) -> str:
    """With a barrier, reviews follow at once; without one, a dependent would wait where others move on.

    A task that is made in several stages has passed all of them before others build on it.
    """
    workflow = _build_workflow(settings, name or settings.planning.workflow)
    chosen = _build_task_workflows(settings, name).values()
    several = any(each.has_reviewer() and not each.is_made_at_once() for each in (workflow, *chosen))
    return REVIEWED if several or (workflow.has_reviewer() and workflow.barrier) else PASSED


def _build_task_workflows(settings: Settings, name: str | None, *, scripted: bool = False) -> Mapping[str, Workflow]:
    """Build the workflows that a plan may choose; with a barrier all tasks go through the same stages together."""
    if _find_workflow(settings, name).barrier:
        return {}
    return {each: _build_task_workflow(settings, each, scripted=scripted) for each in settings.planning.workflows}


def _build_task_workflow(settings: Settings, name: str, *, scripted: bool) -> Workflow:
    own = settings.workflows[name]
    return replace(
        build_workflow(settings, name),
        review_threshold=own.review_threshold,
        max_retries=_find_max_retries(settings, own),
        retry_wait=(own.retry_backoff_base_ms or 0) / 1000,
        ladder=build_ladder(settings, name, scripted=scripted),
    )


def is_planner_interactive(settings: Settings, workflow: str | None = None, *, scripted: bool = False) -> bool:
    """Whether the planner should talk with a person, if there is a terminal."""
    name = workflow or settings.planning.workflow
    planner = settings.roles[_build_workflow(settings, name).find_role(Duty.PLAN)]
    runtime = choose_runtime(settings, planner, scripted=scripted)
    can_talk = find_enforcement(find_runtime_kind(settings, runtime), "interactive") is not Enforcement.IMPOSSIBLE
    return settings.planning.interactive and can_talk


def choose_runtime(settings: Settings, role: RoleSettings, *, scripted: bool = False) -> str:
    """Choose the runtime of a role; one that names none is scripted if there is a script, else claude.

    `scripted`: a script was given for this session, a rehearsal. Then no role runs anything else: it would cost money.
    """
    given = settings.runtimes.get("scripted")
    default = "scripted" if given is not None and given.script else "claude"
    return "scripted" if scripted else role.runtime or default


def find_runtime_kind(settings: Settings, name: str) -> str:
    """Return the built-in runtime that a runtime name stands for."""
    own = settings.runtimes.get(name)
    return (own.kind if own is not None and own.kind else None) or name


DUTY_SKILLS: Mapping[Duty, tuple[str, ...]] = {
    Duty.SIZE: (),
    Duty.CURATE: (),
    Duty.PLAN: ("brainstorming", "writing-plans"),
    Duty.JUDGE: ("requesting-code-review",),
}
"""Which of the general skills roles with these duties get; all other roles get the rest."""


def list_role_skills(settings: Settings, role: str) -> tuple[str, ...]:
    """Return the skills of a role: its general ones, if enabled and their plugin is set, then those it names itself."""
    own = settings.roles[role].skills if role in settings.roles else ()
    general = settings.superpowers.skills if settings.superpowers.enabled and settings.superpowers.plugin else ()
    duty = find_role_duty(settings, role)
    if duty in DUTY_SKILLS:
        chosen = [skill for skill in general if skill in DUTY_SKILLS[duty]]
    else:
        assigned = {skill for skills in DUTY_SKILLS.values() for skill in skills}
        chosen = [skill for skill in general if skill not in assigned]
    return tuple(dict.fromkeys((*chosen, *own)))


def find_role_duty(settings: Settings, role: str) -> Duty:
    return Duty(settings.roles[role].duty) if role in settings.roles else find_usual_duty(role)


def build_budget(usd: float, tokens: int) -> Budget:
    """Build a budget in one unit; 0 in both is no limit. The settings refuse both at once."""
    if tokens:
        return Budget(Unit.TOKENS, tokens)
    # a limit below a millionth of a dollar must not round to 0, which would mean none at all
    return Budget(Unit.USD, max(1, to_micro_usd(usd))) if usd else UNLIMITED


def build_workflow(settings: Settings, name: str | None = None) -> Workflow:
    """Build the workflow of that name, by default that of `planning.workflow`; refuse one that cannot run."""
    workflow = _build_workflow(settings, name or settings.planning.workflow)
    _check_workflow_runs(workflow)
    return workflow


def _build_workflow(settings: Settings, name: str) -> Workflow:
    chosen, stages = _find_workflow(settings, name), _list_stages(settings, name)
    duties = {role: Duty(each.duty) for role, each in settings.roles.items()}
    if {**duties, **STAGE_DUTIES}[stages[-1]] is not Duty.MERGE:
        stages = (*stages, "merge")
    steps = build_stages(stages, duties, maker=chosen.role or "")
    return Workflow(name=name, stages=stages, barrier=chosen.barrier, steps=steps)


def list_required_roles(workflow: Workflow) -> tuple[str, ...]:
    """Return the roles that every session of this workflow needs; a merger only if there is a conflict."""
    return tuple(dict.fromkeys(stage.role for stage in workflow.steps if stage.role and stage.duty is not Duty.MERGE))


def list_making_roles(settings: Settings, workflow: str | None) -> tuple[str, ...]:
    steps = list_workflow_stages(settings, workflow or settings.planning.workflow)
    return tuple(dict.fromkeys(stage.role for stage in steps if stage.duty is Duty.MAKE))


def list_workflow_stages(settings: Settings, workflow: str) -> tuple[Stage, ...]:
    """Return the stages of a workflow, also of one that cannot run."""
    return _build_workflow(settings, workflow).steps


def _list_stages(settings: Settings, name: str) -> tuple[str, ...]:
    """Return a workflow's stages; with `database_first` a database stage goes before the first backend stage."""
    workflow = _find_workflow(settings, name)
    stages = workflow.stages
    if not workflow.database_first or "backend" not in stages or "database" in stages:
        return stages
    at = stages.index("backend")
    return (*stages[:at], "database", *stages[at:])


def list_differences(
    old: Settings, new: Settings, used: Mapping[str, Container[str]] = MappingProxyType({})
) -> tuple[str, ...]:
    """Return `limits.max_retries: 2 -> 3` for each setting that differs, sorted by name.

    `used`: the roles and workflows of a session, by section. What others are set to has no effect on it, and a newer
    version may have more of them.
    """
    before, after = (
        {key: text for key, text in _list_leaves("", each.model_dump(mode="json")) if _concerns(key, used)}
        for each in (old, new)
    )
    keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    return tuple(f"{key}: {before.get(key, '(not set)')} -> {after.get(key, '(not set)')}" for key in keys)


def _concerns(key: str, used: Mapping[str, Container[str]]) -> bool:
    section, _, rest = key.partition(".")
    return section not in used or rest.partition(".")[0] in used[section]


def find_doubtful_settings(settings: Settings) -> tuple[tuple[tuple[str, ...], str], ...]:
    """Return settings that are allowed but probably not intended: where, and why."""
    checks = (_check_diagnostics, _check_patterns, _check_choices, _check_judges, _check_role_names)
    return tuple(found for check in checks for found in check(settings))


def _find_workflow(settings: Settings, name: str | None) -> WorkflowSettings:
    name = name or settings.planning.workflow
    if name in settings.workflows:
        return settings.workflows[name]
    known = ", ".join(settings.workflows)
    hint = suggest(name, settings.workflows)
    raise UsageError(f"there is no workflow {name!r}: {hint or 'check the name.'} The configuration has {known}")


def _check_workflow_runs(workflow: Workflow) -> None:
    if not _is_judged_at_last(workflow):
        raise UsageError(f"workflow {workflow.name!r} cannot run: {UNJUDGED}, in workflows.{workflow.name}.stages")


UNJUDGED = (
    "no stage judges what its last making stage made, and nothing lands that was not checked; "
    "add check, validate or a role with duty judge after it"
)


def _is_judged_at_last(workflow: Workflow) -> bool:
    if workflow.curates:  # it makes nothing
        return True
    judged = workflow.find_next(workflow.find_making_stage(len(workflow.stages)))
    return judged is not None and judged.duty is Duty.JUDGE


def _find_max_retries(settings: Settings, workflow: WorkflowSettings) -> int:
    own = workflow.max_retries
    return settings.limits.max_retries if own is None else own


def _find_default_timeout(settings: Settings, role: str) -> float:
    longest = settings.limits.agent_timeout
    return min(longest, MAX_DEFAULT_REVIEW_SECONDS) if find_role_duty(settings, role) is Duty.JUDGE else longest


def _list_leaves(path: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _list_leaves(f"{path}.{key}" if path else str(key), inner)
    else:
        yield path, json.dumps(value, ensure_ascii=False)


def _check_diagnostics(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    diagnostics = settings.validation.validator_diagnostics
    if diagnostics.enabled and not diagnostics.commands:
        place = ("validation", "validator_diagnostics", "commands")
        fix = "name your test command, or have agents build each result: planning.tier_2: single_verified"
        yield place, f"there are no diagnostic commands: nothing will be tested before a person is asked; {fix}"
    if not settings.permissions.allowed_paths:
        yield ("permissions", "allowed_paths"), "the list is empty: agents may not write anything"


def _check_choices(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    usual = settings.planning.workflow
    if settings.planning.workflows and settings.workflows[usual].barrier:
        place = ("planning", "workflows")
        yield place, f"has no effect in {usual}: its barrier leads all tasks through the same stages; use flow"


def _check_judges(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    for name in settings.workflows:
        if not _is_judged_at_last(_build_workflow(settings, name)):
            yield ("workflows", name, "stages"), f"it cannot be chosen: {UNJUDGED}"


def _check_role_names(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    for name in settings.roles.keys() & STAGE_DUTIES.keys():
        yield ("roles", name), f"it is never used: in a list of stages, {name} is the stage; give it another name"


def _check_patterns(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    for pattern in settings.permissions.bash_rules.blocked_patterns:
        if re.search(pattern, ""):
            place = ("permissions", "bash_rules", "blocked_patterns")
            yield place, f"{pattern!r} matches the empty string, so it blocks every command"
    commits = settings.validation.commit_format
    if re.search(commits.pattern, "feat(task-001): x") and not re.search(commits.pattern, "feat(task-001,task-002): x"):
        place = ("validation", "commit_format", "pattern")
        yield place, r"it accepts one task id only; a merge of several needs \(task-\d+(,\s*task-\d+)*\)"
