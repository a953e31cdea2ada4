"""The postcheck finds what the watcher cannot, and a reviewer runs the diagnostics and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from blueflame.model.attempt import VALIDATOR, Ending
from blueflame.model.event import AttemptEnded
from blueflame.model.policy import ToolCall
from blueflame.model.settings.permissions import (
    PermissionSettings,
    ValidationSettings,
    ValidatorDiagnostics,
)
from blueflame.policy.compile import compile_policy
from blueflame.policy.decide import decide
from blueflame.watcher.policy_file import find_shfmt
from blueflame.watcher.world import LocalWorld
from support.commit_format import COMMIT_PATTERN
from support.sessions import SessionRun, Stage, task, writes

STOP = {"session": ["stop"]}
WAYS_PAST_THE_WATCHER: Mapping[str, list[dict[str, Any]]] = {
    "a file": [{"run": "echo wip > ../m; git add -A; git commit -q -F ../m"}],
    "a heredoc": [{"run": "git add -A; git commit -q -F - <<E\nwip\nE"}],
    "an amended one": [{"commit": "feat({task}): fine"}, {"run": "git commit -q --amend -m wip"}],
    "one of two": [
        {"run": "git add -A; git commit -q -m wip"},
        {"append": {"path": "src/{task}.txt", "text": "more\n"}},
        {"commit": "feat({task}): fine"},
    ],
}


def endings(reported: SessionRun) -> dict[str, tuple[Ending, str]]:
    return {event.attempt.split(".")[1]: (event.ended.ending, event.ended.notes) for event in reported.of(AttemptEnded)}


@pytest.mark.verification(14)
def test_v14_every_commit_message_has_the_agreed_form_however_it_was_given(stage: Stage) -> None:
    stage.reconfigure(
        limits={"max_retries": 0, "kill_grace": "1s"}, validation={"commit_format": {"pattern": COMMIT_PATTERN}}
    )
    tasks = [task(n, locks=[f"src/task-{n:03d}.txt"]) for n in range(1, 6)]
    begin = {"write": {"path": "src/{task}.txt", "text": "text\n"}}
    ways = {n: [begin, *steps] for n, steps in enumerate(WAYS_PAST_THE_WATCHER.values(), start=1)}
    stage.play(*tasks, workers={**ways, 5: [begin, {"commit": "feat({task}): fine"}]})
    before = stage.head()
    reported = stage.run()
    assert set(reported.states.values()) == {"merged"}
    landed = stage.git("log", "--format=%s", f"{before}..main").splitlines()
    assert all(re.search(COMMIT_PATTERN, subject) for subject in landed)
    reworded = [f"feat(task-{n:03d}): wip" for n in range(1, 5)]
    assert sorted(subject for subject in landed if subject.endswith("wip")) == reworded


@pytest.mark.verification(16, 17)
def test_v16_a_result_that_git_cannot_read_does_not_pass(stage: Stage) -> None:
    """With missing objects or a foreign history git fails, and so does the attempt."""
    stage.reconfigure(limits={"max_retries": 0, "kill_grace": "1s"})
    broken = {"run": "find .git/objects -type f -not -path '*/info/*' -delete"}
    orphan = "b=$(git symbolic-ref HEAD); git checkout -q --orphan x; git commit -q -m 'feat(task-002): x'"
    strange = {"run": f"{orphan}; git update-ref $b x; git symbolic-ref HEAD $b"}
    other = {"write": {"path": "src/other.txt", "text": "not mine"}}
    stage.play(
        task(1),
        task(2),
        task(3),
        workers={
            1: [*writes("src/1.txt", "one"), broken],
            2: [*writes("src/2.txt", "two"), strange],
            3: [*writes("src/3.txt", "three"), {**other, "rogue": True}, {"commit": "feat({task}): not mine"}],
        },
    )
    before = stage.head()
    reported = stage.run(STOP)
    assert set(reported.states.values()) == {"failed"}
    assert {ending for ending, _ in endings(reported).values()} == {Ending.POSTCHECK}
    first, second, third = (reported.session.tasks[name].reason for name in sorted(reported.states))
    assert "fatal: " in first
    assert "history was rewritten" in second
    assert "outside_file_scope: src/other.txt" in third
    assert stage.head() == before


@pytest.mark.verification(58)
@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("go test ./...", True),
        ("git diff HEAD~1", True),
        ("go test ./... && rm x", False),
        ("go test ./... -exec ./evil", False),
        ("go test ./...x", False),
        ("go test ./pkg", False),
        ("go vet ./...", False),
        ("go test ./... > src/x", False),
        ("GOFLAGS=-exec=./evil go test ./...", False),
        ("sh -c 'go test ./...; rm x'", False),
    ],
)
def test_v58_a_reviewer_runs_a_diagnostic_exactly_as_configured_or_not_at_all(
    tmp_path: Path, command: str, *, allowed: bool
) -> None:
    policy = compile_policy(
        permissions=PermissionSettings(),
        validation=ValidationSettings(validator_diagnostics=ValidatorDiagnostics(commands=("go test ./...",))),
        role=VALIDATOR,
        role_settings=None,
        worktree=str(tmp_path),
        scope=None,
        schema=True,
    )
    world = LocalWorld(str(tmp_path), shfmt=find_shfmt())
    answer = decide(policy, ToolCall(tool="Bash", input={"command": command}, cwd=str(tmp_path)), world)
    assert answer.allowed is allowed, answer
