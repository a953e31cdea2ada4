"""kill -9 of every process at once, and of git and rm while they run; in the sandbox too, and in all landing modes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from crash.disruptions import KILLED, finish_session, has_ended, kill_everything_at_random, start_or_resume
from crash.expectations import Tally
from crash.harness import Harness

pytestmark = pytest.mark.slow
MakeTally = Callable[[str, str], Tally]

MODES = ("merge", "squash", "fast-forward", "pull-request")
SHORT = {"git": ("merge", "squash"), "rm": ("merge",)}
VICTIMS = ("orchestrator", "both", "program")


@pytest.mark.parametrize("boxed", [False, True], ids=["bare", "boxed"])
def test_killed_with_all_its_processes_nothing_is_lost_run_twice_or_blamed(
    harness: Harness, tally: MakeTally, boxed: bool
) -> None:
    """As when the power fails, or a container is removed."""
    about = "orchestrator, wardens, agents and what they started, after a random number of events; all landing modes"
    row = tally(f"everything at once{', in the sandbox' if boxed else ''}", about)
    wanted, seed = harness.kills // 4 if harness.long else 3, 0
    while row.kills < wanted:
        dice = harness.roll("everything", boxed, seed)
        mode = MODES[seed % len(MODES)]
        workflow = ("waves", "flow")[seed // len(MODES) % 2] if harness.long else "short"
        scenario, expected = harness.stage(workflow, size=6 if harness.long else 2, mode=mode, boxed=boxed)
        toll = kill_everything_at_random(harness.fork_server, scenario, dice, most=wanted - row.kills)
        row.kills += toll.kills
        row.add(scenario, expected, wardens=toll.wardens)
        seed += 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", ["git", "rm"])
def test_killed_while_a_program_of_ours_runs(harness: Harness, tally: MakeTally, program: str, mode: str) -> None:
    """Without us, git goes on beside the next orchestrator; killed as well, it leaves locks; killed alone, it fails."""
    if mode not in SHORT[program] and not harness.long:
        pytest.skip("in the long run")
    does = {"git": "one of our git commands that change something", "rm": "the removal of a checkout"}[program]
    row = tally(f"during {does.partition(' that')[0]}", f"while {does} runs: only the orchestrator, only it, or both")
    for seed in range(6 if harness.long else 1):
        dice = harness.roll(program, mode, seed)
        boxed = harness.long and seed % 3 == 2
        scenario, expected = (
            harness.stage(("flow", "waves")[seed % 2], mode=mode, boxed=boxed)
            if harness.long
            else harness.stage("short", size=2, mode=mode)
        )
        for n in range(12 if harness.long else 3):
            if has_ended(scenario):
                break
            fault = {"program": program, "nth": dice.randint(1, 9 if program == "git" else 3)}
            fault |= {"seconds": dice.choice((0.0, 0.001, 0.003, 0.006)), "victim": VICTIMS[n % 3]}
            code = harness.fork_server.run(scenario, start_or_resume(scenario), {"during": fault})
            assert code in (0, KILLED), scenario.log.read_text()[-3000:]
            row.kills += code == KILLED
        finish_session(harness.fork_server, scenario)
        row.add(scenario, expected)
