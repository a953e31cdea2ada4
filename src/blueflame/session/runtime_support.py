"""Whether each role asks of its runtime only what that can hold it to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from blueflame.model.attempt import PLANNER
from blueflame.model.runtime_support import CAPABILITIES, RUNTIME_SUPPORT, Enforcement
from blueflame.model.settings import Settings
from blueflame.model.settings.roles import RoleSettings
from blueflame.session.from_settings import runtime_kind

REHEARSAL = "scripted"  # plays what is written: nothing of it is meant for real
CLAUDE_NAMES = ("sonnet", "haiku", "opus", "fable")
CLAUDES = ("claude", "tmux", REHEARSAL)


def beyond(settings: Settings, runtimes: Mapping[str, str]) -> tuple[str, ...]:
    """What roles ask for that cannot be held, in words to act on. `runtimes` has the runtime's name for each role."""
    return tuple(
        problem
        for role, runtime in sorted(runtimes.items())
        if role in settings.roles
        for problem in _beyond(settings, role, settings.roles[role], runtime)
    )


def not_held(settings: Settings, runtimes: Mapping[str, str]) -> tuple[str, ...]:
    """What a person should know: it is asked for, and falls back to less."""
    planner = runtimes.get(PLANNER)
    if planner is None or "interactive" not in settings.planning.model_fields_set or not settings.planning.interactive:
        return ()
    kind = runtime_kind(settings, planner)
    if kind == REHEARSAL or _held(kind, "interactive") is not Enforcement.IMPOSSIBLE:
        return ()
    return (f"planning.interactive: {planner} cannot talk with a person; the planner plans at once",)


def is_named(command: str, name: str) -> bool:
    """Whether a command line starts an agent of that name, wherever it is installed."""
    return any(name in word.rpartition("/")[2] for word in command.split())


def _beyond(settings: Settings, role: str, given: RoleSettings, runtime: str) -> Iterator[str]:
    kind = runtime_kind(settings, runtime)
    if kind == REHEARSAL:
        return
    for what, asked in _asked(given):
        if asked and _held(kind, what) is Enforcement.IMPOSSIBLE:
            yield (
                f"roles.{role} asks for {CAPABILITIES[what]}, which the runtime {runtime} cannot do; "
                f"take roles.{role}.{_KEYS[what]} out, or give the role another runtime"
            )
    own = settings.runtimes.get(runtime)
    bridge = kind == "acp" and own is not None and is_named(own.command or "", "claude")
    if given.model in CLAUDE_NAMES and kind not in CLAUDES and not bridge:
        yield (
            f"roles.{role}.model is {given.model!r}, a name that only Claude's program knows; "
            f"set it to a model that {runtime} can use"
        )


def _asked(given: RoleSettings) -> Iterator[tuple[str, bool]]:
    yield "skills", bool(given.skills)
    yield "tools", given.tools is not None
    yield "budget", bool(given.budget_usd or given.budget_tokens)
    yield "metering", bool(given.budget_usd or given.budget_tokens)


_KEYS = {"skills": "skills", "tools": "tools", "budget": "budget_usd", "metering": "budget_usd"}


def _held(kind: str, what: str) -> Enforcement:
    """A runtime that is not in the table holds nothing."""
    return RUNTIME_SUPPORT.get(kind, {}).get(what, Enforcement.IMPOSSIBLE)
