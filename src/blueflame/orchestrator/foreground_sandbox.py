"""Run a person's command in the sandbox of an agent, in the foreground, with their terminal (`blueflame sandbox`)."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from blueflame.git.command import build_identity_environment
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import Refused, WorldError
from blueflame.model.sandbox import SandboxLevel, SandboxSpec
from blueflame.model.settings import Settings
from blueflame.model.settings.permissions import PermissionSettings, SandboxSettings
from blueflame.sandbox.build import SandboxContext, SandboxRequest, build_sandbox, choose_inner_path
from blueflame.sandbox.bwrap import LOOPBACK_PORTS
from blueflame.sandbox.person_checkout import PersonCheckout, ProtectedFiles, find_protected_files
from blueflame.sandbox.prepare import PreparedSandbox, make_temporary_folder, prepare_sandbox
from blueflame.sandbox.probe import SandboxProblem, find_problems, find_supported_level
from blueflame.sandbox.redirects import StandardFiles, relay_files
from blueflame.sandbox.toolchains import find_toolchains
from blueflame.system.layout import STATE_FOLDER
from blueflame.warden import cgroup
from blueflame.warden.gateway_process import start_gateway
from blueflame.warden.launch_file import CannotStart, LaunchFile
from blueflame.warden.process_tree import LINUX, adopt_orphans, list_descendants, signal_group, signal_process
from blueflame.warden.resource_limits import ResourceMonitor
from blueflame.warden.spawn import ChildProcess, start_program

POLL_SECONDS = 0.25  # between two checks of memory, processes and disk
GRACE_SECONDS = 5.0
SIGNAL_EXIT_BASE = 128
STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
HANDLED_SIGNALS = (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSite:
    """Where a command runs. `main` is the main repository if this is an agent's checkout; None for a person's own."""

    checkout: PersonCheckout
    cwd: Path
    sandbox: SandboxSettings
    blocked: tuple[str, ...] = ()
    worktrees: Path | None = None
    main: PersonCheckout | None = None


def build_site(
    checkout: PersonCheckout, cwd: Path, settings: Settings | None, main: PersonCheckout | None
) -> CommandSite:
    """Without a configuration the defaults apply: no network, the default limits and blocked paths."""
    permissions = settings.permissions if settings else PermissionSettings()
    repository = main or checkout
    worktrees = repository.root / Path(settings.project.worktree_dir).expanduser() if settings else None
    worktrees = Path(os.path.normpath(worktrees)) if worktrees else None
    agents = main is not None and worktrees is not None and checkout.root.is_relative_to(worktrees)
    return CommandSite(
        checkout=checkout,
        cwd=cwd if cwd.is_relative_to(checkout.root) else checkout.root,
        sandbox=settings.sandbox if settings else SandboxSettings(),
        blocked=permissions.blocked_paths,
        worktrees=worktrees,
        main=main if agents else None,
    )


def find_sandbox_problems(level: str) -> tuple[SandboxProblem, ...]:
    """Why this machine does not support a level."""
    return find_problems(level, cgroup.probe_cgroups)


def describe_degraded(level: str) -> str:
    """What does not hold agents here although a person may think so; empty when everything does."""
    if level == SandboxLevel.OFF:
        return "agents run without a sandbox (sandbox.level: off): they can read and write whatever you can"
    if level == SandboxLevel.STANDARD and not find_sandbox_problems(level):
        weaker = find_sandbox_problems(SandboxLevel.STRICT)
        return "; ".join(f"the sandbox is weaker here: {problem.words.partition(';')[0]}" for problem in weaker)
    return ""


def find_highest_level() -> SandboxLevel:
    return find_supported_level(cgroup.probe_cgroups)


def build_command_sandbox(site: CommandSite, folder: Path, hosts: Sequence[str] = ()) -> SandboxSpec:
    """Build the sandbox of a command; `folder` holds its private folders."""
    repository = site.main or site.checkout
    home = Path(os.environ.get("HOME") or Path("~").expanduser())
    context = SandboxContext(
        settings=site.sandbox,
        environ=os.environ,
        tools=find_toolchains(os.environ, repo_root=repository.root, home=home),
        home=home,
        repo_root=repository.root,
        objects=repository.objects,
    )
    of_git = site.main is None and site.checkout.git is not None
    seen = find_protected_files(site.checkout.root, site.blocked, of_git=of_git)
    request = _build_request(site, folder, hosts, seen)
    if site.main is not None:  # as the agent saw it
        request = replace(request, inside=choose_inner_path(context, site.checkout.root))
    sandbox = build_sandbox(context, request)
    note = "the checkout is too large: not all of it was searched for blocked paths"
    return sandbox if seen.whole else replace(sandbox, notes=(*sandbox.notes, note))


def _build_request(site: CommandSite, folder: Path, hosts: Sequence[str], seen: ProtectedFiles) -> SandboxRequest:
    checkout = site.checkout
    if site.main is not None:  # an agent's own clone: its .git is its own
        return SandboxRequest(
            worktree=checkout.root,
            folder=folder,
            hosts=hosts,
            variables=build_identity_environment(site.main.root),
            frozen=seen.frozen,
            hidden=seen.hidden,
            pinned=False,
        )
    ours = [place for place in (checkout.root / STATE_FOLDER, site.worktrees) if place is not None]
    within = [str(place.relative_to(checkout.root)) for place in ours if place.is_relative_to(checkout.root)]
    return SandboxRequest(
        worktree=checkout.root,
        folder=folder,
        hosts=hosts,
        variables={"GIT_OPTIONAL_LOCKS": "0"},  # its .git is read-only: git status must not write there
        shown=[place for place in (checkout.git, checkout.common) if place is not None],
        frozen=_exclude_folders(seen.frozen, within),
        hidden=(*_exclude_folders(seen.hidden, within), *within),
        pinned=False,
    )


def _exclude_folders(names: Sequence[str], folders: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if not any(name == each or name.startswith(f"{each}/") for each in folders))


def run_in_sandbox(site: CommandSite, argv: Sequence[str], hosts: Sequence[str] = ()) -> int:
    """Run it and return its exit code, or 128 plus the number of its signal."""
    problems = find_sandbox_problems(site.sandbox.level)
    if problems:
        lines = (f"  - {problem.words}" for problem in problems)
        raise Refused("\n".join([f"level {site.sandbox.level} is not supported on this machine:", *lines]))
    with make_temporary_folder() as folder:
        sandbox = build_command_sandbox(site, folder, hosts)
        launch = _build_launch(sandbox, prepare_sandbox(sandbox, folder), argv, site)
        try:
            return _run_launch(launch, folder)
        except CannotStart as e:
            raise WorldError(f"cannot run {argv[0]} in the sandbox: {e}") from e


def _build_launch(
    sandbox: SandboxSpec, prepared: PreparedSandbox, argv: Sequence[str], site: CommandSite
) -> LaunchFile:
    keys: dict[str, Any] = prepared.build_launch_keys()
    if sandbox.hosts:
        keys["gateway"] = {"port": LOOPBACK_PORTS[0], "hosts": list(sandbox.hosts)}
    if "sandbox" in keys:
        inside = os.path.normpath(Path(sandbox.cwd, site.cwd.relative_to(site.checkout.root)))
        keys["sandbox"]["argv"] = _change_folder(keys["sandbox"]["argv"], inside)
    read: Mapping[str, Any] = {
        "attempt": f"run-{os.getpid()}",
        "argv": list(argv),
        "env": dict(prepared.env),
        "cwd": str(site.cwd),
        "limits": dict(prepared.limits),
        **keys,
    }
    return LaunchFile(read)


def _change_folder(argv: list[str], cwd: str) -> list[str]:
    at = argv.index("--chdir") + 1 if "--chdir" in argv else 0
    return [*argv[:at], cwd, *argv[at + 1 :]] if at else argv


def _run_launch(launch: LaunchFile, folder: Path) -> int:
    sys.stdout.flush()
    with ExitStack() as stack:
        stack.enter_context(_block_signals())
        pressure = ResourceMonitor(launch, _create_cgroup(launch, folder))
        if pressure.group is not None:
            stack.callback(pressure.group.remove)
        exit_way = start_gateway(str(folder), launch.gateway) if launch.gateway else None
        if exit_way is not None:
            stack.callback(exit_way.close)
        if launch.sandbox is None:
            adopt_orphans()

        def admit(child: ChildProcess) -> None:
            if pressure.group is not None:
                pressure.group.add_process(child.pid)
            if exit_way is not None and "gateway" in child.listeners:
                exit_way.add_listener(child.listeners["gateway"])

        ends = StandardFiles() if launch.sandbox is None else stack.enter_context(relay_files(StandardFiles()))
        child = start_program(launch.argv, launch, stdin=ends.stdin, output=(ends.stdout, ends.stderr), admit=admit)
        stack.callback(_kill_remaining, child)
        return _wait_for_exit(child, pressure)


def _create_cgroup(launch: LaunchFile, folder: Path) -> cgroup.Cgroup | None:
    return cgroup.create_cgroup(
        launch.attempt, memory_mb=launch.memory_mb, processes=launch.processes, folder=str(folder)
    )


@contextmanager
def _block_signals() -> Iterator[None]:
    """Signals stay pending until `_wait_for_signal`: none interrupts us, and none is lost."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_SIGNALS)
    try:
        yield
    finally:
        while _wait_for_signal(0) is not None:  # another thread may take a pending one: never wait for it
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _wait_for_exit(child: ChildProcess, pressure: ResourceMonitor) -> int:
    give_up: float | None = None
    while True:
        pid, status = os.waitpid(child.pid, os.WNOHANG)
        if pid:
            child.pid = -1
            return SIGNAL_EXIT_BASE + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        why = pressure.find_violation()
        if why is not None:
            raise WorldError(f"the command was ended: {why[1]} in blueflame.yaml")
        heard = _wait_for_signal(POLL_SECONDS)
        if heard is not None and heard != signal.SIGCHLD:
            if heard in STOP_SIGNALS and give_up is not None:  # the second one: do not wait any longer
                return SIGNAL_EXIT_BASE + heard
            give_up = time.monotonic() + GRACE_SECONDS if heard in STOP_SIGNALS else give_up
            _forward_signal(child, heard)
        if give_up is not None and time.monotonic() > give_up:
            return SIGNAL_EXIT_BASE + signal.SIGKILL


def _wait_for_signal(seconds: float) -> int | None:
    if hasattr(signal, "sigtimedwait"):
        heard = signal.sigtimedwait(HANDLED_SIGNALS, seconds)
        return heard.si_signo if heard is not None else None
    give_up = time.monotonic() + seconds  # macOS has no such call
    while not signal.sigpending() & set(HANDLED_SIGNALS):
        if time.monotonic() > give_up:
            return None
        time.sleep(seconds / 10)
    return signal.sigwait(HANDLED_SIGNALS)


def _forward_signal(child: ChildProcess, number: int) -> None:
    """Send it to the command's process group, as a terminal would; bubblewrap would die of it and end everything."""
    if not child.sandboxed or not LINUX:
        signal_group(child.pid, signal.Signals(number))
        return
    members = list_descendants({child.pid})
    first = next((member for member in members if member.parent == child.pid), None)
    command = next((member for member in members if first is not None and member.parent == first.pid), None)
    if command is not None:
        signal_group(command.group, signal.Signals(number))


def _kill_remaining(child: ChildProcess) -> None:
    """Kill what is left: the sandbox dies with bubblewrap; without one, all descendants are killed."""
    child.close()
    if child.pid > 0:
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(child.pid, 0)
    for member in () if child.sandboxed else list_descendants({os.getpid()}):
        signal_process(member, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(member.pid, 0)
