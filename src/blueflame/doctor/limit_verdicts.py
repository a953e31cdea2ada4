"""Whether limits, the watcher and the judgement of results held."""

from __future__ import annotations

from contextlib import suppress
from secrets import choice
from string import ascii_letters, digits

from blueflame.checks.postcheck import OUTSIDE_SCOPE, check_result
from blueflame.checks.secrets.scan import AddedLine, SecretAllowList, judge_findings, scan_lines
from blueflame.doctor.evidence import Evidence, GuardState, Verdict, escaped, sight, verdict
from blueflame.doctor.trials import TINY
from blueflame.model.changes import Change
from blueflame.model.errors import Refused
from blueflame.model.policy import CANARY
from blueflame.orchestrator.engine.interface import ExitReason
from blueflame.warden.spawn import PROCESS_HEADROOM
from blueflame.watcher.policy_file import find_shfmt

MB = 1 << 20
BREAKS = 2  # the exit code that keeps an agent from its call


def memory(evidence: Evidence) -> Verdict:
    trial, outcome = evidence.memory
    if outcome is None or not trial.loot("memory"):
        return GuardState.IMPOSSIBLE, "it could not be tried: the probe did not run"
    limit, had_all = TINY["max_memory_mb"], "memory" in trial.found("escaped")
    if outcome.reason is not ExitReason.MEMORY:
        return GuardState.IMPOSSIBLE, f"NOT HELD: a box for {limit} MB was not ended for more ({outcome.reason})"
    if had_all:
        return (
            GuardState.DETECTED,
            f"a box for {limit} MB took more and was ended: no control group here, so it is watched",
        )
    if "the system killed" in outcome.detail:
        return GuardState.ENFORCED, f"a box for {limit} MB: the kernel ended it at its limit (control group)"
    return GuardState.DETECTED, f"a box for {limit} MB was ended on its way to more: it is watched"


def many(evidence: Evidence) -> Verdict:
    trial, outcome = evidence.many
    came, limit = len(trial.found("children")), TINY["max_processes"]
    if outcome is None or not came:
        return GuardState.IMPOSSIBLE, "it could not be tried: the probe did not run"
    if outcome.reason is not ExitReason.PROCESSES:
        return (
            GuardState.IMPOSSIBLE,
            f"NOT HELD: {came} processes in a box for {limit} were not ended ({outcome.reason})",
        )
    if came > limit + PROCESS_HEADROOM:
        return GuardState.DETECTED, f"{came} processes came up in a box for {limit}, and it was ended: they are watched"
    return GuardState.ENFORCED, f"a box for {limit}: the kernel let {came} come up, and it was ended"


def file_size(evidence: Evidence) -> Verdict:
    with suppress(OSError):
        size = (evidence.main.checkout / "large").stat().st_size
        limit = TINY["max_file_size_mb"] * MB
        breaches = [f"a file of {size / MB:.1f} MB was written"] if size > limit else []
        return verdict(breaches, f"3 MB into a file where 1 MB is allowed: it has {size / MB:.1f} MB")
    return GuardState.IMPOSSIBLE, "it could not be tried: no file was written"


def open_files(evidence: Evidence) -> Verdict:
    came, limit = len(evidence.main.found("open")), TINY["max_open_files"]
    breaches = [f"{came} files were open at once"] if came > limit else []
    return verdict(breaches, f"128 at once where {limit} are allowed: {came} came up")


def cpu(evidence: Evidence) -> Verdict:
    seen, limit = sight(evidence), str(TINY["max_cpu_seconds"])
    breaches = escaped(evidence, "cpu")
    breaches += [f"the kernel says {seen.cpu_seconds}"] if seen is not None and seen.cpu_seconds != limit else []
    return verdict(breaches, f"2 s of computing where {limit} s is allowed: the kernel ended it")


def disk(evidence: Evidence) -> Verdict:
    if evidence.disk is None or evidence.disk.reason is not ExitReason.DISK:
        return GuardState.IMPOSSIBLE, "NOT HELD: an agent was started although the disk had less room than asked for"
    return GuardState.DETECTED, "an agent that wants more room than there is: not started; later on it is watched"


def watcher(evidence: Evidence) -> Verdict:
    said = _decisions(evidence, CANARY, "forbidden", "honest")
    watch = evidence.outcome.watch if evidence.outcome is not None else {}
    breaches = _unlike(said, {CANARY: "block", "forbidden": "block", "honest": "allow"})
    breaches += [] if watch.get("proven") else ["the canary was not refused"]
    return verdict(breaches, "through the agent's own hook: canary and forbidden call refused, honest call allowed")


def shell(evidence: Evidence) -> Verdict:
    try:
        find_shfmt()
    except Refused as e:
        return GuardState.IMPOSSIBLE, str(e)
    breaches = _unlike(_decisions(evidence, "hidden", "plain"), {"hidden": "block", "plain": "allow"})
    return verdict(breaches, "a command hidden in another was refused, the same without it allowed")


def _decisions(evidence: Evidence, *names: str) -> dict[str, str]:
    said = {line.tool if line.tool == CANARY else line.call: line.decision for line in evidence.audit.lines}
    return {name: said.get(name, "nothing") for name in names}


def _unlike(said: dict[str, str], wanted: dict[str, str]) -> list[str]:
    return [f"its log says {word} of the {name} call" for name, word in said.items() if word != wanted[name]]


def dead(evidence: Evidence) -> Verdict:
    code = evidence.dead_watcher
    return verdict(
        [] if code == BREAKS else [f"the hook ended with {code}, not {BREAKS}"],
        "the hook with nobody listening: refused",
    )


def audit(evidence: Evidence) -> Verdict:
    watch = evidence.outcome.watch if evidence.outcome is not None else {}
    breaches = [*evidence.audit.findings, *([str(watch["problem"])] if watch.get("problem") else [])]
    breaches += ["its chain ends elsewhere"] if watch.get("last") != evidence.audit.last else []
    breaches += ["it was read"] if evidence.main.loot("records").strip() else []
    return verdict(breaches, "log, policy and orders, to read, write and remove: not there, and the log is whole")


def secrets(evidence: Evidence) -> Verdict:
    if not evidence.validation.secrets.enabled:
        return GuardState.OFF, "validation.secrets.enabled is false"
    token = "ghp_" + "".join(choice(ascii_letters + digits) for _ in range(36))
    found = judge_findings(
        scan_lines([AddedLine("src/app.py", 1, f'token = "{token}"'), AddedLine("src/app.py", 2, "x = 1")]),
        SecretAllowList(),
    )
    breaches = [] if [each.line for each in found] == [1] else ["a made-up token was not found"]
    return verdict(breaches, "a token made up just now, in an added line: found")


def scope(evidence: Evidence) -> Verdict:
    if not evidence.validation.file_scope.enforce:
        return GuardState.OFF, "validation.file_scope.enforce is false"
    changes = [Change(status="M", path="src/mine.py"), Change(status="M", path="src/others.py")]
    found = check_result(changes, [], allowed_paths=["src/**"], file_locks=["src/mine.py"])
    breaches = (
        [] if [(one.rule, one.path) for one in found] == [(OUTSIDE_SCOPE, "src/others.py")] else ["it was missed"]
    )
    return verdict(breaches, "a change beside the task's own file: found, and its own let through")
