"""The other agents' command lines as npm installs them: `make test-agents` puts them into .agents/."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from blueflame.model.attempt import Ending
from blueflame.model.event import AttemptEnded, QuestionAsked
from blueflame.model.policy import ASK_TOOL
from blueflame.orchestrator.foreground_sandbox import find_sandbox_problems
from blueflame.session.state import Session
from blueflame.telemetry.audit import Audit, read_audit
from blueflame.testing import LoopbackModel
from support.model_scripts import (
    build_planner_scenario,
    build_reviewer_scenario,
    build_worker_scenario,
    build_write_turns,
    sum_served,
)
from support.sessions import SessionRun, Stage, make_stage, task

HOME_VARIABLE = "BLUEFLAME_AGENTS"
"""Where they are installed; left out, .agents beside the sources."""
KEY = "sk-this-key-must-never-be-seen-anywhere"


def find_agent_program(name: str) -> Path:
    place = Path(os.environ.get(HOME_VARIABLE) or Path(__file__).parents[2] / ".agents")
    return place / "node_modules" / ".bin" / name


class ServeModel(Protocol):
    """Starts a model that plays these scenarios."""

    def __call__(self, *scenarios: Mapping[str, Any]) -> LoopbackModel: ...


def build_skip_marks(name: str) -> list[pytest.MarkDecorator]:
    """Marks for tests that drive this one for real."""
    return [
        pytest.mark.skipif(
            not find_agent_program(name).exists(), reason=f"{name} is not installed; `make test-agents` does that"
        ),
        pytest.mark.skipif(bool(find_sandbox_problems("standard")), reason="this machine can hold no sandbox"),
    ]


def make_agent_stage(
    repo: Path, runtime: str, model: str, settings: Mapping[str, Any], *, setup: str = "", **role: object
) -> Stage:
    """A repository whose planner, worker and validator are all driven by this runtime, behind all walls."""
    roles: dict[str, dict[str, object]] = {
        name: {"runtime": runtime, "model": model} for name in ("planner", "worker", "validator")
    }
    roles["worker"] |= role
    return make_stage(
        repo,
        sandbox={"level": "standard"},
        runtimes={runtime: dict(settings)},
        worktree={"setup": [setup] if setup else []},
        roles=roles,
        # the warning before a limit holds back one call, which a scripted model does not repeat
        limits={"kill_grace": "2s", "agent_timeout": "120s", "max_retries": 0, "warn_threshold": 1},
        instructions={"enabled": False},  # what an agent's program reads by itself is the subject
        planning={"workflow": "lean", "interactive": False},
    )


def read_agent_audit(reported: SessionRun, subject: str = "task-001", role: str = "worker") -> Audit:
    attempt = next(
        record.attempt
        for record in reported.session.attempts.values()
        if (record.attempt.subject, record.attempt.role) == (subject, role)
    )
    return read_audit(reported.stage.root / ".blueflame" / "logs" / f"{attempt.agent_id}.audit.jsonl")


def count_tokens(session: Session) -> dict[str, int]:
    """The tokens that the gateway counted."""
    spend = session.spend
    return {
        "input": spend.input_tokens,
        "output": spend.output_tokens,
        "cache_read": spend.cache_read_tokens,
        "cache_write": spend.cache_write_tokens,
    }


def describe_failure(reported: SessionRun) -> str:
    """Describe a failed test."""
    folders = sorted((reported.stage.root / ".blueflame" / "attempts").glob("*"))
    parts = [f"{recorded.event!r}" for recorded in reported.events[-12:]]
    for folder in folders:
        for name in ("stdout.log", "stderr.log", "outcome.json", "warden.log", "gateway.log"):
            if (folder / name).exists():
                parts.append(f"--- {folder.name}/{name}\n{(folder / name).read_text(errors='replace')[-3000:]}")
    return "\n".join((*parts, *reported.warnings))


def check_full_session(stage: Stage, model: LoopbackModel) -> None:
    """Check plan, two tasks, their reviews and landings; every token is counted, and the key is in no file."""
    reported = stage.run(workflow="waves")

    assert reported.session.outcome == "completed", describe_failure(reported)
    assert (stage.read("src/1.txt"), stage.read("src/2.txt")) == ("one\n", "two\n")
    assert count_tokens(reported.session) == sum_served(model.served)
    assert reported.session.spend.micro_usd > 0
    assert {served.key for served in model.served} == {KEY}
    assert not _find_files_with(stage, KEY)


def check_refusal(stage: Stage, model: LoopbackModel, *, refusals: int = 2) -> SessionRun:
    """Check that a forbidden call is not done and a later allowed one is."""
    stage.tasks = [task(1)]
    reported = stage.run()

    assert reported.session.outcome == "completed", describe_failure(reported)
    assert (stage.files(), stage.read("src/1.txt")) == (sorted([*stage.files("main~1"), "src/1.txt"]), "one\n")
    refused = [line for line in read_agent_audit(reported).lines[1:] if not line.allowed]
    assert len(refused) == refusals, refused
    assert count_tokens(reported.session) == sum_served(model.served)
    return reported


def check_budget_end(stage: Stage, model: LoopbackModel) -> None:
    """Check that no call is sent after the budget is used up, and that earlier commits are kept."""
    stage.tasks = [task(1)]
    reported = stage.run({"session": ["stop"]})

    ended = reported.of(AttemptEnded)[-1].ended
    assert ended.ending is Ending.BUDGET, describe_failure(reported)
    assert ended.commits == 1
    assert len(model.served) == 2  # 1257 tokens, then 1566 more
    assert count_tokens(reported.session) == sum_served(model.served)


QUESTION = {"question": "Which store?", "guess": "SQLite", "options": ["SQLite", "a file"]}
QUESTION_TURNS = (
    {
        "when": {"user": r"(?s)(?=.*Which store)(?=.*a file)(?=.*Your task: implement (?P<task>task-001))"},
        "turns": build_write_turns("src/1.txt", "a file\n"),
    },
    build_worker_scenario("task-001", {"text": json.dumps(QUESTION)}),
)


def check_question_ending(stage: Stage, _model: LoopbackModel) -> None:
    """Check that an agent may end with a question, and that its next attempt has the answer."""
    stage.tasks = [task(1)]
    reported = stage.run({"clarification": ["answer: 2"]})

    assert reported.session.outcome == "completed", describe_failure(reported)
    assert [each.ended.ending for each in reported.of(AttemptEnded)[:2]] == [Ending.QUESTION, Ending.PASSED]
    assert stage.read("src/1.txt") == "a file\n"


def check_ask_tool(stage: Stage, serve: ServeModel, tool: str) -> None:
    """Check that an agent asks with its tool, waits, and reads the answer in the same attempt."""
    ask = {"tool": {"name": tool, "input": QUESTION}}
    model = serve(build_worker_scenario("task-001", ask, *build_write_turns("src/1.txt", "a file\n")))
    stage.tasks = [task(1)]
    reported = stage.run({"clarification": ["answer: 2"]})

    assert reported.session.outcome == "completed", describe_failure(reported)
    assert len(reported.of(QuestionAsked)) == 1, describe_failure(reported)
    assert reported.session.tasks["task-001"].attempts == 1
    assert any("answers your question: a file" in str(asked.body) for asked in model.requests)
    assert (ASK_TOOL, True) in [(line.tool, line.allowed) for line in read_agent_audit(reported).lines]


FULL_SESSION_TURNS = (
    build_planner_scenario(task(1), task(2)),
    build_worker_scenario("task-001", *build_write_turns("src/1.txt", "one\n")),
    build_worker_scenario("task-002", *build_write_turns("src/2.txt", "two\n")),
    build_reviewer_scenario(),
)

FORBIDDEN_CALLS: tuple[dict[str, Any], ...] = (
    {"tool": {"write": "{{cwd}}/elsewhere.txt", "content": "x\n"}},
    {"tool": {"shell": "echo x > .env"}},
)
ONE_TASK_TURNS = (build_worker_scenario("task-001", *build_write_turns("src/1.txt", "one\n")),)
REFUSED_CALL_TURNS = (build_worker_scenario("task-001", *FORBIDDEN_CALLS, *build_write_turns("src/1.txt", "one\n")),)


def _find_files_with(stage: Stage, secret: str) -> list[str]:
    """Return the files of the state folder that hold the secret."""
    found = [path for path in stage.root.rglob("*") if path.is_file() and not path.is_symlink()]
    return [str(path) for path in found if secret.encode() in path.read_bytes()]


def commit_files(stage: Stage, files: Mapping[str, str]) -> None:
    """Commit files, such as a repository's own settings for agents."""
    for name, text in files.items():
        stage.commit(name, text)
