"""What a sandbox costs: /bin/true in the full sandbox and without one, alternating in one run."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks import Figure, Report
from blueflame.model.sandbox import SandboxSpec
from blueflame.orchestrator.foreground_sandbox import build_command_sandbox as box_at
from blueflame.orchestrator.foreground_sandbox import build_site, find_sandbox_problems
from blueflame.sandbox.person_checkout import read_checkout
from blueflame.sandbox.prepare import PreparedSandbox, prepare_sandbox
from blueflame.testing import create_throwaway_repository
from blueflame.warden.launch_file import LaunchFile
from blueflame.warden.spawn import start_program

TURNS = 60
SMALL = {"TURNS": 2}
TRUE = "/bin/true"
FILTER = 10


def run() -> Report:
    problems = find_sandbox_problems("standard")
    if problems:
        raise SystemExit(f"benchmarks: {problems[0].words}")
    with tempfile.TemporaryDirectory() as folder:
        repo = create_throwaway_repository(Path(folder) / "repo", {"README.md": "sample\n"})
        ground = build_site(read_checkout(repo), repo, None, None)
        began = perf_counter()
        box = box_at(ground, Path(folder) / "attempt")
        prepared = prepare_sandbox(box, Path(folder) / "attempt")
        making = perf_counter() - began
        plain, boxed, handed = _measure_starts(box, prepared)
    return Report(name="sandbox", about=_describe_sandbox(box), figures=_build_figures(plain, boxed, handed, making))


def _describe_sandbox(box: SandboxSpec) -> str:
    return f"{TRUE} alone and in the full sandbox ({len(box.mounts)} mounts, all namespaces, seccomp), {TURNS} turns"


def _build_figures(
    plain: Sequence[float], boxed: Sequence[float], handed: Sequence[float], making: float
) -> tuple[Figure, ...]:
    least = min(boxed) - min(plain)
    middle = median(boxed) - median(plain)
    return (
        Figure(name="plain spawn, least", value=min(plain) * 1000, unit="ms"),
        Figure(name="plain spawn, median", value=median(plain) * 1000, unit="ms"),
        Figure(name="in the sandbox, least", value=min(boxed) * 1000, unit="ms"),
        Figure(name="in the sandbox, median", value=median(boxed) * 1000, unit="ms"),
        Figure(name="sandbox over plain, least", value=least * 1000, unit="ms", aim=15.0),
        Figure(name="sandbox over plain, median", value=middle * 1000, unit="ms", aim=15.0),
        Figure(name="sandbox over plain, ratio of medians", value=median(boxed) / median(plain), unit="x"),
        Figure(name="in the sandbox, started by a warden, median", value=median(handed) * 1000, unit="ms"),
        Figure(name="preparing the sandbox, toolchains included", value=making * 1000, unit="ms"),
    )


def _measure_starts(box: SandboxSpec, prepared: PreparedSandbox) -> tuple[list[float], list[float], list[float]]:
    """Taken in turns, so that a busy moment of the machine falls on all of them."""
    assert prepared.sandbox is not None
    argv = [*prepared.sandbox["argv"], TRUE]
    program = os.open(prepared.sandbox["seccomp"], os.O_RDONLY)
    launch = LaunchFile(
        {
            "attempt": "benchmark",
            "argv": [TRUE],
            "cwd": box.cwd,
            "env": dict(prepared.env),
            "sandbox": dict(prepared.sandbox),
        }
    )

    def in_box() -> None:
        os.lseek(program, 0, os.SEEK_SET)
        _spawn_and_wait(argv, prepared.env, [(os.POSIX_SPAWN_DUP2, program, FILTER)])

    rows = [
        [
            _measure_time(lambda: _spawn_and_wait([TRUE], {}, [])),
            _measure_time(in_box),
            _measure_time(lambda: _start_by_warden(launch)),
        ]
        for _ in range(TURNS)
    ]
    os.close(program)
    plain, boxed, handed = (list(column) for column in zip(*rows, strict=True))
    return plain, boxed, handed


def _spawn_and_wait(argv: Sequence[str], env: object, actions: Sequence[tuple[int, int, int]]) -> None:
    pid = os.posix_spawn(argv[0], argv, env, file_actions=actions)  # type: ignore[arg-type]  # any mapping will do
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"{argv[0]} ended with {status}"


def _start_by_warden(launch: LaunchFile) -> None:
    """With the handshake that closes bubblewrap's start-up race."""
    child = start_program(list(launch.argv), launch, stdin="/dev/null", output=(1, 2))
    _, status = os.waitpid(child.pid, 0)
    child.close()
    assert status == 0, f"the sandbox ended with {status}"


def _measure_time(act: Callable[[], None]) -> float:
    began = perf_counter()
    act()
    return perf_counter() - began


if __name__ == "__main__":
    from benchmarks.__main__ import format_table, save_report

    report = run()
    save_report(report)
    sys.stdout.write(format_table(report) + "\n")
