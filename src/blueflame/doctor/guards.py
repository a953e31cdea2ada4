"""The doctor's table of guards: each is tried for real, and judged by what is seen outside afterwards."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from secrets import choice
from string import ascii_letters, digits
from typing import NamedTuple, TypeAlias

from blueflame.checks.postcheck import OUTSIDE_SCOPE, check_result
from blueflame.checks.secrets.scan import AddedLine, SecretAllowList, judge_findings, scan_lines
from blueflame.doctor.fixtures import SYSTEM_FOLDERS, BuildSandbox, Machine, open_fixture
from blueflame.doctor.probe_runs import TINY_LIMITS, GuardEvidence, gather_evidence
from blueflame.doctor.probes import format_file_id
from blueflame.model.changes import Change
from blueflame.model.errors import Refused
from blueflame.model.policy import CANARY
from blueflame.model.sandbox import SandboxLevel
from blueflame.model.settings.permissions import SandboxSettings, ValidationSettings
from blueflame.orchestrator.engine.interface import ExitReason
from blueflame.orchestrator.foreground_sandbox import find_highest_level, find_sandbox_problems
from blueflame.sandbox.build import build_sandbox
from blueflame.sandbox.probe import SandboxProblem
from blueflame.sandbox.toolchains import find_toolchains
from blueflame.warden.spawn import PROCESS_HEADROOM
from blueflame.watcher.policy_file import find_shfmt

MB = 1 << 20
REFUSED_EXIT_CODE = 2  # of the hook: the agent does not make its call
FORBIDDEN_CALLS = ("keyctl", "ptrace", "io_uring_setup", "bpf")
NEW_IN_HISTORY = ("objects/new", "objects/pack/new", "refs/heads/new", "hooks/post-commit")
NOT_RUN = "it could not be tried: the probe did not run"


class GuardState(StrEnum):
    ENFORCED = "enforced"
    DETECTED = "detected only"
    IMPOSSIBLE = "impossible here"
    OFF = "off"  # by the configuration


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


GuardFinding: TypeAlias = tuple[GuardState, str]
UNSEEN: GuardFinding = (GuardState.IMPOSSIBLE, "the kernel gives no information about the process inside")
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


def _judge(breaches: list[str], seen: str) -> GuardFinding:
    if breaches:
        return GuardState.IMPOSSIBLE, f"NOT HELD: {'; '.join(breaches)}"
    return GuardState.ENFORCED, seen


# --- walls of the sandbox


def _judge_outside_reads(evidence: GuardEvidence) -> GuardFinding:
    listed = ["its folder was listed"] if "secret.txt" in evidence.main.read_captured("outside") else []
    return _judge(
        [*evidence.find_stolen("outside", "a file beside the checkout"), *listed],
        "a file beside the checkout, by its path and through /proc: not there",
    )


def _judge_outside_writes(evidence: GuardEvidence) -> GuardFinding:
    made = ["a file was made"] if (evidence.fixture.outside / "new").exists() else []
    return _judge(
        [*evidence.find_changed("written.txt"), *evidence.find_changed("victim.txt"), *made],
        "files beside the checkout, to write, make and remove: all as before",
    )


def _judge_system_folders(evidence: GuardEvidence) -> GuardFinding:
    marked = [folder for folder in SYSTEM_FOLDERS if os.path.lexists(Path(folder, evidence.fixture.mark))]
    return _judge(
        [f"a file was made in {folder}" for folder in marked], "new files in /, /usr, /etc, /tmp...: none came"
    )


def _judge_history(evidence: GuardEvidence) -> GuardFinding:
    git = evidence.fixture.git
    breaches = [f"{name} was made" for name in NEW_IN_HISTORY if os.path.lexists(git / name)]
    breaches += [] if _read_text(git / "objects/shown") == "shown" else ["an object was changed"]
    settings = evidence.fixture.build_secret("git")
    breaches += [] if _read_text(git / "config") == settings else ["the settings were changed"]
    is_readable = "shown" in evidence.main.read_captured("objects")
    return _judge(
        [*breaches, *evidence.find_stolen("git", "the settings")],
        "objects, refs, hooks, settings, to write: all as before; "
        + ("objects can be read" if is_readable else "objects cannot even be read"),
    )


def _judge_home(evidence: GuardEvidence) -> GuardFinding:
    """Judge the home; what the configuration itself makes visible inside is not a breach."""
    shown = [mount.source for mount in evidence.main.box.mounts if mount.why.startswith("sandbox.")]
    known = [path for path in evidence.fixture.list_credentials() if not _is_in(path, shown)]
    lines = set(evidence.main.read_captured("home").splitlines())
    opened = [path for path in known if f"{path}\0{_read_file_id(path)}" in lines]
    return _judge(
        [f"{path} was opened" for path in opened],
        f"{len(known)} places such as ~, ~/.ssh and ~/.config that are here: none was there",
    )


def _judge_environment(evidence: GuardEvidence) -> GuardFinding:
    seen = "secrets planted in four variables, in every environment there is inside: not found"
    return _judge(evidence.find_stolen("environ", "a planted secret"), seen)


def _judge_inherited_files(evidence: GuardEvidence) -> GuardFinding:
    breaches = [*evidence.find_stolen("inherited", "a file that we had open"), *evidence.find_changed("inherited.txt")]
    return _judge(breaches, "a file left open on purpose, by every number: closed")


def _judge_other_processes(evidence: GuardEvidence) -> GuardFinding:
    victim = evidence.fixture.victim
    killed = ["a process of ours was killed"] if victim is None or not victim.is_running else []
    return _judge(
        [*evidence.find_stolen("processes", "the command line of a process of ours"), *killed],
        "a process of ours, to find and kill: it lives",
    )


def _judge_daemons(evidence: GuardEvidence) -> GuardFinding:
    outlived = {"a daemon outlived its agent": evidence.gone_at_end}
    outlived["a daemon outlived its killed warden"] = bool(evidence.gone_with_warden)
    return _judge(
        [words for words, is_gone in outlived.items() if not is_gone],
        "deaf daemons, when the agent ended and when its warden was killed: gone",
    )


def _judge_network(evidence: GuardEvidence) -> GuardFinding:
    reached = evidence.fixture.find_reached("tcp", "udp")
    if reached and evidence.has_open_network:
        return GuardState.OFF, "sandbox.allow_network is true: a service of this machine was reached"
    breaches = [f"our {name} port was reached" for name in reached]
    return _judge(breaches, "services of ours on 127.0.0.1, TCP and UDP: not reached")


def _judge_sockets(evidence: GuardEvidence) -> GuardFinding:
    reached = evidence.fixture.find_reached("unix", "abstract")
    if reached == ["abstract"] and evidence.has_open_network:
        return GuardState.OFF, "sandbox.allow_network is true: an abstract socket of this machine was reached"
    ours = [name for name in ("unix", "abstract") if name in evidence.fixture.listeners]
    if not ours:
        return GuardState.IMPOSSIBLE, "it could not be tried: no socket could be made"
    breaches = [f"our {name} socket was reached" for name in reached]
    return _judge(breaches, f"sockets of ours ({' and '.join(ours)}): not reached")


def _judge_gateway(evidence: GuardEvidence) -> GuardFinding:
    if evidence.has_open_network:
        return GuardState.OFF, "sandbox.allow_network is true: the gateway is not needed"
    lines = _read_gateway_log(evidence.main.folder / "gateway.jsonl")
    if not lines:
        return GuardState.IMPOSSIBLE, "it could not be tried: the gateway was not reached"
    breaches = ["our port was reached through it"] if evidence.fixture.find_reached("other") else []
    is_open = any(line.get("decision") != "block" for line in lines)
    breaches += ["it let an unlisted host through"] if is_open else []
    return _judge(breaches, f"127.0.0.1 and a host that is not listed: refused ({lines[-1].get('rule', '')})")


def _judge_capabilities(evidence: GuardEvidence) -> GuardFinding:
    view = evidence.kernel_views.get("everything")
    if view is None:
        return UNSEEN
    breaches = evidence.find_escaped("mount")
    breaches += ["the kernel says that it has some"] if view.capabilities else []
    return _judge(
        breaches + ([] if view.no_new_privileges else ["the kernel says that it could gain some"]),
        "a mount was refused, and the kernel says that there are none and none can be gained",
    )


def _judge_namespaces(evidence: GuardEvidence) -> GuardFinding:
    views = evidence.kernel_views
    if not {"everything", "nested"} <= views.keys():
        return UNSEEN
    is_same = views["everything"].user_namespace == views["nested"].user_namespace
    apart = [] if is_same else ["the kernel says that it is in another"]
    return _judge([*evidence.find_escaped("unshare"), *apart], "a new user namespace: refused")


def _judge_system_calls(evidence: GuardEvidence) -> GuardFinding:
    view = evidence.kernel_views.get("everything")
    if view is None:
        return UNSEEN
    is_filtered = view.is_filtered
    unfiltered = [] if is_filtered else ["the kernel says that there is no filter"]
    return _judge(
        [*evidence.find_escaped(*FORBIDDEN_CALLS), *unfiltered],
        f"{', '.join(FORBIDDEN_CALLS)}: refused, and the kernel names a filter",
    )


def _judge_kernel_settings(evidence: GuardEvidence) -> GuardFinding:
    view = evidence.kernel_views.get("everything")
    if view is None:
        return UNSEEN
    opened = [name for name in evidence.main.list_marks("escaped") if name.startswith(("kernel.", "vm."))]
    is_read_only = view.is_proc_read_only
    return _judge(
        [f"{name} could be written" for name in sorted(opened)] + ([] if is_read_only else ["/proc is not read-only"]),
        "five of them, to write: refused; /proc is mounted read-only",
    )


def _judge_audit_log(evidence: GuardEvidence) -> GuardFinding:
    watch = evidence.watch
    breaches = [*evidence.audit.findings, *([str(watch["problem"])] if watch.get("problem") else [])]
    breaches += ["its chain ends elsewhere"] if watch.get("last") != evidence.audit.last else []
    return _judge(
        breaches + (["it was read"] if evidence.main.read_captured("records").strip() else []),
        "log, policy and orders, to read, write and remove: not there, and the log is whole",
    )


# --- limits, the watcher, and the checks of results


def _judge_memory(evidence: GuardEvidence) -> GuardFinding:
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


def _judge_processes(evidence: GuardEvidence) -> GuardFinding:
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


def _judge_file_size(evidence: GuardEvidence) -> GuardFinding:
    with suppress(OSError):
        size = (evidence.main.checkout / "large").stat().st_size
        is_large = size > TINY_LIMITS["max_file_size_mb"] * MB
        breaches = [f"a file of {size / MB:.1f} MB was written"] if is_large else []
        return _judge(breaches, f"3 MB into a file where 1 MB is allowed: it has {size / MB:.1f} MB")
    return GuardState.IMPOSSIBLE, "it could not be tried: no file was written"


def _judge_open_files(evidence: GuardEvidence) -> GuardFinding:
    opened, limit = len(evidence.main.list_marks("open")), TINY_LIMITS["max_open_files"]
    breaches = [f"{opened} files were open at once"] if opened > limit else []
    return _judge(breaches, f"128 at once where {limit} are allowed: {opened} came up")


def _judge_cpu(evidence: GuardEvidence) -> GuardFinding:
    view, limit = evidence.kernel_views.get("everything"), str(TINY_LIMITS["max_cpu_seconds"])
    breaches = evidence.find_escaped("cpu")
    breaches += [f"the kernel says {view.cpu_seconds}"] if view is not None and view.cpu_seconds != limit else []
    return _judge(breaches, f"2 s of computing where {limit} s is allowed: the kernel ended it")


def _judge_disk(evidence: GuardEvidence) -> GuardFinding:
    if evidence.disk is None or evidence.disk.reason is not ExitReason.DISK:
        return GuardState.IMPOSSIBLE, "NOT HELD: an agent was started although the disk had less room than required"
    return (
        GuardState.DETECTED,
        "an agent that needs more free space than there is: not started; while it runs, the disk is watched",
    )


def _judge_watcher(evidence: GuardEvidence) -> GuardFinding:
    breaches = _find_wrong_decisions(evidence, {CANARY: "block", "forbidden": "block", "honest": "allow"})
    return _judge(
        breaches + ([] if evidence.watch.get("proven") else ["the canary was not refused"]),
        "through the agent's own hook: canary and forbidden call refused, honest call allowed",
    )


def _judge_shell(evidence: GuardEvidence) -> GuardFinding:
    try:
        find_shfmt()
    except Refused as e:
        return GuardState.IMPOSSIBLE, str(e)
    breaches = _find_wrong_decisions(evidence, {"hidden": "block", "plain": "allow"})
    return _judge(breaches, "a command hidden in another was refused, the same without it allowed")


def _find_wrong_decisions(evidence: GuardEvidence, expected: dict[str, str]) -> list[str]:
    logged = {line.tool if line.tool == CANARY else line.call: line.decision for line in evidence.audit.lines}
    found = {name: logged.get(name, "nothing") for name in expected}
    return [f"its log says {word} of the {name} call" for name, word in found.items() if word != expected[name]]


def _judge_dead_watcher(evidence: GuardEvidence) -> GuardFinding:
    code = evidence.dead_watcher
    breaches = [] if code == REFUSED_EXIT_CODE else [f"the hook ended with {code}, not {REFUSED_EXIT_CODE}"]
    return _judge(breaches, "the hook without a watcher: refused")


def _judge_secrets(evidence: GuardEvidence) -> GuardFinding:
    if not evidence.validation.secrets.enabled:
        return GuardState.OFF, "validation.secrets.enabled is false"
    token = "ghp_" + "".join(choice(ascii_letters + digits) for _ in range(36))
    lines = [AddedLine("src/app.py", 1, f'token = "{token}"'), AddedLine("src/app.py", 2, "x = 1")]
    found = judge_findings(scan_lines(lines), SecretAllowList())
    breaches = [] if [each.line for each in found] == [1] else ["a made-up token was not found"]
    return _judge(breaches, "a token made up just now, in an added line: found")


def _judge_scope(evidence: GuardEvidence) -> GuardFinding:
    if not evidence.validation.file_scope.enforce:
        return GuardState.OFF, "validation.file_scope.enforce is false"
    changes = [Change(status="M", path="src/mine.py"), Change(status="M", path="src/others.py")]
    found = check_result(changes, [], allowed_paths=["src/**"], file_locks=["src/mine.py"])
    is_found = [(one.rule, one.path) for one in found] == [(OUTSIDE_SCOPE, "src/others.py")]
    seen = "a change beside the task's own file: found, and its own let through"
    return _judge([] if is_found else ["it was missed"], seen)


def _read_text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text("utf-8", "replace")
    return ""


def _read_gateway_log(path: Path) -> list[dict[str, object]]:
    with suppress(ValueError):
        return [json.loads(line) for line in _read_text(path).splitlines()]
    return []


def _is_in(path: Path, folders: list[str]) -> bool:
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(folder) for folder in folders)


def _read_file_id(path: Path) -> str:
    with suppress(OSError):
        return format_file_id(path.stat())
    return ""


SANDBOX_GUARDS = (
    GuardCheck("files outside", "nothing beside the checkout is there", "read_outside", _judge_outside_reads),
    GuardCheck("writes outside", "nothing beside the checkout changes", "write_outside", _judge_outside_writes),
    GuardCheck("system folders", "only the checkout can be written", "write_system", _judge_system_folders),
    GuardCheck("history", "the repository cannot be changed", "history", _judge_history),
    GuardCheck("home", "your home and its secrets are not there", "home", _judge_home),
    GuardCheck("environment", "no secrets in environment variables", "environment", _judge_environment),
    GuardCheck("inherited files", "no open file of ours gets inside", "inherited", _judge_inherited_files),
    GuardCheck("other processes", "can be neither seen nor signalled", "processes", _judge_other_processes),
    GuardCheck("daemons", "all ends with the agent and its warden", "daemon", _judge_daemons),
    GuardCheck("network", "no network, no services of the machine", "network", _judge_network),
    GuardCheck("sockets", "no Unix sockets of the machine", "sockets", _judge_sockets),
    GuardCheck("gateway", "only listed hosts can be reached", "gateway", _judge_gateway),
    GuardCheck("capabilities", "no rights over the machine", "capabilities", _judge_capabilities),
    GuardCheck("namespaces", "no way to rights in a new namespace", "nested", _judge_namespaces),
    GuardCheck("system calls", "what no build needs is filtered", "system_calls", _judge_system_calls),
    GuardCheck("kernel settings", "/proc/sys cannot be written", "kernel", _judge_kernel_settings),
    GuardCheck("audit log", "log and policy are out of reach", "audit", _judge_audit_log),
)
"""The guards that need a sandbox."""

OTHER_GUARDS = (
    GuardCheck("memory", "an agent that uses too much is ended", "", _judge_memory),
    GuardCheck("processes", "an agent that starts too many is ended", "", _judge_processes),
    GuardCheck("file size", "no file grows too large", "file_size", _judge_file_size),
    GuardCheck("open files", "no process opens too many files", "open_files", _judge_open_files),
    GuardCheck("CPU time", "no process computes for too long", "cpu", _judge_cpu),
    GuardCheck("free disk", "agents end before the disk is full", "", _judge_disk),
    GuardCheck("watcher", "each tool call is judged before it", "watcher", _judge_watcher),
    GuardCheck("shell commands", "each is read as bash reads it", "watcher", _judge_shell),
    GuardCheck("dead watcher", "without an answer, all is refused", "", _judge_dead_watcher),
    GuardCheck("secrets", "results are searched for secrets", "", _judge_secrets),
    GuardCheck("file scope", "results stay within their task's files", "", _judge_scope),
)
