"""What the orchestration costs beyond agents and checks: processes, processor time, and time beside that of git alone.

A session of one task and one of many are compared, so that what a session costs once does not count.
What landing costs over git alone is in `landing`; "session over git" also has wardens, sandboxes, agents and checks.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import perf_counter

import psutil

from benchmarks import Figure, Report
from benchmarks.sessions import measure_first_agent, run_session
from blueflame.git.checkouts import make_checkout, remove_checkout
from blueflame.git.command import run_git
from blueflame.git.landing import advance_branch
from blueflame.git.merge import CombinedCommit, combine_commits, create_commit
from blueflame.git.repository import Repository, open_repository
from blueflame.git.results import CollectedResult, collect_result, list_changes, set_ref
from blueflame.model.event import AttemptEnded, AttemptStarted, JournalEntry
from blueflame.model.ids import build_attempt_ref, build_branch_name
from blueflame.session.state import Session
from blueflame.testing import create_throwaway_repository

TASKS = 50
COMMANDS = 3
MANY_TASKS = 1000
MAX_GROWTH = 1.2  # times, from the second tenth of a long session to the last
MAX_LOOSE_REFS, MAX_PACKS = 500, 10  # files that git opens again and again
SMALL = {"TASKS": 2, "MANY_TASKS": 3, "COMMANDS": 1}

CONFIG = """\
schema_version: 2
project: {name: overhead}
planning: {interactive: false, workflow: quick}
workflows:
  quick: {stages: [plan, work, check, merge], barrier: false}
permissions: {allowed_paths: ["notes/**"]}
validation:
  secrets: {scanner: builtin}
  validator_diagnostics: {commands: ["true"]}
beads: {enabled: false}
"""


@dataclass(slots=True)
class Costs:
    """What a session took. Processes are those that the orchestrator starts, and wardens; agents' and checks' own time
    is not in."""

    seconds: float = 0.0
    first_agent: float = 0.0
    processes: int = 0
    cpu: float = 0.0


def run() -> Report:
    count_processes()
    with tempfile.TemporaryDirectory() as folder:
        one, many = (_measure_session(Path(folder) / f"session {tasks}", tasks) for tasks in (1, TASKS))
        command = min(measure_first_agent(_make_repository(Path(folder) / f"command {n}")) for n in range(COMMANDS))
        alone = _measure_git_alone(Path(folder) / "alone")
        growth = tuple(_measure_growth(Path(folder) / "long"))
    more = TASKS - 1
    figures = (
        Figure(name="the first agent has started", value=one.first_agent, unit="s", aim=0.7),
        Figure(name="the same, from the start of the command", value=command, unit="s", aim=0.7),
        Figure(name="processes, each further task", value=(many.processes - one.processes) / more, aim=25),
        Figure(name="processor time, each further task", value=(many.cpu - one.cpu) / more, unit="s", aim=0.4),
        Figure(name="time, each further task", value=(many.seconds - one.seconds) / more, unit="s"),
        Figure(name="session", value=many.seconds, unit="s"),
        Figure(name="git commands alone, one after the other", value=alone, unit="s"),
        Figure(name="session over git", value=many.seconds / alone, unit="x"),
        *growth,
    )
    about = f"{TASKS} scripted tasks that each write, commit and land one line, checked twice"
    return Report(name="overhead", about=about, figures=figures)


_started = [0]


@cache
def count_processes() -> None:
    """Count all that this process starts from now on; a hook cannot be removed."""

    def count(event: str, _args: object) -> None:
        _started[0] += event == "subprocess.Popen"

    sys.addaudithook(count)


def _make_repository(path: Path, notes: int = 0) -> Path:
    """With the files of so many tasks: then it does not grow while they land."""
    begun = {f"notes/task-{n:03d}.txt": "to do\n" for n in range(1, notes + 1)}
    return create_throwaway_repository(path, {"blueflame.yaml": CONFIG, "notes/README.txt": "notes\n", **begun})


def _measure_session(path: Path, tasks: int) -> Costs:
    root = _make_repository(path)
    costs, began, processes, cpu = Costs(), perf_counter(), _started[0], _measure_cpu()

    class FirstAgent:
        def see(self, _session: Session, recorded: Sequence[JournalEntry]) -> None:
            if not costs.first_agent and any(isinstance(each.event, AttemptStarted) for each in recorded):
                costs.first_agent = perf_counter() - began

    run_session(root, tasks, observers=(FirstAgent(),))
    costs.seconds = perf_counter() - began
    costs.processes = _started[0] - processes + _count_wardens(root)
    costs.cpu = _measure_cpu() - cpu - _measure_agents(root / ".blueflame" / "attempts")
    return costs


@dataclass(frozen=True, slots=True)
class Reading:
    """The state of the meters when so many attempts had ended."""

    processes: int
    cpu: float  # of the orchestrator, its children, and what they have waited for
    loose_refs: int


def _measure_growth(path: Path) -> Iterator[Figure]:
    """What the last tenth of a long session costs, over what the second tenth costs: the first begins with no landing.

    In both, all workers are busy and others land. Landings go on for longer, and are in neither.
    """
    readings: list[Reading] = []

    class Meter:
        def see(self, _session: Session, recorded: Sequence[JournalEntry]) -> None:
            for each in recorded:
                if isinstance(each.event, AttemptEnded):
                    loose = sum(len(names) for _folder, _folders, names in os.walk(path / ".git" / "refs"))
                    readings.append(Reading(_started[0] + _count_wardens(path), _read_cpu(), loose))

    run_session(_make_repository(path, MANY_TASKS), MANY_TASKS, observers=(Meter(),))
    tenth = max(1, len(readings) // 10)
    early, late = ((readings[n], readings[n + tenth]) for n in (tenth, len(readings) - 1 - tenth))
    each = f"{MANY_TASKS} tasks, each"
    for name, cost, unit in (("processes", "processes", ""), ("processor time", "cpu", "s")):
        first, last = (getattr(end, cost) - getattr(begin, cost) for begin, end in (early, late))
        yield Figure(name=f"{each} of the second tenth: {name}", value=first / tenth, unit=unit)
        yield Figure(name=f"{each} of the last tenth: {name}", value=last / tenth, unit=unit)
        yield Figure(
            name=f"{each}: {name}, last over second tenth",
            value=last / first if first else 1.0,
            unit="x",
            aim=MAX_GROWTH,
        )
    most, packs = max(reading.loose_refs for reading in readings), len([*path.glob(".git/objects/pack/*.pack")])
    yield Figure(name=f"{MANY_TASKS} tasks: most loose refs at once", value=most, aim=MAX_LOOSE_REFS)
    yield Figure(name=f"{MANY_TASKS} tasks: packs", value=packs, aim=MAX_PACKS)


def _measure_cpu() -> float:
    """Our own processor time and that of all children, after all of them have ended."""
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    return _read_cpu()


def _read_cpu() -> float:
    """The process that forks wardens has waited for them; it is a child that runs as long as the session."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    waited = sum(each.ru_utime + each.ru_stime for each in both)
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            waited += sum(child.cpu_times()[:4])
    return waited


def _count_wardens(root: Path) -> int:
    """Each attempt and check has had one; they are not started by the orchestrator itself."""
    return len(os.listdir(root / ".blueflame" / "attempts"))  # noqa: PTH208 (names are enough)


def _measure_agents(attempts: Path) -> float:
    """What ran in the sandboxes of agents and checks, by their wardens' count."""
    return sum(float(json.loads(path.read_bytes())["rusage"]["cpu"]) for path in attempts.glob("*/outcome.json"))


def _measure_git_alone(path: Path) -> float:
    """Checkout, commit, fetch and comparison for each task, then one merge of all and the landing."""
    root = _make_repository(path)
    began = perf_counter()
    repo = open_repository(root, base_branch="main")
    tips = [_do_task(repo, f"task-{n:03d}") for n in range(1, TASKS + 1)]
    merged = combine_commits(repo, repo.base_sha, tips, "all")
    assert isinstance(merged, CombinedCommit), "separate files do not conflict"
    tree = run_git(root, "rev-parse", f"{merged.sha}^{{tree}}").strip()
    advance_branch(repo, "main", old=repo.base_sha, new=create_commit(repo, tree, [repo.base_sha, *tips], "land"))
    return perf_counter() - began


def _do_task(repo: Repository, task: str) -> str:
    checkout, branch = repo.root.parent / task, build_branch_name("ses", task, 1)
    set_ref(repo, f"refs/blueflame/bases/{task}", repo.base_sha)
    make_checkout(repo, checkout, base=repo.base_sha, branch=branch)
    (checkout / "notes" / f"{task}.txt").write_text("done\n")
    run_git(checkout, "add", "-A")
    run_git(checkout, "commit", "-q", "-m", f"feat({task}): note it")
    found = collect_result(repo, checkout, branch=branch, base=repo.base_sha, ref=build_attempt_ref("ses", task, 1))
    assert isinstance(found, CollectedResult), "it has just been committed"
    list_changes(repo, repo.base_sha, found.tip)
    remove_checkout(checkout)
    return found.tip
