"""A changeset, drawn for review."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from blueflame.cli.console import Heading, build_columns, draw_line, stack_parts
from blueflame.model.changes import Risk, Weakening
from blueflame.model.changeset import ChangesetRecord, FileChange
from blueflame.model.task import TaskRecord
from blueflame.model.verdict import Check
from blueflame.session.hand_offs import StageHandOff
from blueflame.text.format import format_count, format_duration
from blueflame.text.marks import BAD, NOTE, OK
from blueflame.text.sanitize import clean_line, clean_text, shorten_line
from blueflame.views.changeset import ChangesetView, describe_outcome, format_size, list_notes

MAX_FILES, MAX_WEAKENINGS = 12, 10
MAX_DESCRIPTION, MAX_NOTES, MAX_LINE = 240, 300, 100


def render_changeset(view: ChangesetView) -> RenderableType:
    changeset, build = view.record.changeset, view.record.build
    title = Text.assemble(
        f"Changeset {view.place[0]}/{view.place[1]}: ",
        (f"[{clean_line(changeset.group)}]", "group"),
        (f" {clean_line(changeset.title)}", "head"),
    )
    cost = f"session cost so far: {view.session_cost}" if view.session_cost else ""
    return stack_parts(
        Heading("Changeset review", cost, f"cycle {changeset.cycle}", view.session),
        Group(title, *_render_contents(view)),
        _render_files(build.files) if build and build.files else None,
        _render_checks(build.checks) if build and build.checks else None,
        _render_weakenings(build.weakened) if build and build.weakened else None,
        _render_risks(build.risks) if build and build.risks else None,
        _render_notes(list_notes(view)),
    )


def render_outcome(record: ChangesetRecord) -> Text:
    return draw_line(describe_outcome(record))


def _render_contents(view: ChangesetView) -> list[RenderableType]:
    changeset, build = view.record.changeset, view.record.build
    size = [Text(f"  [{format_size(build)}]")] if build else []
    cost = [Text(f"  Cost: {view.own_cost}")] if view.own_cost else []
    rows = [
        row
        for name in changeset.tasks
        if name in view.tasks
        for row in (*_render_task(view.tasks[name]), *_render_words(view.hand_offs, name))
    ]
    named = Text(f"  Tasks: {', '.join(changeset.tasks)}")
    return [*size, named, *cost, *([build_columns(rows, indent=4)] if rows else [])]


def _render_task(record: TaskRecord) -> list[tuple[RenderableType, ...]]:
    """Build the rows of a task: title, description, the reviewer's notes, earlier attempts."""
    task = record.task
    rows: list[tuple[RenderableType, ...]] = [(Text(task.id, "id"), clean_line(task.title))]
    if len(why := clean_line(task.description)) > 1 and why != clean_line(task.title):
        rows.append(("", Text.assemble(("why  ", "quiet"), shorten_line(why, MAX_DESCRIPTION))))
    for each in record.standing_verdicts:
        rows.append(("", Text.assemble((f"{clean_line(each.name)}  ", "quiet"), shorten_line(each.summary, MAX_NOTES))))
    if record.retries or record.history:
        rows.append(("", Text(f"after {format_count(len(record.history), 'earlier attempt')}", "quiet")))
    return rows


def _render_words(hand_offs: Sequence[StageHandOff], task: str) -> Iterator[tuple[RenderableType, ...]]:
    """Build the rows of what its agents say; the summary of the last review is shown already."""
    for each in (each for each in hand_offs if each.task == task):
        said = "" if each.is_verdict else " ".join(each.left.summary)
        parts = (
            (each.sender, "quiet", said),
            ("learned", "quiet", "; ".join(each.left.learnings)),
            ("blocked by", "warn", "; ".join(each.left.blockers)),
            ("recommends", "quiet", "; ".join(each.left.recommendations)),
        )
        for name, style, words in parts:
            if words:
                yield ("", Text.assemble((f"{name}  ", style), shorten_line(words, MAX_NOTES)))


def _render_files(files: Sequence[FileChange]) -> RenderableType:
    """Render the largest files by name, and the sum of the rest."""
    largest = sorted(files, key=lambda file: (-file.added - file.deleted, file.path))
    shown, rest = sorted(largest[:MAX_FILES], key=lambda file: file.path), largest[MAX_FILES:]
    rows = [(clean_text(file.path), Text(f"+{file.added}", "good"), Text(f"-{file.deleted}", "bad")) for file in shown]
    added, deleted = sum(file.added for file in rest), sum(file.deleted for file in rest)
    folded = [Text(f"  … and {len(rest):,} more, smaller: +{added:,}, -{deleted:,}", "quiet")] if rest else []
    return Group(build_columns(rows, right=(1, 2)), *folded)


def _render_checks(checks: Sequence[Check]) -> RenderableType:
    rows = [
        (
            _choose_mark(check),
            clean_text(check.name),
            _format_result(check),
            Text(format_duration(check.seconds), "quiet"),
        )
        for check in checks
    ]
    return Group(Text("Checks on the commit that would land", "quiet"), build_columns(rows, right=(3,)))


def _choose_mark(check: Check) -> Text:
    if check.passed:
        return Text(NOTE, "warn") if check.ran_fewer_tests else Text(OK, "good")
    return Text(NOTE, "warn") if check.red_before else Text(BAD, "bad")


def _format_result(check: Check) -> Text:
    tests = Text(check.tests_beside_base, "warn" if check.ran_fewer_tests else "quiet")
    if check.passed:
        return _join(Text("flaky: failed at first" if check.flaky else "", "warn"), tests)
    return _join(Text(check.state, "warn" if check.red_before else "bad"), tests)


def _join(*parts: Text) -> Text:
    return Text(", ").join(part for part in parts if part)


def _render_weakenings(found: Sequence[Weakening]) -> RenderableType:
    """Render them with their lines: a green check means little when it checks less."""
    rows: list[tuple[RenderableType, ...]] = []
    for each in found[:MAX_WEAKENINGS]:
        rows.append((Text(NOTE, "warn"), clean_text(str(each))))
        rows += [
            ("", Text(f"  {shorten_line(line, MAX_LINE)}", "bad" if line.startswith("-") else "good"))
            for line in each.lines
        ]
    more = len(found) - MAX_WEAKENINGS
    rest = [Text(f"  … and {more:,} more; --json has them all", "quiet")] if more > 0 else []
    return Group(Text("Tests check less than before", "warn"), build_columns(rows), *rest)


def _render_risks(found: Sequence[Risk]) -> RenderableType:
    rows = [(Text(NOTE, "warn"), clean_text(str(risk))) for risk in found]
    return Group(Text("Review with care: this changeset", "warn"), build_columns(rows))


def _render_notes(notes: Sequence[str]) -> RenderableType | None:
    return Group(*(Text.assemble((f"  {NOTE} NOTE: ", "warn"), clean_line(note)) for note in notes)) if notes else None
