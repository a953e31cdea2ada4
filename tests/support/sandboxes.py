"""Sandboxes for tests, built and started for real. An escape is judged by the state outside afterwards."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

from blueflame.model.sandbox import Network, SandboxSpec
from blueflame.model.settings.permissions import SandboxSettings
from blueflame.sandbox.build import SandboxContext, SandboxRequest, build_sandbox
from blueflame.sandbox.prepare import PreparedSandbox, prepare_sandbox
from blueflame.sandbox.probe import find_problems
from blueflame.sandbox.toolchains import find_toolchains

PROBLEMS = find_problems("standard", lambda: (False, False))
needs_sandbox = pytest.mark.skipif(bool(PROBLEMS), reason="; ".join(problem.words for problem in PROBLEMS))


class SandboxOutput(NamedTuple):
    code: int
    out: str
    err: str


@dataclass(kw_only=True)
class SandboxFixture:
    """A checkout and an attempt's folder, and a way to run something in the sandbox that they make."""

    worktree: Path
    folder: Path
    settings: SandboxSettings = field(default_factory=SandboxSettings)
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    repo_root: Path | None = None
    objects: Path | None = None
    ours: bool = False
    common: Path | None = None
    home: Path = field(default_factory=Path.home)

    def build_site(self) -> SandboxContext:
        tools = find_toolchains(self.environ, repo_root=self.repo_root, home=self.home, ours=self.ours)
        return SandboxContext(
            settings=self.settings,
            environ=self.environ,
            tools=tools,
            home=self.home,
            repo_root=self.repo_root,
            objects=self.objects,
            common=self.common,
        )

    def build(self, **wanted: object) -> SandboxSpec:
        return build_sandbox(self.build_site(), SandboxRequest(worktree=self.worktree, folder=self.folder, **wanted))  # type: ignore[arg-type]  # tests name what they want

    def run(self, *argv: str, timeout: float = 120, **wanted: object) -> SandboxOutput:
        spec = self.build(**wanted)
        return run_in_sandbox(prepare_sandbox(spec, self.folder), argv, network=spec.network, timeout=timeout)

    def sh(self, script: str, **wanted: object) -> SandboxOutput:
        return self.run("/bin/sh", "-c", script, timeout=120, **wanted)


def make_sandbox_fixture(tmp_path: Path, **more: object) -> SandboxFixture:
    worktree, folder = tmp_path / "рабочая copy", tmp_path / "attempt"
    worktree.mkdir(exist_ok=True)
    folder.mkdir(exist_ok=True)
    return SandboxFixture(worktree=worktree, folder=folder, **more)  # type: ignore[arg-type]  # as above


def run_in_sandbox(
    prepared: PreparedSandbox, argv: Sequence[str], *, network: Network = Network.NONE, timeout: float = 120
) -> SandboxOutput:
    """Run as the warden does, without gateway, entry script and limits."""
    assert prepared.sandbox is not None
    assert network is not Network.DOORS, "only the warden can make doors"
    with Path(prepared.sandbox["seccomp"]).open("rb") as program:
        prefix = list(prepared.sandbox["argv"])
        prefix[prefix.index("--seccomp") + 1] = str(program.fileno())
        done = subprocess.run(
            [*prefix, *argv],
            env=dict(prepared.env),
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            pass_fds=(program.fileno(),),
            timeout=timeout,
            check=False,
        )
    return SandboxOutput(
        done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    )
