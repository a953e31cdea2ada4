"""Check a session after a crash test: what was lost, done twice or left behind.

Evidence outside the journal decides where there is some: the agents' own ledger, git, the processes of the machine.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from blueflame.git.checkouts import get_record_path
from blueflame.git.results import list_refs
from blueflame.model.attempt import BLAMELESS, PASSING, Ending
from blueflame.model.event import (
    AttemptEnded,
    ChangesetEvicted,
    ChangesetTrimmed,
    EnvironmentFailed,
    Event,
    JournalEntry,
    Landed,
    OrchestratorStarted,
    PlanFailed,
    PullRequestOpened,
    TaskMoved,
    VerdictGiven,
)
from blueflame.model.task import Cause
from blueflame.orchestrator.cleanup import LeftoverKind, find_leftovers
from blueflame.orchestrator.sessions import find_session, load_session, open_journal
from blueflame.session.environment import name_attempt_act
from blueflame.session.state import Session
from blueflame.system import flock
from blueflame.warden.process_tree import ProcessInfo, read_process
from crash.scenario import Scenario

PATIENCE = 30.0
PROBE = b"blat"  # with which Python itself tries the folder for temporary files, once in a process


@dataclass(frozen=True, slots=True)
class Expected:
    """The result of an undisturbed run of the same scenario."""

    tree: str
    starts: frozenset[str]
    refs: frozenset[str]
    blame: Mapping[str, int]

    def as_json(self) -> dict[str, Any]:
        lists = {"starts": sorted(self.starts), "refs": sorted(self.refs)}
        return {"tree": self.tree, **lists, "blame": dict(self.blame)}

    @staticmethod
    def from_json(found: Mapping[str, Any]) -> Expected:
        return Expected(found["tree"], frozenset(found["starts"]), frozenset(found["refs"]), found["blame"])


@dataclass(slots=True)
class Tally:
    """One row of the table."""

    case: str
    about: str = ""
    rounds: int = 0
    kills: int = 0  # of orchestrators
    wardens: int = 0  # killed as well
    resumed: int = 0
    attempts: int = 0  # started, by the agents' own books
    redone: int = 0  # under a new id, after their warden was killed
    lost: int = 0  # commits, tasks
    duplicated: int = 0  # attempt ids started twice, tasks landed twice
    blamed: int = 0  # failures of agents, results and changesets that an undisturbed run does not have
    violations: list[str] = field(default_factory=list)

    def add(
        self, scenario: Scenario, expected: Expected, *, wardens: int = 0, world: bool = False, fenced: bool = False
    ) -> None:
        """Add one round that has ended. With `world`, attempts may also have been made again because of injected
        faults; with `fenced`, a second orchestrator may have failed some."""
        found = read_result(scenario)
        self.rounds += 1
        self.wardens += wardens
        self.resumed += sum(isinstance(each.event, OrchestratorStarted) for each in found.events) - 1
        self.attempts += sum(found.starts.values())
        self.redone += len(found.lost_attempts)
        lost, twice = list(_find_lost(scenario, found)), list(_find_repeated(scenario, found, wardens))
        self.lost += len(lost)
        self.duplicated += len(twice)
        blamed = [] if fenced else list(_find_blamed(found, expected))
        self.blamed += len(blamed)
        odd = [] if world else list(_find_unexpected_attempts(scenario, found, expected, wardens))
        wrong = [
            *lost,
            *twice,
            *blamed,
            *odd,
            *_find_differences(scenario, found, expected),
            *_find_leftovers(scenario, found),
        ]
        self.violations += [f"{scenario.home.name}: {each}" for each in wrong]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class SessionResult:
    session: Session
    events: list[JournalEntry]
    damage: tuple[str, ...]
    starts: dict[str, int]

    @property
    def lost_attempts(self) -> list[str]:
        ends = [each.event for each in self.events if isinstance(each.event, AttemptEnded)]
        return [event.attempt.partition(".")[2] for event in ends if event.ended.ending is Ending.LOST]

    @property
    def spoilt_attempts(self) -> frozenset[str]:
        """Those whose result could not be collected at first: if they failed, no one knows why (decision 0042)."""
        acts = {each.event.act for each in self.events if isinstance(each.event, EnvironmentFailed)}
        attempts = [record.attempt for record in self.session.attempts.values()]
        return frozenset(each.id.partition(".")[2] for each in attempts if name_attempt_act(each) in acts)

    @property
    def landed(self) -> list[str]:
        """The changesets on the base branch."""
        return [each.event.changeset for each in self.events if isinstance(each.event, Landed)]

    @property
    def landed_tasks(self) -> list[str]:
        """On the base branch, or in a pull request."""
        landings = [each.event for each in self.events if isinstance(each.event, Landed | PullRequestOpened)]
        return [task for each in landings for task in self.session.changesets[each.changeset].changeset.tasks]


def read_result(scenario: Scenario) -> SessionResult:
    with open_journal(scenario.project()) as journal:
        name = find_session(journal, None)
        assert len(journal.list_sessions()) == 1, "there is more than one session"
        return SessionResult(
            load_session(journal, name), journal.read_events(name), journal.find_damage(), dict(scenario.starts())
        )


def build_expected(scenario: Scenario) -> Expected:
    found = read_result(scenario)
    refs = _list_own_refs(scenario, found.session)
    assert scenario.made(), "no agent logged a commit: a lost one would not be noticed"
    return Expected(scenario.tree(), frozenset(scenario.starts()), refs, _count_blame(found.events))


def _list_own_refs(scenario: Scenario, session: Session) -> frozenset[str]:
    """Our refs, without the name of the session."""
    return frozenset(name.replace(session.id, "") for name in list_refs(scenario.project().repo, "refs/blueflame/"))


def _find_lost(scenario: Scenario, found: SessionResult) -> Iterator[str]:
    """Find lost work: tasks that did not land, and commits of agents that no ref of ours reaches."""
    for name, record in sorted(found.session.tasks.items()):
        if record.state.value != "merged":
            yield f"{name} is {record.state.value}"
    reachable = set(scenario.git("rev-list", "main", "--glob=refs/blueflame/attempts").split())
    for sha in scenario.made():
        if sha not in reachable:
            yield f"the commit {sha[:12]} of an agent is lost"
    for name in sorted(set(found.landed) - set(scenario.hooks())):
        yield f"the hook did not run for {name}"
    kept = list_refs(scenario.project().repo, "refs/blueflame/attempts/")
    for each in found.events:
        if isinstance(each.event, AttemptEnded) and each.event.ended.tip not in (None, *kept.values()):
            yield f"the result of {each.event.attempt} is not under refs/blueflame/attempts"


def _find_repeated(scenario: Scenario, found: SessionResult, wardens: int) -> Iterator[str]:
    for attempt, times in sorted(found.starts.items()):
        if times > 1:
            yield f"{attempt} was started {times} times"
    tasks = found.landed_tasks
    for name in sorted(set(tasks)):
        if tasks.count(name) > 1:
            yield f"{name} landed {tasks.count(name)} times"
    for name, times in sorted(scenario.hooks().items()):
        if times > 1 and not wardens:  # a hook whose warden was killed is run again: it cannot be asked how far it came
            yield f"the hook ran {times} times for {name}"


def _find_blamed(found: SessionResult, expected: Expected) -> Iterator[str]:
    for what, times in sorted((Counter(_count_blame(found.events)) - Counter(expected.blame)).items()):
        yield f"blamed: {what} ({times} times more than without kills)"


def _count_blame(events: Sequence[JournalEntry]) -> Mapping[str, int]:
    return Counter(words for each in events if (words := _describe_blame(each.event)))


def _describe_blame(event: Event) -> str:
    match event:
        case AttemptEnded(attempt=name, ended=ended) if ended.ending not in PASSING | BLAMELESS:
            return f"{name.split('.', 1)[1].rpartition('.')[0]} {ended.ending}"
        case TaskMoved(task=name, cause=Cause.RETRY | Cause.FAIL as cause):
            return f"{name} {cause}"
        case VerdictGiven(task=name, verdict=verdict) if not verdict.passed:
            return f"{name} verdict"
        case ChangesetEvicted() | ChangesetTrimmed() | PlanFailed():
            return type(event).__name__
    return ""


def _find_unexpected_attempts(
    scenario: Scenario, found: SessionResult, expected: Expected, wardens: int
) -> Iterator[str]:
    lost = found.lost_attempts
    unexplained = [name for name in lost if name not in found.spoilt_attempts]
    if len(unexplained) > wardens:
        yield f"{len(unexplained)} attempts were lost, but only {wardens} wardens killed: {unexplained}"
    if lost:
        return
    if odd := sorted(set(found.starts) ^ expected.starts):
        yield f"other attempts than without kills: {odd}"
    if odd := sorted(_list_own_refs(scenario, found.session) ^ expected.refs):
        yield f"other refs than without kills: {odd}"


def _find_differences(scenario: Scenario, found: SessionResult, expected: Expected) -> Iterator[str]:
    if found.session.outcome != "completed":
        yield f"the session is not completed but {found.session.outcome or 'unfinished'}"
    if scenario.tree() != expected.tree:
        yield f"another tree than without kills: {scenario.git('ls-tree', '-r', '--name-only', 'main').split()}"
    if found.damage:
        yield f"the journal is damaged: {found.damage}"
    if (landed := scenario.landed_tasks()) != sorted(found.landed_tasks):
        yield f"{landed} have landed, the journal says {sorted(found.landed_tasks)}"


def _find_leftovers(scenario: Scenario, found: SessionResult) -> Iterator[str]:
    running = wait_until_quiet(scenario)
    if running:
        yield f"still running: {running}"
    yield from _find_held_locks(scenario)
    yield from _find_unreported(scenario)
    if spare := [path.name for path in sorted((scenario.home / "tmp").iterdir()) if not _is_probe(path)]:
        yield f"temporary files are left: {spare}"
    if dirty := scenario.git("status", "--porcelain"):
        yield f"the checkout of main is not clean: {dirty.split()}"
    if broken := [line for line in _run_fsck(scenario) if not line.startswith(("dangling", "notice"))]:
        yield f"git fsck: {broken}"
    if found.session.live:
        yield f"the journal has live attempts: {list(found.session.live)}"


def _is_probe(path: Path) -> bool:
    return path.is_file() and path.read_bytes() in (b"", PROBE)


def _run_fsck(scenario: Scenario) -> list[str]:
    return scenario.git("fsck", "--connectivity-only", "--no-progress").splitlines()


def _find_held_locks(scenario: Scenario) -> Iterator[str]:
    state = scenario.root / ".blueflame"
    for path in (state / "orchestrator.lock", *sorted((state / "attempts").glob("*/lock"))):
        if (holder := flock.read_lock_holder(path)) is not None:
            yield f"{path.relative_to(state)} is held by {holder}"


def _find_unreported(scenario: Scenario) -> Iterator[str]:
    """Find folders among the checkouts that `blueflame cleanup` would not remove."""
    project = scenario.project()
    if not project.paths.worktrees.is_dir():
        return
    with open_journal(project) as journal:
        result = find_leftovers(project.repo, project.paths, journal, now=time.time(), max_age=0, at_work=False)
    known = {each.path for each in result if each.kind is LeftoverKind.CHECKOUT and each.path}
    known |= {get_record_path(path) for path in known}
    known |= {path.with_name(f"{path.name}.draft") for path in known}
    known.add(project.paths.worktrees / ".git")  # for git clean
    for path in sorted(project.paths.worktrees.iterdir()):
        if path not in known:
            yield f"{path.name} is not reported among the checkouts"


def wait_until_quiet(scenario: Scenario) -> list[str]:
    """Return the processes of this scenario, after waiting for those that are ending."""
    give_up = time.monotonic() + PATIENCE
    while (found := list_processes(scenario)) and time.monotonic() < give_up:
        time.sleep(0.02)
    return found


def list_processes(scenario: Scenario) -> list[str]:
    found = find_processes(scenario)
    return [f"{each.pid} {_read_bytes(Path(f'/proc/{each.pid}/cmdline'))[-120:]!r}" for each in found]


def find_processes(scenario: Scenario) -> list[ProcessInfo]:
    """Find processes whose environment, command line, folder or log names the scenario's home."""
    mark = os.fsencode(scenario.home) + b"/"
    me = os.getpid()
    entries = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit() and int(entry.name) != me]
    seen = ((read_process(int(entry.name)), entry) for entry in entries)
    return [each for each, entry in seen if each is not None and mark in _read_evidence(entry)]


def _read_evidence(entry: Path) -> bytes:
    try:
        folder = os.fsencode((entry / "cwd").readlink()) + b"/"
    except OSError:  # a zombie, or gone
        return b""
    log = _read_link(entry / "fd" / "1")  # all that a forked warden shows
    return b"\0".join((_read_bytes(entry / "environ"), _read_bytes(entry / "cmdline"), folder, log))


def _read_link(path: Path) -> bytes:
    try:
        return os.fsencode(path.readlink())
    except OSError:
        return b""


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
