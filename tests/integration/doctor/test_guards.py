"""The doctor's table: every guard is really tried, a wall with a hole in it is seen, and nothing stays behind."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from blueflame.doctor.environment import FindingState, examine_level
from blueflame.doctor.fixtures import Machine, open_fixture
from blueflame.doctor.guards import OTHER_GUARDS, SANDBOX_GUARDS, GuardReport, examine_guards, list_probes
from blueflame.doctor.guards.findings import GuardFinding, GuardState
from blueflame.doctor.probe_runs import GuardEvidence, gather_evidence
from blueflame.model.sandbox import Mount, MountKind, Network, ResourceLimits, SandboxLevel, SandboxSpec
from blueflame.model.settings.permissions import FileScope, SandboxSettings, SecretSettings, ValidationSettings
from blueflame.orchestrator.engine.interface import ExitReason
from blueflame.orchestrator.foreground_sandbox import find_highest_level
from blueflame.sandbox.build import SandboxContext, SandboxRequest, build_sandbox
from blueflame.sandbox.probe import SandboxProblem
from blueflame.sandbox.toolchains import find_toolchains
from blueflame.telemetry.audit import Audit
from escape.boxing import as_user, interpreter, ordinary_user, python_path
from support.command_line import MAIN
from support.disks import bound
from support.sandboxes import needs_sandbox

pytestmark = needs_sandbox
WATCHED = {"memory", "processes", "free disk"}  # held by the kernel where it can


def examine(
    build: Callable[[SandboxContext, SandboxRequest], SandboxSpec] = build_sandbox, **settings: object
) -> GuardReport:
    return examine_guards(SandboxSettings.model_validate(settings), ValidationSettings(), build=build)


TABLE = (*SANDBOX_GUARDS, *OTHER_GUARDS)


def judge(name: str, evidence: GuardEvidence) -> GuardFinding:
    return next(check.judge for check in TABLE if check.name == name)(evidence)


def states(guards: GuardReport) -> dict[str, GuardState]:
    return {guard.name: guard.state for guard in guards.table}


def fallen(guards: GuardReport) -> set[str]:
    return {guard.name for guard in guards.table if guard.state is GuardState.IMPOSSIBLE}


def with_mounts(box: SandboxSpec, *mounts: Mount) -> SandboxSpec:
    """In the place of those that are there."""
    taken = {mount.target for mount in mounts}
    kept = [mount for mount in box.mounts if mount.target not in taken]
    return replace(box, mounts=tuple(sorted((*kept, *mounts), key=lambda mount: mount.target.split("/"))))


def shown(path: Path, kind: MountKind = MountKind.RW) -> Mount:
    return Mount(kind=kind, source=str(path), target=str(path))


@pytest.fixture(scope="module")
def evidence() -> Iterator[GuardEvidence]:
    """Of a machine on which everything holds; its ground is there for as long as it is looked at."""
    home = Path(tempfile.mkdtemp())
    (home / ".ssh").mkdir()
    machine = Machine(
        sandbox=SandboxSettings(),
        tools=find_toolchains(os.environ, repo_root=None, home=home, ours=True),
        home=home,
        repo_root=None,
        is_sandboxed=True,
    )
    with open_fixture(machine) as fixture:
        yield gather_evidence(fixture, ValidationSettings(), list_probes(is_sandboxed=True))
    (home / ".ssh").rmdir()
    home.rmdir()


def test_every_guard_holds_here(evidence: GuardEvidence) -> None:
    result = {row.name: row.judge(evidence) for row in TABLE}
    unlike = {name: verdict for name, verdict in result.items() if verdict[0] is not GuardState.ENFORCED}
    assert set(unlike) <= WATCHED, unlike
    assert {state for state, _ in unlike.values()} <= {GuardState.DETECTED}
    assert result["free disk"][0] is GuardState.DETECTED


def test_every_probe_has_run(evidence: GuardEvidence) -> None:
    assert {row.probe for row in TABLE if row.probe} <= evidence.main.list_marks("tried")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("daemons", {"gone_at_end": False}),
        ("daemons", {"gone_with_warden": False}),
        ("capabilities", {"kernel_views": {}}),
        ("namespaces", {"kernel_views": {}}),
        ("system calls", {"kernel_views": {}}),
        ("kernel settings", {"kernel_views": {}}),
        ("free disk", {"disk": None}),
        ("watcher", {"audit": Audit()}),
        ("watcher", {"outcome": None}),
        ("shell commands", {"audit": Audit()}),
        ("audit log", {"audit": Audit(findings=("doctor.audit.jsonl:2: not a line of the watcher",))}),
        ("audit log", {"outcome": None}),
        ("dead watcher", {"dead_watcher": 0}),
        ("dead watcher", {"dead_watcher": 1}),
    ],
)
def test_a_guard_of_which_less_was_seen_does_not_count_as_held(
    evidence: GuardEvidence, name: str, change: dict[str, object]
) -> None:
    assert judge(name, evidence)[0] is not GuardState.IMPOSSIBLE
    assert judge(name, replace(evidence, **change))[0] is GuardState.IMPOSSIBLE  # type: ignore[arg-type]  # fields by name


def test_what_the_kernel_says_of_those_inside_counts(evidence: GuardEvidence) -> None:
    seen = evidence.kernel_views["everything"]
    for name, change in (
        ("capabilities", {"capabilities": 1 << 21}),
        ("capabilities", {"no_new_privileges": False}),
        ("system calls", {"is_filtered": False}),
        ("kernel settings", {"is_proc_read_only": False}),
        ("namespaces", {"user_namespace": "user:[1]"}),
        ("CPU time", {"cpu_seconds": "unlimited"}),
    ):
        other = replace(evidence, kernel_views={**evidence.kernel_views, "everything": replace(seen, **change)})
        assert judge(name, other)[0] is GuardState.IMPOSSIBLE, change


def test_limits_that_only_end_a_process_are_reported_as_detected(evidence: GuardEvidence) -> None:
    probe_run, outcome = evidence.memory
    assert outcome is not None
    watched = replace(outcome, detail="memory limit 64 MB reached: it used 100 MB of memory")
    assert judge("memory", replace(evidence, memory=(probe_run, watched)))[0] is GuardState.DETECTED
    unheld = replace(outcome, reason=ExitReason.EXITED)
    assert judge("memory", replace(evidence, memory=(probe_run, unheld)))[0] is GuardState.IMPOSSIBLE
    assert judge("processes", replace(evidence, many=(evidence.many[0], unheld)))[0] is GuardState.IMPOSSIBLE


def test_what_is_switched_off_is_reported_as_off(evidence: GuardEvidence) -> None:
    off = ValidationSettings(secrets=SecretSettings(enabled=False), file_scope=FileScope(enforce=False))
    for name in ("secrets", "file scope"):
        assert judge(name, evidence)[0] is GuardState.ENFORCED
        assert judge(name, replace(evidence, validation=off))[0] is GuardState.OFF


def test_one_hole_and_missing_limits_are_seen_and_only_those() -> None:
    def pierced(site: SandboxContext, wanted: SandboxRequest) -> SandboxSpec:
        outside = shown(wanted.folder.parents[1] / "outside", MountKind.RO)
        return replace(with_mounts(build_sandbox(site, wanted), outside), bounds=ResourceLimits())

    guards = examine(pierced)
    limits = {"memory", "processes", "file size", "open files", "CPU time", "free disk"}
    assert fallen(guards) - {"sockets"} == {"files outside"} | limits  # a socket is no less open read-only
    assert not guards.is_enough
    finding = examine_level(guards)
    assert finding.state is FindingState.BAD
    assert "files outside" in finding.words


def test_a_box_full_of_holes_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "дом"
    (home / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    processes = Mount(kind=MountKind.RW, source=str(tmp_path / "proc"), target="/proc")

    def pierced(site: SandboxContext, wanted: SandboxRequest) -> SandboxSpec:
        root = wanted.folder.parents[1]
        shared = (root / "outside", root / "main" / ".git", root / "logs", home, Path("/dev/shm"))
        (root / "logs").mkdir(exist_ok=True)
        box = with_mounts(build_sandbox(site, wanted), *map(shown, shared), processes)
        leaked = (*box.environment, ("HELLO", site.environ["MY_API_KEY"]))
        return replace(box, network=Network.HOST, seccomp=False, environment=leaked)

    with bound(Path("/proc"), tmp_path / "proc"):  # the one around the sandbox has no processes of the machine
        guards = examine(pierced)
    expected = {"files outside", "writes outside", "history", "home", "environment", "network", "other processes"}
    expected |= {
        "sockets",
        "system folders",
        "system calls",
        "kernel settings",
        "audit log",
        "gateway",
        "other processes",
    }
    assert expected <= fallen(guards), [guard for guard in guards.table if guard.name in expected - fallen(guards)]
    assert not list(Path("/dev/shm").glob("blueflame-*")), "what came out of the holes is cleared up"


def test_without_walls_nothing_is_tried_that_needs_them() -> None:
    guards = examine(level="off")
    assert {states(guards)[row.name] for row in SANDBOX_GUARDS} == {GuardState.OFF}
    assert not fallen(guards)
    assert states(guards)["watcher"] is GuardState.ENFORCED
    assert examine_level(guards).state is FindingState.WARNING


def test_a_network_that_was_opened_is_reported_as_off_and_nothing_stays_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    guards = examine(allow_network=True)
    assert {name for name, state in states(guards).items() if state is GuardState.OFF} == {
        "network",
        "sockets",
        "gateway",
    }
    assert guards.is_enough
    assert list(tmp_path.iterdir()) == []
    left = [process for process in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(process.info["cmdline"])]
    assert left == []


def test_a_level_that_cannot_be_held_is_bad() -> None:
    problem = SandboxProblem("namespaces", "the sandbox is unavailable: bubblewrap failed; allow user namespaces")
    guards = GuardReport(asked=SandboxLevel.STANDARD, held=SandboxLevel.OFF, problems=(problem,), table=())
    finding = examine_level(guards)
    assert finding.state is FindingState.BAD
    assert "allow user namespaces" in finding.words
    held = GuardReport(asked=SandboxLevel.STANDARD, held=find_highest_level(), problems=(), table=())
    assert examine_level(held).state is FindingState.OK


def test_an_ordinary_user_gets_the_same_table() -> None:
    uid = ordinary_user()
    python = interpreter(uid) if uid is not None else None
    if uid is None or python is None:
        pytest.skip("there is no ordinary user who could run a Python here")
    with tempfile.TemporaryDirectory() as home:
        os.chown(home, uid, uid)
        Path(home, ".ssh").mkdir()
        env = {"PATH": "/usr/bin:/bin", "HOME": home, "PYTHONPATH": python_path()}
        argv = [python, "-c", MAIN, "doctor", "--json"]
        done = subprocess.run(
            argv, cwd=home, env=env, capture_output=True, text=True, timeout=120, check=False, **as_user(uid)
        )
    found = {guard["name"]: guard for guard in json.loads(done.stdout)["guards"]}
    unlike = {name: guard["seen"] for name, guard in found.items() if guard["state"] != "enforced"}
    assert set(unlike) - WATCHED <= {"shell commands"}, unlike  # a Python without our environment has no shfmt
    assert found["processes"]["state"] == "enforced"
