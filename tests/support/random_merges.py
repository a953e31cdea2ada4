"""Sessions in simulated time on a real repository: delays, conflicts and red checks are random, but every commit, merge
and landing is made by git."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from blueflame.git.blobs import read_files_at
from blueflame.git.landing import Advanced, advance_branch
from blueflame.git.merge import MergeConflict, find_tree
from blueflame.git.repository import Repository, open_repository, read_branch_head
from blueflame.model.attempt import MERGER, WORKER, Attempt, AttemptOutcome, Ending
from blueflame.model.changeset import Resolution
from blueflame.model.event import (
    AttemptEnded,
    BaseMoved,
    ConflictResolved,
    Event,
    JournalEntry,
    Landed,
    SessionOpened,
)
from blueflame.model.limits import Limits
from blueflame.model.verdict import Check
from blueflame.model.workflow import Workflow
from blueflame.orchestrator.attempts.merger import prepare_merge
from blueflame.orchestrator.attempts.worker import combine_foundations
from blueflame.orchestrator.check_runner import CheckRunner
from blueflame.orchestrator.merge_queue.build_and_land import BuildSite, build_on_base
from blueflame.session.changesets.queue import give_task_back
from blueflame.session.effects import BuildChangeset, Effect, LandChangeset
from blueflame.testing.simulated_outcomes import hash_to_fraction
from blueflame.testing.simulation import Simulation, build_opening
from support.random_sessions import Dice

SHARED = ("f0.txt", "f1.txt")
GROUND = "".join(f"line {n}\n" for n in range(6))
IDENTITY = {f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def run_git(root: Path, *args: str, stdin: str | None = None, **env: str) -> str:
    variables = {**os.environ, **IDENTITY, **env}
    done = subprocess.run(
        ["git", *args], cwd=root, input=stdin, capture_output=True, text=True, check=True, env=variables
    )
    return done.stdout


async def _find_no_leaks(_base: str, _commit: str) -> Sequence[object]:
    return ()


def make_small_repository(root: Path) -> Repository:
    run_git(root, "init", "-q", "-b", "main")
    for name in SHARED:
        (root / name).write_text(GROUND)
    run_git(root, "add", "-A")
    run_git(root, "commit", "-q", "-m", "begin")
    run_git(root, "checkout", "-q", "--detach")  # the base is not checked out: only refs move
    return open_repository(root, base_branch="main")


def commit_file(repo: Repository, parent: str, path: str, text: str, subject: str) -> str:
    """A commit on top of another with one file changed, without a work tree."""
    index = {"GIT_INDEX_FILE": str(repo.git_dir / "index-of-the-lot")}
    run_git(repo.root, "read-tree", parent, **index)
    blob = run_git(repo.root, "hash-object", "-w", "--stdin", stdin=text).strip()
    run_git(repo.root, "update-index", "--add", "--cacheinfo", f"100644,{blob},{path}", **index)
    tree = run_git(repo.root, "write-tree", **index).strip()
    return run_git(repo.root, "commit-tree", tree, "-p", parent, "-m", subject).strip()


class MergeWorld(Simulation):
    """The session uses git; what agents and people do is random."""

    def __init__(self, lot: Dice, repo: Repository, *, mode: str, limits: Limits, workflow: Workflow) -> None:
        self.repo, self.mode, self.lot = repo, mode, lot
        self.start = read_branch_head(repo, "main")
        self.own: list[str] = []  # commits that a person put on the base
        first = build_opening(workflow=workflow, limits=limits)
        assert isinstance(first.event, SessionOpened)
        super().__init__(lot, [JournalEntry(1, 0.0, replace(first.event, base_sha=self.start))])

    def _build_outcome(self, effect: Effect) -> Sequence[Event]:
        if isinstance(effect, BuildChangeset):
            return asyncio.run(self._build(effect.changeset))
        if isinstance(effect, LandChangeset):
            return self._land(effect.changeset)
        return super()._build_outcome(effect)

    def _end_attempt(self, attempt: Attempt, ending: Ending) -> Sequence[Event]:
        if attempt.role == WORKER and ending is Ending.PASSED:
            return [AttemptEnded(attempt=attempt.id, ended=self._worked(attempt))]
        if attempt.role == MERGER and ending is Ending.PASSED:
            return self._resolved(attempt)
        return super()._end_attempt(attempt, ending)

    def _worked(self, attempt: Attempt) -> AttemptOutcome:
        base = combine_foundations(self.repo, self.session, attempt)
        if isinstance(base, MergeConflict):
            return AttemptOutcome(ending=Ending.CONFLICT, notes="nothing to build on")
        path = self.lot.pick((*SHARED, f"{attempt.subject}.txt"), "path", attempt.id)
        lines = read_files_at(self.repo, base.sha, (path,)).get(path, b"").decode().splitlines()
        at = int(self.lot.roll("line", attempt.id) * (len(lines) + 1))
        lines.insert(at, build_mark(attempt.subject, attempt.n))
        tip = commit_file(self.repo, base.sha, path, "".join(f"{line}\n" for line in lines), attempt.id)
        return AttemptOutcome(ending=Ending.PASSED, base=base.sha, tip=tip, commits=1)

    def _resolved(self, attempt: Attempt) -> Sequence[Event]:
        over = AttemptEnded(attempt=attempt.id, ended=AttemptOutcome(ending=Ending.PASSED))
        conflict = self.session.changesets[attempt.subject].conflict
        assert conflict is not None
        if not self.lot.approves(attempt):
            return [over, give_task_back(self.session, attempt.subject, conflict, "they exclude each other")]
        tip = prepare_merge(self.repo, self.session, attempt.subject)
        careless = self.lot.roll("careless", attempt.id) < 0.3
        for path, data in read_files_at(self.repo, tip, conflict.paths).items():
            tip = commit_file(self.repo, tip, path, resolve_conflict(data.decode(), careless=careless), "fix: both")
        ours = find_tree(self.repo, conflict.ours)
        found = Resolution(ours=ours, theirs=conflict.theirs, commit=tip, by=attempt.agent_id, paths=conflict.paths)
        return [over, ConflictResolved(changeset=attempt.subject, resolution=found)]

    async def _build(self, changeset: str) -> Sequence[Event]:
        site = BuildSite(repo=self.repo, runner=CheckRunner(run=self.check), leaks=_find_no_leaks, mode=self.mode)
        return await build_on_base(site, self.session, changeset, read_branch_head(self.repo, "main"))

    async def check(self, commit: str, again: bool) -> tuple[Check, ...]:
        tree = find_tree(self.repo, commit)
        flaky = not again and hash_to_fraction(self.lot.seed, "flaky", tree) < 0.2
        return (Check(name="make test", exit_code=int(self.is_red(commit) or flaky), seconds=0.0),)

    def is_red(self, commit: str) -> bool:
        """Whether two tasks break the checks together; always the same pairs."""
        there = sorted(find_marks(self.repo, commit))
        pairs = ((one, other) for n, one in enumerate(there) for other in there[n + 1 :])
        return any(hash_to_fraction(self.lot.seed, "red", *pair) < self.lot.odds.red / 2 for pair in pairs)

    def _land(self, changeset: str) -> Sequence[Event]:
        made = self.session.changesets[changeset].build
        assert made is not None
        landing = self.lot.pick_landing(changeset, made.base)
        if landing == "moved":
            self.own.append(
                commit_file(self.repo, read_branch_head(self.repo, "main"), f"own{len(self.own)}", "mine\n", "mine")
            )
            run_git(self.repo.root, "update-ref", "refs/heads/main", self.own[-1])
        done = advance_branch(self.repo, "main", old=made.base, new=made.commit)
        self.head = read_branch_head(self.repo, "main")
        if isinstance(done, Advanced):
            return [Landed(changeset=changeset, before=made.base, after=made.commit)]
        return [BaseMoved(changeset=changeset, expected=made.base, found=self.head)]


def build_mark(task: str, n: int) -> str:
    return f"by {task} in attempt {n}"


def find_marks(repo: Repository, commit: str) -> list[str]:
    """Every line of every file that a task wrote."""
    names = run_git(repo.root, "ls-tree", "-r", "--name-only", commit).split()
    files = read_files_at(repo, commit, names).values()
    return [line for data in files for line in data.decode().splitlines() if line.startswith("by task-")]


def resolve_conflict(text: str, *, careless: bool) -> str:
    """Keep both sides of each conflict, one below the other; only the first if the merger is careless."""
    kept: list[str] = []
    lower = False
    for line in text.splitlines():
        if line.startswith(("<<<<<<<", "=======", ">>>>>>>")):
            lower = line.startswith("=======")
        elif not (lower and careless):
            kept.append(line)
    return "".join(f"{line}\n" for line in kept)
