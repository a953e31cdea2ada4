"""Whether the walls of the box held: judged by what the probes got hold of, and by what they did outside."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from blueflame.doctor.evidence import Evidence, GuardState, Verdict, changed, escaped, sight, stolen, verdict
from blueflame.doctor.fixtures import SYSTEM_FOLDERS
from blueflame.doctor.probes import file_id

MADE = ("objects/new", "objects/pack/new", "refs/heads/new", "hooks/post-commit")
UNSEEN = (GuardState.IMPOSSIBLE, "the kernel does not say how it stands with the process inside")


def files_outside(evidence: Evidence) -> Verdict:
    listed = ["its folder was listed"] if "secret.txt" in evidence.main.loot("outside") else []
    return verdict(
        [*stolen(evidence, "outside", "a file beside the checkout"), *listed],
        "a file beside the checkout, by its path and through /proc: not there",
    )


def writes_outside(evidence: Evidence) -> Verdict:
    new = ["a file was made"] if (evidence.ground.outside / "new").exists() else []
    breaches = [*changed(evidence, "written.txt"), *changed(evidence, "victim.txt"), *new]
    return verdict(breaches, "files beside the checkout, to write, make and remove: all as before")


def system_folders(evidence: Evidence) -> Verdict:
    there = [folder for folder in SYSTEM_FOLDERS if os.path.lexists(Path(folder, evidence.ground.mark))]
    return verdict(
        [f"a file was made in {folder}" for folder in there], "new files in /, /usr, /etc, /tmp...: none came"
    )


def history(evidence: Evidence) -> Verdict:
    git, settings = evidence.ground.git, evidence.ground.secret("git")
    new = [name for name in MADE if os.path.lexists(git / name)]
    breaches = [f"{name} was made" for name in new]
    breaches += [] if _text(git / "objects/shown") == "shown" else ["an object was changed"]
    breaches += [] if _text(git / "config") == settings else ["the settings were changed"]
    readable = "objects can be read" if "shown" in evidence.main.loot("objects") else "objects cannot even be read"
    return verdict(
        [*breaches, *stolen(evidence, "git", "the settings")],
        f"objects, refs, hooks, settings, to write: all as before; {readable}",
    )


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text("utf-8", "replace")
    return ""


def home(evidence: Evidence) -> Verdict:
    """What the configuration itself shows inside is no hole."""
    asked = [mount.source for mount in evidence.main.box.mounts if mount.why.startswith("sandbox.")]
    known = [path for path in evidence.ground.credentials() if not _is_in(path, asked)]
    lines = set(evidence.main.loot("home").splitlines())
    seen = [path for path in known if f"{path}\0{_id(path)}" in lines]
    some = f"{len(known)} places such as ~, ~/.ssh and ~/.config that are here: none was there"
    return verdict([f"{path} was opened" for path in seen], some)


def _is_in(path: Path, folders: list[str]) -> bool:
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(folder) for folder in folders)


def _id(path: Path) -> str:
    with suppress(OSError):
        return file_id(path.stat())
    return ""


def environment(evidence: Evidence) -> Verdict:
    return verdict(
        stolen(evidence, "environ", "a planted secret"),
        "secrets planted in four variables, in every environment there is inside: not found",
    )


def inherited(evidence: Evidence) -> Verdict:
    return verdict(
        [*stolen(evidence, "inherited", "a file that we had open"), *changed(evidence, "inherited.txt")],
        "a file left open on purpose, by every number: closed",
    )


def processes(evidence: Evidence) -> Verdict:
    victim = evidence.ground.victim
    killed = ["a process of ours was killed"] if victim is None or not victim.is_running else []
    return verdict(
        [*stolen(evidence, "processes", "the command line of a process of ours"), *killed],
        "a process of ours, to find and kill: it lives",
    )


def nothing_stays(evidence: Evidence) -> Verdict:
    breaches = [] if evidence.gone_at_end else ["a daemon outlived its agent"]
    breaches += [] if evidence.gone_with_warden else ["a daemon outlived its killed warden"]
    return verdict(breaches, "deaf daemons, when the agent ended and when its warden was killed: gone")


def network(evidence: Evidence) -> Verdict:
    reached = evidence.ground.knocked("tcp", "udp")
    if reached and evidence.open_network:
        return GuardState.OFF, "sandbox.allow_network is true: a service of this machine was reached"
    return verdict(
        [f"our {name} port was reached" for name in reached], "services of ours on 127.0.0.1, TCP and UDP: not reached"
    )


def sockets(evidence: Evidence) -> Verdict:
    reached = evidence.ground.knocked("unix", "abstract")
    if reached == ["abstract"] and evidence.open_network:
        return GuardState.OFF, "sandbox.allow_network is true: an abstract socket of this machine was reached"
    if not {"unix", "abstract"} & set(evidence.ground.doors):
        return GuardState.IMPOSSIBLE, "it could not be tried: no socket could be made"
    return verdict(
        [f"our {name} socket was reached" for name in reached],
        f"sockets of ours ({' and '.join(name for name in ('unix', 'abstract') if name in evidence.ground.doors)}): "
        "not reached",
    )


def gateway(evidence: Evidence) -> Verdict:
    if evidence.open_network:
        return GuardState.OFF, "sandbox.allow_network is true: nobody needs the gateway"
    lines = _gateway_lines(evidence.main.folder / "gateway.jsonl")
    allowed = [line for line in lines if line.get("decision") != "block"]
    breaches = ["our port was reached through it"] if evidence.ground.knocked("other") else []
    breaches += ["it let an unlisted host through"] if allowed else []
    if not lines:
        return GuardState.IMPOSSIBLE, "it could not be tried: the gateway was not reached"
    return verdict(breaches, f"127.0.0.1 and a host that is not listed: refused ({lines[-1].get('rule', '')})")


def _gateway_lines(path: Path) -> list[dict[str, object]]:
    with suppress(ValueError):
        return [json.loads(line) for line in _text(path).splitlines()]
    return []


def capabilities(evidence: Evidence) -> Verdict:
    seen = sight(evidence)
    if seen is None:
        return UNSEEN
    breaches = escaped(evidence, "mount")
    breaches += ["the kernel says that it has some"] if seen.capabilities else []
    breaches += [] if seen.no_new_privileges else ["the kernel says that it could gain some"]
    return verdict(breaches, "a mount was refused, and the kernel says that there are none and none can be gained")


def namespaces(evidence: Evidence) -> Verdict:
    ours, theirs = sight(evidence), evidence.sights.get("nested")
    if ours is None or theirs is None:
        return UNSEEN
    apart = ["the kernel says that it is in another"] if ours.user_namespace != theirs.user_namespace else []
    return verdict([*escaped(evidence, "unshare"), *apart], "a new user namespace: refused")


def system_calls(evidence: Evidence) -> Verdict:
    seen = sight(evidence)
    if seen is None:
        return UNSEEN
    unfiltered = [] if seen.filtered else ["the kernel says that there is no filter"]
    names = ("keyctl", "ptrace", "io_uring_setup", "bpf")
    return verdict(
        [*escaped(evidence, *names), *unfiltered], f"{', '.join(names)}: refused, and the kernel names a filter"
    )


def kernel(evidence: Evidence) -> Verdict:
    seen = sight(evidence)
    if seen is None:
        return UNSEEN
    opened = [name for name in evidence.main.found("escaped") if name.startswith(("kernel.", "vm."))]
    breaches = [f"{name} could be written" for name in sorted(opened)]
    breaches += [] if seen.kernel_settings_read_only else ["/proc is not read-only"]
    return verdict(breaches, "five of them, to write: refused; /proc is mounted read-only")
