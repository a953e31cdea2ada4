"""What the settings mean: the limits and the workflow of a session, what changed, and what is probably not meant."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from blueflame.model.attempt import PLANNER, VALIDATOR, WORKER
from blueflame.model.errors import UsageError
from blueflame.model.limits import Limits, Workflow
from blueflame.model.runtime_support import Enforcement, find_enforcement
from blueflame.model.settings import Settings
from blueflame.model.settings.roles import STAGES, RoleSettings, WorkflowSettings
from blueflame.model.spend import UNLIMITED, Budget, Unit, to_micro_usd
from blueflame.model.suggestions import suggest

HOOKS = ("post_plan", "pre_validation", "post_merge", "on_failure")
INHERITED_FROM = "default"
REVIEW_THRESHOLD, RETRY_BACKOFF_BASE_MS = 0.8, 30_000


def build_session_limits(
    settings: Settings, workflow: str | None = None, *, scripted: bool = False, interactive: bool = False
) -> Limits:
    """What bounds a session of that workflow: its own numbers go before the general ones. `interactive`: there is a
    person at a terminal whom the planner can talk with."""
    chosen = _find_workflow(settings, workflow)
    roles = _list_roles(settings, chosen)
    default = choose_default_runtime(settings, scripted=scripted)
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
        role_timeouts={name: role.timeout or settings.limits.agent_timeout for name, role in roles.items()},
        role_models={name: role.model for name, role in roles.items()},
        role_runtimes={name: role.runtime or default for name, role in roles.items()},
        group_validator_models=dict(settings.validation.validator_models),
        on_stall=settings.limits.on_stall,
        on_rate_limit=settings.gates.on_rate_limit,
        on_overlap=settings.gates.on_overlap,
        interactive_planning=interactive and is_planner_interactive(settings, workflow, scripted=scripted),
        rate_limit_wait=settings.limits.rate_limit_wait,
        on_validation_failed=settings.gates.on_validation_failed,
        on_conflict=settings.merging.on_conflict,
        hooks=tuple(name for name in HOOKS if getattr(settings.hooks, name)),
        checks=diagnostics.commands if diagnostics.enabled else (),
        allowed_paths=settings.permissions.allowed_paths,
        blocked_paths=settings.permissions.blocked_paths,
    )


def is_planner_interactive(settings: Settings, workflow: str | None = None, *, scripted: bool = False) -> bool:
    """Whether the planner is to talk with a person, if there is one."""
    planner = _list_roles(settings, _find_workflow(settings, workflow)).get(PLANNER)
    runtime = (planner.runtime if planner is not None else None) or choose_default_runtime(settings, scripted=scripted)
    can_talk = find_enforcement(find_runtime_kind(settings, runtime), "interactive") is not Enforcement.IMPOSSIBLE
    return settings.planning.interactive and can_talk


def choose_default_runtime(settings: Settings, *, scripted: bool = False) -> str:
    """Whoever gives a script wants to see it played; everybody else wants work done."""
    given = settings.runtimes.get("scripted")
    return "scripted" if scripted or (given is not None and given.script) else "claude"


def find_runtime_kind(settings: Settings, name: str) -> str:
    """Which built-in runtime drives the one of that name."""
    own = settings.runtimes.get(name)
    return (own.kind if own is not None and own.kind else None) or name


ROLE_SKILLS: Mapping[str, tuple[str, ...]] = {
    "planner": ("brainstorming", "writing-plans"),
    "validator": ("requesting-code-review",),
    "triager": (),
}
"""Which of the general skills a role gets; whoever works gets the rest of them."""


def list_role_skills(settings: Settings, role: str) -> tuple[str, ...]:
    """None unless skills are switched on and somebody said where they are; what a role names for itself comes along."""
    own = settings.roles[role].skills if role in settings.roles else ()
    general = settings.superpowers.skills if settings.superpowers.enabled and settings.superpowers.plugin else ()
    taken = {skill for skills in ROLE_SKILLS.values() for skill in skills}
    mine = [skill for skill in general if (skill in ROLE_SKILLS[role] if role in ROLE_SKILLS else skill not in taken)]
    return tuple(dict.fromkeys((*mine, *own)))


def build_budget(usd: float, tokens: int) -> Budget:
    """One limit in one unit; 0 in both is no limit. The models refuse both at once."""
    if tokens:
        return Budget(Unit.TOKENS, tokens)
    # a limit below a millionth of a dollar must not round to 0, which would mean none at all
    return Budget(Unit.USD, max(1, to_micro_usd(usd))) if usd else UNLIMITED


def build_workflow(settings: Settings, name: str | None = None) -> Workflow:
    """The workflow of that name, or the one of `planning.workflow`, if this version can run it."""
    name = name or settings.planning.workflow
    stages = list_stages(settings, name)
    _check_workflow_runs(name, stages)
    return Workflow(name=name, stages=stages, barrier=_find_workflow(settings, name).barrier)


def list_required_roles(workflow: Workflow) -> tuple[str, ...]:
    """The roles that a session of this workflow will surely need."""
    players = (("plan", PLANNER), ("work", WORKER), ("validate", VALIDATOR))
    return tuple(role for stage, role in players if workflow.has_stage(stage))


def list_stages(settings: Settings, name: str) -> tuple[str, ...]:
    """With `database_first` a database stage goes before the first backend stage."""
    workflow = _find_workflow(settings, name)
    stages = workflow.stages
    if not _find_inherited(settings, workflow, "database_first") or "backend" not in stages or "database" in stages:
        return stages
    at = stages.index("backend")
    return (*stages[:at], "database", *stages[at:])


def find_review_threshold(settings: Settings, name: str | None = None) -> float:
    found = _find_inherited(settings, _find_workflow(settings, name), "review_threshold")
    return REVIEW_THRESHOLD if found is None else float(found)


def find_retry_backoff(settings: Settings, name: str | None = None) -> float:
    """Seconds before the first retry."""
    found = _find_inherited(settings, _find_workflow(settings, name), "retry_backoff_base_ms")
    return (RETRY_BACKOFF_BASE_MS if found is None else float(found)) / 1000


def list_differences(old: Settings, new: Settings) -> tuple[str, ...]:
    """`limits.max_retries: 2 -> 3` for each setting that is not the same, in the order of their names."""
    before, after = _flatten_settings(old), _flatten_settings(new)
    keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    return tuple(f"{key}: {before.get(key, '(not set)')} -> {after.get(key, '(not set)')}" for key in keys)


def find_doubtful_settings(settings: Settings) -> tuple[tuple[tuple[str, ...], str], ...]:
    """What is allowed but probably not meant: where, and why."""
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
            f"{'is a stage' if len(set(foreign)) == 1 else 'are stages'} played by a role of its own, and this version "
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
    """A workflow that does not set a number takes the one of workflow `default`, where there is one."""
    own: float | bool | None = getattr(workflow, key)
    if own is None and INHERITED_FROM in settings.workflows:
        own = getattr(settings.workflows[INHERITED_FROM], key)
    return own


def _find_max_retries(settings: Settings, workflow: WorkflowSettings) -> int:
    found = _find_inherited(settings, workflow, "max_retries")
    return settings.limits.max_retries if found is None else int(found)


def _list_roles(settings: Settings, workflow: WorkflowSettings) -> Mapping[str, RoleSettings]:
    """Every role that is named anywhere; the work stage is played with the means of the workflow's own role."""
    named = [stage for each in settings.workflows.values() for stage in each.stages if stage not in STAGES]
    named += [each.role for each in settings.workflows.values() if each.role]
    roles = {name: RoleSettings() for name in named} | dict(settings.roles)
    return roles | {WORKER: roles[workflow.role]} if workflow.role else roles


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
            yield place, f"{pattern!r} matches the empty text, so it blocks every command"
    commits = settings.validation.commit_format
    if re.search(commits.pattern, "feat(task-001): x") and not re.search(commits.pattern, "feat(task-001,task-002): x"):
        place = ("validation", "commit_format", "pattern")
        yield place, r"it takes one task id only; a merge of several needs \(task-\d+(,\s*task-\d+)*\)"


def _check_stages(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, workflow in settings.workflows.items():
        for stage in dict.fromkeys(workflow.stages):
            if stage not in STAGES and stage not in settings.roles:
                yield ("workflows", name, "stages"), f"{stage} is not among the roles: it gets a worker's defaults"
