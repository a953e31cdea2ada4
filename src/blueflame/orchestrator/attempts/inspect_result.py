"""What is looked at when an agent is gone: whether it was watched, what it left, and what its result breaks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from blueflame.agents.runtime import AgentOutput
from blueflame.checks.audit_gaps import find_unaudited_calls
from blueflame.checks.leftovers import Leftovers, describe_leftovers, find_leftover_violations
from blueflame.checks.postcheck import check_result
from blueflame.git.repository import list_tree_files
from blueflame.git.results import CollectedResult, list_changes
from blueflame.git.secret_scan import scan_result
from blueflame.git.status import parse_status
from blueflame.git.tripwire import RepositoryFingerprint, find_tampering, take_fingerprint
from blueflame.model.attempt import WORKER, Attempt
from blueflame.model.errors import GitFailed
from blueflame.model.verdict import Violation
from blueflame.orchestrator.context import FinishedAttempt, SessionContext
from blueflame.orchestrator.engine.interface import ExitReason, ProcessOutcome
from blueflame.session.state import Session
from blueflame.system.files import write_atomically
from blueflame.system.layout import make_folder
from blueflame.telemetry.audit import format_summary, read_audit
from blueflame.watcher.policy_file import load_policy

FINGERPRINT_FILE = "untouched.json"
MAX_SHOWN_GAPS = 5


def find_audit_gaps(
    context: SessionContext, attempt: Attempt, outcome: ProcessOutcome, gathered: AgentOutput
) -> tuple[str, ...]:
    """Reasons to doubt that every tool call of the agent was checked; empty when it was."""
    if outcome.reason is not ExitReason.EXITED:
        return ()
    audit = read_audit(context.paths.audit(attempt.agent_id))
    return (
        *_check_watch(outcome, audit.last),
        *audit.findings,
        *find_unaudited_calls(gathered.calls, audit.lines, unread=gathered.is_incomplete),
    )


def _check_watch(outcome: ProcessOutcome, last: str) -> Iterator[str]:
    if not outcome.watch:
        yield "its warden had no watcher"
    elif outcome.watch.get("problem"):
        yield str(outcome.watch["problem"])
    elif outcome.watch.get("last") != last:
        yield "the audit log does not end where its warden left it: lines were added or taken away"


def format_gaps(gaps: Sequence[str]) -> str:
    more = f"\n... and {len(gaps) - MAX_SHOWN_GAPS} more" if len(gaps) > MAX_SHOWN_GAPS else ""
    return "not every call was watched:\n" + "\n".join(gaps[:MAX_SHOWN_GAPS]) + more


def summarize_audit(context: SessionContext, session: Session, task: str) -> str:
    """What the worker of the result under review tried to do, for the reviewer."""
    n = session.attempts_on.get((task, WORKER), 0)
    record = session.attempts.get(f"{session.id}.{task}.{WORKER}.{n}")
    if record is None:
        return ""
    return format_summary(read_audit(context.paths.audit(record.attempt.agent_id)).lines)


def save_fingerprint(context: SessionContext, attempt: Attempt) -> None:
    """Record the state of our own repository before the agent starts."""
    folder = context.engine.stage(attempt.id)
    make_folder(folder)
    write_atomically(folder / FINGERPRINT_FILE, json.dumps(asdict(take_fingerprint(context.repo))))


def compare_fingerprint(context: SessionContext, attempt: Attempt) -> tuple[Violation, ...]:
    """What changed in our own repository since then, and must not."""
    saved = context.engine.read_file(attempt.id, FINGERPRINT_FILE)
    if saved is None:  # an attempt of a version that saved none
        return ()
    try:
        before = RepositoryFingerprint(**json.loads(saved))
    except (ValueError, TypeError) as e:
        place = f"{context.engine.locate(attempt.id)}/{FINGERPRINT_FILE}"
        raise GitFailed(f"{place} is damaged ({e}): the state of the repository before the attempt is unknown") from e
    return find_tampering(before, take_fingerprint(context.repo))


def read_leftovers(context: SessionContext, attempt: Attempt, outcome: ProcessOutcome) -> Leftovers | None:
    """None where git status was not run: without a sandbox, or for an agent that was ended."""
    after = context.engine.read_file(attempt.id, "survey-after")
    if after is None:
        if context.settings.sandbox.level == "off" or outcome.reason is not ExitReason.EXITED:
            return None
        raise GitFailed("git status in the sandbox gave no answer: what the agent left there is unknown")
    before = context.engine.read_file(attempt.id, "survey-before")
    return parse_status(after) if before is None else parse_status(after).subtract(parse_status(before))


def format_leftovers(left: Leftovers | None) -> str:
    return describe_leftovers(left) if left else ""


def find_violations(
    context: SessionContext, handed: FinishedAttempt, found: CollectedResult, left: Leftovers | None
) -> tuple[Violation, ...]:
    """The third wall, on the pinned commits, by the very policy that the watcher went by."""
    policy = load_policy(context.engine.mirror(handed.attempt.id) / "policy.json")
    secrets, base = context.settings.validation.secrets, handed.base
    also = (
        *scan_result(context.repo, base, found.tip, secrets),
        *compare_fingerprint(context, handed.attempt),
        *(find_leftover_violations(left, policy.blocked_paths.written) if left else ()),
    )
    return check_result(
        list_changes(context.repo, base, found.tip),
        found.commits,
        allowed_paths=policy.allowed_paths.written,
        blocked_paths=policy.blocked_paths.written,
        file_locks=policy.scope or (),
        enforce_scope=policy.scope is not None,
        commit_pattern=policy.commit_pattern,
        naming_style=policy.naming_style,
        naming_globs=policy.naming_globs.written,
        require_tests=policy.require_tests and handed.attempt.role == WORKER,
        source_patterns=policy.source_patterns.written,
        test_patterns=policy.test_patterns.written,
        expected_binaries=policy.expected_binaries.written,
        secrets_file=secrets.allow_file if secrets.enabled else "",
        existing=list_tree_files(context.repo, found.tip),
        also=also,
    )


def describe_ending(outcome: ProcessOutcome, gathered: AgentOutput) -> str:
    last = gathered.result.detail if gathered.result is not None else ""
    parts = [outcome.detail, outcome.setup_output.strip(), last, *gathered.problems[:3]]
    return "\n".join(part for part in parts if part) or gathered.text
