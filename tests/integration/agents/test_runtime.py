"""Starting and reading agents: the scripted runtime through a real warden, and spools of every size and shape."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.agents import registry
from blueflame.agents.runtime import (
    AgentBrief,
    AgentOutput,
    OutputProblem,
    Runtime,
    StructuredOutput,
    TextOutput,
    UsageReport,
    read_new_signals,
    read_spool,
)
from blueflame.agents.scripted import ScriptedRuntime
from blueflame.agents.scripted.script import parse_script
from blueflame.model.audit import ObservedCall
from blueflame.model.errors import ScriptError, UsageError
from blueflame.model.runtime_support import RUNTIMES
from blueflame.model.spend import NO_SPEND, Spend
from blueflame.model.task import Task
from blueflame.orchestrator.engine.interface import AttemptSpec, ExitReason, ProcessOutcome
from blueflame.orchestrator.engine.local import LocalEngine

SESSION = "ses-20260101-000000"
READER = ScriptedRuntime()


def brief(repo: Path, role: str = "worker", subject: str = "task-001", n: int = 1) -> AgentBrief:
    return AgentBrief(
        attempt=f"{SESSION}.{subject}.{role}.{n}",
        agent_id=f"{role}-0a1b2c3d",
        role=role,
        subject=subject,
        n=n,
        session=SESSION,
        worktree=str(repo),
        prompt="сделай это",
        request="Сделай это, пожалуйста",
        task=Task(id="task-001", title="Сделай это", description="пожалуйста", file_locks=("src/",)),
        allowed_paths=("src/**",),
        watched=False,  # without walls: this tests the runtime only
    )


def carry_out(
    runtime: Runtime, given_brief: AgentBrief, state: Path, *, timeout: float = 60, max_output: int = 0
) -> tuple[ProcessOutcome, AgentOutput]:
    async def story() -> ProcessOutcome:
        engine = LocalEngine(state)
        launch = runtime.prepare_launch(given_brief, directory=engine.stage(given_brief.attempt))
        await engine.submit(
            AttemptSpec(
                attempt=given_brief.attempt,
                argv=launch.argv,
                env={"PATH": os.environ["PATH"], **launch.env},
                cwd=given_brief.worktree,
                prompt=launch.stdin,
                timeout=timeout,
                grace=0.2,
                max_output=max_output,
            )
        )
        return await asyncio.wait_for(engine.wait(given_brief.attempt), 40)

    outcome = asyncio.run(story())
    return outcome, LocalEngine(state).read_output(given_brief.attempt, runtime)


def scripted(text: str) -> ScriptedRuntime:
    return ScriptedRuntime(parse_script(text, source="play.yaml"))


def test_without_a_script_planner_worker_and_validator_do_their_part(
    repo: Path, tmp_path: Path, git: Callable[..., str]
) -> None:
    runtime = registry.build_runtime("scripted", {}, tmp_path)

    planned, plan = carry_out(runtime, brief(repo, "planner", "plan"), tmp_path / "state")
    worked, work = carry_out(runtime, brief(repo), tmp_path / "state")
    judged, verdict = carry_out(runtime, brief(repo, "validator"), tmp_path / "state")

    assert (planned.exit_code, worked.exit_code, judged.exit_code) == (0, 0, 0)
    assert plan.output is not None
    assert plan.output["tasks"][0]["title"] == "Сделай это, пожалуйста"
    assert git(repo, "log", "-1", "--format=%an|%s") == "worker-0a1b2c3d|Сделай это\n"
    assert git(repo, "show", "--name-only", "--format=") == "src/blueflame-note.md\n"
    assert verdict.output is not None
    assert verdict.output["status"] == "pass"
    assert all(gathered.metered and not gathered.problems for gathered in (plan, work, verdict))


def test_the_steps_of_an_agent_depend_on_the_attempt(repo: Path, tmp_path: Path) -> None:
    runtime = scripted(
        """
tasks:
  task-001:
    worker:
      1: crasher
      2:
        - expect: {prompt: это}
        - write: {path: src/a.py, text: "d = {{}}\\n"}
        - commit: "feat({task}): try {attempt}"
"""
    )

    crashed, _ = carry_out(runtime, brief(repo, n=1), tmp_path / "state")
    passed, gathered = carry_out(runtime, brief(repo, n=2), tmp_path / "state")

    assert (crashed.exit_code, crashed.signal) == (None, 11)
    assert (passed.exit_code, gathered.call_count, gathered.metered) == (0, 2, False)
    assert (repo / "src" / "a.py").read_text() == "d = {{}}\n"


def test_liars_brokes_and_scope_breakers_are_what_they_are(repo: Path, tmp_path: Path, git: Callable[..., str]) -> None:
    before = git(repo, "rev-parse", "HEAD")
    lied, lie = carry_out(scripted("defaults: {worker: liar}"), brief(repo, n=1), tmp_path / "state")
    assert (lied.exit_code, lie.text, lie.output) == (0, "Done. All tests pass.", None)
    assert git(repo, "rev-parse", "HEAD") == before

    _, spent = carry_out(scripted("defaults: {worker: broke}"), brief(repo, n=2), tmp_path / "state")
    assert spent.spend.usd > 1000

    carry_out(scripted("defaults: {worker: scope-breaker}"), brief(repo, n=3), tmp_path / "state")
    assert "out-of-scope-task-001.md" in git(repo, "show", "--name-only", "--format=")


def test_the_stuck_and_the_stubborn_end_at_their_timeout(repo: Path, tmp_path: Path) -> None:
    stuck, _ = carry_out(scripted("defaults: {worker: stuck}"), brief(repo, n=1), tmp_path / "state", timeout=0.3)
    stubborn, _ = carry_out(scripted("defaults: {worker: stubborn}"), brief(repo, n=2), tmp_path / "state", timeout=0.3)

    assert (stuck.reason, stubborn.reason) == (ExitReason.TIMEOUT, ExitReason.TIMEOUT)


def test_a_huge_output_is_cut_and_still_read(repo: Path, tmp_path: Path) -> None:
    runtime = scripted("defaults: {worker: huge-output}")

    flooded, gathered = carry_out(runtime, brief(repo), tmp_path / "state", max_output=3_000_000)

    assert flooded.reason is ExitReason.OUTPUT
    assert gathered.text.startswith("xxx")
    assert not gathered.metered


def test_a_script_is_found_from_the_settings(tmp_path: Path) -> None:
    (tmp_path / "мой сценарий.yaml").write_text("defaults: {worker: liar}\n")

    runtime = registry.build_runtime("scripted", {"script": "мой сценарий.yaml"}, tmp_path)

    assert isinstance(runtime, ScriptedRuntime)
    assert runtime.script.defaults["worker"]
    with pytest.raises(UsageError, match=r"runtimes\.scripted\.script"):
        registry.build_runtime("scripted", {"script": 5}, tmp_path)
    (tmp_path / "мой сценарий.yaml").write_text("defaults: {worker: lair}\n")
    with pytest.raises(ScriptError, match="did you mean liar"):
        registry.build_runtime("scripted", {"script": "мой сценарий.yaml"}, tmp_path)


@pytest.mark.parametrize(
    ("line", "signals"),
    [
        ('{"type": "say", "text": "hi"}', (TextOutput("hi"),)),
        ('{"type": "action", "tool": "Write", "target": "a"}', (ObservedCall("Write", "a"),)),
        (
            '{"type": "action", "tool": "Write", "target": "a", "call": "c", "digest": "d", "denied": true}',
            (ObservedCall("Write", "a", "c", "d", denied=True),),
        ),
        ('{"type": "action", "denied": "yes"}', (ObservedCall("", ""),)),
        (
            '{"type": "usage", "input_tokens": 3, "cost_usd": 0.1}',
            (UsageReport(Spend(micro_usd=100_000, input_tokens=3)),),
        ),
        ('{"type": "result", "structured_output": {"a": 1}}', (StructuredOutput({"a": 1}),)),
        ('{"type": "result", "result": "text"}', (TextOutput("text"),)),
        ('{"type": "error", "text": "no"}', (OutputProblem("no"),)),
    ],
)
def test_a_line_is_read_for_what_it_means(line: str, signals: tuple[object, ...]) -> None:
    assert READER.parse_line(line) == signals


@pytest.mark.parametrize(
    "line",
    [
        "plain words",
        '{"type": "say"',
        "[1, 2]",
        "null",
        '{"type": "new thing"}',
        "{}",
        '{"type": "usage", "input_tokens": "many"}',
        '{"type": "usage", "input_tokens": -5}',
        '{"type": "usage", "input_tokens": true}',
        '{"type": "usage", "cost_usd": -1}',
        '{"type": "usage", "cost_usd": "free"}',
        '{"type": "usage", "cost_usd": NaN}',
        '{"type": "usage", "cost_usd": Infinity}',
        '{"type": "result", "structured_output": [1]}',
        "[" * 100_000,
    ],
)
def test_an_unreadable_line_is_a_problem_and_not_counted_as_free(line: str) -> None:
    (signal,) = READER.parse_line(line)

    assert isinstance(signal, OutputProblem)
    assert len(signal.text) < 500


@given(
    st.one_of(
        st.text(),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["type", "text", "cost_usd", "structured_output", "input_tokens", "result"]),
                    inner | st.sampled_from(["usage", "result", "say"]),
                    max_size=4,
                )
            ),
            max_leaves=8,
        ).map(json.dumps),
    )
)
def test_no_line_can_make_the_reader_fail(line: str) -> None:
    assert isinstance(READER.parse_line(line), tuple)


def spool(path: Path, lines: Iterator[str] | list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_a_spool_adds_up(tmp_path: Path) -> None:
    lines = [
        '{"type": "say", "text": "first"}',
        "",
        '{"type": "usage", "input_tokens": 10, "cost_usd": 0.1}',
        "Warning: something else printed this",
        '{"type": "usage", "output_tokens": 5, "cost_usd": 0.2}',
        '{"type": "say", "text": "last"}',
        '{"type": "result", "structured_output": {"a": 1}}',
    ]

    gathered = read_spool(READER, spool(tmp_path / "stdout.log", lines))

    assert gathered.text == "last"
    assert gathered.spend == Spend(micro_usd=300_000, input_tokens=10, output_tokens=5)
    assert gathered.metered
    assert gathered.output == {"a": 1}
    assert gathered.problem_count == 1
    assert "Warning" in gathered.problems[0]


def test_a_missing_or_empty_spool_is_nothing_and_not_metered(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()

    for path in (tmp_path / "none", tmp_path / "empty"):
        assert read_spool(READER, path) == AgentOutput()
        assert (read_spool(READER, path).spend, read_spool(READER, path).metered) == (NO_SPEND, False)


def test_of_a_huge_spool_head_and_tail_are_read_and_the_gap_is_reported(tmp_path: Path) -> None:
    words = ['{"type": "usage", "input_tokens": 1}', *['{"type": "say", "text": "middle"}'] * 10_000]
    path = spool(tmp_path / "stdout.log", [*words, '{"type": "result", "structured_output": {"end": true}}'])

    gathered = read_spool(READER, path, max_bytes=2000)

    assert gathered.spend.input_tokens == 1
    assert gathered.output == {"end": True}
    assert 0 < path.stat().st_size - gathered.unread_bytes <= 2000
    assert "not read" in gathered.problems[0]


def test_one_endless_line_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "stdout.log"
    path.write_text("x" * 100_000)

    gathered = read_spool(READER, path, max_bytes=1000)

    assert gathered.unread_bytes == 100_000
    assert gathered.problem_count == 1


def test_what_was_done_is_kept_to_be_compared_with_the_audit_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [json.dumps({"type": "action", "tool": "Bash", "target": "make", "call": f"c{n}"}) for n in range(5)]

    whole = read_spool(READER, spool(tmp_path / "stdout.log", lines))
    monkeypatch.setattr("blueflame.agents.runtime.MAX_CALLS", 3)
    cut = read_spool(READER, spool(tmp_path / "stdout.log", lines))

    assert [act.call for act in whole.calls] == ["c0", "c1", "c2", "c3", "c4"]
    assert (whole.is_incomplete, len(cut.calls), cut.call_count, cut.is_incomplete) == (False, 3, 5, True)


def test_problems_are_counted_but_not_all_kept(tmp_path: Path) -> None:
    gathered = read_spool(READER, spool(tmp_path / "stdout.log", ["nonsense"] * 1000))

    assert gathered.problem_count == 1000
    assert len(gathered.problems) == 20


def test_following_gives_whole_lines_once(tmp_path: Path) -> None:
    path = tmp_path / "stdout.log"
    assert read_new_signals(READER, path, 0) == ((), 0)
    path.write_bytes('{"type": "say", "text": "раз"}\n{"type": "say", "te'.encode())
    signals, offset = read_new_signals(READER, path, 0)
    assert signals == (TextOutput("раз"),)
    assert read_new_signals(READER, path, offset) == ((), offset)
    with path.open("ab") as file:
        file.write('xt": "два"}\n'.encode())

    signals, offset = read_new_signals(READER, path, offset)

    assert signals == (TextOutput("два"),)
    assert offset == path.stat().st_size


def test_following_steps_over_an_endless_line(tmp_path: Path) -> None:
    path = tmp_path / "stdout.log"
    path.write_text("x" * 50)

    signals, offset = read_new_signals(READER, path, 0, max_bytes=20)

    assert isinstance(signals[0], OutputProblem)
    assert offset == 20


@pytest.mark.parametrize("kind", RUNTIMES)
def test_every_row_of_the_table_has_a_module_that_builds_its_runtime(kind: str, tmp_path: Path) -> None:
    runtime: Runtime = registry.build_runtime(kind, {}, tmp_path)
    if kind == "command":  # it has no format: every line is text
        assert runtime.parse_line("no JSON") == (TextOutput("no JSON"),)
        return
    assert runtime.parse_line("no JSON") == (OutputProblem("a line of its output is not JSON: 'no JSON'"),)
