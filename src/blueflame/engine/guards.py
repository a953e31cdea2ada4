"""The doctor's table of guards: each is tried for real, and judged by what is outside afterwards."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from secrets import choice
from string import ascii_letters, digits
from typing import TypeAlias

from blueflame.engine.boxed import level_held, shortcomings
from blueflame.engine.guard_probes import file_id
from blueflame.engine.guard_sights import Sight
from blueflame.engine.guard_trials import (
    ALWAYS,
    LAST,
    SYSTEM_FOLDERS,
    TINY,
    WALLED,
    Ground,
    Machine,
    MakeBox,
    Trial,
    dead_watcher,
    kill_warden,
    laid_out,
    let_loose,
    look_at,
    too_much_disk,
)
from blueflame.engine.verbs import Outcome, Reason
from blueflame.model.box import Level, Network
from blueflame.model.change import Change
from blueflame.model.policy import CANARY
from blueflame.model.settings_walls import SandboxSettings, Validation
from blueflame.rules.postcheck import OUTSIDE_SCOPE, violations
from blueflame.rules.secrets import Allowed, Line, judge, look
from blueflame.tools.audit import Audit, read_audit
from blueflame.tools.sandbox import Problem, make_box, toolchains
from blueflame.warden.start import HEADROOM

MB = 1 << 20


class Held(StrEnum):
    ENFORCED = "enforced"
    DETECTED = "detected only"
    IMPOSSIBLE = "impossible here"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    name: str
    holds: str
    state: Held
    seen: str  # how it was tried and what was seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """`asked` is the level of the configuration, `held` what the machine can hold; `problems` are what is between."""

    asked: Level
    held: Level
    problems: tuple[Problem, ...]
    table: tuple[Guard, ...]

    @property
    def is_enough(self) -> bool:
        """Whether a session may start here as far as the walls go."""
        return not self.problems and not any(guard.state is Held.IMPOSSIBLE for guard in self.table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is outside after all trials are over."""

    ground: Ground
    main: Trial
    outcome: Outcome | None
    sights: Mapping[str, Sight]
    gone_at_end: bool
    gone_with_warden: bool | None
    memory: tuple[Trial, Outcome | None]
    many: tuple[Trial, Outcome | None]
    disk: Outcome | None
    audit: Audit
    dead_watcher: int
    validation: Validation

    def tried(self, name: str) -> bool:
        return name in self.main.found("tried")

    @property
    def open_network(self) -> bool:
        return self.main.box.network is Network.HOST and self.ground.machine.sandbox.allow_network


Verdict: TypeAlias = tuple[Held, str]
Judge: TypeAlias = Callable[[Evidence], Verdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    name: str
    holds: str
    judge: Judge
    try_: str = ""  # without which there is no verdict
    boxed: bool = True  # there is no such guard without a box


def examine_guards(
    sandbox: SandboxSettings, validation: Validation, *, repo_root: Path | None = None, make: MakeBox = make_box
) -> Guards:
    """Takes one to two seconds. `make` is for whoever wants to see a wall with a hole in it."""
    asked, held = Level(sandbox.level), level_held()
    home = Path(os.environ.get("HOME") or Path("~").expanduser())
    machine = Machine(
        sandbox=sandbox,
        tools=toolchains(os.environ, repo_root=repo_root, home=home, ours=True),
        home=home,
        repo_root=repo_root,
        boxed=Level.OFF not in (asked, held),
        make=make,
    )
    problems = shortcomings(asked)
    why = (Held.OFF, "sandbox.level is off: agents run as you") if asked is Level.OFF else _impossible(problems)
    with laid_out(machine) as ground:
        evidence = gather(ground, validation)
        table = tuple(_guard(row, evidence, None if machine.boxed or not row.boxed else why) for row in ROWS)
    return Guards(asked=asked, held=held, problems=problems, table=table)


def _impossible(problems: tuple[Problem, ...]) -> Verdict:
    return Held.IMPOSSIBLE, "; ".join(problem.words for problem in problems) or "there is no box to be had"


def _guard(row: Row, evidence: Evidence, verdict: Verdict | None) -> Guard:
    if verdict is None and row.try_ and not evidence.tried(row.try_):
        verdict = Held.IMPOSSIBLE, f"it could not be tried: {_why_not(evidence)}"
    state, seen = verdict or row.judge(evidence)
    return Guard(name=row.name, holds=row.holds, state=state, seen=seen)


def _why_not(evidence: Evidence) -> str:
    outcome = evidence.outcome
    if outcome is None:
        return "its warden recorded nothing"
    return outcome.detail or f"the probe ended before it ({outcome.reason}, exit code {outcome.exit_code})"


def gather(ground: Ground, validation: Validation) -> Evidence:
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
        dead_watcher=_dead_watcher(),
        validation=validation,
    )


def _dead_watcher() -> int:
    try:
        return dead_watcher()
    except (OSError, subprocess.TimeoutExpired):
        return -1


def _verdict(breaches: list[str], seen: str) -> Verdict:
    if breaches:
        return Held.IMPOSSIBLE, f"NOT HELD: {'; '.join(breaches)}"
    return Held.ENFORCED, seen


def _stolen(evidence: Evidence, name: str, what: str) -> list[str]:
    return [f"{what} was read"] if evidence.ground.word in evidence.main.loot(name) else []


def _escaped(evidence: Evidence, *names: str) -> list[str]:
    return [f"{name} went through" for name in names if name in evidence.main.found("escaped")]


def _changed(evidence: Evidence, name: str) -> list[str]:
    with suppress(OSError):
        if (evidence.ground.outside / name).read_text() == evidence.ground.secret(name):
            return []
    return [f"{name} was changed"]


def _files_outside(evidence: Evidence) -> Verdict:
    names = " ".join(_names(evidence.ground.outside))
    listed = ["the folder was listed"] if "secret.txt" in evidence.main.loot("outside") and names else []
    return _verdict(
        [*_stolen(evidence, "outside", "a file beside the checkout"), *listed],
        "a file beside the checkout, by its path and through /proc: not there",
    )


def _names(folder: Path) -> list[str]:
    with suppress(OSError):
        return sorted(each.name for each in folder.iterdir())
    return []


def _writes_outside(evidence: Evidence) -> Verdict:
    new = ["a file was made"] if (evidence.ground.outside / "new").exists() else []
    changed = [*_changed(evidence, "written.txt"), *_changed(evidence, "victim.txt"), *new]
    return _verdict(changed, "files beside the checkout, to write, make and remove: all as before")


def _system_folders(evidence: Evidence) -> Verdict:
    there = [folder for folder in SYSTEM_FOLDERS if Path(folder, evidence.ground.mark).exists()]
    return _verdict(
        [f"a file was made in {folder}" for folder in there], "new files in /, /usr, /etc, /tmp...: none came"
    )


def _history(evidence: Evidence) -> Verdict:
    git = evidence.ground.git
    new = [
        name
        for name in ("objects/new", "objects/pack/new", "refs/heads/new", "hooks/post-commit")
        if (git / name).exists()
    ]
    shown = ["an object was changed"] if (git / "objects/shown").read_text() != "shown" else []
    config = ["the settings were changed"] if (git / "config").read_text() != evidence.ground.secret("git") else []
    breaches = [*(f"{name} was made" for name in new), *shown, *config, *_stolen(evidence, "git", "the settings")]
    readable = "objects can be read" if "shown" in evidence.main.loot("objects") else "objects cannot even be read"
    return _verdict(breaches, f"objects, refs, hooks, settings, to write: all as before; {readable}")


def _home(evidence: Evidence) -> Verdict:
    """What the configuration itself shows inside is no hole."""
    asked = [mount.source for mount in evidence.main.box.mounts if mount.why.startswith("sandbox.")]
    known = [path for path in evidence.ground.credentials() if not _is_in(path, asked)]
    lines = set(evidence.main.loot("home").splitlines())
    seen = [path for path in known if f"{path}\0{_id(path)}" in lines]
    some = f"{len(known)} places such as ~, ~/.ssh and ~/.config that are here: none was there"
    return _verdict([f"{path} was opened" for path in seen], some)


def _is_in(path: Path, folders: list[str]) -> bool:
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(folder) for folder in folders)


def _id(path: Path) -> str:
    with suppress(OSError):
        return file_id(path.stat())
    return ""


def _environment(evidence: Evidence) -> Verdict:
    return _verdict(
        _stolen(evidence, "environ", "a planted secret"),
        "secrets planted in four variables, in every environment there is inside: not found",
    )


def _inherited(evidence: Evidence) -> Verdict:
    return _verdict(
        [*_stolen(evidence, "inherited", "a file that we had open"), *_changed(evidence, "inherited.txt")],
        "a file left open on purpose, by every number: closed",
    )


def _processes(evidence: Evidence) -> Verdict:
    victim = evidence.ground.victim
    killed = ["a process of ours was killed"] if victim is None or victim.poll() is not None else []
    return _verdict(
        [*_stolen(evidence, "processes", "the command line of a process of ours"), *killed],
        "a process of ours, to find and kill: it lives",
    )


def _nothing_stays(evidence: Evidence) -> Verdict:
    breaches = [] if evidence.gone_at_end else ["a daemon outlived its agent"]
    breaches += [] if evidence.gone_with_warden else ["a daemon outlived its killed warden"]
    return _verdict(breaches, "deaf daemons, when the agent ended and when its warden was killed: gone")


def _network(evidence: Evidence) -> Verdict:
    reached = evidence.ground.knocked("tcp", "udp")
    if reached and evidence.open_network:
        return Held.OFF, "sandbox.allow_network is true: a service of this machine was reached"
    return _verdict(
        [f"our {name} port was reached" for name in reached], "services of ours on 127.0.0.1, TCP and UDP: not reached"
    )


def _sockets(evidence: Evidence) -> Verdict:
    reached = evidence.ground.knocked("unix", "abstract")
    if reached == ["abstract"] and evidence.open_network:
        return Held.OFF, "sandbox.allow_network is true: an abstract socket of this machine was reached"
    if not {"unix", "abstract"} & set(evidence.ground.doors):
        return Held.IMPOSSIBLE, "it could not be tried: no socket could be made"
    return _verdict(
        [f"our {name} socket was reached" for name in reached],
        f"sockets of ours ({' and '.join(name for name in ('unix', 'abstract') if name in evidence.ground.doors)}): "
        "not reached",
    )


def _gateway(evidence: Evidence) -> Verdict:
    if evidence.open_network:
        return Held.OFF, "sandbox.allow_network is true: nobody needs the gateway"
    lines = _gateway_lines(evidence.main.folder / "gateway.jsonl")
    refused = [line for line in lines if line.get("decision") == "block"]
    breaches = ["our port was reached through it"] if evidence.ground.knocked("other") else []
    breaches += [] if len(refused) == len(lines) else ["it let an unlisted host through"]
    if not lines:
        return Held.IMPOSSIBLE, "it could not be tried: the gateway was not reached"
    return _verdict(breaches, f"127.0.0.1 and a host that is not listed: refused ({refused[-1].get('rule', '')})")


def _gateway_lines(path: Path) -> list[dict[str, object]]:
    with suppress(OSError, ValueError):
        return [json.loads(line) for line in path.read_text().splitlines()]
    return []


def _sight(evidence: Evidence) -> Sight | None:
    return evidence.sights.get("everything")


UNSEEN = (Held.IMPOSSIBLE, "the kernel does not say how it stands with the process inside")


def _capabilities(evidence: Evidence) -> Verdict:
    sight = _sight(evidence)
    if sight is None:
        return UNSEEN
    breaches = _escaped(evidence, "mount")
    breaches += ["the kernel says that it has some"] if sight.capabilities else []
    breaches += [] if sight.no_new_privileges else ["the kernel says that it could gain some"]
    return _verdict(breaches, "a mount was refused, and the kernel says that there are none and none can be gained")


def _namespaces(evidence: Evidence) -> Verdict:
    ours, theirs = _sight(evidence), evidence.sights.get("nested")
    if ours is None or theirs is None:
        return UNSEEN
    apart = ["the kernel says that it is in another"] if ours.user_namespace != theirs.user_namespace else []
    return _verdict([*_escaped(evidence, "unshare"), *apart], "a new user namespace: refused")


def _system_calls(evidence: Evidence) -> Verdict:
    sight = _sight(evidence)
    if sight is None:
        return UNSEEN
    unfiltered = [] if sight.filtered else ["the kernel says that there is no filter"]
    names = ("keyctl", "ptrace", "io_uring_setup", "bpf")
    return _verdict(
        [*_escaped(evidence, *names), *unfiltered], f"{', '.join(names)}: refused, and the kernel names a filter"
    )


def _kernel(evidence: Evidence) -> Verdict:
    sight = _sight(evidence)
    if sight is None:
        return UNSEEN
    opened = [name for name in evidence.main.found("escaped") if name.startswith(("kernel.", "vm."))]
    breaches = [f"{name} could be written" for name in sorted(opened)]
    breaches += [] if sight.kernel_settings_read_only else ["/proc is not read-only"]
    return _verdict(breaches, "five of them, to write: refused; /proc is mounted read-only")


def _memory(evidence: Evidence) -> Verdict:
    trial, outcome = evidence.memory
    if outcome is None or not trial.loot("memory"):
        return Held.IMPOSSIBLE, "it could not be tried: the probe did not run"
    limit, had_all = TINY["max_memory_mb"], "memory" in trial.found("escaped")
    if outcome.reason is not Reason.MEMORY:
        return Held.IMPOSSIBLE, f"NOT HELD: a box for {limit} MB was not ended for more ({outcome.reason})"
    if had_all:
        return Held.DETECTED, f"a box for {limit} MB took more and was ended: no control group here, so it is watched"
    if "the system killed" in outcome.detail:
        return Held.ENFORCED, f"a box for {limit} MB: the kernel ended it at its limit (control group)"
    return Held.DETECTED, f"a box for {limit} MB was ended on its way to more: it is watched"


def _many(evidence: Evidence) -> Verdict:
    trial, outcome = evidence.many
    came, limit = len(trial.found("children")), TINY["max_processes"]
    if outcome is None or not came:
        return Held.IMPOSSIBLE, "it could not be tried: the probe did not run"
    if outcome.reason is not Reason.PROCESSES:
        return Held.IMPOSSIBLE, f"NOT HELD: {came} processes in a box for {limit} were not ended ({outcome.reason})"
    if came > limit + HEADROOM:
        return Held.DETECTED, f"{came} processes came up in a box for {limit}, and it was ended: they are watched"
    return Held.ENFORCED, f"a box for {limit}: the kernel let {came} come up, and it was ended"


def _file_size(evidence: Evidence) -> Verdict:
    with suppress(OSError):
        size = (evidence.main.checkout / "large").stat().st_size
        limit = TINY["max_file_size_mb"] * MB
        breaches = [f"a file of {size / MB:.1f} MB was written"] if size > limit else []
        return _verdict(breaches, f"3 MB into a file where 1 MB is allowed: it has {size / MB:.1f} MB")
    return Held.IMPOSSIBLE, "it could not be tried: no file was written"


def _open_files(evidence: Evidence) -> Verdict:
    came, limit = len(evidence.main.found("open")), TINY["max_open_files"]
    breaches = [f"{came} files were open at once"] if came > limit else []
    return _verdict(breaches, f"128 at once where {limit} are allowed: {came} came up")


def _cpu(evidence: Evidence) -> Verdict:
    sight, limit = _sight(evidence), str(TINY["max_cpu_seconds"])
    breaches = _escaped(evidence, "cpu")
    breaches += [f"the kernel says {sight.cpu_seconds}"] if sight is not None and sight.cpu_seconds != limit else []
    return _verdict(breaches, f"2 s of computing where {limit} s is allowed: the kernel ended it")


def _disk(evidence: Evidence) -> Verdict:
    if evidence.disk is None or evidence.disk.reason is not Reason.DISK:
        return Held.IMPOSSIBLE, "NOT HELD: an agent was started although the disk had less room than asked for"
    return Held.DETECTED, "an agent that wants more room than there is: not started; later on it is watched"


def _watcher(evidence: Evidence) -> Verdict:
    calls = [(line.tool if line.tool == CANARY else line.call, line.decision) for line in evidence.audit.lines]
    wanted = [(CANARY, "block"), ("forbidden", "block"), ("honest", "allow")]
    breaches = (
        [] if calls == wanted else [f"its log says {', '.join(f'{name}: {said}' for name, said in calls) or 'nothing'}"]
    )
    watch = evidence.outcome.watch if evidence.outcome is not None else {}
    breaches += [] if watch.get("proven") else ["the canary was not refused"]
    return _verdict(breaches, "through the agent's own hook: canary and forbidden call refused, honest call allowed")


def _dead(evidence: Evidence) -> Verdict:
    code = evidence.dead_watcher
    return _verdict(
        [] if code == 2 else [f"the hook ended with {code}, not 2"], "the hook with nobody listening: refused"
    )


def _audit(evidence: Evidence) -> Verdict:
    watch = evidence.outcome.watch if evidence.outcome is not None else {}
    breaches = [*evidence.audit.findings, *([str(watch["problem"])] if watch.get("problem") else [])]
    breaches += ["its chain ends elsewhere"] if watch.get("last") != evidence.audit.last else []
    breaches += ["it was read"] if evidence.main.loot("records").strip() else []
    return _verdict(breaches, "log, policy and orders, to read, write and remove: not there, and the log is whole")


def _secrets(evidence: Evidence) -> Verdict:
    if not evidence.validation.secrets.enabled:
        return Held.OFF, "validation.secrets.enabled is false"
    token = "ghp_" + "".join(choice(ascii_letters + digits) for _ in range(36))
    found = judge(look([Line("src/app.py", 1, f'token = "{token}"'), Line("src/app.py", 2, "x = 1")]), Allowed())
    breaches = [] if [each.line for each in found] == [1] else ["a made-up token was not found"]
    return _verdict(breaches, "a token made up just now, in an added line: found")


def _scope(evidence: Evidence) -> Verdict:
    if not evidence.validation.file_scope.enforce:
        return Held.OFF, "validation.file_scope.enforce is false"
    changes = [Change(status="M", path="src/mine.py"), Change(status="M", path="src/others.py")]
    found = violations(changes, [], allowed_paths=["src/**"], file_locks=["src/mine.py"])
    breaches = (
        [] if [(one.rule, one.path) for one in found] == [(OUTSIDE_SCOPE, "src/others.py")] else ["it was missed"]
    )
    return _verdict(breaches, "a change beside the task's own file: found, and its own let through")


def _rows() -> Iterator[Row]:
    yield Row(
        name="files outside", holds="nothing beside the checkout is there", judge=_files_outside, try_="read_outside"
    )
    yield Row(
        name="writes outside",
        holds="nothing beside the checkout changes",
        judge=_writes_outside,
        try_="write_outside",
    )
    yield Row(
        name="system folders",
        holds="only the checkout can be written",
        judge=_system_folders,
        try_="write_system",
    )
    yield Row(
        name="history",
        holds="the repository cannot be changed",
        judge=_history,
        try_="history",
    )
    yield Row(name="home", holds="your home and its secrets are not there", judge=_home, try_="home")
    yield Row(name="environment", holds="no secrets in environment variables", judge=_environment, try_="environment")
    yield Row(name="handed-down files", holds="no open file of ours gets inside", judge=_inherited, try_="inherited")
    yield Row(name="other processes", holds="can be neither seen nor signalled", judge=_processes, try_="processes")
    yield Row(name="daemons", holds="all ends with the agent and its warden", judge=_nothing_stays, try_="daemon")
    yield Row(name="network", holds="no network, no services of the machine", judge=_network, try_="network")
    yield Row(name="sockets", holds="no Unix sockets of the machine", judge=_sockets, try_="sockets")
    yield Row(name="gateway", holds="only listed hosts can be reached", judge=_gateway, try_="gateway")
    yield Row(name="capabilities", holds="no rights over the machine", judge=_capabilities, try_="capabilities")
    yield Row(
        name="namespaces",
        holds="no way to rights in a new namespace",
        judge=_namespaces,
        try_="nested",
    )
    yield Row(name="system calls", holds="what no build needs is filtered", judge=_system_calls, try_="system_calls")
    yield Row(name="kernel settings", holds="/proc/sys cannot be written", judge=_kernel, try_="kernel")
    yield Row(name="audit log", holds="log and policy are out of reach", judge=_audit, try_="audit")
    yield Row(name="memory", holds="who takes too much is ended", judge=_memory, boxed=False)
    yield Row(name="processes", holds="who starts too many is ended", judge=_many, boxed=False)
    yield Row(name="file size", holds="no file grows too large", judge=_file_size, try_="file_size", boxed=False)
    yield Row(
        name="open files", holds="no process opens too many files", judge=_open_files, try_="open_files", boxed=False
    )
    yield Row(name="CPU time", holds="no process computes for too long", judge=_cpu, try_="cpu", boxed=False)
    yield Row(name="free disk", holds="agents end before the disk is full", judge=_disk, boxed=False)
    yield Row(name="watcher", holds="each tool call is judged before it", judge=_watcher, try_="watcher", boxed=False)
    yield Row(name="dead watcher", holds="without an answer, all is refused", judge=_dead, boxed=False)
    yield Row(name="secrets", holds="results are searched for secrets", judge=_secrets, boxed=False)
    yield Row(name="file scope", holds="results stay within their task's files", judge=_scope, boxed=False)


ROWS = tuple(_rows())
