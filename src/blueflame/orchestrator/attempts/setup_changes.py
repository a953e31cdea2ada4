"""Tracked files that setup commands change (a lock file that `npm install` rewrites) are no work of the agent.

One that commits everything commits them, too. Where it may not change them they are put back (docs/decisions/0231).
"""

from __future__ import annotations

from collections.abc import Iterable

from blueflame.git.merge import find_tree
from blueflame.git.rebase import reset_paths
from blueflame.git.repository import Repository
from blueflame.git.results import CollectedResult, NoResult, list_commits, set_ref
from blueflame.git.steps import compare_trees
from blueflame.git.untrusted.status import parse_status
from blueflame.orchestrator.context import FinishedAttempt, SessionContext


def find_setup_changes(context: SessionContext, finished: FinishedAttempt) -> frozenset[str]:
    """Return the tracked files that differed from the last commit before the agent started; by its warden, so that no
    agent can add to them. What an earlier attempt left uncommitted lay there as well, and is work."""
    survey = context.engine.read_file(finished.attempt.id, "survey-before")
    if survey is None:
        return frozenset()
    found, earlier = frozenset(parse_status(survey).changed), finished.attempt.continues
    if earlier is None or earlier.unfinished is None:
        return found
    return found - _list_changed(context, earlier.tip, earlier.unfinished)


def is_only_setup(context: SessionContext, finished: FinishedAttempt, tip: str, unfinished: str) -> bool:
    """Whether what was not committed is nothing but what the setup had changed, which it will change again."""
    set_up = find_setup_changes(context, finished)
    return bool(set_up) and _list_changed(context, tip, unfinished) <= set_up


def _list_changed(context: SessionContext, before: str, after: str) -> frozenset[str]:
    entries = compare_trees(context.repo, find_tree(context.repo, before), find_tree(context.repo, after))
    return frozenset(path for entry in entries for path in (entry.path, entry.old_path) if path is not None)


def put_back(
    repo: Repository, base: str, found: CollectedResult, paths: Iterable[str], ref: str
) -> CollectedResult | NoResult:
    """Take the changes of these paths out of the commits of a result, and keep that as `ref`."""
    tip = reset_paths(repo, base, found.tip, paths)
    if tip == base:
        return NoResult(reason="its commits change only what the setup had changed")
    set_ref(repo, ref, tip)
    return CollectedResult(tip=tip, commits=list_commits(repo, base, tip))
