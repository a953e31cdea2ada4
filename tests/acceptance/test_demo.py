"""What `make demo` promises, on one run of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import psutil
import pytest

from blueflame.demo import create_demo
from blueflame.paths.locks import do_locks_overlap
from support.command_line import at_terminal, here
from support.repositories import run_git

pytestmark = pytest.mark.slow


ROOT = Path(__file__).resolve().parents[2]


def install_wheel(folder: Path) -> Path:
    """Build the wheel as a release does, install it with the dependencies of this environment, return the command."""
    run = partial(subprocess.run, check=True, capture_output=True, cwd=ROOT)
    run([sys.executable, "-m", "build", "--no-isolation", "-o", str(folder)])  # from the source distribution
    venv = folder / "venv"
    run([sys.executable, "-m", "venv", "--without-pip", str(venv)])
    pip = [sys.executable, "-m", "pip", "--python", str(venv / "bin" / "python"), "install", "--no-deps", "--no-index"]
    run([*pip, *map(str, folder.glob("*.whl"))])
    packages = next(venv.glob("lib/python*/site-packages"))
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    (venv / "bin" / "shfmt").symlink_to(Path(sys.executable).parent / "shfmt")
    return venv / "bin" / "blueflame"


class DemoRun:
    """One run of the demo from an installed wheel."""

    def __init__(self, command: Path, folder: Path) -> None:
        self.folder = folder
        path = os.pathsep.join((str(command.parent), os.environ["PATH"]))
        env = {**os.environ, "TMPDIR": str(folder), "PATH": path}
        words = [str(command), "demo", "--json"]
        self.done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120)
        self.output: dict[str, Any] = json.loads(self.done.stdout)

    def attempts(self, **wanted: object) -> list[dict[str, Any]]:
        return [each for each in self.output["attempts"] if all(each[key] == value for key, value in wanted.items())]


@pytest.mark.verification(19)
def test_the_demo_keeps_its_promises(tmp_path: Path) -> None:
    """One run for all promises: it is slow, and pytest's workers share no fixtures."""
    folder = tmp_path / "временно"
    folder.mkdir()
    command = install_wheel(tmp_path)
    it_knows_its_commit_and_its_documentation(command)
    demo = DemoRun(command, folder)
    it_ends_well_with_one_json_object(demo)
    at_least_five_tasks_land(demo)
    one_attempt_fails_and_is_tried_again(demo)
    one_changeset_is_rejected_and_lands_in_the_second_cycle(demo)
    cost_time_and_history_are_reported(demo)
    nothing_is_left_behind(demo)


def it_knows_its_commit_and_its_documentation(command: Path) -> None:
    def ask(*words: str) -> str:
        return subprocess.run([str(command), *words], capture_output=True, text=True, check=True, cwd="/").stdout

    head = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    assert ask("--version").split("(")[1].rstrip(")\n") in head.stdout
    assert ask("help", "tutorial") == (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


def it_ends_well_with_one_json_object(demo: DemoRun) -> None:
    assert demo.done.returncode == 0, demo.done.stderr
    assert demo.output["outcome"] == "completed"
    assert demo.output["error"] is None


def at_least_five_tasks_land(demo: DemoRun) -> None:
    states = [task["state"] for task in demo.output["tasks"]]
    assert len(states) >= 5
    assert set(states) == {"merged"}


def one_attempt_fails_and_is_tried_again(demo: DemoRun) -> None:
    (failed,) = demo.attempts(role="worker", ending="failed")
    assert demo.attempts(subject=failed["subject"], role="worker", ending="passed")


def one_changeset_is_rejected_and_lands_in_the_second_cycle(demo: DemoRun) -> None:
    changesets = demo.output["changesets"]
    (rejected,) = [each for each in changesets if each["state"] == "rejected"]
    again = [each for each in changesets if each["tasks"] == rejected["tasks"] and each["state"] == "landed"]
    assert [each["cycle"] for each in (rejected, *again)] == [1, 2]
    assert demo.output["cycle"] == 2


def cost_time_and_history_are_reported(demo: DemoRun) -> None:
    assert 0 < demo.output["cost_usd"] < 10
    assert demo.output["tokens"] > 0
    assert demo.output["seconds"] > 0
    log = "\n".join(demo.output["log"])
    for subject in ("Count lines", "Count distinct", "Rank the most", "Report every", "Offer a command", "Explain how"):
        assert subject in log
    assert "(task-0" not in log, "ids of tasks are in trailers"


def nothing_is_left_behind(demo: DemoRun) -> None:
    assert list(demo.folder.iterdir()) == []
    names = [word for process in psutil.process_iter(["cmdline"]) for word in process.info["cmdline"] or ()]
    assert [word for word in names if str(demo.folder) in word] == []


@pytest.mark.usefixtures("forked_wardens")
def test_its_plan_has_dependencies_and_overlapping_locks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    laid = create_demo(tmp_path)
    monkeypatch.chdir(laid.repo)
    plan = here(capsys, "run", "--task", "x", "--script", laid.script, "--dry-run", "--json").json
    tasks = plan["tasks"]
    assert any(task["dependencies"] for task in tasks)
    pairs = combinations(tasks, 2)
    assert any(do_locks_overlap(a, b) for one, two in pairs for a in one["file_locks"] for b in two["file_locks"])
    assert run_git(laid.repo, "status", "--porcelain") == ""


@pytest.mark.usefixtures("forked_commands")
def test_a_stop_in_a_throw_away_folder_advises_no_resume(tmp_path: Path) -> None:
    with at_terminal("demo", "--ask", cwd=tmp_path, env={"TMPDIR": str(tmp_path)}) as screen:
        screen.expect("(q)uit?")
        screen.type("\x03")
        output = screen.expect("--in FOLDER")
        assert screen.end() == 6
    assert "throw-away repository was deleted" in output
    assert "blueflame resume" not in output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("forked_commands")
def test_it_asks_a_person_who_may_reject_the_plan(tmp_path: Path) -> None:
    folder = tmp_path / "моя демо"
    with at_terminal("demo", "--ask", "--in", folder, cwd=tmp_path, columns=120) as screen:
        shown = screen.expect("(q)uit?")
        assert "Schedule, by batch" in shown
        screen.type("q\n")
        screen.expect("nothing has been touched")
        assert screen.end() == 5
    assert run_git(folder / "tally", "log", "--format=%s") == "Begin tally\n"


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("x")
    said = here(capsys, "demo", "--in", tmp_path)
    assert said.code == 2
    assert "not an empty folder" in said.err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_demo_that_cannot_begin_leaves_no_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    said = here(capsys, "demo", "--workflow", "wavse", "--in", tmp_path / "new")
    assert said.code == 2
    assert "'waves'" in said.err
    assert list(tmp_path.iterdir()) == []
