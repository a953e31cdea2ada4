"""Whether each role's runtime can do what the role's settings ask for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from blueflame.model.attempt import PLANNER, Duty
from blueflame.model.limits import Limits
from blueflame.model.runtime_support import CAPABILITIES, CLAUDE_MODELS, RUNTIMES, Enforcement, find_enforcement
from blueflame.model.schemas import OUTPUT_SCHEMAS
from blueflame.model.settings import Settings
from blueflame.model.settings.roles import RoleSettings
from blueflame.session.from_settings import find_runtime_kind

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
    """Return warnings about settings that have no effect with these runtimes; see also `session.idle_settings`."""
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
