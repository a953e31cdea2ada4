"""Read the base branch, and notice when it is no longer the one that the session has built on."""

from __future__ import annotations

from blueflame.git.batch import has_commit
from blueflame.git.command import try_git
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
    return BaseLost(branch=session.base_branch, expected=known, found=head, related=related)
