"""Describe a sandbox to a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from blueflame.model.sandbox import (
    TMP,
    MountKind,
    Network,
    ResourceLimits,
    SandboxLevel,
    SandboxSpec,
)


def describe_sandbox(spec: SandboxSpec) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return headings, and the lines below each."""
    if spec.level is SandboxLevel.OFF:
        return (("No sandbox", ("The level is off: commands run as you, and can do what you can.",)),)
    return (
        ("Can be written", tuple(_describe_mounts(spec, (MountKind.RW, MountKind.TMPFS)))),
        (
            "Can be read",
            tuple(
                _describe_mounts(spec, (MountKind.RO, MountKind.FILE, MountKind.SYMLINK, MountKind.DEV, MountKind.PROC))
            ),
        ),
        ("Hidden", tuple(_describe_mounts(spec, (MountKind.EMPTY,)))),
        ("Nothing else of the machine exists inside", ()),
        ("Network", (describe_network(spec),)),
        ("Limits", describe_bounds(spec.bounds)),
        ("Runs as", (f"{spec.user} (uid {spec.uid}), no capabilities, in {spec.cwd}, HOME={spec.home}, TMPDIR={TMP}",)),
        ("Environment", (", ".join(name for name, _ in spec.environment) or "nothing",)),
        ("PATH", spec.path),
        ("Notes", spec.notes),
    )


def _describe_mounts(spec: SandboxSpec, kinds: Sequence[MountKind]) -> Iterator[str]:
    for mount in spec.mounts:
        if mount.kind in kinds:
            other = mount.source and mount.source != mount.target
            shown = f" -> {mount.source}" if mount.kind is MountKind.SYMLINK else f" = {mount.source}" if other else ""
            yield f"{mount.target}{shown}" + (f"  ({mount.why})" if mount.why else "")


def describe_network(spec: SandboxSpec) -> str:
    match spec.network:
        case Network.HOST:
            return "the host's network, by sandbox.allow_network: this is a hole in the sandbox"
        case Network.DOORS if spec.hosts or spec.registries:
            registries = [f"{', '.join(spec.registries)} during setup"] if spec.registries else []
            return f"none, except {', '.join([*spec.hosts, *registries])} through the gateway"
        case _:
            return "none"


def describe_bounds(bounds: ResourceLimits) -> tuple[str, ...]:
    lines = (
        (bounds.cpu_seconds, f"{bounds.cpu_seconds:,} s of CPU time for each process"),
        (bounds.memory_mb, f"{bounds.memory_mb:,} MB of memory in total"),
        (bounds.processes, f"{bounds.processes:,} processes and threads"),
        (bounds.open_files, f"{bounds.open_files:,} open files for each process"),
        (bounds.file_bytes, f"{bounds.file_bytes >> 20:,} MB for each file"),
        (bounds.min_free_disk_mb, f"ended when less than {bounds.min_free_disk_mb:,} MB of disk are free"),
    )
    return tuple(words for value, words in lines if value)
