"""An agent's output is its own: code that it runs cannot write a line of it. As root and as an ordinary user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from blueflame.agents import fence
from blueflame.agents.runtime import AgentBrief, read_spool
from blueflame.agents.scripted import ScriptedRuntime, player
from blueflame.sandbox.seccomp import build_program
from escape.attack import Attack, Forgery
from escape.forgeries import PRELUDE
from escape.sharing import once
from escape.table import behind
from support.small_sandbox import (
    BWRAP,
    SystemUser,
    build_sandbox_options,
    find_user,
    list_users,
    make_shared_folder,
    read_stdout,
    run_warden_as,
)
from support.wardens import write_launch

pytestmark = pytest.mark.skipif(not BWRAP, reason="bubblewrap is not installed")
ROWS = behind("warden")
BITING = [row for row in ROWS if isinstance(row.deed, Forgery) and row.deed.bites]
VERDICT = {"status": "fail", "notes": "HONEST-VERDICT", "issues": []}


def test_each_row_is_tried() -> None:
    assert all(isinstance(row.deed, Forgery) for row in ROWS)


@pytest.mark.parametrize("who", list_users())
@pytest.mark.parametrize("attack", ROWS, ids=lambda attack: attack.id)
def test_code_that_an_agent_runs_cannot_speak_for_it(
    attack: Attack, who: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = once(
        tmp_path_factory, f"output-{who}", lambda: {row.id: try_in_sandbox(row, find_user(who)) for row in ROWS}
    )
    assert found[attack.id] == ""


@pytest.mark.parametrize("attack", BITING, ids=lambda attack: attack.id)
def test_the_same_succeeds_with_a_pipe_and_no_wall(attack: Attack, tmp_path: Path) -> None:
    """Without this, a forgery that fails would prove nothing.

    Never outside of a process namespace and with a writable root: these attacks reach every process that they see.
    """
    argv, traced = prepare(attack, tmp_path, sys.executable, fenced=False)
    cage = [BWRAP, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run"]
    cage += ["--bind", str(tmp_path), str(tmp_path), "--unshare-pid", "--unshare-net", "--die-with-parent", "--"]
    env = {**os.environ, "ANTHROPIC_API_KEY": "bf-token-of-the-agent", "TRACED": str(traced)}
    with (tmp_path / "err").open("wb") as err:
        done = subprocess.run(
            [*cage, *argv], stdout=subprocess.PIPE, stderr=err, stdin=subprocess.DEVNULL, env=env, cwd=tmp_path,
            timeout=60, check=False,
        )  # fmt: skip
    assert b"FORGED" in done.stdout or traced.exists()


def try_in_sandbox(attack: Attack, who: SystemUser) -> str:
    """Return what was wrong with the output of an agent that runs the code; "" if nothing was."""
    with make_shared_folder() as folder:
        argv, traced = prepare(attack, folder, who.python, fenced=True)
        program = folder / "program.json"
        shown = [*_list_python(who), str(Path(player.__file__).parent), fence.__file__, str(program)]
        more = [word for path in shown for word in ("--ro-bind", path, path)]
        seccomp = folder / "seccomp"
        seccomp.write_bytes(build_program(os.uname().machine))
        options = build_sandbox_options(folder, *more, seccomp=str(seccomp))
        options["argv"] = [*options["argv"][:-1], "--seccomp", "10", "--"]
        env = {"PATH": "/usr/bin:/bin", "ANTHROPIC_API_KEY": "bf-token-of-the-agent", "TRACED": str(traced)}
        run_warden_as(who, write_launch(folder, *argv, env=env, sandbox=options))
        said = read_stdout(folder)
        output = read_spool(ScriptedRuntime(), folder / "stdout.log")
        if "FORGED" in said or traced.exists():
            return f"forged: {said}"
        return "" if output.output and output.output["notes"] == "HONEST-VERDICT" else f"it did not end: {said}"


def prepare(attack: Attack, folder: Path, python: str, *, fenced: bool) -> tuple[Sequence[str], Path]:
    """Write the orders of a scripted reviewer that runs the code and then gives its verdict."""
    assert isinstance(attack.deed, Forgery)
    (folder / "attack.py").write_text(PRELUDE + attack.deed.code)
    ids = ("a", "validator-1", "validator", "task-001", "s")
    attempt, agent_id, role, subject, session = ids
    brief = AgentBrief(
        attempt=attempt, agent_id=agent_id, role=role, subject=subject, n=1, session=session, worktree="", prompt=""
    )
    launch = ScriptedRuntime().prepare_launch(brief, directory=folder)
    program = folder / "program.json"
    content = json.loads(program.read_text())
    run = {"do": "run", "command": f"{python} attack.py", "allow_failure": True, "timeout": 20, "rogue": "hidden"}
    content["steps"] = [run, {"do": "answer", "output": VERDICT, "rogue": "hidden"}]
    program.write_text(json.dumps({**content, "fence": content["fence"] if fenced else ""}))
    return [python, *launch.argv[1:]], folder / "traced"


def _list_python(who: SystemUser) -> Iterator[str]:
    if who.python == sys.executable:
        yield from dict.fromkeys((sys.prefix, sys.base_prefix))
