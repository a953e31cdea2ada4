"""Build the memory that memory.provider and memory.mirrors name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from blueflame.git.history import list_past_commits
from blueflame.git.project_id import compute_project_id
from blueflame.memory.beads import BeadsClient
from blueflame.memory.beads_mirror import BeadsMirror
from blueflame.memory.builtin import BuiltInMemory
from blueflame.memory.mirror import Mirror
from blueflame.memory.mirrored import MirroredMemory
from blueflame.memory.provider import NO_MEMORY, MemoryProvider
from blueflame.memory.redis_mirror import MirrorAddress, RedisMirror
from blueflame.memory.store import MemoryStore
from blueflame.model.errors import WorldError
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
    return BuiltInMemory(
        places.memory,
        places.knowledge,
        decay,
        stale_commits=settings.memory.stale_commits,
        list_commits=lambda: list_past_commits(places.root),
    )


def build_memory(settings: Settings, places: ProjectPaths, environ: Mapping[str, str]) -> MemoryProvider:
    return build_mirrored(settings, places, environ) if is_remembered(settings) else NO_MEMORY


def is_remembered(settings: Settings) -> bool:
    """`beads.enabled: false` switches all memory off, as in older configurations."""
    return settings.beads.enabled and settings.memory.provider != "none"


def build_mirrored(settings: Settings, places: ProjectPaths, environ: Mapping[str, str]) -> MirroredMemory:
    first = build_builtin(settings, places)
    return MirroredMemory(first, tuple(_build_mirrors(settings, places, environ, first.store)))


def build_redis(
    text: str, place: str, settings: Settings, places: ProjectPaths, environ: Mapping[str, str]
) -> RedisMirror:
    """`place`: where the address was written."""

    @cache  # it reads the whole history
    def identify() -> tuple[str, str]:
        return compute_project_id(places.root, settings.project.base_branch), settings.project.name

    return RedisMirror(MirrorAddress(text, environ, place), identify)


def _build_mirrors(
    settings: Settings, places: ProjectPaths, environ: Mapping[str, str], store: MemoryStore
) -> Iterator[Mirror]:
    if settings.memory.provider == "beads":
        client = BeadsClient(settings.memory.bd, places.beads, environ, timeout=settings.memory.bd_timeout)
        yield BeadsMirror(client, store)
    for n, text in enumerate(settings.memory.mirrors):
        yield build_redis(text, f"memory.mirrors[{n}]", settings, places, environ)


def describe_memory_problem(
    settings: Settings, places: ProjectPaths, environ: Mapping[str, str], *, servers: bool
) -> str:
    """Why sessions are not mirrored as configured; "" when they are. `servers`: try them, too; it may take seconds."""
    if not is_remembered(settings):
        return ""
    store = build_builtin(settings, places).store
    mirrors = _build_mirrors(settings, places, environ, store)
    problems = [_find_problem(mirror) for mirror in mirrors if servers or not isinstance(mirror, RedisMirror)]
    missing = "; ".join(filter(None, problems))
    return f"sessions are saved in .blueflame/memory.db, but not in {missing}" if missing else ""


def _find_problem(mirror: Mirror) -> str:
    try:
        mirror.check()
    except WorldError as error:
        return f"{mirror.name}: {error}"
    return ""
