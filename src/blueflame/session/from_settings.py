"""Derive a session's limits and workflow from the settings; compare settings, and find doubtful ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from blueflame.model.attempt import PLANNER, VALIDATOR, WORKER
from blueflame.model.errors import UsageError
from blueflame.model.limits import PASSED, REVIEWED, Limits
from blueflame.model.runtime_support import Enforcement, find_enforcement
from blueflame.model.settings import Settings
from blueflame.model.settings.roles import STAGES, RoleSettings, WorkflowSettings
from blueflame.model.spend import UNLIMITED, Budget, Unit, to_micro_usd
from blueflame.model.suggestions import suggest
from blueflame.model.workflow import Workflow
from blueflame.session.user_hooks import Hook

INHERITED_FROM = "default"
MAX_DEFAULT_REVIEW_SECONDS = 600.0  # a review reads; one that takes longer has lost its way


def build_session_limits(
    settings: Settings, workflow: str | None = None, *, scripted: bool = False, interactive: bool = False
) -> Limits:
    """Build the limits of a session; those of its workflow take precedence over the general ones.

    `interactive`: there is a terminal where the planner can talk with a person.
    """
    chosen = _find_workflow(settings, workflow)
    roles = _list_roles(settings, chosen)
    diagnostics = settings.validation.validator_diagnostics
    return Limits(
        workers=settings.concurrency.development,
        validators=settings.concurrency.validation,
        max_retries=_find_max_retries(settings, chosen),
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
        group_validator_models=dict(settings.validation.validator_models),
        on_stall=settings.limits.on_stall,
        on_rate_limit=settings.gates.on_rate_limit,
        on_overlap=settings.gates.on_overlap,
        interactive_planning=interactive and is_planner_interactive(settings, workflow, scripted=scripted),
        rate_limit_wait=settings.limits.rate_limit_wait,
        retry_from=settings.limits.retry_from,
        on_validation_failed=settings.gates.on_validation_failed,
        on_conflict=settings.merging.on_conflict,
        dependents=settings.schedule.dependents or _choose_dependents(chosen),
        hooks=tuple(hook.value for hook in Hook if getattr(settings.hooks, hook.value)),
        checks=diagnostics.commands if diagnostics.enabled else (),
        allowed_paths=settings.permissions.allowed_paths,
        blocked_paths=settings.permissions.blocked_paths,
    )


def _choose_dependents(workflow: WorkflowSettings) -> str:
    """With a barrier, reviews follow at once; without one, a dependent would wait where others move on."""
    return REVIEWED if workflow.barrier and "validate" in workflow.stages else PASSED


def is_planner_interactive(settings: Settings, workflow: str | None = None, *, scripted: bool = False) -> bool:
    """Whether the planner should talk with a person, if there is a terminal."""
    planner = _list_roles(settings, _find_workflow(settings, workflow)).get(PLANNER, RoleSettings())
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


ROLE_SKILLS: Mapping[str, tuple[str, ...]] = {
    "planner": ("brainstorming", "writing-plans"),
    "validator": ("requesting-code-review",),
}
"""Which of the general skills these roles get; all other roles get the rest."""


def list_role_skills(settings: Settings, role: str) -> tuple[str, ...]:
    """Return the skills of a role: its general ones, if enabled and their plugin is set, then those it names itself."""
    own = settings.roles[role].skills if role in settings.roles else ()
    general = settings.superpowers.skills if settings.superpowers.enabled and settings.superpowers.plugin else ()
    if role in ROLE_SKILLS:
        chosen = [skill for skill in general if skill in ROLE_SKILLS[role]]
    else:
        assigned = {skill for skills in ROLE_SKILLS.values() for skill in skills}
        chosen = [skill for skill in general if skill not in assigned]
    return tuple(dict.fromkeys((*chosen, *own)))


def build_budget(usd: float, tokens: int) -> Budget:
    """Build a budget in one unit; 0 in both is no limit. The settings refuse both at once."""
    if tokens:
        return Budget(Unit.TOKENS, tokens)
    # a limit below a millionth of a dollar must not round to 0, which would mean none at all
    return Budget(Unit.USD, max(1, to_micro_usd(usd))) if usd else UNLIMITED


def build_workflow(settings: Settings, name: str | None = None) -> Workflow:
    """Build the workflow of that name, by default that of `planning.workflow`; refuse one that cannot run."""
    name = name or settings.planning.workflow
    stages = list_stages(settings, name)
    _check_workflow_runs(name, stages)
    return Workflow(name=name, stages=stages, barrier=_find_workflow(settings, name).barrier)


def list_required_roles(workflow: Workflow) -> tuple[str, ...]:
    """Return the roles that every session of this workflow needs."""
    roles = (("plan", PLANNER), ("work", WORKER), ("validate", VALIDATOR))
    return tuple(role for stage, role in roles if workflow.has_stage(stage))


def list_stages(settings: Settings, name: str) -> tuple[str, ...]:
    """Return a workflow's stages; with `database_first` a database stage goes before the first backend stage."""
    workflow = _find_workflow(settings, name)
    stages = workflow.stages
    if not _find_inherited(settings, workflow, "database_first") or "backend" not in stages or "database" in stages:
        return stages
    at = stages.index("backend")
    return (*stages[:at], "database", *stages[at:])


def list_differences(old: Settings, new: Settings) -> tuple[str, ...]:
    """Return `limits.max_retries: 2 -> 3` for each setting that differs, sorted by name."""
    before, after = _flatten_settings(old), _flatten_settings(new)
    keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    return tuple(f"{key}: {before.get(key, '(not set)')} -> {after.get(key, '(not set)')}" for key in keys)


def find_doubtful_settings(settings: Settings) -> tuple[tuple[tuple[str, ...], str], ...]:
    """Return settings that are allowed but probably not intended: where, and why."""
    return (*_check_diagnostics(settings), *_check_patterns(settings), *_check_stages(settings))


def _find_workflow(settings: Settings, name: str | None) -> WorkflowSettings:
    name = name or settings.planning.workflow
    if name in settings.workflows:
        return settings.workflows[name]
    known = ", ".join(settings.workflows)
    hint = suggest(name, settings.workflows)
    raise UsageError(f"there is no workflow {name!r}: {hint} The configuration has {known}".replace(":  ", ": "))


def _check_workflow_runs(name: str, stages: tuple[str, ...]) -> None:
    foreign = [stage for stage in stages if stage not in STAGES]
    if foreign:
        raise UsageError(
            f"workflow {name!r} cannot run in this version: {', '.join(dict.fromkeys(foreign))} "
            f"{'is a stage' if len(set(foreign)) == 1 else 'are stages'} for a separate role, and this version "
            f"runs only {', '.join(STAGES)}; choose another workflow with --workflow or planning.workflow"
        )
    missing = [stage for stage in ("work", "merge") if stage not in stages]
    if missing or not {"check", "validate"} & set(stages):
        lacks = missing or ["check (or validate)"]
        raise UsageError(
            f"workflow {name!r} cannot run: it has no stage {' and no stage '.join(lacks)}, and nothing lands "
            "that was not worked on and checked; add it to workflows.{name}.stages".replace("{name}", name)
        )


def _find_inherited(settings: Settings, workflow: WorkflowSettings, key: str) -> float | bool | None:
    """Return a value of the workflow; one that it does not set is taken from workflow `default`, if there is one."""
    own: float | bool | None = getattr(workflow, key)
    if own is None and INHERITED_FROM in settings.workflows:
        own = getattr(settings.workflows[INHERITED_FROM], key)
    return own


def _find_max_retries(settings: Settings, workflow: WorkflowSettings) -> int:
    found = _find_inherited(settings, workflow, "max_retries")
    return settings.limits.max_retries if found is None else int(found)


def _list_roles(settings: Settings, workflow: WorkflowSettings) -> Mapping[str, RoleSettings]:
    """Return the settings of every role; the worker gets those of the workflow's `role`."""
    named = [stage for each in settings.workflows.values() for stage in each.stages if stage not in STAGES]
    named += [each.role for each in settings.workflows.values() if each.role]
    roles = {name: RoleSettings() for name in named} | dict(settings.roles)
    return roles | {WORKER: roles[workflow.role]} if workflow.role else roles


def _find_default_timeout(settings: Settings, role: str) -> float:
    longest = settings.limits.agent_timeout
    return min(longest, MAX_DEFAULT_REVIEW_SECONDS) if role == VALIDATOR else longest


def _flatten_settings(settings: Settings) -> dict[str, str]:
    return dict(_list_leaves("", settings.model_dump(mode="json")))


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
        yield place, "there are no diagnostic commands: nothing will be tested before a person is asked"
    if not settings.permissions.allowed_paths:
        yield ("permissions", "allowed_paths"), "the list is empty: agents may not write anything"


def _check_patterns(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    for pattern in settings.permissions.bash_rules.blocked_patterns:
        if re.search(pattern, ""):
            place = ("permissions", "bash_rules", "blocked_patterns")
            yield place, f"{pattern!r} matches the empty string, so it blocks every command"
    commits = settings.validation.commit_format
    if re.search(commits.pattern, "feat(task-001): x") and not re.search(commits.pattern, "feat(task-001,task-002): x"):
        place = ("validation", "commit_format", "pattern")
        yield place, r"it accepts one task id only; a merge of several needs \(task-\d+(,\s*task-\d+)*\)"


def _check_stages(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, workflow in settings.workflows.items():
        for stage in dict.fromkeys(workflow.stages):
            if stage not in STAGES and stage not in settings.roles:
                yield ("workflows", name, "stages"), f"{stage} is not under roles: it gets a worker's defaults"
