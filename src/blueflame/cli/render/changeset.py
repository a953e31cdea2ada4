"""A changeset as a person judges it: what it changes, what it holds, what checked it, what it lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from blueflame.cli.console import Heading, build_columns, stack_parts
from blueflame.model.changes import Risk, Weakening
from blueflame.model.changeset import Build, ChangesetRecord, ChangesetState, FileChange
from blueflame.model.spend import NO_SPEND, Budget, Spend
from blueflame.model.task import TaskRecord
from blueflame.model.verdict import Check
from blueflame.text.format import format_count, format_duration
from blueflame.text.marks import BAD, NOTE, OK
from blueflame.text.sanitize import clean_line, clean_text, shorten_line

MAX_FILES, MAX_WEAKENINGS, MAX_LOSSES = 12, 10, 10
MAX_DESCRIPTION, MAX_NOTES, MAX_LINE = 240, 300, 100


def render_changeset(
    record: ChangesetRecord,
    *,
    session: str,
    place: tuple[int, int] = (1, 1),
    tasks: Mapping[str, TaskRecord] | None = None,
    spend: Spend | None = None,
    costs: Mapping[str, Spend] | None = None,
    budget: Budget | None = None,
    rejected: Sequence[str] = (),
) -> RenderableType:
    """`place` is (i, n) among the cycle's changesets; `rejected` names rejected groups that this one builds on.

    `costs` is what each task has cost so far, its reviews included.
    """
    changeset, build = record.changeset, record.build
    cost = (
        f"session cost so far: {(budget or Budget()).format_amount((budget or Budget()).measure(spend))}"
        if spend
        else ""
    )
    title = Text.assemble(
        f"Changeset {place[0]}/{place[1]}: ",
        (f"[{clean_line(changeset.group)}]", "group"),
        (f" {clean_line(changeset.title)}", "head"),
    )
    return stack_parts(
        Heading("Changeset review", cost, f"cycle {changeset.cycle}", session),
        Group(title, *_render_contents(record, tasks or {}, costs or {}, budget or Budget())),
        _render_files(build.files) if build and build.files else None,
        _render_checks(build.checks) if build and build.checks else None,
        _render_weakenings(build.weakened) if build and build.weakened else None,
        _render_risks(build.risks) if build and build.risks else None,
        *_render_notes(record, rejected),
    )


def _render_contents(
    record: ChangesetRecord, tasks: Mapping[str, TaskRecord], costs: Mapping[str, Spend], budget: Budget
) -> list[RenderableType]:
    changeset = record.changeset
    size = [Text(f"  [{format_size(record.build)}]")] if record.build else []
    spent = sum((costs[name] for name in changeset.tasks if name in costs), NO_SPEND)
    cost = [Text(f"  Cost: {budget.format_amount(budget.measure(spent))}")] if budget.measure(spent) else []
    rows = [row for name in changeset.tasks if name in tasks for row in _render_task(tasks[name])]
    named = Text(f"  Tasks: {', '.join(changeset.tasks)}")
    return [*size, named, *cost, *([build_columns(rows, indent=4)] if rows else [])]


def _render_task(record: TaskRecord) -> list[tuple[RenderableType, ...]]:
    """What it is, why it was wanted, and what the reviewer said of it."""
    task = record.task
    rows: list[tuple[RenderableType, ...]] = [(Text(task.id, "id"), clean_line(task.title))]
    if len(why := clean_line(task.description)) > 1 and why != clean_line(task.title):
        rows.append(("", Text.assemble(("why  ", "quiet"), shorten_line(why, MAX_DESCRIPTION))))
    if record.verdict_notes.strip():
        rows.append(("", Text.assemble(("review  ", "quiet"), shorten_line(record.verdict_notes, MAX_NOTES))))
    if record.retries or len(record.history) > 0:
        rows.append(("", Text(f"after {format_count(len(record.history), 'earlier attempt')}", "quiet")))
    return rows


def format_size(build: Build) -> str:
    return f"{format_count(len(build.files), 'file')} changed, +{build.added:,}, -{build.deleted:,}"


def _render_files(files: Sequence[FileChange]) -> RenderableType:
    """All of a few; of many the largest, and the rest summed up."""
    largest = sorted(files, key=lambda file: (-file.added - file.deleted, file.path))
    shown, rest = sorted(largest[:MAX_FILES], key=lambda file: file.path), largest[MAX_FILES:]
    rows = [(clean_text(file.path), Text(f"+{file.added}", "good"), Text(f"-{file.deleted}", "bad")) for file in shown]
    added, deleted = sum(file.added for file in rest), sum(file.deleted for file in rest)
    folded = [Text(f"  … and {len(rest):,} more, smaller: +{added:,}, -{deleted:,}", "quiet")] if rest else []
    return Group(build_columns(rows, right=(1, 2)), *folded)


def _render_checks(checks: Sequence[Check]) -> RenderableType:
    rows = [
        (
            Text(OK, "good") if check.passed else Text(BAD, "bad"),
            clean_text(check.name),
            _format_result(check),
            Text(format_duration(check.seconds), "quiet"),
        )
        for check in checks
    ]
    return Group(Text("Checks on the very commit that would land", "quiet"), build_columns(rows, right=(3,)))


def _format_result(check: Check) -> Text:
    if check.passed:
        return Text("flaky: red at first" if check.flaky else "", "warn")
    return Text("timed out" if check.timed_out else f"exit {check.exit_code}", "bad")


def _render_weakenings(found: Sequence[Weakening]) -> RenderableType:
    """Called out with the lines themselves: a green check says little when it asks for less."""
    rows: list[tuple[RenderableType, ...]] = []
    for each in found[:MAX_WEAKENINGS]:
        rows.append((Text(NOTE, "warn"), clean_text(str(each))))
        rows += [("", Text(f"  {shorten_line(line, MAX_LINE)}", _choose_line_style(line))) for line in each.lines]
    more = len(found) - MAX_WEAKENINGS
    rest = [Text(f"  … and {more:,} more; --json has them all", "quiet")] if more > 0 else []
    return Group(Text("Tests say less than before", "warn"), build_columns(rows), *rest)


def _choose_line_style(line: str) -> str:
    return "bad" if line.startswith("-") else "good"


def _render_risks(found: Sequence[Risk]) -> RenderableType:
    return Group(
        Text("Look twice: this changeset", "warn"),
        build_columns([(Text(NOTE, "warn"), clean_text(str(r))) for r in found]),
    )


def _render_notes(record: ChangesetRecord, rejected: Sequence[str]) -> list[RenderableType]:
    """What a person must not overlook; at most one block, so that it stays calm."""
    notes = [f"Depends on rejected changeset [{clean_line(group)}]: kept for the next cycle." for group in rejected]
    if record.changeset.missing:
        notes.append(f"Not in it, though of the same group: {', '.join(record.changeset.missing)}.")
    losses = record.build.losses if record.build else ()
    notes += [f"{clean_line(str(loss))}." for loss in losses[:MAX_LOSSES]]
    if len(losses) > MAX_LOSSES:
        notes.append(f"… and {len(losses) - MAX_LOSSES} more lines that are not as their task left them.")
    notes += [
        clean_line(f"A conflict in {', '.join(each.paths)} was resolved by {each.by}: {each.notes}")
        for each in record.resolutions
    ]
    if record.note:
        notes.append(clean_line(record.note))
    return [Group(*(Text.assemble((f"  {NOTE} NOTE: ", "warn"), note) for note in notes))] if notes else []


def render_outcome(record: ChangesetRecord) -> Text:
    """What came of it, in one line: said right after the answer, and again in the list of what landed."""
    name = f"[{clean_line(record.changeset.group)}]"
    tasks = ", ".join(record.changeset.tasks)
    match record.state:
        case ChangesetState.LANDED:
            return Text.assemble((OK, "good"), f" {name} landed as {(record.landed_as or '')[:10]}: {tasks}")
        case ChangesetState.PROPOSED:
            return Text.assemble((OK, "good"), f" {name} proposed, {clean_line(record.place)}: {tasks}")
        case ChangesetState.UNDONE:
            return Text.assemble(("→", "warn"), f" {name} {clean_line(record.note)}: {tasks}")
        case ChangesetState.CONFLICTED:
            return Text.assemble(("→", "warn"), f" {name} is in conflict, a merger is at it: {tasks}")
        case ChangesetState.APPROVED:
            return Text.assemble((OK, "good"), f" {name} approved: {tasks}")
        case ChangesetState.REJECTED:
            return Text.assemble(("→", "warn"), f" {name} rejected, re-queued with your reason: {tasks}")
        case ChangesetState.SKIPPED:
            return Text.assemble(("→", "warn"), f" {name} skipped, shown again in the next cycle: {tasks}")
        case ChangesetState.DEFERRED:
            return Text.assemble(("→", "warn"), f" {name} deferred, it builds on a rejected changeset: {tasks}")
        case ChangesetState.EVICTED:
            return Text.assemble((BAD, "bad"), f" {name} cannot land: {clean_line(record.note)}: {tasks}")
        case _:
            return Text.assemble((" ", "quiet"), f" {name} waits: {tasks}")


OUTCOMES: Mapping[ChangesetState, str] = {
    ChangesetState.LANDED: "approved",
    ChangesetState.APPROVED: "approved",
    ChangesetState.PROPOSED: "proposed",
    ChangesetState.UNDONE: "taken back",
    ChangesetState.REJECTED: "re-queued",
    ChangesetState.EVICTED: "sent back",
    ChangesetState.DEFERRED: "deferred",
    ChangesetState.SKIPPED: "skipped",
}


def count_outcomes(records: Sequence[ChangesetRecord]) -> str:
    """`1 changeset approved, 1 re-queued, 1 deferred.` A deferral is no re-queue: its work stays verified."""
    words = [OUTCOMES[record.state] for record in records if record.state in OUTCOMES]
    counted = [(word, words.count(word)) for word in dict.fromkeys(OUTCOMES.values()) if word in words]
    if not counted:
        return "No changeset has been judged."
    (word, n), *rest = counted
    return ", ".join([f"{format_count(n, 'changeset')} {word}", *(f"{n} {word}" for word, n in rest)]) + "."


def build_changeset_json(record: ChangesetRecord) -> dict[str, Any]:
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
        "pull_request": record.place or None,
        "resolved": [{"paths": list(each.paths), "by": each.by, "notes": each.notes} for each in record.resolutions],
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
            {
                "name": check.name,
                "passed": check.passed,
                "exit_code": check.exit_code,
                "seconds": check.seconds,
                "flaky": check.flaky,
                "output_sha256": check.output_sha256,
            }
            for check in build.checks
        ],
        "risks": [{"kind": risk.kind, "words": risk.words, "paths": list(risk.paths)} for risk in build.risks],
        "weakened": [
            {"kind": each.kind, "path": each.path, "line": each.line, "words": each.words, "lines": list(each.lines)}
            for each in build.weakened
        ],
        "losses": [str(loss) for loss in build.losses],
    }
