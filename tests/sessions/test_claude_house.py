"""A house over three repositories in which the real Claude Code works; only the model behind it is ours."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from blueflame.model.house.event import RequestState
from blueflame.orchestrator.foreground_sandbox import find_sandbox_problems
from blueflame.testing import LoopbackModel
from support.houses import make_house
from support.model_scripts import KEY, build_model_script, build_worker_scenario, build_write_turns
from support.real_agents import needs_claude
from support.repositories import run_git

pytestmark = [
    needs_claude,
    pytest.mark.skipif(bool(find_sandbox_problems("standard")), reason="this machine can hold no sandbox"),
]


@pytest.mark.real_claude
def test_claude_works_in_three_repositories_of_a_house_that_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "CLAUDE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    roles = {"lead": {"runtime": "claude", "model": "sonnet"}}
    script = build_model_script(build_worker_scenario("task-001", *build_write_turns("src/1.txt", "one\n")))
    sandbox, names = {"level": "standard"}, ("shop", "blog", "site")
    with LoopbackModel(script) as model, make_house(tmp_path, *names, roles=roles, sandbox=sandbox) as stage:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
        stage.write("pool: {agents: 2}\nlimits: {sessions: 3}\n")
        asked = [stage.ask("Add a note", repository=name) for name in names]
        with stage.serve() as house:
            stage.until(lambda: model.requests, "the first call of a model")
            os.kill(house.pid, signal.SIGKILL)
            house.wait()

        def is_over() -> bool:
            stage.approve_all()
            records = [stage.find_request(each) for each in asked]
            return all(each is not None and each.state is RequestState.ENDED for each in records)

        with stage.serve():
            stage.until(is_over, "the end of three sessions")
        for name in names:
            assert (tmp_path / name / "src" / "1.txt").read_text() == "one\n"
            assert len(stage.list_sessions(name)) == 1
            assert run_git(tmp_path / name, "log", "--format=%s", "-1", "--", "src/1.txt").strip()
        assert {each.key for each in model.served} == {KEY}
        kept = [stage.paths.root, *(tmp_path / name for name in names)]
        assert not [path for root in kept for path in root.rglob("*") if path.is_file() and KEY in _read(path)]


def _read(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")
