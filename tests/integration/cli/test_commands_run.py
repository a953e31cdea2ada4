"""The verbs on sessions that were really run: what they print, for people and for machines, and how they end."""

from __future__ import annotations

import getpass
import json
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from support.command_line import YES, Said, configure, found_in, here, task, write
from support.repositories import make_repository, run_git
from support.snapshots import Snapshots

SESSION_KEYS = {
    "session",
    "waiting",
    "under_way",
    "request",
    "triage",
    "phase",
    "outcome",
    "reason",
    "cycle",
    "wave",
    "seconds",
    "cost_usd",
    "tokens",
    "budget",
    "tasks",
    "locks",
    "attempts",
    "changesets",
    "gates",
    "parked",
    "problems",
    "overlaps",
}
TASK_KEYS = {
    "id",
    "title",
    "group",
    "state",
    "attempts",
    "assumptions",
    "retries",
    "rung",
    "retry_at",
    "reason",
    "waits_for",
    "commit",
}
ATTEMPT_KEYS = {"id", "agent", "role", "subject", "n", "ending", "seconds", "cost_usd", "tokens"}
GATE_KEYS = {"id", "kind", "subject", "group", "title", "default", "options", "evidence"}


class Bench:
    """A configured repository and the command line in it."""

    def __init__(self, root: Path, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root, self.files, self._capsys = root, files, capsys

    def __call__(self, *argv: object) -> Said:
        return here(self._capsys, *argv)

    def file(self, name: str, content: Mapping[str, Any] | str) -> Path:
        return write(self.files / name, content)

    def run(
        self, *more: object, decisions: Mapping[str, Any] = YES, verb: str = "run", workflow: str = "direct"
    ) -> Said:
        answers = self.file("решения.yaml", decisions)
        return self(verb, "--task", "Добавь", "-w", workflow, "--decisions-file", answers, *more)


@pytest.fixture
def bench(repo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Bench:
    configure(repo)
    monkeypatch.chdir(repo)
    return Bench(repo, tmp_path, capsys)


def test_run_lands_what_is_approved_and_sums_up(bench: Bench) -> None:
    said = bench.run()
    assert said.code == 0
    assert "✓ completed" in said.out
    assert "Landed on main" in said.out
    assert "1 of 1 landed" in said.out
    assert "Добавь" in run_git(bench.root, "log", "-1", "--format=%s", "main")
    assert run_git(bench.root, "status", "--porcelain") == "?? blueflame.yaml\n"


def test_run_for_machines_prints_one_object(bench: Bench) -> None:
    said = bench.run("--json", workflow="waves")
    assert said.code == 0
    result = said.json
    assert set(result) == SESSION_KEYS | {"error"}
    assert (result["outcome"], result["error"]) == ("completed", None)
    assert {key for each in result["tasks"] for key in each} == TASK_KEYS
    assert {key for each in result["attempts"] for key in each} >= ATTEMPT_KEYS
    assert [each["role"] for each in result["attempts"]] == ["planner", "worker", "validator"]
    assert [each["state"] for each in result["tasks"]] == ["merged"]
    assert result["budget"] == {"unit": "usd", "limit": 30.0}


def test_a_request_can_be_read_from_standard_input(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", StringIO("Первая строка\nВторая\n"))
    said = bench("run", "--task", "-", "--dry-run", "--json")
    assert said.json["request"] == "Первая строка\nВторая\n"


def test_a_plan_of_ones_own_needs_no_planner(bench: Bench) -> None:
    plan = bench.file("план.yaml", {"tasks": [task(1)]})
    answers = bench.file("решения.yaml", YES)
    said = bench("run", "--plan", plan, "-w", "flow", "--decisions-file", answers, "--json")
    assert said.code == 0, said.err
    assert said.json["request"] == "the plan in план.yaml"
    assert {each["role"] for each in said.json["attempts"]} == {"worker", "validator"}
    assert [each["state"] for each in said.json["tasks"]] == ["merged"]


def test_a_dry_run_shows_everything_and_starts_nothing(bench: Bench) -> None:
    plan = bench.file("план.yaml", {"tasks": [task(1), task(2), task(3, dependencies=["task-001"])]})
    said = bench("run", "--plan", plan, "--dry-run")
    assert said.code == 0
    for words in ("Задача 3", "Schedule, by batch", "Estimated cost", "worker", "3 agents", "Nothing was started."):
        assert words in said.out
    result = bench("run", "--plan", plan, "--dry-run", "--json").json
    assert result["batches"] == [["task-001", "task-002"], ["task-003"]]
    assert {each["role"]: each["agents"] for each in result["would_spawn"]} == {"worker": 3, "validator": 3}
    assert not (bench.root / ".blueflame").exists()


def test_a_plan_waits_for_resume_and_keeps_the_settings_of_its_command_line(bench: Bench) -> None:
    run_git(bench.root, "branch", "другая")
    given = ("--model", "strong", "--model", "planner=quick", "--budget", "7", "--base", "другая", "-j", "2")
    planned = bench.run(*given, verb="plan", workflow="flow")
    assert planned.code == 0
    assert "Plan approved. Continue with: blueflame resume" in planned.out
    assert [each["role"] for each in found_in(bench.root)["attempts"]] == ["planner"]
    assert "roles.worker.model: strong" in bench("log").out
    again = bench.run(verb="plan", workflow="flow")
    assert again.code == 3
    assert "is unfinished" in again.err
    resumed = bench("resume", "--decisions-file", bench.file("решения.yaml", YES))
    assert resumed.code == 0, resumed.err
    assert resumed.out.startswith("resuming ses-")
    assert "everything has landed" in resumed.out
    assert "Landed on другая" in resumed.out
    assert found_in(bench.root)["budget"] == {"unit": "usd", "limit": 7.0}
    heads = run_git(bench.root, "rev-parse", "main", "другая").split()
    assert heads[0] != heads[1]


def test_a_session_runs_on_the_named_base_where_the_configured_one_does_not_exist(bench: Bench) -> None:
    run_git(bench.root, "branch", "-m", "main", "ствол")
    refused = bench.run(verb="plan", workflow="flow")
    assert (refused.code, "the base branch main does not exist" in refused.err) == (3, True)
    planned = bench.run("--base", "ствол", verb="plan", workflow="flow")
    assert planned.code == 0, planned.err
    resumed = bench("resume", "--decisions-file", bench.file("решения.yaml", YES))
    assert resumed.code == 0, resumed.err
    assert "Landed on ствол" in resumed.out
    for words in (["status"], ["diff", "cs-001"], ["report"], ["undo", "cs-001", "--yes"], ["cleanup"]):
        assert bench(*words).code == 0, words


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--jobs", "20"], "'--jobs' / '-j': 20 is not in the range 1<=x<=8"),
        (["--jobs", "0"], "'--jobs' / '-j': 0 is not in the range 1<=x<=8"),
        (["--model", "planer=x"], "unknown role 'planer'; did you mean planner?"),
        (["--model", "planner="], "roles.planner.model: is empty"),
        (["--budget", "0"], "--budget"),
        (["--base", "нет"], "the base branch нет does not exist"),
    ],
)
def test_an_option_that_cannot_be_a_setting_is_refused(options: list[str], words: str, bench: Bench) -> None:
    said = bench("run", "x", "--dry-run", *options)
    assert said.code in (2, 3)
    assert words in said.err


def test_a_dry_run_uses_the_settings_of_the_command_line(bench: Bench) -> None:
    plan = bench.file("план.yaml", {"tasks": [task(1), task(2), task(3)]})
    said = bench("run", "--plan", plan, "-w", "single", "--model", "strong", "-j", "2", "--dry-run", "--json")
    (spawned,) = said.json["would_spawn"]
    assert (spawned["model"], spawned["at_once"]) == ("strong", 2)
    said = bench(
        "run",
        "--plan",
        plan,
        "-w",
        "single",
        "--model",
        f"{spawned['role']}=other",
        "--model",
        "x",
        "--dry-run",
        "--json",
    )
    assert [each["model"] for each in said.json["would_spawn"]] == ["other"]  # the named role, in any order


def test_a_rejected_plan_has_its_own_exit_code(bench: Bench) -> None:
    said = bench.run(decisions={"plan": ["quit"]}, workflow="waves")
    assert said.code == 5
    assert "nothing has been touched" in said.out
    again, name = bench("resume"), found_in(bench.root)["session"]
    assert again.code == 5
    assert again.err.startswith(f"nothing to resume: {name} has ended (plan_rejected).")
    assert bench("resume", name).err == again.err
    assert bench("resume", "--json").json["outcome"] == "plan_rejected"


def test_work_that_does_not_land_has_its_own_exit_code(bench: Bench) -> None:
    refusals = {"changeset": [{"choose": "reject", "reason": "нет"}], "session": ["stop"]}
    said = bench.run(decisions=refusals)
    assert said.code == 1
    assert "Nothing has landed." in said.out
    assert "rejected: нет" in said.out


def test_decisions_that_run_out_name_the_gate_and_lose_nothing(bench: Bench) -> None:
    said = bench.run("--json", decisions={"session": ["stop"]})
    assert said.code == 7
    for words in ("решения.yaml", "gate changeset-cs-001", "blueflame answer changeset-cs-001", "blueflame resume"):
        assert words in said.err
    assert said.json["error"] in said.err
    assert said.json["outcome"] is None
    gates = bench("gates", "--json").json["gates"]
    assert [gate["id"] for gate in gates] == ["changeset-cs-001"]
    assert set(gates[0]) == GATE_KEYS
    kept = bench("answer", "changeset", "approve", "--json")  # how the id begins is enough
    assert (kept.code, kept.json["state"]) == (0, "waiting")
    assert bench("resume", "--quiet").code == 0
    assert bench("gates").out == "No open gates.\n"
    assert f"{getpass.getuser()} (terminal)" in bench("log").out, "who, and from where"


@pytest.fixture
def at_gate(snapshots: Snapshots, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A session of two tasks that was left when the first was to be approved."""

    def build(folder: Path) -> None:
        root = make_repository(folder / "мой repo")
        configure(root)
        monkeypatch.chdir(root)
        bench = Bench(root, folder, capsys)
        tasks = [task(1, cohesion_group="a"), task(2, cohesion_group="b", dependencies=["task-001"])]
        script = bench.file("игра.yaml", {"planner": [{"plan": tasks}]})
        assert bench.run("--script", script, decisions={"plan": ["approve"]}, workflow="waves").code == 7

    folder = snapshots.open("run at a gate", build)
    monkeypatch.chdir(folder / "мой repo")
    return Bench(folder / "мой repo", folder, capsys)


def test_status_shows_gates_and_tasks(at_gate: Bench) -> None:
    said = at_gate("status")
    assert said.code == 0
    for words in ("Waiting for an answer", "changeset-cs-001", "Задача 2", "validated", "Not running. Continue with"):
        assert words in said.out
    result = at_gate("status", "--json").json
    assert set(result) >= SESSION_KEYS | {"orchestrator_pid"}
    assert result["orchestrator_pid"] is None
    assert at_gate("status", result["session"][:8], "--json").json["session"] == result["session"]


def test_status_of_a_session_that_is_not_there(at_gate: Bench) -> None:
    said = at_gate("status", "ses-1999")
    assert said.code == 2
    assert "no session is called 'ses-1999'" in said.err
    assert "the newest: ses-2" in said.err


WRONG_ANSWERS: Mapping[tuple[str, ...], str] = {
    ("plan", "approve"): "already answered: approve",
    ("changeset-cs-009", "approve"): "open gates: changeset-cs-001",
    ("changeset-cs-001", "aprove"): "choose one of: approve, reject, skip",
    ("changeset-cs-001", "reject"): "--note",
    ("changeset-cs-001", "reject", "--note", "  "): "--note",
}


def test_an_answer_that_will_not_do_is_refused_at_once(at_gate: Bench) -> None:
    for words, wrong in WRONG_ANSWERS.items():
        said = at_gate("answer", *words)
        assert said.code == 2
        assert wrong in said.err
    assert at_gate("status", "--json").json["gates"]


def test_log_tells_every_event(at_gate: Bench) -> None:
    lines = at_gate("log").out.splitlines()
    assert "[SESSION_OPENED]" in lines[0]
    assert at_gate("log", "-n", "2").out.splitlines() == lines[-2:]
    events = [json.loads(line) for line in at_gate("log", "--json").out.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert set(events[0]) == {"seq", "at", "kind", "event"}
    assert [json.loads(line)["seq"] for line in at_gate("log", "--json", "-n", "1").out.splitlines()] == [len(events)]


def test_there_is_nothing_to_stop_without_an_orchestrator(at_gate: Bench) -> None:
    for verb in (["stop"], ["proceed"], ["kill", "task-001"], ["retry", "task-001"], ["add", "x"]):
        said = at_gate(*verb)
        assert said.code == 3
        assert "no session is running" in said.err
        assert "blueflame resume" in said.err


@pytest.mark.usefixtures("guards_are_known")
def test_init_check_and_a_quiet_run_fit_together_and_following_the_log_ends_with_the_session(
    repo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repo)
    # as where the scanner is not installed: compiling its rules takes eight seconds, see test_secret_scan.py
    monkeypatch.setattr("blueflame.git.secret_scan.find_scanner", lambda _settings: None)
    bench = Bench(repo, tmp_path, capsys)
    result = bench("init", "--json").json
    assert result["written"]
    assert bench("config", "check", "--json").json["ok"]
    assert bench("doctor").code == 0
    assert bench.run("--dry-run").code == 0
    script = bench.file("play.yaml", {})
    ended = bench.run("--quiet", "--script", script)  # the file that init wrote need not be committed first
    assert (ended.code, ended.out.startswith("Session summary")) == (0, True)
    assert "[SESSION_ENDED]" in bench("log", "--follow").out.splitlines()[-1]


def test_an_interrupt_of_a_reading_verb_ends_with_130(at_gate: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupted)
    assert at_gate("log", "--follow").code == 130


def test_a_session_that_was_begun_with_a_script_is_not_resumed_without_one(bench: Bench) -> None:
    configure(bench.root, {"roles": {"worker": {"runtime": "claude"}}})
    script = bench.file("play.json", {"schema_version": 1})
    assert bench.run("--script", script, decisions={"plan": ["approve"]}).code == 7
    refused = bench("resume")
    assert (refused.code, "resume --script FILE" in refused.err) == (2, True), refused
    assert bench("resume", "--script", script, "--decisions-file", bench.file("да.yaml", YES)).code == 0
