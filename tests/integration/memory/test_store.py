"""The first copy: what goes in comes out, once, and what was forgotten stays away."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blueflame.knowledge.effect import Finding, Trial
from blueflame.knowledge.selection import Choice, Work
from blueflame.memory import search
from blueflame.memory.beads_file import read_jsonl, write_jsonl
from blueflame.memory.builtin import BuiltInMemory
from blueflame.memory.codec import decode_record, distrust_record, encode_record
from blueflame.memory.provider import NO_MEMORY, JournalMark, RecallRequest
from blueflame.memory.store import MemoryStore
from blueflame.model.attempt import Duty
from blueflame.model.errors import MemoryFailed, UsageError
from blueflame.model.memory import Decay, Lesson, MemoryRecord, TaskFailure, TaskResult
from support.disks import fill, mounted
from support.memory_records import failure, lesson, origin, records, result, session_name, summary

few = settings(max_examples=15)  # each makes a file
ASKING = RecallRequest(work=Work(duty=Duty.PLAN, text="Fix the ledger", session="ses-now"), budget=8_000)


def builtin(where: Path, decay: Decay | None = None) -> BuiltInMemory:
    return BuiltInMemory(where / "memory.db", where / "knowledge", decay or Decay())


@given(records)
def test_a_record_is_read_back_as_it_was_written(record: MemoryRecord) -> None:
    assert decode_record(encode_record(record), "here") == record


@few
@given(st.lists(records, max_size=6, unique_by=lambda record: record.key))
def test_what_is_kept_is_there_once_however_often_it_is_saved(given_: Sequence[MemoryRecord]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = MemoryStore(Path(folder) / "memory.db")
        assert store.save_records(given_) == len(given_)
        assert store.save_records(given_) == 0
        assert set(store.list_records()) == set(given_)


@few
@given(st.lists(records, max_size=6, unique_by=lambda record: record.key))
def test_an_exported_memory_can_be_imported(given_: Sequence[MemoryRecord]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "memory.jsonl"
        write_jsonl(file, given_)
        first = read_jsonl(file)
        assert len(first) <= len(given_)  # keys that differ only in what cannot be seen are one
        write_jsonl(file, first)
        assert read_jsonl(file) == first


def test_plain_records_come_back_from_a_file_unchanged_but_for_their_origin(tmp_path: Path) -> None:
    some: list[MemoryRecord] = [summary(1, 5, 6), result(), failure(), lesson()]
    write_jsonl(tmp_path / "a.jsonl", some)
    again = read_jsonl(tmp_path / "a.jsonl")
    assert again == tuple(map(distrust_record, some))
    assert {each.origin.session for each in again} == {f"import:{session_name(1)}"}
    first, *rest = (tmp_path / "a.jsonl").read_text().splitlines()
    assert first == '{"_schema": "beads-jsonl/1"}'
    assert [line.split(",")[0] for line in rest] == ['{"_type": "issue"'] * 3 + ['{"_type": "memory"']


def test_what_beads_itself_exported_becomes_notes(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text(
        '{"_schema": "beads-jsonl/1"}\n'
        '{"_type": "issue", "id": "x-1", "title": "Old \\u001b[31mbug", "status": "closed", "close_reason": "fixed"}\n'
        '{"_type": "memory", "key": "style", "value": "tabs are\\nforbidden"}\n'
        '{"_type": "config", "whatever": 1}\n\n'
    )
    notes = read_jsonl(tmp_path / "b.jsonl")
    assert [(note.key, note.text) for note in notes if hasattr(note, "text")] == [
        ("import:x-1", "Old ␛[31mbug (closed): fixed"),
        ("import:style", "tabs are forbidden"),
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("nonsense", "c.jsonl:2 is not JSON"),
        ("[]", "c.jsonl:2 is not a JSON object"),
        ('{"_type": "issue"}', "without an id or a title"),
        ('{"_type": "memory", "key": 1}', "without a key or a value"),
        ('{"_schema": "beads-jsonl/9"}', "this version reads beads-jsonl/1"),
        ('{"_type": "memory", "bf_record": "{}"}', "is not a memory record of this version"),
        ('{"_type": "memory", "bf_record": "{\\"type\\": \\"lesson\\", \\"schema_version\\": 1}"}', "cannot be read"),
        (
            '{"_type": "memory", "bf_record": "' + 10_000_000 * "x" + '"}',
            "c.jsonl:2: a record of 10,000,000 characters",
        ),
    ],
)
def test_an_invalid_file_is_refused_as_a_whole(tmp_path: Path, line: str, words: str) -> None:
    (tmp_path / "c.jsonl").write_text(f'{{"_schema": "beads-jsonl/1"}}\n{line}\n')
    with pytest.raises(UsageError) as reported:
        read_jsonl(tmp_path / "c.jsonl")
    assert words in str(reported.value)
    assert "othing was imported" in str(reported.value)


def test_what_a_person_made_us_forget_does_not_come_back(tmp_path: Path) -> None:
    memory = builtin(tmp_path)
    memory.remember([failure(), lesson()])
    assert memory.forget([failure().key, "unknown"]) == (failure().key,)
    memory.remember([failure(), lesson()])
    assert [record.key for record in memory.list_records()] == [lesson().key]
    assert "Nothing yet." in (tmp_path / "knowledge" / "failures.md").read_text()


def test_marks_only_grow(tmp_path: Path) -> None:
    store = MemoryStore(tmp_path / "memory.db")
    store.save_records([], JournalMark("ses-1", 9))
    store.save_records([], JournalMark("ses-1", 4))
    assert store.list_marks() == (JournalMark("ses-1", 9),)


def test_reading_creates_no_file(tmp_path: Path) -> None:
    memory = builtin(tmp_path)
    assert memory.list_records() == ()
    assert memory.list_marks() == ()
    assert memory.choose(ASKING) == Choice()
    assert list(tmp_path.iterdir()) == []


def test_old_results_and_failures_are_cut_to_one_line(tmp_path: Path) -> None:
    memory = builtin(tmp_path, Decay(results_after=2, failures_after=4))
    for n in range(1, 8):
        memory.remember([summary(n), result(n), failure(n, task=2, history=("attempt 1: failed",))])
    faded = {record.key for record in memory.list_records() if record.faded}
    assert faded == {
        *(f"result:{session_name(n)}:task-001" for n in range(1, 6)),
        *(f"failure:{session_name(n)}:task-002" for n in range(1, 4)),
    }
    for record in memory.list_records():
        if record.faded and isinstance(record, TaskFailure):
            assert record.history == ()
        if record.faded and isinstance(record, TaskResult):
            assert record.notes == ""


def test_nothing_fades_where_that_is_switched_off(tmp_path: Path) -> None:
    memory = BuiltInMemory(tmp_path / "memory.db", tmp_path / "knowledge", Decay(enabled=False))
    for n in range(1, 9):
        memory.remember([result(n)])
    assert not any(record.faded for record in memory.list_records())


@pytest.mark.parametrize("content", [b"", b"not a database at all, but long enough to be taken for one" * 40])
def test_the_error_of_a_damaged_memory_says_what_to_do(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "memory.db").write_bytes(content)
    memory = builtin(tmp_path)
    if content:
        with pytest.raises(MemoryFailed, match="move it aside"):
            memory.remember([failure()])
        assert "move it aside" in memory.choose(ASKING).note
    else:
        memory.remember([failure()])
        assert memory.list_records() == (failure(),)


@pytest.mark.parametrize("files", [1, 10_000], ids=["no file", "no room"])
def test_the_error_of_a_full_disk_does_not_say_that_the_memory_is_damaged(tmp_path: Path, files: int) -> None:
    with mounted(tmp_path / "disk", 1, files=files):
        if files > 1:
            fill(tmp_path / "disk" / "ballast")

        with pytest.raises(MemoryFailed, match=r"disk that is not full|Free some disk space") as caught:
            builtin(tmp_path / "disk").remember([failure()])

        assert "damaged" not in str(caught.value)


def test_another_programs_database_is_not_changed(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "memory.db") as db:
        db.execute("CREATE TABLE theirs (x)")
    with pytest.raises(MemoryFailed, match="not a memory database of this version"):
        builtin(tmp_path).remember([failure()])
    with sqlite3.connect(tmp_path / "memory.db") as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]


def test_pages_that_cannot_be_written_are_a_warning(tmp_path: Path) -> None:
    (tmp_path / "knowledge").write_text("in the way")
    memory = builtin(tmp_path)
    assert "the pages of memory could not be written" in memory.remember([failure()]).warning
    assert memory.list_records() == (failure(),)


@pytest.mark.verification(39)
def test_no_memory_remembers_nothing() -> None:
    assert NO_MEMORY.remember([failure()]).warning == ""
    assert NO_MEMORY.list_records() == ()
    assert NO_MEMORY.list_marks() == ()
    assert NO_MEMORY.choose(ASKING) == Choice()


MAKING = Work(duty=Duty.MAKE, text="Round the totals of an invoice", files=("src/billing/",))


def learned(name: str, text: str, *files: str) -> Lesson:
    return Lesson(key=name, origin=replace(origin(1), files=files), text=text, about="insight")


LEARNED = (
    learned("about files", "half a cent is lost here", "src/billing/round.py"),
    learned("about words", "Rounding an invoice: totals come last", "docs/x.md"),
    learned("by humps", "roundInvoiceTotals is slow", "docs/y.md"),
    learned("elsewhere", "the colours are fixed", "docs/z.md"),
)


def test_what_is_about_the_files_or_the_words_of_some_work_is_found(tmp_path: Path) -> None:
    memory = builtin(tmp_path)
    memory.remember(LEARNED)
    found = memory.store.find_records(MAKING)
    assert [record.key for record in found.records] == ["about files", "about words", "by humps"]
    assert found.relevance["about words"] == 1.0
    chosen = memory.choose(RecallRequest(work=MAKING, budget=1_500))
    assert [each.key for each in chosen.lessons] == ["about files", "about words", "by humps"]
    whole = replace(learned("whole", "amounts are in cents"), domain="billing")
    memory.remember([whole])
    assert whole in memory.store.find_records(replace(MAKING, domain="billing")).records
    memory.forget(["about words"])
    memory.remember([learned("by humps", "another text", "docs/y.md")])
    assert [record.key for record in memory.store.find_records(MAKING).records] == ["about files"]


@pytest.mark.parametrize("text", ["fix: the bug", "task-001", "C++ don't -x", 'NEAR( foo(bar) "', "*", "", "\ud800 x"])
def test_any_words_can_be_searched(tmp_path: Path, text: str) -> None:
    memory = builtin(tmp_path)
    memory.store.save_records([learned("it", text, f"src/{text}")])
    assert memory.choose(RecallRequest(work=Work(duty=Duty.MAKE, text=text), budget=1_500)).note == ""


def test_a_memory_of_an_earlier_version_is_searched_and_gets_its_index_when_it_is_written(tmp_path: Path) -> None:
    memory = builtin(tmp_path)
    memory.remember(LEARNED)
    with sqlite3.connect(tmp_path / "memory.db") as db:
        for name in ("full_text", "texts", "subjects", "trials", "effects"):
            db.execute(f"DROP TABLE {name}")
    before = memory.choose(RecallRequest(work=MAKING, budget=1_500))
    assert [each.key for each in before.lessons] == ["about files", "about words", "by humps"]
    assert memory.store.list_trials() == ()
    memory.remember([lesson()])
    assert memory.store.find_records(MAKING).relevance["about words"] == 1.0


def test_without_full_text_search_words_are_compared_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = builtin(tmp_path)
    memory.remember(LEARNED[:1])
    monkeypatch.setattr(search, "has_full_text", lambda _db: False)
    memory.remember(LEARNED)
    chosen = memory.choose(RecallRequest(work=MAKING, budget=1_500))
    assert [each.key for each in chosen.lessons] == ["about files", "about words", "by humps"]
    monkeypatch.undo()
    memory.remember([lesson()])
    assert memory.store.find_records(MAKING).relevance["about words"] == 1.0


def test_what_attempts_were_given_says_which_lessons_help(tmp_path: Path) -> None:
    memory = builtin(tmp_path)
    good = [Trial(attempt=f"a{n}", session="s", duty=Duty.MAKE, passed=True) for n in range(12)]
    bad = [replace(each, attempt=f"b{n}", lessons=("about files",), passed=False) for n, each in enumerate(good)]
    memory.remember(LEARNED, trials=[*good, *bad])
    effect = memory.store.list_effects()["about files"]
    assert (effect.given, effect.passed, effect.others_passed, effect.finding) == (12, 0, 12, Finding.HARMS)
    more = learned("also about files", "cents are integers", "src/billing/far/away/round.py")
    memory.remember([more], trials=bad)
    chosen = memory.choose(RecallRequest(work=MAKING, budget=1_500))
    assert chosen.lessons[-1].key == "about files", "what harms sinks"


KILLED_WRITER = """
import os, signal, sys
from pathlib import Path
from blueflame.memory.store import MemoryStore

store = MemoryStore(Path(sys.argv[1]))
with store._open_for_writing() as db:
    db.execute("PRAGMA cache_size = 1")  # what is not committed is in the file, as with many records
    db.executemany("INSERT INTO records VALUES (?, 'note', 's', 0, '', ?)", [(str(n), "x" * 5000) for n in range(50)])
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("kept", [(lesson(),), ()], ids=["a memory", "its creation"])
def test_a_memory_whose_writer_was_killed_has_what_was_committed(
    tmp_path: Path, kept: tuple[MemoryRecord, ...]
) -> None:
    store = MemoryStore(tmp_path / "memory.db")
    if kept:
        store.save_records(kept)
    subprocess.run([sys.executable, "-c", KILLED_WRITER, store.path], check=False)
    assert store.path.with_name("memory.db-journal").stat().st_size
    assert store.list_records() == kept
