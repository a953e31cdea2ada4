"""Read the base branch, and notice when it is no longer the one that the session has built on."""

from __future__ import annotations

from blueflame.git.batch import has_commit
from blueflame.git.command import try_git
from blueflame.git.merge import CleanMerge, compute_merge, find_tree
from blueflame.git.repository import Repository, find_branch_head, is_ancestor
from blueflame.model.event import BaseLost
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
    related = try_git(repo.root, "merge-base", known, head).code == 0
    without = _list_taken_off(repo, session, head) if related else ()
    return BaseLost(branch=session.base_branch, expected=known, found=head, related=related, without=without)


def _list_taken_off(repo: Repository, session: Session, head: str) -> tuple[str, ...]:
    """List the changesets that had landed and whose changes are not in `head`; an amended commit has them."""
    landed = {name: session.changesets[name].landed_as or "" for name in session.landings}
    known = {name: commit for name, commit in landed.items() if has_commit(repo, commit)}
    return tuple(name for name, commit in known.items() if not _has_changes(repo, head, commit))


def _has_changes(repo: Repository, head: str, commit: str) -> bool:
    return is_ancestor(repo, commit, head) or compute_merge(repo, head, commit) == CleanMerge(find_tree(repo, head))
