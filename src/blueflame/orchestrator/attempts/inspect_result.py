"""Inspect an ended attempt: whether every call was watched, what it left behind, which rules its result breaks."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from blueflame.checks.audit_gaps import describe_defied, find_unaudited_calls
from blueflame.checks.leftovers import Leftovers, describe_leftovers, find_leftover_violations
from blueflame.checks.postcheck import check_result, check_subjects, is_worded_wrongly
from blueflame.documents.hand_offs import parse_hand_off
from blueflame.git.batch import find_missing_commits
from blueflame.git.checkouts import get_record_path
from blueflame.git.command import REPAIR_GIT, build_agent_identity, find_fix, find_identity
from blueflame.git.damage import find_damage
from blueflame.git.filters import find_filtered_changes, refuse_filtered_changes
from blueflame.git.rebase import reword_commits
from blueflame.git.results import (
    CollectedResult,
    NoResult,
    collect_result,
    list_changes,
    list_commits,
    list_step_changes,
    set_ref,
)
from blueflame.git.secret_scan import scan_result
from blueflame.git.trees import list_tree_files
from blueflame.git.tripwire import RepositoryFingerprint, find_tampering, take_fingerprint
from blueflame.git.untrusted.damage import find_checkout_damage
from blueflame.git.untrusted.status import parse_status
from blueflame.model.attempt import BLAMELESS, PASSING, Attempt, AttemptOutcome, Duty, Ending
from blueflame.model.audit import ObservedCall
from blueflame.model.errors import BlueFlameError, GitFailed, UsageError, WorldError
from blueflame.model.ids import build_attempt_ref
from blueflame.model.runtime_support import Enforcement, find_enforcement
from blueflame.model.verdict import Violation
from blueflame.orchestrator.attempts.probe_git import can_collect
from blueflame.orchestrator.attempts.setup_changes import find_setup_changes, put_back
from blueflame.orchestrator.commit_rules import build_subject_rule, find_author
from blueflame.orchestrator.context import FinishedAttempt, SessionContext
from blueflame.orchestrator.engine.interface import ExitReason, ProcessOutcome
from blueflame.session.attempt_verdict import SHELL_SIGNAL_BASE, AttemptFacts, judge_attempt
from blueflame.session.environment import classify_problem
from blueflame.session.from_settings import find_runtime_kind
from blueflame.session.state import Session
from blueflame.system.disk import FULL_BELOW_BYTES
from blueflame.system.files import find_write_error, parse_json_object, write_atomically
from blueflame.system.layout import make_folder
from blueflame.system.machine import measure_free
from blueflame.telemetry.audit import format_summary, read_audit
from blueflame.text.commit_style import find_ticket, reword_message
from blueflame.text.sanitize import clean_line
from blueflame.watcher.policy_file import load_policy

FINGERPRINT_FILE = "untouched.json"
MAX_SEARCHED_BYTES = 4_000_000
FAILED_WRITE = re.compile(
    r"no space left on device|disk quota exceeded|file too large|file size limit exceeded|input/output error|"
    r"\b(ENOSPC|EDQUOT|EFBIG|EIO): ",
    re.IGNORECASE,
)
MAX_SHOWN_GAPS = 5
REPAIR_PROGRAM = "run the program by hand, and install it again if it fails there, too"
OUR_CAUSES = frozenset({"disk", "limit", "io", "lock", "killed"})


def inspect_commits(
    context: SessionContext,
    session: Session,
    finished: FinishedAttempt,
    find_more: Callable[[str], Iterable[Violation]] = lambda _tip: (),
) -> AttemptOutcome:
    """Fetch and keep the attempt's commits whatever they contain, then judge the attempt by them.

    `find_more` gives further violations, by the last commit.
    """
    read = _read_or_judge(context, finished, partial(_read_result, context, session, finished, find_more))
    if isinstance(read, AttemptOutcome):
        return read
    found, left, gaps, defied, broken, reset = read
    tip, commits = (found.tip, found.commits) if isinstance(found, CollectedResult) else (None, ())
    ending = judge_finished(finished, gaps, violations=broken, commits=len(commits))
    if ending is Ending.PASSED and tip is not None:
        refuse_filtered_changes(context.repo, finished.base, tip)  # no agent could have done better
    last_text = _read_last_words(finished) if ending is Ending.PASSED else describe_ending(finished)
    return AttemptOutcome(
        ending=ending,
        notes=_join_notes(format_gaps(gaps), last_text, describe_leftovers(left) if left else ""),
        base=finished.base,
        tip=tip,
        commits=len(commits),
        subject=commits[-1].subject if commits else "",
        violations=broken,
        defied=defied,
        put_back=reset,
    )


def _read_or_judge(
    context: SessionContext, finished: FinishedAttempt, read: Callable[[], _ReadResult]
) -> _ReadResult | AttemptOutcome:
    """Read the result, or judge why it cannot be read. Git may have failed only once: then it is read again."""
    try:
        return read()
    except GitFailed as error:
        unreadable = judge_unreadable(context, finished, error)
        if unreadable.ending is not Ending.POSTCHECK:
            return unreadable
    except (WorldError, UsageError) as error:
        return judge_unreadable(context, finished, error)
    try:
        return read()
    except (WorldError, UsageError) as error:
        return judge_unreadable(context, finished, error)


class _ReadResult(NamedTuple):
    found: CollectedResult | NoResult
    left: Leftovers | None
    gaps: tuple[str, ...]
    defied: tuple[str, ...]
    broken: tuple[Violation, ...]
    put_back: tuple[str, ...]


def _read_result(
    context: SessionContext,
    session: Session,
    finished: FinishedAttempt,
    find_more: Callable[[str], Iterable[Violation]],
) -> _ReadResult:
    found = _fetch_commits(context, finished)
    left = read_leftovers(context, finished)
    gaps = find_audit_gaps(context, finished)
    defied = find_defied(context, finished)
    broken = _list_violations(context, finished, found, left, find_more)
    reset: tuple[str, ...] = ()
    if isinstance(found, CollectedResult) and broken:
        strays = {each.path for each in broken} & find_setup_changes(context, finished)
        if strays:
            reset, ref = tuple(sorted(strays)), _get_result_ref(finished.attempt)
            found = put_back(context.repo, finished.base, found, strays, ref)
            broken = _list_violations(context, finished, found, left, find_more)
    if isinstance(found, CollectedResult) and is_worded_wrongly(broken):
        found, broken = _reword_commits(context, session, finished, found)
    return _ReadResult(found, left, gaps, defied, broken, reset)


def _list_violations(
    context: SessionContext,
    finished: FinishedAttempt,
    found: CollectedResult | NoResult,
    left: Leftovers | None,
    find_more: Callable[[str], Iterable[Violation]],
) -> tuple[Violation, ...]:
    if isinstance(found, NoResult):
        return ()
    return tuple(dict.fromkeys((*find_violations(context, finished, found, left), *find_more(found.tip))))


def find_write_fault(context: SessionContext, finished: FinishedAttempt) -> str:
    """Say why nothing could be written where the agent worked, while it ran or now; "" if it could.

    What it could not do is not its fault, and one that brings it about has no result.
    """
    then, paths = finished.outcome.free_disk, context.paths
    if min(then if then is not None else FULL_BELOW_BYTES, measure_free(paths.worktrees).disk) < FULL_BELOW_BYTES:
        return f"the disk is full, or was while it ran, under {paths.worktrees} or {paths.state}: free some space"
    folder = context.engine.mirror(finished.attempt.id)
    return next(filter(None, map(find_write_error, (paths.checkout(finished.attempt.agent_id), folder / "home"))), "")


def may_be_cut_off(context: SessionContext, finished: FinishedAttempt) -> bool:
    """Whether a file may have only its beginning: we cannot write there, or by its output a program could not.

    Words prove nothing: the attempt is judged without them, and only its commits are continued.
    """
    outcome = finished.outcome
    by_signal = signal.SIGXFSZ in (outcome.signal, (outcome.exit_code or 0) - SHELL_SIGNAL_BASE)
    printed = read_last_output(context, finished.attempt)
    return by_signal or FAILED_WRITE.search(printed) is not None or find_write_fault(context, finished) != ""


def read_last_output(context: SessionContext, attempt: Attempt) -> str:
    errors = context.engine.read_file(attempt.id, "stderr.log") or b""
    return context.engine.read_log(attempt.id, MAX_SEARCHED_BYTES).text + errors.decode("utf-8", "replace")


def judge_unreadable(context: SessionContext, finished: FinishedAttempt, error: BlueFlameError) -> AttemptOutcome:
    """Judge a result that cannot be checked: it has failed, never passed. Raise the error if it is ours.

    It is ours when git was killed, waits for a lock or has no room, when our own repository is damaged or cannot be
    used, or when git cannot read a commit of ours either.
    """
    checkout = context.paths.checkout(finished.attempt.agent_id)
    if _was_removed(checkout):
        return _lose_without_checkout(context, finished)
    lost = AttemptOutcome(ending=Ending.LOST, notes=str(error), base=finished.base)
    if _is_earlier_work_gone(context, finished.attempt):
        return lost
    cause = classify_problem(str(error))
    ours = cause in OUR_CAUSES or (cause == "permission" and str(checkout) not in str(error))
    if isinstance(error, WorldError) and ours:  # also of a lost attempt: its commits are still to be fetched
        raise error
    if finished.outcome.reason is ExitReason.LOST:
        return lost
    ref = _get_result_ref(finished.attempt)
    if isinstance(error, WorldError) and not can_collect(context.repo, checkout, base=finished.base, ref=ref):
        raise _add_repair(error)
    if damage := find_damage(context.repo, (finished.base,)):
        raise GitFailed(damage) from error
    if damage := find_checkout_damage(checkout, finished.base):
        return AttemptOutcome(ending=Ending.ENVIRONMENT, notes=damage, base=finished.base)
    return AttemptOutcome(ending=Ending.POSTCHECK, notes=str(error), base=finished.base)


def _add_repair(error: WorldError) -> WorldError:
    text = str(error)
    is_known = REPAIR_GIT in text or find_fix(text, "")
    return error if is_known else GitFailed(f"{text}; git fails for a commit of ours, too: {REPAIR_GIT}")


def _was_removed(checkout: Path) -> bool:
    """Whether it was removed from outside, also in part: an agent that wrote meanwhile kept its folder, but it could
    not remove the record beside it."""
    return not checkout.is_dir() or not get_record_path(checkout).exists()


def _lose_without_checkout(context: SessionContext, finished: FinishedAttempt) -> AttemptOutcome:
    notes = f"{context.paths.checkout(finished.attempt.agent_id)} was removed"
    return AttemptOutcome(ending=Ending.LOST, notes=notes, base=finished.base)


def _is_earlier_work_gone(context: SessionContext, attempt: Attempt) -> bool:
    """Whether commits that it continued were pruned: it has no history without them, and did not do that."""
    earlier = attempt.continues
    commits = (earlier.base, earlier.tip, earlier.unfinished) if earlier is not None else ()
    return bool(find_missing_commits(context.repo, filter(None, commits)))


def _fetch_commits(context: SessionContext, finished: FinishedAttempt) -> CollectedResult | NoResult:
    attempt = finished.attempt
    assert attempt.branch is not None, f"{attempt.id} has no branch"
    checkout = context.paths.checkout(attempt.agent_id)
    ref = _get_result_ref(attempt)
    return collect_result(context.repo, checkout, branch=attempt.branch, base=finished.base, ref=ref)


def _reword_commits(
    context: SessionContext, session: Session, finished: FinishedAttempt, found: CollectedResult
) -> tuple[CollectedResult, tuple[Violation, ...]]:
    """Give the commits the first lines that the configuration or the project's history asks for: no work is lost to
    a subject. Nothing else of them changes, so only the subjects are checked again."""
    repo, attempt = context.repo, finished.attempt
    policy = load_policy(context.engine.mirror(attempt.id) / "policy.json")
    rule = build_subject_rule(repo, session, attempt, context.settings, policy)
    if not rule.ticket:  # an attempt that continues earlier commits gives them its own
        rule = replace(
            rule, ticket=find_ticket(*(each.subject for each in found.commits if rule.is_kept(each.subject)))
        )
    tip = reword_commits(repo, finished.base, found.tip, partial(reword_message, rule))
    if tip != found.tip:
        set_ref(repo, _get_result_ref(attempt), tip)
        found = CollectedResult(tip=tip, commits=list_commits(repo, finished.base, tip))
    return found, tuple(check_subjects(found.commits, policy.commit_pattern))


def _get_result_ref(attempt: Attempt) -> str:
    return build_attempt_ref(attempt.session, attempt.subject, attempt.n, attempt.key)


def judge_output(
    context: SessionContext, finished: FinishedAttempt, gaps: Sequence[str], violations: tuple[Violation, ...] = ()
) -> AttemptOutcome:
    """Judge an attempt that commits nothing, by its structured output."""
    ending = judge_finished(finished, gaps, violations=violations)
    if ending not in PASSING | BLAMELESS and _was_removed(context.paths.checkout(finished.attempt.agent_id)):
        return _lose_without_checkout(context, finished)
    return AttemptOutcome(
        ending=ending,
        notes=_join_notes(format_gaps(gaps), describe_ending(finished)),
        base=finished.base,
        output=finished.gathered.output,
        violations=violations,
        defied=find_defied(context, finished),
    )


def judge_finished(
    finished: FinishedAttempt, gaps: Sequence[str], *, violations: Sequence[Violation], commits: int = 0
) -> Ending:
    facts = AttemptFacts(
        duty=finished.attempt.duty,
        reason=finished.outcome.reason.value,
        exit_code=finished.outcome.exit_code,
        signal=finished.outcome.signal,
        commits=commits,
        violations=len(violations),
        has_output=finished.gathered.output is not None,
        unwatched=len(gaps),
        asks=finished.question is not None,
        failure=finished.failure,
        crashed=finished.crash is not None,
        asked=finished.asked,
        unanswered=bool(finished.outcome.unanswered),
        hook_failed=finished.gathered.hook_failures > 0,
    )
    return judge_attempt(facts)


def _join_notes(*parts: str) -> str:
    return "\n".join(part for part in parts if part)


def find_audit_gaps(
    context: SessionContext, finished: FinishedAttempt, calls: Sequence[ObservedCall] | None = None
) -> tuple[str, ...]:
    """Reasons to doubt that every tool call of the agent (or those given) was checked; empty when it was."""
    if finished.outcome.reason is not ExitReason.EXITED or finished.crash is not None:
        return ()  # it may have ended between a call's line and the hook's question
    audit = read_audit(context.paths.audit(finished.attempt.agent_id))
    gathered = finished.gathered
    return (
        *_check_watch(finished.outcome, audit.last),
        *audit.findings,
        *find_unaudited_calls(gathered.calls if calls is None else calls, audit.lines, unread=gathered.is_incomplete),
    )


def was_nothing_done_unwatched(context: SessionContext, finished: FinishedAttempt) -> bool:
    """Whether every call that the watcher does not know was refused: its hook could not ask."""
    return not find_audit_gaps(context, finished, [call for call in finished.gathered.calls if not call.denied])


def may_hook_be_killed(context: SessionContext, finished: FinishedAttempt) -> bool:
    """Whether only calls are missing in the log, of a program that asks about each by itself, but takes the death of
    its hook for consent."""
    kind = find_runtime_kind(context.settings, finished.attempt.runtime)
    asks = find_enforcement(kind, "tools") is Enforcement.ENFORCED
    return asks and finished.outcome.reason is ExitReason.EXITED and not find_audit_gaps(context, finished, ())


def find_defied(context: SessionContext, finished: FinishedAttempt) -> tuple[str, ...]:
    """Refused calls that its output shows as done: the agent's program does not obey its hook."""
    audit = read_audit(context.paths.audit(finished.attempt.agent_id))
    return describe_defied(finished.gathered.calls, audit.lines)


def _check_watch(outcome: ProcessOutcome, last: str) -> Iterator[str]:
    if not outcome.watch:
        yield "its warden had no watcher"
    elif outcome.watch.get("problem"):
        yield str(outcome.watch["problem"])
    elif outcome.watch.get("last") != last:
        yield "the audit log does not end where its warden left it: lines were added or removed"


def format_gaps(gaps: Sequence[str]) -> str:
    if not gaps:
        return ""
    more = f"\n... and {len(gaps) - MAX_SHOWN_GAPS} more" if len(gaps) > MAX_SHOWN_GAPS else ""
    return "not every call was watched:\n" + "\n".join(gaps[:MAX_SHOWN_GAPS]) + more


def summarize_audit(context: SessionContext, session: Session, task: str) -> str:
    """Summarize for the reviewer the calls of the worker whose result is reviewed."""
    record = session.find_last_work(task)
    if record is None:
        return ""
    return format_summary(read_audit(context.paths.audit(record.attempt.agent_id)).lines)


def save_fingerprint(context: SessionContext, attempt: Attempt) -> None:
    """Record the state of our own repository before the agent starts."""
    folder = context.engine.stage(attempt.id)
    make_folder(folder)
    write_atomically(folder / FINGERPRINT_FILE, json.dumps(asdict(take_fingerprint(context.repo))))


def compare_fingerprint(context: SessionContext, attempt: Attempt) -> tuple[Violation, ...]:
    """Return forbidden changes of our own repository since `save_fingerprint`."""
    saved = context.engine.read_file(attempt.id, FINGERPRINT_FILE)
    if saved is None:  # an attempt of a version that saved none
        return ()
    try:
        before = RepositoryFingerprint(guarded=json.loads(saved)["guarded"])
    except (ValueError, TypeError, KeyError) as e:
        place = f"{context.engine.locate(attempt.id)}/{FINGERPRINT_FILE}"
        raise GitFailed(f"{place} is damaged ({e}): the state of the repository before the attempt is unknown") from e
    return find_tampering(before, take_fingerprint(context.repo))


def read_leftovers(context: SessionContext, finished: FinishedAttempt) -> Leftovers | None:
    """Return uncommitted files; None where git status was not run: without a sandbox, or for an agent we ended."""
    name = finished.attempt.id
    after = context.engine.read_file(name, "survey-after")
    if after is None:
        if not _was_surveyed(context, name) or finished.outcome.reason is not ExitReason.EXITED:
            return None
        raise GitFailed("git status in the sandbox gave no answer: what the agent left there is unknown")
    before = context.engine.read_file(name, "survey-before")
    return parse_status(after) if before is None else parse_status(after).subtract(parse_status(before))


def _was_surveyed(context: SessionContext, attempt: str) -> bool:
    """Whether it was started with a survey, whatever this version or the settings say; if unknown, by the settings."""
    launch = read_object(context, attempt, "launch.json")
    return bool(launch.get("survey") and launch.get("sandbox")) if launch else context.settings.sandbox.level != "off"


def _list_identities(context: SessionContext, attempt: Attempt) -> tuple[str, ...]:
    """Return those that its commits may have: what it was started with, and the person's, for work by hand.

    It may continue work from before the person got another name.
    """
    usual = {**build_agent_identity(attempt.agent_id), **find_author(context.repo, context.settings)}
    stem = attempt.id.removesuffix(str(attempt.n))
    names = [attempt.id, *(f"{stem}{n}" for n in range(1, attempt.n) if attempt.continues)]
    envs = [{**usual, **read_object(context, each, "launch.json").get("env", {})} for each in names]
    started = [
        f"{env[f'GIT_{role}_NAME']} <{env[f'GIT_{role}_EMAIL']}>" for env in envs for role in ("COMMITTER", "AUTHOR")
    ]
    name, address = find_identity(context.repo.root)
    return tuple(dict.fromkeys([*started, f"{name} <{address}>"]))


def read_object(context: SessionContext, attempt: str, file: str) -> dict[str, Any]:
    """A JSON object of the attempt's folder; empty for anything else."""
    return parse_json_object(context.engine.read_file(attempt, file) or b"") or {}


def find_violations(
    context: SessionContext, finished: FinishedAttempt, found: CollectedResult, left: Leftovers | None
) -> tuple[Violation, ...]:
    """The third wall: check the pinned commits against the policy file that the watcher used."""
    policy = load_policy(context.engine.mirror(finished.attempt.id) / "policy.json")
    secrets, base = context.settings.validation.secrets, finished.base
    changes = list_changes(context.repo, base, found.tip)
    also = (
        *find_filtered_changes(context.repo, base, changes, context.filters),
        *scan_result(context.repo, base, found.tip, secrets),
        *compare_fingerprint(context, finished.attempt),
        *(find_leftover_violations(left, policy.blocked_paths.written) if left else ()),
    )
    return check_result(
        changes,
        found.commits,
        allowed_paths=policy.allowed_paths.written,
        blocked_paths=policy.blocked_paths.written,
        file_locks=policy.scope or (),
        enforce_scope=policy.scope is not None,
        commit_pattern=policy.commit_pattern,
        naming_style=policy.naming_style,
        naming_globs=policy.naming_globs.written,
        require_tests=policy.require_tests and finished.attempt.duty is Duty.MAKE,
        source_patterns=policy.source_patterns.written,
        test_patterns=policy.test_patterns.written,
        expected_binaries=policy.expected_binaries.written,
        secrets_file=secrets.allow_file if secrets.enabled else "",
        existing=list_tree_files(context.repo, found.tip),
        steps=list_step_changes(context.repo, base, found.tip),
        identities=_list_identities(context, finished.attempt),
        also=also,
    )


def describe_ending(finished: FinishedAttempt) -> str:
    outcome, gathered = finished.outcome, finished.gathered
    if not finished.asked and outcome.reason in (ExitReason.EXITED, ExitReason.TIMEOUT, ExitReason.SILENT):
        return describe_broken_program(finished, "ended before it asked its model anything")
    if finished.crash is not None:
        return describe_broken_program(finished, "crashed")
    if outcome.reason in (ExitReason.OUTAGE, ExitReason.ACCOUNT) and outcome.detail:
        return outcome.detail  # its program takes our gateway for the provider
    last = gathered.result.detail if gathered.result is not None else ""
    setup = outcome.setup_output.strip() if outcome.reason is ExitReason.SETUP_FAILED else ""
    crash = "" if outcome.signal is None or outcome.detail else f"its program crashed: {name_signal(outcome.signal)}"
    hook = "its hook died, and so calls of it were refused" if gathered.hook_failures else ""
    parts = [outcome.detail, crash, outcome.unanswered, hook, setup, last, *gathered.problems[:3]]
    return _join_notes(*parts) or _read_last_words(finished)


def name_signal(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def describe_broken_program(finished: FinishedAttempt, what: str) -> str:
    outcome, number, printed = finished.outcome, finished.crash, _find_last_output(finished)
    number = outcome.signal if number is None else number
    exited = f"exit code {outcome.exit_code}" if number is None else name_signal(number)
    how = (exited if outcome.reason is ExitReason.EXITED else "", outcome.detail)
    words = f": {clean_line(printed)}" if printed.strip() else ", and printed nothing"
    return f"its program {what} ({'; '.join(filter(None, how))}){words}; {REPAIR_PROGRAM}"


def _find_last_output(finished: FinishedAttempt) -> str:
    gathered = finished.gathered
    reported = gathered.result.detail if gathered.result is not None else ""
    unread = "a line that is too long to be read" if gathered.is_incomplete else ""
    return finished.printed or gathered.text or reported or next(iter(gathered.problems), unread)


def _read_last_words(finished: FinishedAttempt) -> str:
    """Its last text; of an agent that answers with an object, the summary in it."""
    answer = finished.gathered.answer
    return (
        finished.gathered.text if answer is None else "\n".join(parse_hand_off(answer, finished.gathered.text).summary)
    )
