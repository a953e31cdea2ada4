"""A box in plain words, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from blueflame.cli.output import print_text
from blueflame.sandbox.bwrap import describe_sandbox

if TYPE_CHECKING:
    from blueflame.model.sandbox import SandboxLevel, SandboxSpec
    from blueflame.sandbox import SandboxProblem


def print_sandbox(box: SandboxSpec, held: SandboxLevel, problems: Sequence[SandboxProblem]) -> None:
    lines = [f"Level: {box.level.value} is asked for; this machine can hold {held.value}."]
    lines += [f"  ! {problem.words}" for problem in problems]
    for heading, said in describe_sandbox(box):
        if said or heading.startswith("Nothing"):
            lines += ["", heading + (":" if said else "."), *(f"  {line}" for line in said)]
    lines += ["", "An agent has a clone of its own in the place of your checkout, and may write to its .git."]
    print_text("\n".join(lines))


def build_sandbox_json(box: SandboxSpec, held: SandboxLevel, problems: Sequence[SandboxProblem]) -> dict[str, Any]:
    return {
        "level": box.level.value,
        "level_held": held.value,
        "problems": [{"guard": problem.guard, "details": problem.words} for problem in problems],
        "cwd": box.cwd,
        "user": box.user,
        "uid": box.uid,
        "home": box.home,
        "mounts": [asdict(mount) for mount in box.mounts],
        "network": box.network.value,
        "hosts": list(box.hosts),
        "limits": asdict(box.bounds),
        "environment": [name for name, _ in box.environment],
        "path": list(box.path),
        "notes": list(box.notes),
    }
