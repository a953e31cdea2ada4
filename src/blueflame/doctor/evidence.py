"""What is outside after every guard has been tried, and how verdicts are told."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from blueflame.doctor.fixtures import Ground, Trial
from blueflame.doctor.kernel_view import Sight
from blueflame.doctor.trials import (
    ALWAYS,
    LAST,
    WALLED,
    dead_watcher,
    kill_warden,
    let_loose,
    look_at,
    too_much_disk,
)
from blueflame.model.errors import ProcessFailed
from blueflame.model.sandbox import Network
from blueflame.model.settings.permissions import ValidationSettings
from blueflame.orchestrator.engine.interface import ProcessOutcome
from blueflame.telemetry.audit import Audit, read_audit


class GuardState(StrEnum):
    ENFORCED = "enforced"
    DETECTED = "detected only"
    IMPOSSIBLE = "impossible here"
    OFF = "off"  # the configuration says so


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is outside after all trials are over."""

    ground: Ground
    main: Trial
    outcome: ProcessOutcome | None
    sights: Mapping[str, Sight]
    gone_at_end: bool
    gone_with_warden: bool | None
    memory: tuple[Trial, ProcessOutcome | None]
    many: tuple[Trial, ProcessOutcome | None]
    disk: ProcessOutcome | None
    audit: Audit
    dead_watcher: int
    validation: ValidationSettings

    def tried(self, name: str) -> bool:
        return name in self.main.found("tried")

    @property
    def open_network(self) -> bool:
        return self.main.box.network is Network.HOST and self.ground.machine.sandbox.allow_network


Verdict: TypeAlias = tuple[GuardState, str]


def gather(ground: Ground, validation: ValidationSettings) -> Evidence:
    """Everything at the same time: each trial is in a box of its own."""
    tries = (*(WALLED if ground.machine.boxed else ()), *ALWAYS, *(LAST if ground.machine.boxed else ()))
    inherited = os.open(ground.outside / "inherited.txt", os.O_RDWR)
    try:
        main = let_loose(ground, "main", "everything", tries=tries, watched=True, handles=(inherited,))
    finally:
        os.close(inherited)
    stay = let_loose(ground, "stay", "stay") if ground.machine.boxed else None
    memory, many = let_loose(ground, "memory", "memory"), let_loose(ground, "many", "many")
    disk = let_loose(ground, "disk", "stay", limits=too_much_disk(ground))
    sights = look_at(main)
    gone_with_warden = kill_warden(stay) if stay is not None else None
    outcome = main.ended()
    return Evidence(
        ground=ground,
        main=main,
        outcome=outcome,
        sights=sights,
        gone_at_end=not main.running(),
        gone_with_warden=gone_with_warden,
        memory=(memory, memory.ended()),
        many=(many, many.ended()),
        disk=disk.ended(),
        audit=read_audit(ground.audit),
        dead_watcher=_hook_alone(),
        validation=validation,
    )


def _hook_alone() -> int:
    try:
        return dead_watcher()
    except (OSError, ProcessFailed):
        return -1


def why_not(evidence: Evidence) -> str:
    outcome = evidence.outcome
    if outcome is None:
        return "its warden recorded nothing"
    return outcome.detail or f"the probe ended before it ({outcome.reason}, exit code {outcome.exit_code})"


def verdict(breaches: list[str], seen: str) -> Verdict:
    if breaches:
        return GuardState.IMPOSSIBLE, f"NOT HELD: {'; '.join(breaches)}"
    return GuardState.ENFORCED, seen


def stolen(evidence: Evidence, name: str, what: str) -> list[str]:
    return [f"{what} was read"] if evidence.ground.word in evidence.main.loot(name) else []


def escaped(evidence: Evidence, *names: str) -> list[str]:
    return [f"{name} went through" for name in names if name in evidence.main.found("escaped")]


def changed(evidence: Evidence, name: str) -> list[str]:
    with suppress(OSError):
        if (evidence.ground.outside / name).read_text() == evidence.ground.secret(name):
            return []
    return [f"{name} was changed"]


def sight(evidence: Evidence) -> Sight | None:
    return evidence.sights.get("everything")
