"""The session of the crash tests: a plan with retries, a rejection and two cycles, and agents that log what they do.

Every worker adds one line for its task, in every attempt: a task that landed twice has two lines in the tree, a lost
one has none. Agents also log each start (BLUEFLAME_LEDGER) and each commit, and a hook logs each landing.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blueflame.config.trust_file import save_trusted
from blueflame.orchestrator.project import Project, open_project
from blueflame.policy.trust import list_outside_settings

REQUEST = "Разделить & conquer"
FILES = {
    "README.md": "# sample\n",
    "src/app.py": "def answer():\n    return 42\n",
    "note.sh": 'git rev-parse HEAD >> "$1"\n',  # the watcher refuses to write there, but does not read what this does
}


def run_git(where: Path, *args: str) -> str:
    return subprocess.run(["git", *args], cwd=where, check=True, capture_output=True, text=True).stdout


@dataclass(frozen=True, slots=True)
class Scenario:
    """One repository with its configuration, script and decisions, in its own folder."""

    home: Path

    @property
    def root(self) -> Path:
        return self.home / "мой repo"

    @property
    def config(self) -> Path:
        return self.root / "blueflame.yaml"

    @property
    def script(self) -> Path:
        return self.home / "script.json"

    @property
    def decisions(self) -> Path:
        return self.home / "decisions.json"

    @property
    def books(self) -> Path:
        """What the agents log, also from within a sandbox."""
        return self.home / "books"

    @property
    def ledger(self) -> Path:
        return self.books / "ledger"

    @property
    def commits(self) -> Path:
        return self.books / "commits"

    @property
    def remote(self) -> Path:
        """Where branches are pushed to, if changesets land as pull requests."""
        return self.home / "remote.git"

    @property
    def hooked(self) -> Path:
        return self.home / "hooked"

    @property
    def log(self) -> Path:
        return self.home / "orchestrators.log"

    @property
    def environment(self) -> dict[str, str]:
        """Temporary files have their own folder, in which leftovers are found; so has what the person trusts."""
        spare = self.home / "tmp"
        spare.mkdir(exist_ok=True)
        state = {"XDG_STATE_HOME": str(self.home / "state")}
        return {**os.environ, "BLUEFLAME_LEDGER": str(self.ledger), "TMPDIR": str(spare), **state}

    def trust(self) -> None:
        """Agree to the hook and to level off, as `blueflame trust --yes` does."""
        needed = list_outside_settings(self.project().settings)
        save_trusted(self.config, self.environment, [setting.digest for setting in needed])

    def argv(self, verb: str) -> list[str]:
        played = ["--config", str(self.config), "--script", str(self.script), "--decisions-file", str(self.decisions)]
        return [verb, *(["--task", REQUEST] if verb == "run" else []), *played, "--quiet"]

    def project(self) -> Project:
        return open_project(self.config)

    def git(self, *args: str) -> str:
        return run_git(self.root, *args)

    def tree(self) -> str:
        """What has landed: the tree of the base branch, or those of the pushed branches in any order."""
        if not self.remote.exists():
            return self.git("rev-parse", "main^{tree}").strip()
        pushed = run_git(self.remote, "for-each-ref", "--format=%(tree)", "refs/heads/blueflame")
        return "\n".join(sorted(pushed.split()))

    def landed_tasks(self) -> list[str]:
        """The tasks on the base branch, or in pushed branches, by what the commits say; one that landed twice is there
        twice."""
        field = "%(trailers:key=Blue-Flame-Task,valueonly)"
        if self.remote.exists():
            return sorted(run_git(self.remote, "log", "--no-walk", "--branches", f"--format={field}").split())
        return sorted(self.git("log", "--first-parent", f"--format={field}", "main").split())

    def starts(self) -> Counter[str]:
        """How often the agents logged a start, by attempt without the session: `task-001.worker.2`."""
        lines = (line.split() for line in _read_lines(self.ledger))
        return Counter(attempt.partition(".")[2] for what, attempt, _pid in lines if what == "start")

    def ends(self) -> frozenset[str]:
        lines = (line.split() for line in _read_lines(self.ledger))
        return frozenset(attempt.partition(".")[2] for what, attempt, _pid in lines if what == "end")

    def made(self) -> tuple[str, ...]:
        """The commits that agents logged."""
        return tuple(line for line in _read_lines(self.commits) if len(line) == 40)

    def hooks(self) -> Counter[str]:
        """How often the person's hook ran for the landing of each changeset."""
        return Counter(json.loads(line)["changeset"]["id"] for line in _read_lines(self.hooked))

    def hold(self, task: str, until: Path) -> None:
        """The worker of this task does nothing until that file exists."""
        script = json.loads(self.script.read_text())
        wait = {"run": f"while [ ! -e {shlex.quote(str(until))} ]; do sleep 0.02; done"}
        part = script["tasks"][task]["worker"]
        script["tasks"][task]["worker"] = (
            [wait, *part] if isinstance(part, list) else {n: [wait, *steps] for n, steps in part.items()}
        )
        self.script.write_text(json.dumps(script, ensure_ascii=False))


def _read_lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def build_scenario(
    home: Path, *, workflow: str = "waves", size: int = 4, mode: str = "merge", boxed: bool = False
) -> Scenario:
    """`workflow`: waves (with barriers), flow, or short (no reviews). Beyond four tasks: plain work.

    `mode`: how changesets land. `boxed`: agents and checks run in a sandbox.
    """
    scenario = Scenario(home)
    scenario.books.mkdir(parents=True)
    for name, text in FILES.items():
        file = scenario.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    settings = {**_build_settings(scenario, workflow), "landing": {"mode": mode, "forge": "none"}}
    if boxed:
        settings["sandbox"] = {"level": "standard", "min_free_disk_mb": 0, "writable": ["../books"]}
    scenario.config.write_text(json.dumps(settings, ensure_ascii=False))
    scenario.script.write_text(json.dumps(_build_script(scenario, size), ensure_ascii=False))
    scenario.decisions.write_text(json.dumps(DECISIONS, ensure_ascii=False))
    run_git(scenario.root, "init", "-q", "-b", "main")
    run_git(scenario.root, "add", "-A")
    run_git(scenario.root, "commit", "-q", "-m", "feat: begin")
    if mode == "pull-request":
        run_git(scenario.home, "init", "-q", "--bare", str(scenario.remote))
        run_git(scenario.root, "remote", "add", "origin", "../remote.git")
    scenario.trust()
    return scenario


def copy_scenario(scenario: Scenario, home: Path) -> Scenario:
    """Copy the scenario before its first run."""
    fresh = Scenario(home)
    fresh.books.mkdir(parents=True)
    if scenario.remote.exists():
        shutil.copytree(scenario.remote, fresh.remote)
    shutil.copytree(scenario.root, fresh.root, ignore=shutil.ignore_patterns(".blueflame", ".trees"), symlinks=True)
    for name in ("config", "script", "decisions"):
        text = getattr(scenario, name).read_text().replace(str(scenario.home), str(fresh.home))
        getattr(fresh, name).write_text(text)
    fresh.trust()
    return fresh


CLIMBS = {"max_retries": 0, "retry_backoff_base_ms": 30, "escalate": [{"model": "opus"}, {"model": "fable"}]}
"""What fails waits, and is tried by another model."""


def _build_settings(scenario: Scenario, workflow: str) -> dict[str, Any]:
    return {
        "schema_version": 2,
        "project": {"name": "sample", "base_branch": "main"},
        "roles": {name: {"runtime": "scripted"} for name in ("planner", "worker", "validator", "merger", "lead")},
        "concurrency": {"adaptive": False, "development": 3, "validation": 2},
        # Players append: one that continued the work of a killed one would leave another tree than without kills.
        "limits": {"kill_grace": "1s", "max_retries": 2, "retry_from": "scratch"},
        "permissions": {
            "allowed_paths": ["src/**", "docs/**"],
            "bash_rules": {"allowed_commands": ["*"], "blocked_patterns": []},
        },
        "sandbox": {"level": "off", "min_free_disk_mb": 0},
        "planning": {"workflow": workflow},
        "workflows": {"short": {"stages": ["plan", "work", "check", "merge"], "barrier": False, **CLIMBS}},
        "hooks": {"post_merge": 'cat >> "$BLUEFLAME_ROOT/../hooked"'},
        "validation": {
            "validator_diagnostics": {"commands": ["git rev-parse --verify -q HEAD"]},
            "secrets": {"scanner": "builtin"},
        },
    }


DECISIONS: Mapping[str, Any] = {
    "plan": [{"choose": "approve", "repeat": True}],
    "changeset": [
        {"choose": "reject", "subject": "docs", "reason": "Show an example."},
        {"choose": "approve", "repeat": True},
    ],
    "session": [{"choose": "continue", "repeat": True}],
    "validation": [{"choose": "requeue", "repeat": True}],
    "validator": [{"choose": "retry", "repeat": True}],
    "escalation": [{"choose": "retry", "note": "once more", "repeat": True}],
}


def _build_task(n: int, group: str, locks: Sequence[str], after: Sequence[int] = ()) -> dict[str, Any]:
    return {
        "id": f"task-{n:03d}",
        "title": f"Number {n}",
        "description": f"Do number {n}.",
        "priority": 1,
        "cohesion_group": group,
        "file_locks": list(locks),
        "dependencies": [f"task-{need:03d}" for need in after],
    }


def _build_script(scenario: Scenario, size: int) -> dict[str, Any]:
    """1 fails once and commits before it does; 2 has 1's locks and builds on it; 3 asks, and is rejected; 4 fails a
    review."""
    plan, paths = _build_plan(size)
    parts: dict[str, dict[str, Any]] = {
        f"task-{n:03d}": {"worker": _build_work(scenario, n, path)} for n, path in sorted(paths.items())
    }
    well = parts["task-001"]["worker"]
    parts["task-001"]["worker"] = {"1": [*well, {"say": "I lost the thread"}, {"exit": 1}], "*": well}
    if "task-003" in parts:
        parts["task-003"]["worker"] = [{"ask": {"question": "Which?", "guess": "this"}}, *parts["task-003"]["worker"]]
    verdict = {"status": "fail", "notes": "no", "issues": ["too short"]}
    parts.setdefault("task-004", {})["validator"] = {"1": [{"verdict": verdict}], "*": [{"verdict": "pass"}]}
    return {
        "schema_version": 1,
        "planner": [{"plan": {"tasks": plan}}, _build_usage(0.05)],
        "defaults": {"validator": [{"verdict": "pass"}, _build_usage(0.01)]},
        "tasks": parts,
    }


def _build_plan(size: int) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """The tasks, and the file that each of them writes to."""
    story = [
        _build_task(1, "core", ["src/core/"]),
        _build_task(2, "core", ["src/core/"]),
        _build_task(3, "docs", ["docs/"]),
        _build_task(4, "late", ["src/4.txt"], [1]),
    ]
    paths = {1: "src/core/1.txt", 2: "src/core/2.txt", 3: "docs/3.md", 4: "src/4.txt"}
    for n in range(5, size + 1):
        story.append(_build_task(n, f"more{(n - 5) // 3}", [f"src/more/{n}.txt"], [n - 1] if (n - 5) % 3 else []))
        paths[n] = f"src/more/{n}.txt"
    return story[:size], {n: path for n, path in paths.items() if n <= size}


def _build_work(scenario: Scenario, n: int, path: str) -> list[dict[str, Any]]:
    note = f"sh note.sh {shlex.quote(str(scenario.commits))}"
    return [
        {"append": {"path": path, "text": f"the line of task {n}\n"}},
        {"sleep": 0.05},
        {"commit": "feat: add a line to {task}"},
        {"run": note},
        _build_usage(0.02),
    ]


def _build_usage(money: float) -> dict[str, Any]:
    return {"usage": {"input_tokens": 1000, "output_tokens": 100, "cost_usd": money}}
