"""Whether the walls of the sandbox hold: files, processes, network, rights over the machine."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from blueflame.doctor.fixtures import SYSTEM_FOLDERS
from blueflame.doctor.guards.findings import UNSEEN, GuardFinding, GuardState, judge_breaches
from blueflame.doctor.probe_runs import GuardEvidence
from blueflame.doctor.probes import format_file_id

FORBIDDEN_CALLS = ("keyctl", "ptrace", "io_uring_setup", "bpf")
NEW_IN_HISTORY = ("objects/new", "objects/pack/new", "refs/heads/new", "hooks/post-commit")


def judge_outside_reads(evidence: GuardEvidence) -> GuardFinding:
    listed = ["its folder was listed"] if "secret.txt" in evidence.main.read_captured("outside") else []
    return judge_breaches(
        [*evidence.find_stolen("outside", "a file beside the checkout"), *listed],
        "a file beside the checkout, by its path and through /proc: not there",
    )


def judge_outside_writes(evidence: GuardEvidence) -> GuardFinding:
    made = ["a file was made"] if (evidence.fixture.outside / "new").exists() else []
    return judge_breaches(
        [*evidence.find_changed("written.txt"), *evidence.find_changed("victim.txt"), *made],
        "files beside the checkout, to write, make and remove: all as before",
    )


def judge_system_folders(evidence: GuardEvidence) -> GuardFinding:
    marked = [folder for folder in SYSTEM_FOLDERS if os.path.lexists(Path(folder, evidence.fixture.mark))]
    return judge_breaches(
        [f"a file was made in {folder}" for folder in marked], "new files in /, /usr, /etc, /tmp...: none came"
    )


def judge_history(evidence: GuardEvidence) -> GuardFinding:
    git = evidence.fixture.git
    breaches = [f"{name} was made" for name in NEW_IN_HISTORY if os.path.lexists(git / name)]
    breaches += [] if _read_text(git / "objects/shown") == "shown" else ["an object was changed"]
    settings = evidence.fixture.build_secret("git")
    breaches += [] if _read_text(git / "config") == settings else ["the settings were changed"]
    is_readable = "shown" in evidence.main.read_captured("objects")
    return judge_breaches(
        [*breaches, *evidence.find_stolen("git", "the settings")],
        "objects, refs, hooks, settings, to write: all as before; "
        + ("objects can be read" if is_readable else "objects cannot even be read"),
    )


def judge_home(evidence: GuardEvidence) -> GuardFinding:
    """Judge the home; what the configuration itself makes visible inside is not a breach."""
    shown = [mount.source for mount in evidence.main.box.mounts if mount.why.startswith("sandbox.")]
    known = [path for path in evidence.fixture.list_credentials() if not _is_in(path, shown)]
    lines = set(evidence.main.read_captured("home").splitlines())
    opened = [path for path in known if f"{path}\0{_read_file_id(path)}" in lines]
    return judge_breaches(
        [f"{path} was opened" for path in opened],
        f"{len(known)} places such as ~, ~/.ssh and ~/.config that are here: none was there",
    )


def judge_environment(evidence: GuardEvidence) -> GuardFinding:
    seen = "secrets planted in four variables, in every environment there is inside: not found"
    return judge_breaches(evidence.find_stolen("environ", "a planted secret"), seen)


def judge_inherited_files(evidence: GuardEvidence) -> GuardFinding:
    breaches = [*evidence.find_stolen("inherited", "a file that we had open"), *evidence.find_changed("inherited.txt")]
    return judge_breaches(breaches, "a file left open on purpose, by every number: closed")


def judge_other_processes(evidence: GuardEvidence) -> GuardFinding:
    victim = evidence.fixture.victim
    killed = ["a process of ours was killed"] if victim is None or not victim.is_running else []
    return judge_breaches(
        [*evidence.find_stolen("processes", "the command line of a process of ours"), *killed],
        "a process of ours, to find and kill: it lives",
    )


def judge_daemons(evidence: GuardEvidence) -> GuardFinding:
    outlived = {"a daemon outlived its agent": evidence.gone_at_end}
    outlived["a daemon outlived its killed warden"] = bool(evidence.gone_with_warden)
    return judge_breaches(
        [words for words, is_gone in outlived.items() if not is_gone],
        "deaf daemons, when the agent ended and when its warden was killed: gone",
    )


def judge_network(evidence: GuardEvidence) -> GuardFinding:
    reached = evidence.fixture.find_reached("tcp", "udp")
    if reached and evidence.has_open_network:
        return GuardState.OFF, "sandbox.allow_network is true: a service of this machine was reached"
    breaches = [f"our {name} port was reached" for name in reached]
    return judge_breaches(breaches, "services of ours on 127.0.0.1, TCP and UDP: not reached")


def judge_sockets(evidence: GuardEvidence) -> GuardFinding:
    reached = evidence.fixture.find_reached("unix", "abstract")
    if reached == ["abstract"] and evidence.has_open_network:
        return GuardState.OFF, "sandbox.allow_network is true: an abstract socket of this machine was reached"
    ours = [name for name in ("unix", "abstract") if name in evidence.fixture.listeners]
    if not ours:
        return GuardState.IMPOSSIBLE, "it could not be tried: no socket could be made"
    breaches = [f"our {name} socket was reached" for name in reached]
    return judge_breaches(breaches, f"sockets of ours ({' and '.join(ours)}): not reached")


def judge_gateway(evidence: GuardEvidence) -> GuardFinding:
    if evidence.has_open_network:
        return GuardState.OFF, "sandbox.allow_network is true: the gateway is not needed"
    lines = _read_gateway_log(evidence.main.folder / "gateway.jsonl")
    if not lines:
        return GuardState.IMPOSSIBLE, "it could not be tried: the gateway was not reached"
    breaches = ["our port was reached through it"] if evidence.fixture.find_reached("other") else []
    is_open = any(line.get("decision") != "block" for line in lines)
    breaches += ["it let an unlisted host through"] if is_open else []
    return judge_breaches(breaches, f"127.0.0.1 and a host that is not listed: refused ({lines[-1].get('rule', '')})")


def judge_capabilities(evidence: GuardEvidence) -> GuardFinding:
    view = evidence.kernel_views.get("everything")
    if view is None:
        return UNSEEN
    breaches = evidence.find_escaped("mount")
    breaches += ["the kernel says that it has some"] if view.capabilities else []
    return judge_breaches(
        breaches + ([] if view.no_new_privileges else ["the kernel says that it could gain some"]),
        "a mount was refused, and the kernel says that there are none and none can be gained",
    )


def judge_namespaces(evidence: GuardEvidence) -> GuardFinding:
    views = evidence.kernel_views
    if not {"everything", "nested"} <= views.keys():
        return UNSEEN
    is_same = views["everything"].user_namespace == views["nested"].user_namespace
    apart = [] if is_same else ["the kernel says that it is in another"]
    return judge_breaches([*evidence.find_escaped("unshare"), *apart], "a new user namespace: refused")


def judge_system_calls(evidence: GuardEvidence) -> GuardFinding:
    view = evidence.kernel_views.get("everything")
    if view is None:
        return UNSEEN
    is_filtered = view.is_filtered
    unfiltered = [] if is_filtered else ["the kernel says that there is no filter"]
    return judge_breaches(
        [*evidence.find_escaped(*FORBIDDEN_CALLS), *unfiltered],
        f"{', '.join(FORBIDDEN_CALLS)}: refused, and the kernel names a filter",
    )


def judge_kernel_settings(evidence: GuardEvidence) -> GuardFinding:
    view = evidence.kernel_views.get("everything")
    if view is None:
        return UNSEEN
    opened = [name for name in evidence.main.list_marks("escaped") if name.startswith(("kernel.", "vm."))]
    is_read_only = view.is_proc_read_only
    return judge_breaches(
        [f"{name} could be written" for name in sorted(opened)] + ([] if is_read_only else ["/proc is not read-only"]),
        "five of them, to write: refused; /proc is mounted read-only",
    )


def judge_audit_log(evidence: GuardEvidence) -> GuardFinding:
    watch = evidence.watch
    breaches = [*evidence.audit.findings, *([str(watch["problem"])] if watch.get("problem") else [])]
    breaches += ["its chain ends elsewhere"] if watch.get("last") != evidence.audit.last else []
    return judge_breaches(
        breaches + (["it was read"] if evidence.main.read_captured("records").strip() else []),
        "log, policy and orders, to read, write and remove: not there, and the log is whole",
    )


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
