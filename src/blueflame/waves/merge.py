"""The merge stage: a changeset is built on the newest base in the object store, checked there, shown, and landed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from blueflame.model.changeset import Build, Changeset
from blueflame.model.event import BaseMoved, ChangesetBuilt, ChangesetEvicted, Event, Landed
from blueflame.model.ids import changeset_ref
from blueflame.model.verdict import Check
from blueflame.rules.answers import skip
from blueflame.rules.consequences import red_verdict
from blueflame.rules.next_steps import BuildChangeset, LandChangeset
from blueflame.rules.session import Session
from blueflame.tools.git.commands import git
from blueflame.tools.git.landing import Advanced, Dirty, advance
from blueflame.tools.git.merging import Conflict, combine, commit_tree
from blueflame.tools.git.repository import Repository, head_of
from blueflame.tools.git.results import commits, refs, set_ref
from blueflame.tools.secrets import full_scan
from blueflame.waves.checking import check_commit
from blueflame.waves.flame import Emit, Flame
from blueflame.waves.validate import file_changes

TYPE = re.compile(r"(\w+)\(")


async def build_changeset(flame: Flame, session: Session, effect: BuildChangeset, _emit: Emit) -> Sequence[Event]:
    changeset = session.changesets[effect.changeset].changeset
    base = await asyncio.to_thread(head_of, flame.repo, session.base_branch)
    merged = await asyncio.to_thread(_merge, flame, session, changeset, base)
    if isinstance(merged, Conflict):
        reason = f"conflict in {', '.join(merged.paths)} with what has landed meanwhile"
        return [ChangesetEvicted(changeset=changeset.id, reason=reason, paths=merged.paths)]
    leaks = await asyncio.to_thread(full_scan, flame.repo, base, merged, flame.settings.validation.secrets)
    if leaks:
        listed = "\n".join(str(leak) for leak in leaks)
        return [ChangesetEvicted(changeset=changeset.id, reason=f"it would land secrets:\n{listed}")]
    checks = await _checks(flame, session, changeset, merged)
    if checks is None:
        return []
    red = [check for check in checks if not check.passed]
    if red:
        verdict = red_verdict(red)
        reason = f"checks are red on the combined tree: {', '.join(verdict.issues)}\n{verdict.notes}"
        return [ChangesetEvicted(changeset=changeset.id, reason=reason)]
    files = await asyncio.to_thread(file_changes, flame.repo, base, merged)
    build = Build(base=base, commit=merged, files=files, checks=checks)
    return [ChangesetBuilt(changeset=changeset.id, build=build)]


def _merge(flame: Flame, session: Session, changeset: Changeset, base: str) -> str | Conflict:
    """One merge commit on the base with the changeset's tips as further parents, so that history tells the truth."""
    tips = _tips(session, changeset)
    combined = combine(flame.repo, base, tips, f"Rehearsal of {changeset.id}")
    if isinstance(combined, Conflict):
        return combined
    parents = (base, *_independent(flame.repo, tips))
    ref = changeset_ref(session.id, changeset.id)
    found = refs(flame.repo, ref).get(ref)
    if found is not None and _is_merge_of(flame.repo, found, combined.sha, parents):
        return found  # built before a crash: what was checked then is found again by its name
    message = _message(flame.repo, session, changeset, base, parents[1:])
    commit = commit_tree(flame.repo, tree_of(flame.repo, combined.sha), parents, message)
    set_ref(flame.repo, ref, commit)
    return commit


def _independent(repo: Repository, tips: Sequence[str]) -> tuple[str, ...]:
    heads = git(repo.root, "merge-base", "--independent", *tips).split()
    return tuple(tip for tip in tips if tip in heads)


def _is_merge_of(repo: Repository, commit: str, combined: str, parents: tuple[str, ...]) -> bool:
    names = (f"{commit}^{{tree}}", f"{combined}^{{tree}}", f"{commit}^@")
    tree, wanted, *found = git(repo.root, "rev-parse", *names).split()
    return tree == wanted and tuple(found) == parents


def _tips(session: Session, changeset: Changeset) -> list[str]:
    results = [session.tasks[name].result for name in changeset.tasks]
    return [result.sha for result in results if result is not None]


def tree_of(repo: Repository, sha: str) -> str:
    return git(repo.root, "rev-parse", f"{sha}^{{tree}}").strip()


def _message(repo: Repository, session: Session, changeset: Changeset, base: str, heads: Sequence[str]) -> str:
    """`type(task-ids): title`, as the commit format wants it; the type is the first task's own."""
    first = next(iter(commits(repo, base, heads[0])[::-1]), None)
    found = TYPE.match(first.subject) if first else None
    kind = found.group(1) if found else "feat"
    titles = [f"- {name}: {session.tasks[name].task.title}" for name in changeset.tasks]
    trailers = [f"Blue-Flame-Session: {session.id}", f"Blue-Flame-Changeset: {changeset.id}"]
    subject = f"{kind}({','.join(changeset.tasks)}): {changeset.title}"
    return "\n".join([subject, "", *titles, "", *trailers, ""])


async def _checks(flame: Flame, session: Session, changeset: Changeset, commit: str) -> tuple[Check, ...] | None:
    """What a task's own checks have shown of this very tree need not be shown again."""
    tree = await asyncio.to_thread(tree_of, flame.repo, commit)
    for name in changeset.tasks:
        result = session.tasks[name].result
        known = result is not None and name in session.checks
        if known and result and await asyncio.to_thread(tree_of, flame.repo, result.sha) == tree:
            return session.checks[name]
    return await check_commit(flame, session, commit, changeset.id)


async def land_changeset(flame: Flame, session: Session, effect: LandChangeset, _emit: Emit) -> Sequence[Event]:
    """Compare and swap: what was shown and approved is what lands, on the base it was built on, or nothing does."""
    record = session.changesets[effect.changeset]
    build = record.build
    assert build is not None, f"{effect.changeset} is approved without being built"
    done = await asyncio.to_thread(advance, flame.repo, session.base_branch, old=build.base, new=build.commit)
    if isinstance(done, Advanced):
        return [Landed(changeset=effect.changeset, before=build.base, after=build.commit, checkout=done.checkout)]
    if isinstance(done, Dirty):
        paths = ", ".join(done.paths[:10])
        note = f"your checkout of {session.base_branch} is not clean ({done.reason}: {paths}); it was not touched"
        return list(skip(session, effect.changeset, note))
    return [BaseMoved(changeset=effect.changeset, expected=build.base, found=done.found)]
