"""Settings that ask for what a runtime cannot do, and written ones that have no effect beside the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from blueflame.model.attempt import PLANNER, Duty
from blueflame.model.limits import Limits
from blueflame.model.runtime_support import CAPABILITIES, CLAUDE_MODELS, RUNTIMES, Enforcement, find_enforcement
from blueflame.model.schemas import OUTPUT_SCHEMAS
from blueflame.model.settings import Settings
from blueflame.model.settings.built_in import BUILT_IN_ROLES, PIPELINE
from blueflame.model.settings.fields import Section
from blueflame.model.settings.roles import RoleSettings
from blueflame.model.suggestions import suggest
from blueflame.session.from_settings import find_runtime_kind, list_workflow_stages

SCRIPTED = "scripted"  # no real agent: it is not checked


def find_unsupported_settings(settings: Settings, runtimes: Mapping[str, str]) -> tuple[str, ...]:
    """Return what roles ask for and their runtimes cannot do. `runtimes` has the runtime's name for each role."""
    return tuple(
        problem
        for role, runtime in sorted(runtimes.items())
        if role in settings.roles
        for problem in _check_role(settings, role, settings.roles[role], runtime)
    )


def find_ladder_problems(settings: Settings, limits: Limits, roles: Sequence[str]) -> tuple[str, ...]:
    """Return what roles ask for and a rung of the ladder cannot do: it does the same work."""
    return tuple(
        dict.fromkeys(
            problem
            for n, rung in enumerate(limits.ladders, 1)
            for role in roles
            if role in settings.roles
            for problem in _check_role(
                settings,
                role,
                settings.roles[role].model_copy(update={"model": rung.model or limits.get_model(role)}),
                rung.runtime or limits.get_runtime(role),
                model_key=f"the model of rung {n} of `escalate`",
            )
        )
    )


def find_ignored_settings(settings: Settings, runtimes: Mapping[str, str]) -> tuple[str, ...]:
    """Return warnings about settings that have no effect with these runtimes."""
    planner = runtimes.get(PLANNER)
    if planner is None or "interactive" not in settings.planning.model_fields_set or not settings.planning.interactive:
        return ()
    kind = find_runtime_kind(settings, planner)
    if kind == SCRIPTED or find_enforcement(kind, "interactive") is not Enforcement.IMPOSSIBLE:
        return ()
    return (f"planning.interactive: {planner} cannot talk with a person; it plans without questions",)


def is_program_named(command: str, name: str) -> bool:
    """Whether a command line starts an agent of that name, wherever it is installed."""
    return any(name in word.rpartition("/")[2] for word in command.split())


def _check_role(
    settings: Settings, role: str, given: RoleSettings, runtime: str, *, model_key: str = ""
) -> Iterator[str]:
    kind = find_runtime_kind(settings, runtime)
    if kind == SCRIPTED:
        return
    has_budget = bool(given.budget_usd or given.budget_tokens)
    required = {
        "skills": bool(given.skills),
        "tools": given.tools is not None,
        "structured_output": Duty(given.duty) in OUTPUT_SCHEMAS,
        "budget": has_budget,
        "metering": has_budget,
    }
    for what, asked in required.items():
        if asked and find_enforcement(kind, what) is Enforcement.IMPOSSIBLE:
            yield (
                f"roles.{role} asks for {CAPABILITIES[what]}, which the runtime {runtime} cannot do; "
                f"remove roles.{role}.{_KEYS[what]}, or give the role another runtime"
            )
    own = settings.runtimes.get(runtime)
    bridge = kind == "acp" and own is not None and is_program_named(own.command or "", "claude")
    knows_claude_models = bridge or (kind in RUNTIMES and RUNTIMES[kind].knows_claude_models)
    if given.model in CLAUDE_MODELS and not knows_claude_models:
        yield (
            f"{model_key or f'roles.{role}.model'} is {given.model!r}, a name that only Claude's program knows; "
            f"set it to a model that {runtime} can use"
        )


_KEYS = {
    "structured_output": "runtime",
    "skills": "skills",
    "tools": "tools",
    "budget": "budget_usd",
    "metering": "budget_usd",
}

IdleSetting = tuple[tuple[str, ...], str]
"""Where it is written, and why it has no effect."""


class _Rule(NamedTuple):
    keys: str  # `section.key`, separated by blanks
    is_idle: Callable[[Settings], bool]
    why: str
    also_default: bool = False  # a person who writes the default expects something, too


RULES = (
    _Rule(
        "superpowers.enabled superpowers.skills",
        lambda given: given.superpowers.enabled and not given.superpowers.plugin,
        "no skills are loaded, because superpowers.plugin names no folder",
        also_default=True,
    ),
    _Rule(
        "validation.require_tests.enabled",
        lambda given: given.validation.require_tests.enabled and not given.validation.require_tests.source_patterns,
        "no test is required, because validation.require_tests.source_patterns is empty",
        also_default=True,
    ),
    _Rule(
        "landing.remote landing.branch_prefix landing.forge landing.push_timeout landing.draft",
        lambda given: given.landing.mode != "pull-request",
        "it is for landing.mode: pull-request",
    ),
    _Rule(
        "hooks.post_merge",
        lambda given: given.landing.mode == "pull-request",
        "landing.mode: pull-request lands nothing itself",
    ),
    _Rule("memory.bd memory.bd_timeout", lambda given: given.memory.provider != "beads", "it is for provider: beads"),
    _Rule(
        "validation.commit_format.example",
        lambda given: not given.validation.commit_format.pattern,
        "it is the example of a pattern, and validation.commit_format.pattern is empty",
    ),
    _Rule(
        "validation.file_naming.style",
        lambda given: not given.validation.file_naming.enforce_for,
        "it holds for no file, because validation.file_naming.enforce_for is empty",
    ),
    _Rule("limits.on_stall", lambda given: not given.limits.stall_timeout, "limits.stall_timeout: 0 finds no stall"),
    _Rule("gates.question_wait", lambda given: not given.gates.max_questions, "gates.max_questions: 0 allows none"),
    _Rule(
        "worktree.setup_timeout worktree.registries",
        lambda given: not given.worktree.setup,
        "it is for setup commands, and worktree.setup has none",
    ),
    _Rule(
        "sandbox.allowed_hosts",
        lambda given: given.sandbox.allow_network,
        "sandbox.allow_network: true lets agents reach every host",
    ),
)


def find_idle_settings(settings: Settings) -> tuple[IdleSetting, ...]:
    """Return what is written, differs from its default, and has no effect beside the other settings."""
    by_part = (_list_by_rule, _list_of_roles, _list_of_runtimes, _list_of_workflows)
    return tuple(found for find in by_part for found in find(settings))


def _list_by_rule(settings: Settings) -> Iterator[IdleSetting]:
    for rule in RULES:
        for key in rule.keys.split() if rule.is_idle(settings) else ():
            *sections, name = key.split(".")
            section: Section = reduce(getattr, sections, settings)
            if (rule.also_default and name in section.model_fields_set) or _is_changed(section, name):
                yield (*sections, name), f"it has no effect: {rule.why}"


def _is_changed(section: Section, name: str) -> bool:
    default = type(section).model_fields[name].get_default(call_default_factory=True)
    return name in section.model_fields_set and getattr(section, name) != default


def list_plugins(settings: Settings) -> tuple[str, ...]:
    """The plugins whose skills agents can load, as they are written."""
    general = settings.superpowers.plugin if settings.superpowers.enabled else None
    own = (each for runtime in settings.runtimes.values() for each in runtime.plugins)
    return tuple(dict.fromkeys((*own, *((general,) if general else ()))))


def find_missing_skills(settings: Settings, offered: Collection[str]) -> tuple[IdleSetting, ...]:
    """Return the skills that are written, differ from the default, and that no plugin offers.

    Where no plugin is named, that is said instead (`find_idle_settings`).
    """
    named: dict[tuple[str, ...], Sequence[str]] = {
        ("roles", name, "skills"): role.skills for name, role in settings.roles.items() if _names_skills(name, role)
    }
    if settings.superpowers.plugin and _is_changed(settings.superpowers, "skills"):
        named["superpowers", "skills"] = settings.superpowers.skills
    return tuple(
        (place, f"{skill} has no effect: no plugin has such a skill{suggest(skill, offered, before='; ')}")
        for place, skills in named.items()
        for skill in skills
        if skill not in offered and list_plugins(settings)
    )


def _names_skills(name: str, role: RoleSettings) -> bool:
    return tuple(role.skills) != tuple(BUILT_IN_ROLES.get(name, {}).get("skills", ()))


def _list_of_roles(settings: Settings) -> Iterator[IdleSetting]:
    has_plugin = settings.superpowers.plugin or any(runtime.plugins for runtime in settings.runtimes.values())
    for name, role in settings.roles.items():
        if role.skills and _names_skills(name, role) and not has_plugin:
            yield ("roles", name, "skills"), "it has no effect: neither superpowers.plugin nor a runtime names a plugin"


def _list_of_runtimes(settings: Settings) -> Iterator[IdleSetting]:
    for name, runtime in settings.runtimes.items():
        kind = find_runtime_kind(settings, name)
        if runtime.script and kind != "scripted":
            yield ("runtimes", name, "script"), "it has no effect: only the runtime scripted plays a script"
        if runtime.plugins and find_enforcement(kind, "skills") is Enforcement.IMPOSSIBLE:
            yield ("runtimes", name, "plugins"), f"it has no effect: {kind} loads no plugins"


def _list_of_workflows(settings: Settings) -> Iterator[IdleSetting]:
    for name, workflow in settings.workflows.items():
        stages = list_workflow_stages(settings, name)
        if workflow.role and not any(stage.name == "work" for stage in stages):
            yield ("workflows", name, "role"), "it has no effect: there is no stage work"
        has_backend = any(stage.name == "backend" for stage in stages)
        if workflow.database_first and _is_own(settings, name, "database_first") and not has_backend:
            yield ("workflows", name, "database_first"), "it has no effect: there is no stage backend"
        is_reviewed = any(stage.duty is Duty.JUDGE and stage.role for stage in stages)
        if workflow.review_threshold and _is_own(settings, name, "review_threshold") and not is_reviewed:
            yield ("workflows", name, "review_threshold"), "it has no effect: no agent judges; add validate"


def _is_own(settings: Settings, workflow: str, key: str) -> bool:
    """Whether it is not taken over from the workflow `default`."""
    given = settings.workflows
    return workflow == PIPELINE or getattr(given[workflow], key) != getattr(given[PIPELINE], key)
