"""Each task's lines are in the combined tree or reported as lost, and no conflict marker is left."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blueflame.checks.merge_losses import (
    ChangedFile,
    FileVersions,
    count_markers,
    find_leftover_markers,
    find_losses,
    format_conflicts,
)
from blueflame.model.changeset import LOST, RETURNED, MergeLoss


def text(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def case(
    before: bytes | None, after: bytes | None, combined: bytes | None, *others: tuple[str, bytes | None, bytes | None]
) -> ChangedFile:
    return ChangedFile(
        task="task-001",
        path="src/a.py",
        own=FileVersions(name="task-001", before=before, after=after),
        combined=combined,
        others=tuple(FileVersions(name=name, before=old, after=new) for name, old, new in others),
    )


def reported(*cases: ChangedFile) -> list[str]:
    return [str(loss) for loss in find_losses(cases)]


def test_lines_that_survive_are_not_reported() -> None:
    base = text("a", "b", "c")
    assert (
        reported(case(base, text("a", "mine", "b", "c"), text("a", "mine", "b", "c", "d"), ("x", base, base + b"d\n")))
        == []
    )


def test_a_missing_line_that_no_task_removed_is_reported() -> None:
    found = reported(case(text("a"), text("a", "mine", "too"), text("a", "too")))
    assert found == ["1 line of task-001 in src/a.py is not in the result: mine"]


def test_a_line_that_another_task_changed_is_reported_with_its_name() -> None:
    other = ("task-002", text("a", "mine"), text("a", "theirs"))
    found = reported(case(text("a"), text("a", "mine"), text("a", "theirs"), other))
    assert found == ["1 line of task-001 in src/a.py is not in the result (changed by task-002): mine"]


def test_silent_losses_come_before_those_that_are_accounted_for() -> None:
    explained = case(
        text("a"), text("a", "mine"), text("a", "theirs"), ("task-002", text("a", "mine"), text("a", "theirs"))
    )
    silent = case(text("z"), text("z", "gone"), text("z"))
    assert [loss.by for loss in find_losses([explained, silent])] == ["", "task-002"]


def test_a_copy_that_was_there_before_is_held_against_the_one_that_others_took_out() -> None:
    before = text("{", "x", "}", "{", "y", "}")
    after = text("{", "x", "}", "{", "y", "}", "{", "z", "}")
    combined = text("{", "x", "}", "{", "z", "}")
    assert reported(case(before, after, combined, ("task-002", before, text("{", "x", "}")))) == []


def test_both_sides_adding_the_same_line_once_is_no_loss() -> None:
    both = text("a", "import os")
    assert reported(case(text("a"), both, both, ("task-002", text("a"), both))) == []


def test_a_line_that_comes_back_is_reported() -> None:
    assert reported(case(text("a", "old"), text("a"), text("a", "old"))) == [
        "1 line that task-001 took out of src/a.py is in the result again: old"
    ]
    again = ("task-002", text("a"), text("a", "old"))
    assert find_losses([case(text("a", "old"), text("a"), text("a", "old"), again)])[0].by == "task-002"
    bracket = ("task-002", text("a"), text("a", "}"))
    assert reported(case(text("a", "}"), text("a"), text("a", "}"), bracket)) == []


def test_a_file_that_is_gone_has_lost_all_and_a_deleted_one_that_is_there_has_it_all_back() -> None:
    assert [(one.kind, one.count) for one in find_losses([case(None, text("a", "b"), None)])] == [(LOST, 2)]
    assert [(one.kind, one.count) for one in find_losses([case(text("a", "b"), None, text("a", "b"))])] == [
        (RETURNED, 2)
    ]


def test_of_files_that_are_no_text_only_the_whole_is_compared() -> None:
    assert reported(case(b"\0a", b"\0b", b"\0b")) == []
    assert reported(case(b"\0a", b"\0b", b"\0a")) == ["the content of task-001 in src/a.py is not in the result"]


def test_long_lists_and_long_lines_are_cut() -> None:
    lines = [f"line {n} " + "x" * 200 for n in range(10)]
    (loss,) = find_losses([case(text("a"), text("a", *lines), text("a"))])
    assert (loss.count, len(loss.lines)) == (10, 3)
    assert str(loss).endswith("(and 7 more)")
    assert len(str(loss)) < 400


def test_line_ends_and_blank_lines_do_not_count() -> None:
    assert reported(case(b"a\n", b"a\n\nmine\n", b"a\r\nmine\r\n")) == []


contents = st.lists(st.sampled_from("abc"), max_size=6).map(lambda lines: text(*lines))


@given(before=contents, after=contents, combined=contents)
def test_a_line_that_is_not_reported_is_as_the_task_left_it(before: bytes, after: bytes, combined: bytes) -> None:
    """Added lines that are not reported lost are there; removed lines that are not reported are not."""
    found: dict[tuple[str, str], int] = {}
    for loss in find_losses([case(before, after, combined)]):
        assert isinstance(loss, MergeLoss)
        assert not loss.by
        found[loss.kind, "".join(loss.lines)] = loss.count
    lost = sum(count for (kind, _), count in found.items() if kind == LOST)
    missing = sum(
        max(0, min(after.count(line) - before.count(line), after.count(line) - combined.count(line)))
        for line in (b"a\n", b"b\n", b"c\n")
    )
    assert lost == missing


@given(before=contents, after=contents)
def test_a_task_alone_loses_nothing(before: bytes, after: bytes) -> None:
    assert find_losses([case(before, after, after)]) == ()


MARKED = b"a\nb\nc\nd\n<<<<<<< ours\nx\n=======\ny\n>>>>>>> theirs\ne\nf\ng\nh\n"


def broken(resolved: bytes, *sides: bytes) -> list[str]:
    found = find_leftover_markers(("a",), {"a": resolved}, [{"a": side} for side in sides])
    return [violation.rule for violation in found]


def test_markers_that_neither_side_had_are_found() -> None:
    assert broken(MARKED, b"x\n", b"y\n") == ["conflict_markers_left"]
    assert broken(b"x\n=======\ny\n", b"x\n", b"y\n") == ["conflict_markers_left"]
    assert broken(MARKED.replace(b"\n", b"\r\n"), b"x\r\n", b"y\r\n") == ["conflict_markers_left"]


def test_a_text_about_merging_keeps_its_own() -> None:
    assert broken(MARKED, MARKED, b"y\n") == []
    assert broken(b"Title\n=======\n", b"Title\n=======\n", b"Title\n=======\n") == []
    assert count_markers(b"======== eight\n<<<<<<<x\n") == 0


def test_only_the_conflicts_are_shown_with_a_few_lines_around() -> None:
    text = format_conflicts({"src/a.py": MARKED})
    assert text.splitlines()[:2] == ["--- src/a.py", "@@ lines 5-9"]
    assert "\na\n" not in text
    assert "\nb\nc\nd\n<<<<<<< ours\n" in text
    assert text.endswith("e\nf\ng")
