"""Landing 100 clean branches, over what git itself needs for it: `merge-tree`, `commit-tree` and `update-ref`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks import Figure, Report
from blueflame.checks.merge_losses import find_losses
from blueflame.git.command import build_environment, build_identity_environment, run_git
from blueflame.git.landing import Advanced, advance_branch
from blueflame.git.merge_sides import MergeSide, read_changed_files
from blueflame.git.repository import Repository, open_repository, read_branch_head
from blueflame.git.results import list_changes
from blueflame.model.changeset import Changeset, ChangesetRecord
from blueflame.model.event import JournalEntry, SessionOpened
from blueflame.model.limits import Limits
from blueflame.model.task import Result, Task, TaskRecord, TaskState
from blueflame.model.workflow import Workflow
from blueflame.orchestrator.merge_queue.assemble import MergeCommit, MergeInputs, assemble_changeset
from blueflame.session.replay import replay
from blueflame.session.state import Session

BRANCHES = 100
FILES = 300
ROUNDS = 2
SMALL = {"BRANCHES": 2, "FILES": 20, "ROUNDS": 1}
TARGET = 1.5


def run() -> Report:
    with _make_repository() as (repo, tips):
        floor = _measure_least(repo, lambda: _land_with_git(repo, tips))
        landed = _measure_least(repo, lambda: _land_with_blueflame(repo, tips))
        proved = _measure_least(repo, lambda: _land_with_blueflame(repo, tips, proved=True))
        run_git(repo.root, "checkout", "-q", "main")
        checked_out = _measure_least(repo, lambda: _land_with_blueflame(repo, tips))
    figures = (
        Figure(name="git alone, one branch", value=floor * 1e3 / BRANCHES, unit="ms"),
        Figure(name="Blue Flame, one branch", value=landed * 1e3 / BRANCHES, unit="ms"),
        Figure(name="Blue Flame over git alone", value=landed / floor, unit="x", aim=TARGET),
        Figure(name="with the evidence for the gate (files, lost lines)", value=proved / floor, unit="x"),
        Figure(name="with the person's checkout brought along", value=checked_out / floor, unit="x"),
    )
    return Report(name="landing", about=f"{BRANCHES} clean branches, one after the other", figures=figures)


@contextmanager
def _make_repository() -> Iterator[tuple[Repository, list[str]]]:
    """Branches that all begin at the same commit and each change a file of their own."""
    with TemporaryDirectory() as folder:
        root = Path(folder)
        run_git(root, "init", "-q", "-b", "main")
        for n in range(FILES):
            place = root / f"src/part{n % 20:02d}/file{n:03d}.py"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("".join(f"line {line} of file {n}\n" for line in range(40)))
        run_git(root, "add", "-A")
        run_git(root, "commit", "-q", "-m", "begin", env=build_identity_environment(root))
        run_git(root, "checkout", "-q", "--detach")
        yield open_repository(root, base_branch="main"), [_make_branch(root, n) for n in range(BRANCHES)]


def _make_branch(root: Path, n: int) -> str:
    index = {"GIT_INDEX_FILE": str(root / ".git" / "other-index")}
    path = f"src/part{n % 20:02d}/file{n:03d}.py"
    text = run_git(root, "show", f"main:{path}") + f"one more line by branch {n}\n"
    run_git(root, "read-tree", "main", env=index)
    blob = run_git(root, "hash-object", "-w", "--stdin", stdin=text).strip()
    run_git(root, "update-index", "--cacheinfo", f"100644,{blob},{path}", env=index)
    tree = run_git(root, "write-tree", env=index).strip()
    made = run_git(
        root,
        "commit-tree",
        tree,
        "-p",
        "main",
        "-m",
        f"feat(task-{n + 1:03d}): more",
        env=build_identity_environment(root),
    )
    return made.strip()


def _measure_least(repo: Repository, landing: Callable[[], None]) -> float:
    """Seconds for all branches, the least of some rounds; each begins where the first did."""
    best = float("inf")
    for _ in range(ROUNDS):
        begun = perf_counter()
        landing()
        best = min(best, perf_counter() - begun)
        for ref in run_git(repo.root, "for-each-ref", "--format=%(refname)", "refs/blueflame").split():
            run_git(repo.root, "update-ref", "-d", ref)
        if "main" in run_git(repo.root, "branch", "--show-current"):
            run_git(repo.root, "reset", "-q", "--hard", repo.base_sha)
        else:
            run_git(repo.root, "update-ref", "refs/heads/main", repo.base_sha)
    return best


def _land_with_git(repo: Repository, tips: list[str]) -> None:
    """As a script would: three commands for each branch, with nothing around them."""
    variables = {**build_environment(), **build_identity_environment(repo.root)}

    def ask(*args: str) -> str:
        done = subprocess.run(["git", *args], cwd=repo.root, env=variables, capture_output=True, check=True)
        return done.stdout.decode().strip()

    head = repo.base_sha
    for n, tip in enumerate(tips):
        tree = ask("merge-tree", "--write-tree", head, tip)
        made = ask("commit-tree", tree, "-p", head, "-p", tip, "-m", f"feat(task-{n + 1:03d}): more")
        ask("update-ref", "refs/heads/main", made, head)
        head = made


def _land_with_blueflame(repo: Repository, tips: list[str], *, proved: bool = False) -> None:
    session = _build_session(repo, tips)
    for name in session.changesets:
        base = read_branch_head(repo, "main")
        made = assemble_changeset(MergeInputs(repo, session, session.changesets[name], base), "merge")
        assert isinstance(made, MergeCommit)
        if proved:
            task = session.changesets[name].changeset.tasks[0]
            result = session.tasks[task].result
            assert result is not None
            list_changes(repo, base, made.commit)
            assert (
                find_losses(read_changed_files(repo, base, [MergeSide(task, result.base, result.sha)], made.commit))
                == ()
            )
        assert isinstance(advance_branch(repo, "main", old=base, new=made.commit), Advanced)


def _build_session(repo: Repository, tips: list[str]) -> Session:
    """One changeset for each branch, as validated work stands in a session."""
    opened = SessionOpened(
        session="ses-20261115-120000", request="", project="", base_branch="main", base_sha=repo.base_sha,
        workflow=Workflow(), limits=Limits(),
    )  # fmt: skip
    session = replay([JournalEntry(1, 0.0, opened)])
    for n, tip in enumerate(tips, start=1):
        task = Task(id=f"task-{n:03d}", title="more", description="")
        result = Result(sha=tip, base=repo.base_sha, subject=f"feat(task-{n:03d}): more")
        session.tasks[task.id] = TaskRecord(task=task, state=TaskState.VALIDATED, result=result)
        changeset = Changeset(id=f"cs-{n:03d}", cycle=1, group=task.id, title="more", tasks=(task.id,))
        session.changesets[changeset.id] = ChangesetRecord(changeset=changeset)
    return session
