"""What a person did to a file, by comparison with what was last written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from blueflame.knowledge.edits import Edits, Recorded, assign_keys, digest_entries, find_edits
from blueflame.knowledge.entry import build_key
from blueflame.knowledge.page import KnowledgePage, build_page, parse_page, render_page, update_page
from blueflame.model.memory import Lesson, Source
from support.lessons import MISTAKES, learned

A = learned("a", "Never run the migrations twice.", files=("src/db.py",))
B = learned("b", "The clock is UTC.")
WRITTEN = render_page(update_page(build_page(MISTAKES), [A, B]))


def page_of(text: str) -> KnowledgePage:
    page = parse_page(text, MISTAKES)
    assert isinstance(page, KnowledgePage)
    (page,) = assign_keys([page])
    return page


LAST = {"mistakes": Recorded(entries=digest_entries(page_of(WRITTEN)))}


def edits_of(
    text: str,
    known: Sequence[Lesson] = (A, B),
    recorded: Mapping[str, Recorded] = LAST,
    *,
    readable: bool = True,
) -> Edits:
    return find_edits([page_of(text)], {each.key: each for each in known}, recorded, readable=readable, at=5.0)


def test_nothing_changed() -> None:
    assert edits_of(WRITTEN) == Edits()


def test_changed_words_are_the_persons_and_keep_their_origin() -> None:
    (after,) = edits_of(WRITTEN.replace("twice", "by hand")).lessons
    assert after == replace(
        A, text="Never run the migrations by hand.", confirmed=True, origin=replace(A.origin, source=Source.PERSON)
    )


def test_a_bullet_without_an_id_is_new_and_the_same_each_time_it_is_read() -> None:
    text = WRITTEN.replace("<!-- end", "- Mine.\n\n<!-- end")
    (new,) = edits_of(text).lessons
    assert (new.text, new.confirmed, new.origin.source, new.origin.at) == ("Mine.", True, Source.PERSON, 5.0)
    assert new.about == "mistake"
    assert edits_of(text) == edits_of(text)
    assert edits_of(text, (A, B, new)) == Edits()


def test_a_deleted_entry_is_forgotten() -> None:
    without = render_page(update_page(page_of(WRITTEN), [A]))
    assert edits_of(without).forgotten == ("b",)


def test_a_file_that_was_read_only_in_part_forgets_nothing() -> None:
    part = WRITTEN[: WRITTEN.index("- The clock")]
    assert edits_of(part) == Edits(unsure=("mistakes",))


def test_while_another_file_cannot_be_read_nothing_is_forgotten() -> None:
    without = render_page(update_page(page_of(WRITTEN), [A]))
    assert edits_of(without, readable=False) == Edits()


def test_an_entry_that_was_forgotten_elsewhere_does_not_come_back_from_the_file() -> None:
    assert edits_of(WRITTEN, (A,)) == Edits()


def test_an_entry_that_a_person_pastes_back_is_there_again() -> None:
    archived = replace(B, archived="budget")
    only_a = {"mistakes": Recorded(entries={"a": LAST["mistakes"].entries["a"]})}
    assert edits_of(WRITTEN, (A, archived), only_a).lessons == (B,)
    assert [each.text for each in edits_of(WRITTEN, (A,), only_a).lessons] == [B.text]


def test_an_edit_of_what_was_archived_meanwhile_brings_it_back() -> None:
    (after,) = edits_of(WRITTEN.replace("UTC", "local time"), (A, replace(B, archived="budget"))).lessons
    assert (after.text, after.archived, after.confirmed) == ("The clock is local time.", "", True)


def test_an_entry_that_a_person_moves_changes_its_file_and_is_not_forgotten() -> None:
    patterns = replace(MISTAKES, name="patterns")
    here = page_of(render_page(update_page(page_of(WRITTEN), [A])))
    other = parse_page(render_page(update_page(build_page(patterns), [B])), patterns)
    assert isinstance(other, KnowledgePage)
    edits = find_edits(assign_keys([here, other]), {"a": A, "b": B}, LAST, readable=True, at=5.0)
    assert edits == Edits(lessons=(replace(B, about="pattern"),))


def test_a_changed_subject_is_taken_over() -> None:
    (after,) = edits_of(WRITTEN.replace("files: src/db.py", "files: src/db.py, src/new.py; confirmed")).lessons
    assert after == replace(A, origin=replace(A.origin, files=("src/db.py", "src/new.py")), confirmed=True)


def test_the_essential_section_is_a_lesson_of_a_person() -> None:
    text = WRITTEN.replace("- Never", "## Essential\n\nNo deploys on Fridays.\n\n## Entries\n\n- Never")
    (essential,) = edits_of(text).lessons
    assert (essential.key, essential.text, essential.confirmed) == (
        "essential:mistakes",
        "No deploys on Fridays.",
        True,
    )
    assert edits_of(text, (A, B, essential)) == Edits()
    assert edits_of(WRITTEN, (A, B, essential)).forgotten == ("essential:mistakes",)


def test_a_write_that_did_not_end_is_no_edit_of_a_person() -> None:
    rewritten = replace(A, text="Never run the migrations more than once.")
    new = learned("c", "New.")
    intended = render_page(update_page(page_of(WRITTEN), [rewritten, new]))
    begun = {"mistakes": Recorded(entries=LAST["mistakes"].entries, intended=digest_entries(page_of(intended)))}
    known = (rewritten, replace(B, archived="budget"), new)
    assert edits_of(WRITTEN, known, begun) == Edits()  # it did not happen
    assert edits_of(intended, known, begun) == Edits()  # it happened, and was not recorded


def test_words_that_an_entry_had_before_may_be_written_again() -> None:
    changed = WRITTEN.replace("id: a;", f"id: {build_key('mistakes', 'Mine.')};")
    page = page_of(changed.replace("- Never", "- Mine.\n\n- Never"))
    assert [each.text for each in page.lessons] == ["Mine.", A.text, B.text]
    assert len({each.key for each in page.lessons}) == 3
    assert page.lessons[1].key == build_key("mistakes", "Mine.")
