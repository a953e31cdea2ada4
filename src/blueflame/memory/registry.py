"""The memories there are, by the name that the configuration gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from blueflame.memory.beads import Beads
from blueflame.memory.builtin import BuiltIn
from blueflame.memory.mirrored import Mirrored
from blueflame.memory.provider import NO_MEMORY, Memory
from blueflame.model.memory import Decay
from blueflame.model.settings import Settings
from blueflame.system.layout import ProjectPaths


def builtin(settings: Settings, places: ProjectPaths) -> BuiltIn:
    policy = settings.beads.decay_policy
    decay = Decay(
        enabled=settings.beads.memory_decay,
        results_after=policy.summarize_after_sessions,
        failures_after=policy.preserve_failures_sessions,
    )
    return BuiltIn(places.memory, places.knowledge, decay)


def beads(settings: Settings, places: ProjectPaths, environ: Mapping[str, str]) -> Beads:
    return Beads(settings.memory.bd, places.beads, environ, timeout=settings.memory.bd_timeout)


MEMORIES: Mapping[str, Callable[[Settings, ProjectPaths, Mapping[str, str]], Memory]] = {
    "builtin": lambda settings, places, _environ: builtin(settings, places),
    "beads": lambda settings, places, environ: Mirrored(builtin(settings, places), beads(settings, places, environ)),
    "none": lambda _settings, _places, _environ: NO_MEMORY,
}


def memory_of(settings: Settings, places: ProjectPaths, environ: Mapping[str, str]) -> Memory:
    """`beads.enabled: false` switches all memory off, as it always did."""
    return MEMORIES[settings.memory.provider if settings.beads.enabled else "none"](settings, places, environ)


def memory_problem(settings: Settings, places: ProjectPaths, environ: Mapping[str, str]) -> str:
    """What a person should know before a session that will be remembered; "" when all is well."""
    if not settings.beads.enabled or settings.memory.provider != "beads":
        return ""
    problem = beads(settings, places, environ).problem()
    return f"sessions are remembered here, but not in Beads: {problem}" if problem else ""
