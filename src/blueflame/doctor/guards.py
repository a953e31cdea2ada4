"""The doctor's table of guards: each is tried for real, and judged by what is outside afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

from blueflame.doctor import limit_verdicts as limits
from blueflame.doctor import wall_verdicts as walls
from blueflame.doctor.evidence import Evidence, GuardState, Verdict, gather, why_not
from blueflame.doctor.fixtures import Machine, MakeBox, laid_out
from blueflame.model.sandbox import SandboxLevel
from blueflame.model.settings.permissions import SandboxSettings, ValidationSettings
from blueflame.orchestrator.foreground_sandbox import find_highest_level, find_sandbox_problems
from blueflame.sandbox import SandboxProblem, build_sandbox, find_toolchains

Judge: TypeAlias = Callable[[Evidence], Verdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    name: str
    holds: str
    state: GuardState
    seen: str  # how it was tried and what was seen


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardReport:
    """`asked` is the level of the configuration, `held` what the machine can hold; `problems` are what is between."""

    asked: SandboxLevel
    held: SandboxLevel
    problems: tuple[SandboxProblem, ...]
    table: tuple[Guard, ...]

    @property
    def is_enough(self) -> bool:
        """Whether a session may start here as far as the walls go."""
        return not self.problems and not any(guard.state is GuardState.IMPOSSIBLE for guard in self.table)


class Row(NamedTuple):
    name: str
    holds: str
    judge: Judge
    probe: str = ""  # without which there is no verdict


def examine_guards(
    sandbox: SandboxSettings,
    validation: ValidationSettings,
    *,
    repo_root: Path | None = None,
    make: MakeBox = build_sandbox,
) -> GuardReport:
    """Takes one to two seconds. `make` is for whoever wants to see a wall with a hole in it."""
    asked, held = SandboxLevel(sandbox.level), find_highest_level()
    home = Path(os.environ.get("HOME") or Path("~").expanduser())
    machine = Machine(
        sandbox=sandbox,
        tools=find_toolchains(os.environ, repo_root=repo_root, home=home, ours=True),
        home=home,
        repo_root=repo_root,
        boxed=SandboxLevel.OFF not in (asked, held),
        make=make,
    )
    problems = find_sandbox_problems(asked)
    why = (
        (GuardState.OFF, "sandbox.level is off: agents run as you")
        if asked is SandboxLevel.OFF
        else _impossible(problems)
    )
    with laid_out(machine) as ground:
        evidence = gather(ground, validation)
        walled = tuple(_guard(row, evidence, None if machine.boxed else why) for row in WALLS)
        table = (*walled, *(_guard(row, evidence, None) for row in REST))
    return GuardReport(asked=asked, held=held, problems=problems, table=table)


def _impossible(problems: tuple[SandboxProblem, ...]) -> Verdict:
    return GuardState.IMPOSSIBLE, "; ".join(problem.words for problem in problems) or "there is no box to be had"


def _guard(row: Row, evidence: Evidence, verdict: Verdict | None) -> Guard:
    if verdict is None and row.probe and not evidence.tried(row.probe):
        verdict = GuardState.IMPOSSIBLE, f"it could not be tried: {why_not(evidence)}"
    state, seen = verdict or row.judge(evidence)
    return Guard(name=row.name, holds=row.holds, state=state, seen=seen)


WALLS = (
    Row("files outside", "nothing beside the checkout is there", walls.files_outside, "read_outside"),
    Row("writes outside", "nothing beside the checkout changes", walls.writes_outside, "write_outside"),
    Row("system folders", "only the checkout can be written", walls.system_folders, "write_system"),
    Row("history", "the repository cannot be changed", walls.history, "history"),
    Row("home", "your home and its secrets are not there", walls.home, "home"),
    Row("environment", "no secrets in environment variables", walls.environment, "environment"),
    Row("handed-down files", "no open file of ours gets inside", walls.inherited, "inherited"),
    Row("other processes", "can be neither seen nor signalled", walls.processes, "processes"),
    Row("daemons", "all ends with the agent and its warden", walls.nothing_stays, "daemon"),
    Row("network", "no network, no services of the machine", walls.network, "network"),
    Row("sockets", "no Unix sockets of the machine", walls.sockets, "sockets"),
    Row("gateway", "only listed hosts can be reached", walls.gateway, "gateway"),
    Row("capabilities", "no rights over the machine", walls.capabilities, "capabilities"),
    Row("namespaces", "no way to rights in a new namespace", walls.namespaces, "nested"),
    Row("system calls", "what no build needs is filtered", walls.system_calls, "system_calls"),
    Row("kernel settings", "/proc/sys cannot be written", walls.kernel, "kernel"),
    Row("audit log", "log and policy are out of reach", limits.audit, "audit"),
)
"""There is none of them without a box."""
REST = (
    Row("memory", "who takes too much is ended", limits.memory),
    Row("processes", "who starts too many is ended", limits.many),
    Row("file size", "no file grows too large", limits.file_size, "file_size"),
    Row("open files", "no process opens too many files", limits.open_files, "open_files"),
    Row("CPU time", "no process computes for too long", limits.cpu, "cpu"),
    Row("free disk", "agents end before the disk is full", limits.disk),
    Row("watcher", "each tool call is judged before it", limits.watcher, "watcher"),
    Row("shell commands", "each is read as bash reads it", limits.shell, "watcher"),
    Row("dead watcher", "without an answer, all is refused", limits.dead),
    Row("secrets", "results are searched for secrets", limits.secrets),
    Row("file scope", "results stay within their task's files", limits.scope),
)
