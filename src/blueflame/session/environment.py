"""When an act of our own fails: git, the disk, a lock, the sandbox. No task is at fault and no retry is counted.

The act is held and tried again, later each time; other work continues. When it fails again and again, a person is
asked once for all such acts. Everything is in the journal: the next orchestrator tries again at once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from blueflame.model.attempt import BLAMELESS, Attempt, AttemptOutcome, Duty, Ending
from blueflame.model.changeset import ChangesetState
from blueflame.model.event import AttemptEnded, EnvironmentFailed, EnvironmentRecovered, EnvironmentRetried, Event
from blueflame.model.gate import GateKind
from blueflame.model.task import TaskState
from blueflame.session.next_try import compute_wait, is_due
from blueflame.session.retries import truncate_text
from blueflame.session.state import Phase, Session

FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS = 1.0, 600.0
ASK_AFTER = 5  # failures in a row of one act: after some 15 seconds
READ_LOCKS = "reading of people's locks"  # an act of the loop itself; what they hold is unknown while it fails
RESUMED, KILLED = "the resume", "a kill"  # what asked for a try
UNWATCHED_CAUSE = "unwatched"  # of an attempt that is lost, since calls of it were not judged
MAX_LOSSES = 3  # in a row: the next attempt starts at once; after more of them it waits

CAUSES = (
    ("status", re.compile(r"^the status of attempt \S+ is unknown")),
    ("lost", re.compile(r"^its attempts were lost")),
    ("setup", re.compile(r"^the setup failed")),
    ("program", re.compile(r"^(its program (ended before it asked|crashed)|the program ')")),
    ("missing", re.compile(r"^programs of checks cannot be started")),
    ("endless", re.compile(r"^checks do not end in time")),
    ("command", re.compile(r"^.* cannot be run in \S")),
    ("removed", re.compile(r"^the result of .* is gone")),
    ("remote", re.compile(r"^no pull request could be opened")),
    ("requests", re.compile(r"^the pull requests of .* conflict with each other")),
    ("damage", re.compile(r"^the (repository|checkout) .* is damaged: ")),
    ("under_way", re.compile(r"^a (merge|rebase|cherry-pick|revert)( of \S+)? is under way")),
    ("filter", re.compile(r"^git stores .* through the filter")),
    ("dirty", re.compile(r"^your checkout of \S+ is not clean")),
    (
        "disk",
        re.compile(r"no space left|out of disk|couldn't write '|quota|disk is (nearly )?full", re.IGNORECASE),
    ),
    (
        "limit",
        re.compile(
            r"resource temporarily unavailable|too many open files|cannot (fork|allocate memory)|file too large|"
            r"limit on (processes|file sizes)",
            re.IGNORECASE,
        ),
    ),
    ("io", re.compile(r"input/output error|structure needs cleaning|stale file handle", re.IGNORECASE)),
    (
        "permission",
        re.compile(
            r"permission denied|read-only file system|not permitted|insufficient perm|unable to create directory",
            re.IGNORECASE,
        ),
    ),
    ("lock", re.compile(r"\.lock\b|unable to lock|cannot lock", re.IGNORECASE)),
    ("killed", re.compile(r"signal 9\b|was killed|killed by", re.IGNORECASE)),
    ("scanner", re.compile(r"^kingfisher")),
    ("checks", re.compile(r"^checks fail on the base, too")),
    ("sandbox", re.compile(r"sandbox|bwrap|bubblewrap|not ready to run within", re.IGNORECASE)),
    ("port", re.compile(r"\bfree ports?\b")),
    ("git", re.compile(r"\bgit\b", re.IGNORECASE)),
)
"""By the words of the error, the first that fits; any other is a file."""

CAUSE_WORDS = {
    "status": "it is not known whether its agent runs",
    "lost": "its attempts are lost again and again",
    "setup": "the setup commands fail",
    "program": "the agent's program does not work",
    "missing": "programs of checks are missing",
    "endless": "checks do not end in time",
    "command": "a command of yours cannot be run",
    "removed": "our record of a command was deleted",
    "remote": "the remote or its forge fails",
    "requests": "pull requests conflict with each other",
    "damage": "objects of git are damaged or missing",
    "under_way": "a merge, rebase or the like is under way in your checkout",
    "filter": "git filters files that agents changed",
    "dirty": "your checkout has changes that are not committed, or files in the way",
    "disk": "the disk is full",
    "limit": "a limit on processes, open files, file sizes or memory is reached",
    "io": "the disk or its connection fails",
    "lock": "a lock of git is held",
    "permission": "a file or folder cannot be used",
    "killed": "a process of ours was killed",
    "scanner": "the secret scanner does not work",
    "checks": "the base is red now",
    "sandbox": "the sandbox cannot be started",
    "port": "no port of this machine is free",
    "git": "git fails",
    "file": "a file or folder cannot be used",
}


def classify_problem(reason: str) -> str:
    return next((cause for cause, words in CAUSES if words.search(reason)), "file")


def name_attempt_act(attempt: Attempt) -> str:
    """Name it by its role and subject: the next attempt at the same subject waits for the same."""
    return f"{attempt.role} of {attempt.subject}"


def report_problem(session: Session, act: str, reason: str, now: float) -> EnvironmentFailed:
    times = count_failures(session, act) + 1
    return _build_failure(act, reason, times, now, pause=1 if is_first_after_resume(session, act) else times)


def _build_failure(act: str, reason: str, times: int, now: float, *, pause: int) -> EnvironmentFailed:
    """`pause`: as after so many failures."""
    wait = compute_wait(pause, act, first=FIRST_WAIT_SECONDS, most=MAX_WAIT_SECONDS)
    return EnvironmentFailed(
        act=act, cause=classify_problem(reason), reason=truncate_text(reason), until=now + wait, times=times
    )


def count_failures(session: Session, act: str) -> int:
    """Count the failures in a row of an act; 0 when the last one succeeded."""
    return session.problems[act].times if act in session.problems else 0


def is_held(session: Session, act: str) -> bool:
    return act in session.problems and act not in session.retrying


def awaits_config(session: Session, act: str) -> bool:
    """Whether the act is tried again only when a person has said with which configuration; a stop is such an answer."""
    is_open = session.is_asking(GateKind.DRIFT) or (bool(session.stopping) and session.drift is not None)
    return is_open and act in session.retrying and not _has_started(session, act)


def _has_started(session: Session, act: str) -> bool:
    live = (session.attempts[name] for name in session.live)
    return any(each.started_at is not None and name_attempt_act(each.attempt) == act for each in live)


def list_held(session: Session) -> tuple[EnvironmentFailed, ...]:
    return tuple(problem for act, problem in session.problems.items() if act not in session.retrying)


def join_problems(problems: Iterable[EnvironmentFailed]) -> tuple[EnvironmentFailed, ...]:
    """Join those with the same reason, for people: `worker of task-001, worker of task-002`."""
    joined: dict[tuple[str, str], EnvironmentFailed] = {}
    for each in problems:
        same = joined.get((each.cause, each.reason), replace(each, act=""))
        joined[each.cause, each.reason] = replace(
            each,
            act=", ".join(filter(None, (same.act, each.act))),
            until=min(same.until, each.until),
            times=max(same.times, each.times),
        )
    return tuple(joined.values())


def is_retry_due(problem: EnvironmentFailed, now: float) -> bool:
    return is_due(problem.until, now, most=MAX_WAIT_SECONDS)


def is_first_after_resume(session: Session, act: str) -> bool:
    """Whether the try under way is the first after a resume: it may bring what failed before the person's repair."""
    return session.retrying.get(act) == RESUMED


def is_last_try(session: Session, attempt: Attempt) -> bool:
    """Whether a person wants the attempt to end, also if its result cannot be read this time either."""
    return session.retrying.get(name_attempt_act(attempt)) == KILLED


def should_ask(problem: EnvironmentFailed) -> bool:
    return problem.times >= ASK_AFTER


def list_attempts_at_work(session: Session) -> tuple[str, ...]:
    """The live attempts that a stop waits for: one that is held is left to the next orchestrator."""
    acts = {name: name_attempt_act(attempt) for name, attempt in session.live.items()}
    return tuple(name for name, act in acts.items() if not is_held(session, act) and not awaits_config(session, act))


def retry_all(session: Session, by: str = "") -> Iterator[EnvironmentRetried]:
    started = Counter[Duty | None]()
    for problem in list_held(session):
        attempt = _find_unstarted(session, problem.act)
        duty = attempt.duty if attempt is not None else None
        if has_slot(session, problem.act, also=started[duty]):
            started[duty] += 1
            yield EnvironmentRetried(act=problem.act, by=by)


def count_taken_slots(session: Session, duty: Duty) -> int:
    """Count the agents that run or will run soon, against the limit of the duty.

    An attempt that is held gives its slot to other work until it is due. Of those after which no other attempt came to
    a result, only one does: then it may be the machine that fails, and one attempt after the other would be held.
    So does one attempt that waits for an answer.
    """
    running = session.count_running(duty) - _has_asking_attempt(session, duty)
    held = _list_held_attempts(session, duty) if session.problems else {}
    if not held:
        return running
    proven = _find_last_result(session, duty)
    waiting = [name for name, problem in held.items() if not _keeps_slot(problem, session.last_at)]
    doubtful = [name for name in waiting if session.attempts[name].intended_at >= proven]
    return running - len(waiting) + max(0, len(doubtful) - 1)


def _keeps_slot(problem: EnvironmentFailed, now: float) -> bool:
    """Whether its agent may be running, or it will be tried as soon as a slot is free."""
    return problem.cause == "status" or is_retry_due(problem, now)


def _find_last_result(session: Session, duty: Duty) -> float:
    """When the newest attempt was intended that came to a result: the machine could start it and collect it."""
    records = (record for record in reversed(session.attempts.values()) if record.attempt.duty is duty)
    found = (each for each in records if each.ended is not None and each.ended.ending not in BLAMELESS)
    return next((each.intended_at for each in found), 0.0)


def _has_asking_attempt(session: Session, duty: Duty) -> bool:
    if not session.is_asking(GateKind.CLARIFICATION):
        return False
    at_work = (attempt for attempt in session.live.values() if attempt.duty is duty)
    return any(session.is_asking(GateKind.CLARIFICATION, attempt.subject) for attempt in at_work)


def has_slot(session: Session, act: str, *, also: int = 0) -> bool:
    """Whether there is a slot for what the act would start, `also` so many others; other work may have taken it."""
    attempt = _find_unstarted(session, act)
    if attempt is None:
        return True
    slots = {Duty.MAKE: session.slots or session.limits.workers, Duty.JUDGE: session.limits.validators}
    at_work = session.count_running(attempt.duty) - len(_list_held_attempts(session, attempt.duty))
    return at_work + also < slots.get(attempt.duty, 1)


def _list_held_attempts(session: Session, duty: Duty) -> dict[str, EnvironmentFailed]:
    acts = {name: name_attempt_act(attempt) for name, attempt in session.live.items() if attempt.duty is duty}
    return {name: session.problems[act] for name, act in acts.items() if is_held(session, act)}


def _find_unstarted(session: Session, act: str) -> Attempt | None:
    """Find the attempt that the act would start; None if it has been started, or the act is another one."""
    live = (session.attempts[name] for name in session.live)
    unstarted = (record.attempt for record in live if record.started_at is None)
    return next((attempt for attempt in unstarted if name_attempt_act(attempt) == act), None)


def add_recovery(session: Session, act: str, events: Sequence[Event]) -> Sequence[Event]:
    """Add to the outcome of an act that it could be done; not if the agent could not be started."""
    if act not in session.problems or any(_is_unstarted(event) for event in events):
        return events
    return [EnvironmentRecovered(act=act), *events]


def _is_unstarted(event: Event) -> bool:
    return isinstance(event, AttemptEnded) and event.ended.ending is Ending.ENVIRONMENT


def report_unstarted(session: Session, attempt: Attempt, ended: AttemptOutcome, now: float) -> EnvironmentFailed:
    """Its warden may have started, which says nothing: what counts is how many could not be started in a row."""
    act, in_a_row = name_attempt_act(attempt), count_unstarted(session, attempt)
    if in_a_row < count_failures(session, act):
        return report_problem(session, act, ended.notes, now)
    return _build_failure(act, ended.notes, in_a_row + 1, now, pause=in_a_row + 1)


def may_blame_setup(session: Session, attempt: Attempt) -> bool:
    """Whether a failed setup may be the doing of agents: their commits are there, and it is not the first failure."""
    record = session.tasks.get(attempt.subject)
    later_stage = record is not None and record.start is not None
    if not (attempt.built_on or attempt.continues or later_stage or attempt.duty is Duty.MERGE):
        return False
    last = _find_last_outcome(session, attempt)
    return last is not None and last.ending is Ending.ENVIRONMENT and classify_problem(last.notes) == "setup"


def may_blame_watch(session: Session, attempt: Attempt) -> bool:
    """Whether calls that were not judged may be the agent's doing: not the first time, for its hook may be killed."""
    last = _find_last_outcome(session, attempt)
    return last is not None and last.cause == UNWATCHED_CAUSE


def _find_last_outcome(session: Session, attempt: Attempt) -> AttemptOutcome | None:
    act = name_attempt_act(attempt)
    earlier = (each for each in reversed(session.attempts.values()) if name_attempt_act(each.attempt) == act)
    return next((each.ended for each in earlier if each.ended), None)


def has_failed_meanwhile(session: Session, attempt: Attempt) -> bool:
    """Whether we failed at this attempt since it was started; what failed before it was waited for."""
    problem, started_at = session.problems.get(name_attempt_act(attempt)), session.attempts[attempt.id].started_at
    return problem is not None and (started_at is None or problem.until > started_at)


def was_limited_meanwhile(session: Session, attempt: Attempt) -> bool:
    """Whether anything of ours met a limit of the machine since the attempt was started: its programs met it, too."""
    started_at = session.attempts[attempt.id].started_at or 0.0
    return any(each.cause == "limit" and each.until > started_at for each in session.problems.values())


def count_unstarted(session: Session, attempt: Attempt) -> int:
    """Count the last attempts at the same act that ended and could not be started, one after the other."""
    act = name_attempt_act(attempt)
    records = (each for each in reversed(session.attempts.values()) if name_attempt_act(each.attempt) == act)
    earlier = (each.ended.ending for each in records if each.ended)
    return sum(1 for _ in takewhile(lambda ending: ending is Ending.ENVIRONMENT, earlier))


def report_lost(session: Session, attempt: Attempt, ended: AttemptOutcome, now: float) -> Iterator[EnvironmentFailed]:
    """Report an attempt that was lost once more. It did start, so what counts is how many were lost in a row."""
    times = session.count_lost(attempt) + 1 - MAX_LOSSES
    if ended.ending is Ending.LOST and times > 0:
        act = name_attempt_act(attempt)
        reason = f"its attempts were lost {times + MAX_LOSSES} times in a row; find out why: {ended.notes}"
        yield _build_failure(act, reason, times, now, pause=times)


def is_attempt_wanted(session: Session, act: str) -> bool:
    """Whether the act is an attempt that will be tried again, although none is live."""
    role, _, subject = act.partition(" of ")
    duty = session.find_duty(role)
    if duty is Duty.SIZE:
        return session.workflow.asks_for_size
    if duty is Duty.CURATE:
        return session.curation is None
    if duty is Duty.PLAN:
        return session.phase is Phase.PLANNING
    if duty is Duty.MERGE:
        return subject in session.merging and session.changesets[subject].state is ChangesetState.CONFLICTED
    return subject in session.tasks and session.tasks[subject].state in WANTED_IN[duty]


WANTED_IN = {
    Duty.MAKE: (TaskState.PENDING, TaskState.CLAIMED, TaskState.PARTIAL),
    Duty.JUDGE: (TaskState.DONE, TaskState.PARTIAL),
}


def describe_problem(problem: EnvironmentFailed) -> str:
    """`landing of cs-001: a lock of git is held (3 times in a row)`"""
    times = f" ({problem.times} times in a row)" if problem.times > 1 else ""
    return f"{problem.act}: {CAUSE_WORDS.get(problem.cause, problem.cause)}{times}"
