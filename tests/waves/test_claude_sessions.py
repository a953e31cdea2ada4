"""Whole sessions with the real Claude Code: its tools, its hooks, the sandbox; only the model behind it is ours."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from blueflame.engine.boxed import shortcomings
from blueflame.model.event import AttemptEnded
from blueflame.testing import LoopbackModel
from models import KEY, model_script, plan_turns, totals, verdict_turns, worker_turns, writing
from real_agents import needs_claude
from sessions import Stage, Told, make_stage, task

pytestmark = [
    needs_claude,
    pytest.mark.skipif(bool(shortcomings("standard")), reason="this machine can hold no sandbox"),
]
ROLES = {name: {"runtime": "claude", "model": "sonnet"} for name in ("planner", "worker", "validator")}


@pytest.fixture
def stage(repo: Path) -> Stage:
    return make_stage(repo, **CONFIG)


CONFIG: dict[str, object] = {
    "sandbox": {"level": "standard"},
    "roles": ROLES,
    "limits": {"kill_grace": "2s", "agent_timeout": "120s", "max_retries": 0},
    "planning": {"workflow": "waves", "interactive": False},
}


@pytest.fixture(autouse=True)
def only_our_model(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "CLAUDE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


def serving(monkeypatch: pytest.MonkeyPatch, model: LoopbackModel) -> LoopbackModel:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
    return model


def test_a_session_goes_from_a_request_to_the_base_branch(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    script = model_script(
        plan_turns(task(1), task(2)),
        worker_turns("task-001", *writing("src/1.txt", "one\n")),
        worker_turns("task-002", *writing("src/2.txt", "two\n")),
        verdict_turns(),
    )
    stage.tasks = None
    with LoopbackModel(script) as model:
        serving(monkeypatch, model)
        told = stage.run()
    assert told.session.outcome == "completed", _what_happened(told)
    assert (stage.read("src/1.txt"), stage.read("src/2.txt")) == ("one\n", "two\n")
    spend = told.session.spend
    assert {
        "input": spend.input_tokens,
        "output": spend.output_tokens,
        "cache_read": spend.cache_read_tokens,
        "cache_write": spend.cache_write_tokens,
    } == totals(model.served)
    assert spend.micro_usd > 0
    assert {served.key for served in model.served} == {KEY}
    _nowhere(stage, KEY)


def _nowhere(stage: Stage, secret: str) -> None:
    found = [path for path in _files(stage.root) if secret.encode() in path.read_bytes()]
    assert not found, f"the credential was written to {found}"


def _files(root: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(root):
        yield from (path for name in names if (path := Path(folder, name)).is_file() and not path.is_symlink())


def _what_happened(told: Told) -> str:
    ends = [f"{event.attempt}: {event.ended.ending} {event.ended.notes}" for event in told.of(AttemptEnded)]
    return "\n".join([told.session.outcome_reason, *ends])
