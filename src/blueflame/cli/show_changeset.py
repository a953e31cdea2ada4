"""A changeset as a person judges it: what it changes, what it holds, what checked it, what it lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from blueflame.cli.paint import BAD, NOTE, OK, Heading, columns, stack
from blueflame.cli.plain import clean, count, duration, one_line
from blueflame.model.changeset import Build, ChangesetRecord, ChangesetState, FileChange
from blueflame.model.spend import Budget, Spend
from blueflame.model.task import Task
from blueflame.model.verdict import Check

SHOWN_FILES = 12


def show_changeset(
    record: ChangesetRecord,
    *,
    session: str,
    place: tuple[int, int] = (1, 1),
    tasks: Mapping[str, Task] | None = None,
    spend: Spend | None = None,
    budget: Budget | None = None,
    rejected: Sequence[str] = (),
) -> RenderableType:
    """`place` is (i, n) among the cycle's changesets; `rejected` names rejected groups that this one builds on."""
    changeset = record.changeset
    cost = f"session cost so far: {(budget or Budget()).show((budget or Budget()).used(spend))}" if spend else ""
    title = Text.assemble(
        f"Changeset {place[0]}/{place[1]}: ",
        (f"[{one_line(changeset.group)}]", "group"),
        (f" {one_line(changeset.title)}", "head"),
    )
    return stack(
        Heading("Changeset review", cost, f"cycle {changeset.cycle}", session),
        Group(title, *_contents(record, tasks or {})),
        _files(record.build.files) if record.build and record.build.files else None,
        _checks(record.build.checks) if record.build and record.build.checks else None,
        *_notes(record, rejected),
    )


def _contents(record: ChangesetRecord, tasks: Mapping[str, Task]) -> list[RenderableType]:
    changeset = record.changeset
    size = [Text(f"  [{size_of(record.build)}]")] if record.build else []
    rows = [(Text(name, "id"), one_line(tasks[name].title)) for name in changeset.tasks if name in tasks]
    return [*size, Text(f"  Tasks: {', '.join(changeset.tasks)}"), *([columns(rows, indent=4)] if rows else [])]


def size_of(build: Build) -> str:
    return f"{count(len(build.files), 'file')} changed, +{build.added:,}, -{build.deleted:,}"


def _files(files: Sequence[FileChange]) -> RenderableType:
    shown = sorted(files, key=lambda file: file.path)[:SHOWN_FILES]
    rows = [(clean(file.path), Text(f"+{file.added}", "good"), Text(f"-{file.deleted}", "bad")) for file in shown]
    rest = [Text(f"  … and {len(files) - SHOWN_FILES:,} more", "quiet")] if len(files) > SHOWN_FILES else []
    return Group(columns(rows, right=(1, 2)), *rest)


def _checks(checks: Sequence[Check]) -> RenderableType:
    rows = [
        (
            Text(OK, "good") if check.passed else Text(BAD, "bad"),
            clean(check.name),
            Text("timed out" if check.timed_out else "" if check.passed else f"exit {check.exit_code}", "bad"),
            Text(duration(check.seconds), "quiet"),
        )
        for check in checks
    ]
    return Group(Text("Checks on the very commit that would land", "quiet"), columns(rows, right=(3,)))


def _notes(record: ChangesetRecord, rejected: Sequence[str]) -> list[RenderableType]:
    """What a person must not overlook; at most one block, so that it stays calm."""
    notes = [f"Depends on rejected changeset [{one_line(group)}]: kept for the next cycle." for group in rejected]
    if record.changeset.missing:
        notes.append(f"Not in it, though of the same group: {', '.join(record.changeset.missing)}.")
    if record.note:
        notes.append(one_line(record.note))
    return [Group(*(Text.assemble((f"  {NOTE} NOTE: ", "warn"), note) for note in notes))] if notes else []


def judged_line(record: ChangesetRecord) -> Text:
    """What came of it, in one line: said right after the answer, and again in the list of what landed."""
    name = f"[{one_line(record.changeset.group)}]"
    tasks = ", ".join(record.changeset.tasks)
    match record.state:
        case ChangesetState.LANDED:
            return Text.assemble((OK, "good"), f" {name} landed as {(record.landed_as or '')[:10]}: {tasks}")
        case ChangesetState.APPROVED:
            return Text.assemble((OK, "good"), f" {name} approved: {tasks}")
        case ChangesetState.REJECTED:
            return Text.assemble(("→", "warn"), f" {name} rejected, re-queued with your reason: {tasks}")
        case ChangesetState.SKIPPED:
            return Text.assemble(("→", "warn"), f" {name} skipped, shown again in the next cycle: {tasks}")
        case ChangesetState.DEFERRED:
            return Text.assemble(("→", "warn"), f" {name} deferred, it builds on a rejected changeset: {tasks}")
        case ChangesetState.EVICTED:
            return Text.assemble((BAD, "bad"), f" {name} cannot land: {one_line(record.note)}: {tasks}")
        case _:
            return Text.assemble((" ", "quiet"), f" {name} waits: {tasks}")


TALLY: Mapping[ChangesetState, str] = {
    ChangesetState.LANDED: "approved",
    ChangesetState.APPROVED: "approved",
    ChangesetState.REJECTED: "re-queued",
    ChangesetState.EVICTED: "sent back",
    ChangesetState.DEFERRED: "deferred",
    ChangesetState.SKIPPED: "skipped",
}


def tally(records: Sequence[ChangesetRecord]) -> str:
    """`1 changeset approved, 1 re-queued, 1 deferred.` A deferral is no re-queue: its work stays verified."""
    words = [TALLY[record.state] for record in records if record.state in TALLY]
    counted = [(word, words.count(word)) for word in dict.fromkeys(TALLY.values()) if word in words]
    if not counted:
        return "No changeset has been judged."
    (word, n), *rest = counted
    return ", ".join([f"{count(n, 'changeset')} {word}", *(f"{n} {word}" for word, n in rest)]) + "."


def changeset_json(record: ChangesetRecord) -> dict[str, Any]:
    changeset, build = record.changeset, record.build
    return {
        "id": changeset.id,
        "cycle": changeset.cycle,
        "group": changeset.group,
        "title": changeset.title,
        "state": record.state.value,
        "tasks": list(changeset.tasks),
        "after": list(changeset.after),
        "missing": list(changeset.missing),
        "note": record.note,
        "landed_as": record.landed_as,
        "build": None if build is None else _build_json(build),
    }


def _build_json(build: Build) -> dict[str, Any]:
    return {
        "base": build.base,
        "commit": build.commit,
        "added": build.added,
        "deleted": build.deleted,
        "files": [{"path": file.path, "added": file.added, "deleted": file.deleted} for file in build.files],
        "checks": [
            {"name": check.name, "passed": check.passed, "exit_code": check.exit_code, "seconds": check.seconds}
            for check in build.checks
        ],
    }
