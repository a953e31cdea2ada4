"""What a planner gets, and how it is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from blueflame.agents import registry
from blueflame.agents.runtime import AgentBrief
from blueflame.model.attempt import PLANNER
from support.fake_bd import make_bd
from support.sessions import Stage, plan_of, task, writes


@pytest.mark.verification(38, 40)
def test_v40_a_planner_gets_what_beads_kept_of_an_earlier_session(stage: Stage, tmp_path: Path) -> None:
    bd = make_bd(tmp_path / "bin", stage.root / ".blueflame" / "beads" / ".beads")
    stage.reconfigure(memory={"provider": "beads", "bd": str(bd.program)}, limits={"max_retries": 0})
    stage.play(
        planner=plan_of(task(1, title="Parse the ledger"), task(2, title="Print the ledger")),
        workers={1: writes("src/1.txt", "one"), 2: [{"exit": 3}]},
    )
    stage.run({"session": ["stop"]}, request="Read and print the ledger")
    (stage.root / ".blueflame" / "memory.db").unlink()  # as in another copy of the repository: only Beads knows
    result = stage.run({"plan": ["quit"]}, request="Print the ledger nicely")
    prompt = result.prompt("plan", "planner")
    assert "FAILED BEFORE: Print the ledger" in prompt[prompt.index("prior-context") :]
    assert result.warnings == []


@pytest.mark.verification(55)
@pytest.mark.parametrize("interactive", [False, True])
def test_v55_a_planner_that_does_not_talk_is_run_in_print_mode(tmp_path: Path, *, interactive: bool) -> None:
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    brief = AgentBrief(
        attempt="ses-1.plan.planner.1",
        agent_id="planner-0a1b2c3d",
        role=PLANNER,
        subject="plan",
        n=1,
        session="ses-1",
        worktree=str(tmp_path),
        prompt="Plan it",
        schema={"type": "object"},
        home=str(tmp_path),
        interactive=interactive,
    )
    launch = registry.build_runtime("claude", {"command": str(program)}, tmp_path).prepare_launch(
        brief, directory=tmp_path / "attempt"
    )
    assert launch.terminal is interactive
    if not interactive:
        assert {"-p", "--json-schema"} <= set(launch.argv)
        assert launch.stdin == "Plan it"
