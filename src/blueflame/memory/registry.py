"""Build the memory that memory.provider names."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from blueflame.memory.beads import BeadsClient
from blueflame.memory.beads_mirror import BeadsMirror
from blueflame.memory.builtin import BuiltInMemory
from blueflame.memory.mirrored import MirroredMemory
from blueflame.memory.provider import NO_MEMORY, MemoryProvider
from blueflame.model.memory import Decay
from blueflame.model.settings import Settings
from blueflame.system.layout import ProjectPaths


def build_builtin(settings: Settings, places: ProjectPaths) -> BuiltInMemory:
    policy = settings.beads.decay_policy
    decay = Decay(
        enabled=settings.beads.memory_decay,
        results_after=policy.summarize_after_sessions,
        failures_after=policy.preserve_failures_sessions,
    )
    return BuiltInMemory(places.memory, places.knowledge, decay)


def build_beads(settings: Settings, places: ProjectPaths, environ: Mapping[str, str]) -> BeadsClient:
    return BeadsClient(settings.memory.bd, places.beads, environ, timeout=settings.memory.bd_timeout)


def build_mirrored(settings: Settings, places: ProjectPaths, environ: Mapping[str, str]) -> MemoryProvider:
    first = build_builtin(settings, places)
    return MirroredMemory(first, (BeadsMirror(build_beads(settings, places, environ), first.store),))


PROVIDERS: Mapping[str, Callable[[Settings, ProjectPaths, Mapping[str, str]], MemoryProvider]] = {
    "builtin": lambda settings, places, _environ: build_builtin(settings, places),
    "beads": build_mirrored,
    "none": lambda _settings, _places, _environ: NO_MEMORY,
}


def build_memory(settings: Settings, places: ProjectPaths, environ: Mapping[str, str]) -> MemoryProvider:
    """`beads.enabled: false` switches all memory off, as in older configurations."""
    return PROVIDERS[settings.memory.provider if settings.beads.enabled else "none"](settings, places, environ)


def describe_memory_problem(settings: Settings, places: ProjectPaths, environ: Mapping[str, str]) -> str:
    """Why sessions are not mirrored as configured; "" when they are."""
    if not settings.beads.enabled or settings.memory.provider != "beads":
        return ""
    problem = build_beads(settings, places, environ).find_problem()
    return f"sessions are saved in .blueflame/memory.db, but not in Beads: {problem}" if problem else ""
