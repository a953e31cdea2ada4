"""`blueflame run` sizes a request before it plans it: what it prints and records, and who overrides it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from blueflame.codebase.ctags import Ctags, find_ctags
from support.command_line import YES, Said, configure, here, write
from support.repositories import run_git

TYPO = "Fix the typo in README.md"


class Bench:
    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str], answers: Path) -> None:
        self.root, self.capsys, self.answers = root, capsys, answers

    def run(self, request: str, *more: object) -> Said:
        return here(self.capsys, "run", request, "--decisions-file", self.answers, *more)

    def size(self, request: str, *more: object) -> Mapping[str, Any]:
        found: Mapping[str, Any] = here(self.capsys, "run", request, "--dry-run", "--json", *more).json["triage"]
        return found


@pytest.fixture
def bench(repo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Bench:
    for n in range(15):
        write(repo / "src" / f"part{n}.py", f"LIMIT_{n} = {n}\n")
    run_git(repo, "add", "-A")
    run_git(repo, "commit", "-qm", "feat(task-000): parts")
    configure(repo)
    monkeypatch.chdir(repo)
    return Bench(repo, capsys, write(tmp_path / "answers.yaml", YES))


def test_a_small_request_runs_without_a_plan_and_says_why(bench: Bench) -> None:
    said = bench.run(TYPO)
    assert said.code == 0, said.err
    assert "tier 1, workflow direct" in said.out
    assert "a typo in README.md" in said.out
    assert "one agent is cheaper here" in said.out
    assert "tier 1, workflow direct, chosen by code: a typo in README.md" in here(bench.capsys, "log").out
    status = here(bench.capsys, "status", "--json").json
    assert [each["role"] for each in status["attempts"]] == ["lead"]
    assert (status["triage"]["tier"], status["triage"]["workflow"]) == (1, "direct")


def test_an_override_is_recorded_and_decides_about_the_next_similar_request(bench: Bench) -> None:
    assert bench.size(TYPO)["tier"] == 1
    said = bench.run(TYPO, "--tier", "2", "--json")
    assert said.code == 0, said.err
    assert (said.json["triage"]["workflow"], said.json["triage"]["chosen_by"]) == ("single", "person")
    next_time = bench.size("Fix the typo in the README.md")
    assert (next_time["tier"], next_time["chosen_by"]) == (2, "history")
    assert said.json["session"] in next_time["sized"]["reasons"][0]


def test_an_unclear_request_is_planned_and_says_so(bench: Bench) -> None:
    said = here(bench.capsys, "run", "Make it faster", "--dry-run")
    assert "tier 3, workflow waves (not clear: triager is asked)" in said.out
    assert "“faster” does not say what is to change" in said.out


def test_an_agent_sizes_what_the_code_cannot(bench: Bench, tmp_path: Path) -> None:
    dry = here(bench.capsys, "run", "Make it faster", "--dry-run", "--json").json
    assert dry["triage"]["asks"] == "triager"
    assert [each["role"] for each in dry["would_spawn"]] == ["triager", "planner", "worker", "validator"]
    answer = [{"answer": {"tier": 2, "reason": "one loop\nin one module"}}]
    script = write(tmp_path / "script.yaml", {"schema_version": 1, "defaults": {"triager": answer}})
    said = bench.run("Make it faster", "--script", script)
    assert said.code == 0, said.err
    assert "not clear: triager is asked)" in said.out
    assert "tier 2, workflow single, chosen by agent: one loop in one module" in here(bench.capsys, "log").out
    status = here(bench.capsys, "status", "--json").json
    assert [each["role"] for each in status["attempts"]] == ["triager", "worker"]
    assert (status["triage"]["tier"], status["triage"]["asks"]) == (2, "")


def test_a_role_of_ones_own_sizes(bench: Bench) -> None:
    configure(bench.root, {"roles": {"estimator": {"duty": "size", "runtime": "scripted"}}})
    assert bench.size("Make it faster")["asks"] == "estimator"
    configure(bench.root, {"planning": {"triage": "code"}})
    assert bench.size("Make it faster")["asks"] == ""


def test_symbols_are_looked_for_in_the_repository(bench: Bench) -> None:
    assert bench.size("Change LIMIT_7 from 7 to 8")["sized"]["reasons"] == ["one value for another in src/part7.py"]


@pytest.mark.skipif(not isinstance(find_ctags(os.environ), Ctags), reason="no Universal Ctags here")
def test_the_map_tells_who_defines_a_symbol_that_many_use(bench: Bench) -> None:
    write(bench.root / "src" / "totals.py", "def total_of(lines):\n    return sum(lines)\n")
    for n in range(15):
        write(bench.root / "src" / f"part{n}.py", f"from totals import total_of\nLIMIT_{n} = total_of([{n}])\n")
    run_git(bench.root, "add", "-A")
    run_git(bench.root, "commit", "-qm", "feat(task-000): totals")
    found = bench.size("Make `total_of` reject None, and log what was given")
    assert found["sized"]["reasons"] == ["all in one part of the code base: src/totals.py"]


@pytest.mark.parametrize(
    ("planning", "workflow", "chosen_by"),
    [
        ({"workflow": "waves"}, "waves", "settings"),
        ({"workflow": "flow", "triage": "auto"}, "direct", "code"),
        ({"triage": "suggest"}, "waves", "settings"),
    ],
)
def test_the_configuration_decides_whether_the_size_does(
    planning: Mapping[str, str], workflow: str, chosen_by: str, bench: Bench
) -> None:
    configure(bench.root, {"planning": planning})
    for options in ((), ("--budget", "3")):  # an option of the command line writes every key
        found = bench.size(TYPO, *options)
        assert (found["workflow"], found["chosen_by"]) == (workflow, chosen_by)
        assert found["sized"]["tier"] == 1


def test_where_triage_is_off_nothing_is_sized(bench: Bench) -> None:
    configure(bench.root, {"planning": {"triage": "off"}})
    assert bench.size(TYPO) is None
    assert bench.size(TYPO, "--tier", "1")["workflow"] == "direct"  # a person asked


def test_a_model_is_that_of_the_role_which_the_size_chooses(bench: Bench) -> None:
    dry = here(bench.capsys, "run", TYPO, "--model", "strong", "--dry-run", "--json").json
    assert [(each["role"], each["model"]) for each in dry["would_spawn"]] == [("lead", "strong")]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("x", "--tier", "4"), ("--tier", "'4' is not one of '1', '2', '3'")),
        (("x", "--tier", "one"), ("--tier", "'one'")),
        (("x", "--tier", "1", "--workflow", "waves"), ("contradict each other", "tier 1 runs direct")),
        (("x", "--tier", "3", "-w", "single"), ("contradict each other", "tier 3 runs waves")),
        (("--plan", "plan.yaml", "--tier", "2"), ("--tier and --plan contradict each other",)),
        (("  ", "--tier", "2"), ("no request",)),
        (("-t", "-"), ("longer than 200,000 characters",)),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(
    argv: tuple[str, ...], words: tuple[str, ...], bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", StringIO("fix " * 250_000))
    task = {"id": "task-001", "title": "t", "description": "d", "priority": 1, "file_locks": ["src/a"]}
    write(bench.root / "plan.yaml", {"schema_version": 1, "tasks": [task]})
    said = here(bench.capsys, "run", *argv)
    assert said.code == 2
    assert all(word in said.err for word in words), said.err
    assert not (bench.root / ".blueflame").exists()
