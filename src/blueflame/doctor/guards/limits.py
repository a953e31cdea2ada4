"""Whether an agent that takes too much of the machine is ended."""

from __future__ import annotations

from contextlib import suppress

from blueflame.doctor.guards.findings import GuardFinding, GuardState, judge_breaches
from blueflame.doctor.probe_runs import TINY_LIMITS, GuardEvidence
from blueflame.orchestrator.engine.interface import ExitReason
from blueflame.warden.spawn import PROCESS_HEADROOM

MB = 1 << 20
NOT_RUN = "it could not be tried: the probe did not run"


def judge_memory(evidence: GuardEvidence) -> GuardFinding:
    probe_run, outcome = evidence.memory
    if outcome is None or not probe_run.read_captured("memory"):
        return GuardState.IMPOSSIBLE, NOT_RUN
    sandbox = f"a sandbox for {TINY_LIMITS['max_memory_mb']} MB"
    if outcome.reason is not ExitReason.MEMORY:
        return GuardState.IMPOSSIBLE, f"NOT HELD: {sandbox} was not ended for more ({outcome.reason})"
    if "memory" in probe_run.list_marks("escaped"):
        return GuardState.DETECTED, f"{sandbox} took more and was ended: no control group here, so it is watched"
    if "the system killed" in outcome.detail:
        return GuardState.ENFORCED, f"{sandbox}: the kernel ended it at its limit (control group)"
    return GuardState.DETECTED, f"{sandbox} was ended on its way to more: it is watched"


def judge_processes(evidence: GuardEvidence) -> GuardFinding:
    probe_run, outcome = evidence.many
    started, limit = len(probe_run.list_marks("children")), TINY_LIMITS["max_processes"]
    if outcome is None or not started:
        return GuardState.IMPOSSIBLE, NOT_RUN
    if outcome.reason is not ExitReason.PROCESSES:
        words = f"NOT HELD: {started} processes in a sandbox for {limit} were not ended ({outcome.reason})"
        return GuardState.IMPOSSIBLE, words
    if started > limit + PROCESS_HEADROOM:
        words = f"{started} processes came up in a sandbox for {limit}, and it was ended: they are watched"
        return GuardState.DETECTED, words
    return GuardState.ENFORCED, f"a sandbox for {limit}: the kernel let {started} come up, and it was ended"


def judge_file_size(evidence: GuardEvidence) -> GuardFinding:
    with suppress(OSError):
        size = (evidence.main.checkout / "large").stat().st_size
        is_large = size > TINY_LIMITS["max_file_size_mb"] * MB
        breaches = [f"a file of {size / MB:.1f} MB was written"] if is_large else []
        return judge_breaches(breaches, f"3 MB into a file where 1 MB is allowed: it has {size / MB:.1f} MB")
    return GuardState.IMPOSSIBLE, "it could not be tried: no file was written"


def judge_open_files(evidence: GuardEvidence) -> GuardFinding:
    opened, limit = len(evidence.main.list_marks("open")), TINY_LIMITS["max_open_files"]
    breaches = [f"{opened} files were open at once"] if opened > limit else []
    return judge_breaches(breaches, f"128 at once where {limit} are allowed: {opened} came up")


def judge_cpu(evidence: GuardEvidence) -> GuardFinding:
    view, limit = evidence.kernel_views.get("everything"), TINY_LIMITS["max_cpu_seconds"]
    allowed = {str(limit), str(limit + 1)}  # the hard limit is a second later, if the machine sets no lower one
    breaches = evidence.find_escaped("cpu")
    breaches += [f"the kernel says {view.cpu_seconds}"] if view is not None and view.cpu_seconds not in allowed else []
    return judge_breaches(breaches, f"2 s of computing where {limit} s is allowed: the kernel ended it")


def judge_disk(evidence: GuardEvidence) -> GuardFinding:
    if evidence.disk is None or evidence.disk.reason is not ExitReason.DISK:
        return GuardState.IMPOSSIBLE, "NOT HELD: an agent was started although the disk had less room than required"
    return (
        GuardState.DETECTED,
        "an agent that needs more free space than there is: not started; while it runs, the disk is watched",
    )
