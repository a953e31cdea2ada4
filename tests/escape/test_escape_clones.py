"""Whatever a cloned repository brings: no command of ours uses it before a person has agreed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from string import Template

import pytest

from blueflame.cli.main import run
from escape import clones
from escape.attack import Attack, Clone
from escape.table import behind
from support.command_line import YES, configure, write
from support.repositories import make_repository

CLONES = [attack for attack in behind("orchestrator") if isinstance(attack.deed, Clone)]
BITING = [attack for attack in CLONES if isinstance(attack.deed, Clone) and attack.deed.bites]
REFUSALS = {
    clones.TRUST: (3, "is not trusted on this machine"),
    clones.ENCRYPTED: (2, "runtimes.claude.upstream"),
    clones.STATE: (3, "git tracks files in .blueflame"),
    clones.LINKS: (3, ", a link to"),
}
"""The exit code and a part of the message, by what holds."""


@dataclass
class Ground:
    """A clone, and the canary, the folder and the port that nothing of it may reach."""

    root: Path
    listener: socket.socket
    attack: Attack

    @property
    def deed(self) -> Clone:
        assert isinstance(self.attack.deed, Clone)
        return self.attack.deed

    @property
    def clone(self) -> Path:
        return self.root / "клон"

    @property
    def out(self) -> Path:
        return self.root / "out"

    @property
    def canary(self) -> Path:
        return self.root / "канарейка"

    @property
    def config(self) -> Path:
        return self.clone / self.deed.config

    def build(self) -> None:
        origin = make_repository(self.root / "origin")
        self.out.mkdir()
        program = self.root / "run"
        for path in (program, origin / "tools" / "run"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(f'#!/bin/sh\necho "$0 $*" >> "{self.canary}"\necho 99.0.0\n')
            path.chmod(0o755)
        names = {"RUN": str(program), "OUT": str(self.out), "PORT": str(self.listener.getsockname()[1])}
        configure(
            origin, json.loads(Template(json.dumps(dict(self.deed.settings))).safe_substitute(names)), trusted=False
        )
        if self.deed.config != "blueflame.yaml":
            (origin / "blueflame.yaml").rename(origin / self.deed.config)
        code = f"{self.deed.code}\ngit add -Af; git commit -q -m x"
        subprocess.run(["bash", "-ec", code], cwd=origin, env={**os.environ, **names}, check=True)
        subprocess.run(["git", "clone", "-q", str(origin), str(self.clone)], check=True)
        steps = [
            {"run": {"command": f'echo x > "{self.out}/x"', "allow_failure": True}},
            {"append": {"path": "src/1.txt", "text": "x\n"}},
            {"commit": "feat({task}): one"},
        ]
        write(self.root / "script", {"schema_version": 1, "tasks": {}, "defaults": {"worker": steps}})
        write(self.root / "answers", YES)

    def call(self, *argv: str, config: bool = True) -> int:
        return run([*argv, *(("--config", str(self.config)) if config else ())])

    def play(self) -> int:
        """A whole session of scripted agents; its worker writes outside, where no sandbox keeps it."""
        given = ("--script", str(self.root / "script"), "--decisions-file", str(self.root / "answers"))
        return self.call("run", "--task", "x", "--workflow", "single", "--quiet", *given)

    @property
    def reached(self) -> bool:
        """Whether something ran, was written or was sent."""
        self.listener.setblocking(False)
        try:
            self.listener.accept()[0].close()
        except BlockingIOError:
            return self.canary.exists() or any(path.name != "blueflame.yaml" for path in self.out.iterdir())
        return True


@pytest.fixture
def ground(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        at = Ground(tmp_path, listener, request.param)
        at.build()
        monkeypatch.chdir(at.clone)
        yield at


@pytest.mark.parametrize("ground", CLONES, ids=lambda attack: attack.id, indirect=True)
@pytest.mark.usefixtures("guards_are_known")
def test_no_command_uses_what_a_clone_brings(ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    (ground.clone / ".env").write_text("KEY=1\n")
    if ground.config.is_symlink():  # the other file is trusted where it is
        run(["trust", "--yes", "--config", str(ground.config.resolve())])
    ground.call("init", "--no-try")
    for words in (("doctor",), ("status",), ("config", "show"), ("trust", "--show"), ("sandbox", "show")):
        ground.call(*words)
    code, words_of_refusal = REFUSALS[ground.attack.rule]
    for act in (partial(ground.call, "run", "--task", "x"), partial(ground.call, "resume"), ground.play):
        capsys.readouterr()
        assert act() == code
        assert words_of_refusal in capsys.readouterr().err
    assert not ground.reached
    assert not (ground.clone / ".trees").is_dir() or (ground.clone / ".trees").is_symlink()


@pytest.mark.parametrize("ground", BITING, ids=lambda attack: attack.id, indirect=True)
@pytest.mark.usefixtures("guards_are_known", "forked_wardens")
def test_it_would_have_succeeded(ground: Ground) -> None:
    """Once a person has agreed it does: else the refusals above would prove nothing."""
    assert ground.call("trust", "--yes") == 0
    ground.call("doctor") if ground.deed.bites == "doctor" else ground.play()
    assert ground.reached
