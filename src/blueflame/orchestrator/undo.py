"""Undo a landing: a new commit on the base branch reverts it, landed by compare-and-swap."""

from __future__ import annotations

from collections.abc import Iterator

from blueflame.git.batch import has_commit
from blueflame.git.command import run_git
from blueflame.git.landing import Advanced, Dirty, advance_branch
from blueflame.git.merge import MergeConflict, find_tree
from blueflame.git.rebase import revert_range
from blueflame.git.repository import Repository, is_ancestor, read_branch_head
from blueflame.lazy_dataclass import dataclass
from blueflame.model.changeset import ChangesetRecord, ChangesetState
from blueflame.model.errors import Refused, UsageError
from blueflame.model.event import LandingUndone
from blueflame.session.state import Session
from blueflame.text.sanitize import clean_line

TRAILER = "Blue-Flame-Undo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reversal:
    """What undoing a landing would do."""

    changeset: str
    title: str
    group: str
    tasks: tuple[str, ...]
    branch: str
    head: str  # the commit of the branch
    commit: str  # the reverting commit; the same as `head` when it is on the branch already
    leaning: tuple[str, ...] = ()  # changesets that landed later and build on it


def plan_undo(repo: Repository, session: Session, changeset: str) -> Reversal:
    """Plan it; raise Refused when it has not landed, is not on the branch, or later work changed the same places."""
    record = _find_landed(session, changeset)
    before, after = _find_landed_range(record)
    head = read_branch_head(repo, session.base_branch)
    if not (has_commit(repo, after) and is_ancestor(repo, after, head)):
        raise Refused(f"{changeset} landed as {after[:12]}, which is not on {session.base_branch} any more")
    made = _find_earlier_undo(repo, session, changeset, after, head) or revert_range(
        repo, head, before=before, after=after, message=_format_message(repo, session, record)
    )
    if isinstance(made, MergeConflict):
        raise Refused(
            f"{changeset} cannot be undone: later work on {session.base_branch} changed the same places "
            f"({', '.join(made.paths)}); undo that first, or revert {after[:12]} by hand"
        )
    if made != head and find_tree(repo, made) == find_tree(repo, head):
        raise Refused(f"nothing of {changeset} is left on {session.base_branch}: there is nothing to undo")
    return Reversal(
        changeset=changeset,
        title=record.changeset.title,
        group=record.changeset.group,
        tasks=record.changeset.tasks,
        branch=session.base_branch,
        head=head,
        commit=made,
        leaning=tuple(_find_dependents(session, record)),
    )


def undo_landing(repo: Repository, reversal: Reversal, *, by: str) -> LandingUndone:
    """Move the branch by compare-and-swap and update a clean checkout; a dirty one is not touched."""
    done = advance_branch(repo, reversal.branch, old=reversal.head, new=reversal.commit)
    if isinstance(done, Dirty):
        paths = f" ({', '.join(done.paths[:10])})" if done.paths else ""
        raise Refused(f"nothing was changed: {done.reason}{paths}")
    if not isinstance(done, Advanced):
        raise Refused(f"{reversal.branch} moved to {done.found[:12]} meanwhile: nothing was changed. Try again")
    return LandingUndone(changeset=reversal.changeset, before=reversal.head, after=reversal.commit, by=by)


def _find_landed(session: Session, changeset: str) -> ChangesetRecord:
    record = session.changesets.get(changeset)
    if record is not None and record.state is ChangesetState.LANDED:
        return record
    there = ", ".join(session.landings) or "none"
    if record is None:
        raise UsageError(f"{session.id} has no changeset {changeset!r}; landed are: {there}")
    if record.state is ChangesetState.UNDONE:
        raise Refused(f"{changeset} was {record.note}")
    raise Refused(f"{changeset} of {session.id} has not landed (it is {record.state.value}); landed are: {there}")


def _find_landed_range(record: ChangesetRecord) -> tuple[str, str]:
    assert record.build is not None, f"{record.changeset.id} landed without a build"
    return record.build.base, record.landed_as or record.build.commit


def _find_earlier_undo(repo: Repository, session: Session, changeset: str, after: str, head: str) -> str | None:
    """A crash may come after the branch moved and before the event was recorded: then only the event is missing."""
    wanted = f"{TRAILER}: {session.id} {changeset}"
    args = ("log", "-1", "--format=%H", "--fixed-strings", f"--grep={wanted}", f"{after}..{head}", "--")
    return head if run_git(repo.root, *args).strip() else None


def _find_dependents(session: Session, record: ChangesetRecord) -> Iterator[str]:
    mine = frozenset(record.changeset.tasks)
    for name in session.landings:
        tasks = session.changesets[name].changeset.tasks
        results = [session.tasks[task].result for task in tasks if task in session.tasks and task not in mine]
        if any(below.task in mine for result in results if result is not None for below in result.built_on):
            yield name


def _format_message(repo: Repository, session: Session, record: ChangesetRecord) -> str:
    """Word it as `git revert` does, whatever the project's style; what belongs to Blue Flame is in trailers."""
    changeset = record.changeset
    _, after = _find_landed_range(record)
    subject = run_git(repo.root, "log", "-1", "--format=%s", after, "--").strip()
    titles = [f"- {clean_line(session.tasks[name].task.title)}" for name in changeset.tasks if name in session.tasks]
    return "\n".join(
        [
            f'Revert "{subject}"',
            "",
            f"This reverts {changeset.id}, which landed as {after}.",
            "",
            *([*titles, ""] if len(titles) > 1 else []),
            *(f"Blue-Flame-Task: {name}" for name in changeset.tasks),
            f"{TRAILER}: {session.id} {changeset.id}",
            "",
        ]
    )
