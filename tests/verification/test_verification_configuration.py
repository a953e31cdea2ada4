"""The configuration: what is refused, what zero means, and what a change during a session does."""

from __future__ import annotations

from pathlib import Path

import pytest

from blueflame.config.load import parse_config
from blueflame.model.errors import ConfigError
from blueflame.model.event import BudgetWarned, ConfigAdopted
from blueflame.model.gate import Gate
from blueflame.session.state import Session
from support.sessions import Stage, make_stage, task


@pytest.mark.verification(2)
def test_v02_a_file_with_bad_patterns_is_refused_with_every_line() -> None:
    text = """schema_version: 2
project: {name: x}
permissions:
  bash_rules:
    blocked_patterns:
      - "rm -rf"
      - "curl("
validation:
  commit_format: {pattern: "^(feat|fix"}
"""
    with pytest.raises(ConfigError) as caught:
        parse_config(text, path=Path("blueflame.yaml"))
    first, second = caught.value.problems
    assert first.startswith("blueflame.yaml:7: permissions.bash_rules.blocked_patterns[1]: ")
    assert second.startswith("blueflame.yaml:9: validation.commit_format.pattern: ")


@pytest.mark.verification(46)
def test_v46_a_change_between_two_cycles_is_found_and_asked_about(repo: Path, tmp_path: Path) -> None:
    stage = make_stage(repo, config=tmp_path / "settings" / "blueflame.yaml")

    def change(_gate: Gate, _session: Session) -> str:
        stage.configure(limits={"max_retries": 7})
        return "continue"

    stage.play(task(1))
    result = stage.run({"changeset": ["reject: once more"], "session": [change], "drift": ["use"]})
    assert result.gates == ["plan", "changeset-cs-001", "session-cycle-1", "drift", "changeset-cs-002"]
    assert any("limits.max_retries" in line for line in result.answers.asked[3].evidence["changes"])
    assert (len(result.of(ConfigAdopted)), result.session.limits.max_retries) == (1, 7)


@pytest.mark.verification(51)
def test_v51_zero_means_no_limit_whatever_is_spent(stage: Stage) -> None:
    nothing = {"runtime": "scripted", "budget_usd": 0, "budget_tokens": 0}
    stage.reconfigure(
        limits={"max_session_cost_usd": 0, "max_session_tokens": 0, "kill_grace": "1s"},
        roles=dict.fromkeys(("planner", "worker", "validator", "merger"), nothing),
    )
    spends = {"usage": {"cost_usd": 1e6, "input_tokens": 10**9}}
    stage.play(task(1), task(2, after=[1]), worker=[spends, {"note": None}, {"commit": "feat({task}): spend"}])
    result = stage.run()
    assert result.gates == ["plan", "changeset-cs-001"]
    assert not result.of(BudgetWarned)
    assert result.session.spend.usd == 2e6
