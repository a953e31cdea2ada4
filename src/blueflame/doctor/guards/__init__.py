"""The doctor's table of guards: each is tried for real, and judged by what is seen outside afterwards.

The table is here; its rows are judged in `walls`, `limits` and `calls_and_results`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

from blueflame.doctor.fixtures import BuildSandbox, Machine, open_fixture
from blueflame.doctor.guards.calls_and_results import (
    judge_dead_watcher,
    judge_scope,
    judge_secrets,
    judge_shell,
    judge_watcher,
)
from blueflame.doctor.guards.findings import GuardFinding, GuardState
from blueflame.doctor.guards.limits import (
    judge_cpu,
    judge_disk,
    judge_file_size,
    judge_memory,
    judge_open_files,
    judge_processes,
)
from blueflame.doctor.guards.walls import (
    judge_audit_log,
    judge_capabilities,
    judge_daemons,
    judge_environment,
    judge_gateway,
    judge_history,
    judge_home,
    judge_inherited_files,
    judge_kernel_settings,
    judge_namespaces,
    judge_network,
    judge_other_processes,
    judge_outside_reads,
    judge_outside_writes,
    judge_sockets,
    judge_system_calls,
    judge_system_folders,
)
from blueflame.doctor.probe_runs import GuardEvidence, gather_evidence
from blueflame.lazy_dataclass import dataclass
from blueflame.model.sandbox import SandboxLevel
from blueflame.model.settings.permissions import SandboxSettings, ValidationSettings
from blueflame.orchestrator.foreground_sandbox import find_highest_level, find_sandbox_problems
from blueflame.sandbox.build import build_sandbox
from blueflame.sandbox.probe import SandboxProblem
from blueflame.sandbox.toolchains import find_toolchains


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    name: str
    holds: str
    state: GuardState
    seen: str  # how it was tried and what was seen


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardReport:
    """`asked` is the configured level, `held` what the machine can hold; `problems` are the difference."""

    asked: SandboxLevel
    held: SandboxLevel
    problems: tuple[SandboxProblem, ...]
    table: tuple[Guard, ...]

    @property
    def is_enough(self) -> bool:
        """Whether the walls allow a session to start here."""
        return not self.problems and not any(guard.state is GuardState.IMPOSSIBLE for guard in self.table)


Judge: TypeAlias = Callable[[GuardEvidence], GuardFinding]


class GuardCheck(NamedTuple):
    """A row of the table: what the guard promises, the probe that tries it, and how the outcome is judged."""

    name: str
    holds: str
    probe: str  # without it there is no verdict; empty when no probe is needed
    judge: Judge


def examine_guards(
    sandbox: SandboxSettings,
    validation: ValidationSettings,
    *,
    repo_root: Path | None = None,
    build: BuildSandbox = build_sandbox,
) -> GuardReport:
    """Try every guard, in one to two seconds. Tests pass a `build` that leaves a hole in a wall."""
    asked, held = SandboxLevel(sandbox.level), find_highest_level()
    home = Path(os.environ.get("HOME") or Path("~").expanduser())
    machine = Machine(
        sandbox=sandbox,
        tools=find_toolchains(os.environ, repo_root=repo_root, home=home, ours=True),
        home=home,
        repo_root=repo_root,
        is_sandboxed=SandboxLevel.OFF not in (asked, held),
        build=build,
    )
    problems = find_sandbox_problems(asked)
    with open_fixture(machine) as fixture:
        evidence = gather_evidence(fixture, validation, list_probes(is_sandboxed=machine.is_sandboxed))
        unavailable = None if machine.is_sandboxed else _explain_unavailable(asked, problems)
        walls = (_examine_guard(check, evidence, unavailable) for check in SANDBOX_GUARDS)
        others = (_examine_guard(check, evidence, None) for check in OTHER_GUARDS)
        return GuardReport(asked=asked, held=held, problems=problems, table=(*walls, *others))


def list_probes(*, is_sandboxed: bool) -> tuple[str, ...]:
    """List the probes to run; the audit log is attacked last, because the others write to it."""
    checks = (*OTHER_GUARDS, *(SANDBOX_GUARDS if is_sandboxed else ()))
    return tuple(dict.fromkeys(check.probe for check in checks if check.probe))


def _explain_unavailable(asked: SandboxLevel, problems: tuple[SandboxProblem, ...]) -> GuardFinding:
    if asked is SandboxLevel.OFF:
        return GuardState.OFF, "sandbox.level is off: agents run as you"
    return GuardState.IMPOSSIBLE, "; ".join(problem.words for problem in problems) or "the sandbox is unavailable"


def _examine_guard(check: GuardCheck, evidence: GuardEvidence, verdict: GuardFinding | None) -> Guard:
    if verdict is None and check.probe and not evidence.has_tried(check.probe):
        verdict = GuardState.IMPOSSIBLE, f"it could not be tried: {evidence.explain_untried()}"
    state, seen = verdict or check.judge(evidence)
    return Guard(name=check.name, holds=check.holds, state=state, seen=seen)


SANDBOX_GUARDS = (
    GuardCheck("files outside", "nothing beside the checkout is there", "read_outside", judge_outside_reads),
    GuardCheck("writes outside", "nothing beside the checkout changes", "write_outside", judge_outside_writes),
    GuardCheck("system folders", "only the checkout can be written", "write_system", judge_system_folders),
    GuardCheck("history", "the repository cannot be changed", "history", judge_history),
    GuardCheck("home", "your home and its secrets are not there", "home", judge_home),
    GuardCheck("environment", "no secrets in environment variables", "environment", judge_environment),
    GuardCheck("inherited files", "no open file of ours gets inside", "inherited", judge_inherited_files),
    GuardCheck("other processes", "can be neither seen nor signalled", "processes", judge_other_processes),
    GuardCheck("daemons", "all ends with the agent and its warden", "daemon", judge_daemons),
    GuardCheck("network", "no network, no services of the machine", "network", judge_network),
    GuardCheck("sockets", "no Unix sockets of the machine", "sockets", judge_sockets),
    GuardCheck("gateway", "only listed hosts can be reached", "gateway", judge_gateway),
    GuardCheck("capabilities", "no rights over the machine", "capabilities", judge_capabilities),
    GuardCheck("namespaces", "no way to rights in a new namespace", "nested", judge_namespaces),
    GuardCheck("system calls", "what no build needs is filtered", "system_calls", judge_system_calls),
    GuardCheck("kernel settings", "/proc/sys cannot be written", "kernel", judge_kernel_settings),
    GuardCheck("audit log", "log and policy are out of reach", "audit", judge_audit_log),
)
"""The guards that need a sandbox."""

OTHER_GUARDS = (
    GuardCheck("memory", "an agent that uses too much is ended", "", judge_memory),
    GuardCheck("processes", "an agent that starts too many is ended", "", judge_processes),
    GuardCheck("file size", "no file grows too large", "file_size", judge_file_size),
    GuardCheck("open files", "no process opens too many files", "open_files", judge_open_files),
    GuardCheck("CPU time", "no process computes for too long", "cpu", judge_cpu),
    GuardCheck("free disk", "agents end before the disk is full", "", judge_disk),
    GuardCheck("watcher", "each tool call is judged before it", "watcher", judge_watcher),
    GuardCheck("shell commands", "each is read as bash reads it", "watcher", judge_shell),
    GuardCheck("dead watcher", "without an answer, all is refused", "", judge_dead_watcher),
    GuardCheck("secrets", "results are searched for secrets", "", judge_secrets),
    GuardCheck("file scope", "results stay within their task's files", "", judge_scope),
)
