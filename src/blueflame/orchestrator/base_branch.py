"""Read the base branch, and notice when it is no longer the one that the session has built on."""

from __future__ import annotations

from blueflame.git.batch import has_commit
from blueflame.git.command import try_git
from blueflame.git.merge import CleanMerge, compute_merge, find_tree
from blueflame.git.repository import Repository, find_branch_head, is_ancestor
from blueflame.model.event import BaseLost, Event
from blueflame.session.state import Session


def read_base(repo: Repository, session: Session) -> str | BaseLost:
    """Return the commit of the base branch; BaseLost if it was deleted, renamed, or replaced by other history.

    Merged onto other history, the work would bring back the commits that a person has taken away.
    """
    head, known = find_branch_head(repo, session.base_branch), session.base_sha
    if head is None:
        return BaseLost(branch=session.base_branch, expected=known)
    if head == known or not session.cycle or (has_commit(repo, known) and is_ancestor(repo, known, head)):
        return head
    builds = (session.changesets[name].build for name in session.landings)
    earlier = [build.base for build in builds if build is not None]  # in an older copy, what was landed on may be left
    if not any(try_git(repo.root, "merge-base", each, head).code == 0 for each in (known, *earlier)):
        return BaseLost(branch=session.base_branch, expected=known, found=head)
    landed = {name: session.changesets[name].landed_as or "" for name in session.landings}
    gone = tuple(name for name, commit in landed.items() if not has_commit(repo, commit))
    without = tuple(name for name, commit in landed.items() if name in gone or not _has_changes(repo, head, commit))
    return BaseLost(branch=session.base_branch, expected=known, found=head, related=True, without=without, gone=gone)


def find_missing_base(repo: Repository, session: Session) -> list[Event]:
    """Report a base whose commit is gone when a session is resumed: no agent could start from it."""
    if not session.cycle or session.ended or has_commit(repo, session.base_sha):
        return []
    found = read_base(repo, session)
    return [found] if isinstance(found, BaseLost) else []


def _has_changes(repo: Repository, head: str, commit: str) -> bool:
    """Whether `head` has what a commit landed; an amended one has."""
    return is_ancestor(repo, commit, head) or compute_merge(repo, head, commit) == CleanMerge(find_tree(repo, head))
