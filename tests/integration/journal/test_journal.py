from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from blueflame.journal import journal as journal_module
from blueflame.journal.codec import encode_event
from blueflame.journal.database import MAX_PATH_BYTES, Fenced
from blueflame.journal.journal import Journal, Message, MessageSettlement
from blueflame.journal.session_tables import SESSIONS, m001_events_and_inbox
from blueflame.model.attempt import Attempt, AttemptOutcome, Ending
from blueflame.model.errors import JournalError
from blueflame.model.event import (
    AttemptEnded,
    AttemptIntended,
    CycleEnded,
    CycleStarted,
    Event,
    GateOpened,
    SessionEnded,
    SessionOpened,
    TaskEdited,
)
from blueflame.model.gate import FORMS, Gate, GateKind
from blueflame.model.limits import Limits
from blueflame.model.spend import NO_SPEND, Spend
from blueflame.model.task import Task
from blueflame.model.workflow import Workflow

SES = "ses-20260206-143022"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "мой repo?#%20" / ".blueflame" / "journal.db"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    with Journal.open(path) as opened:
        yield opened


def opened(session: str, request: str = "do it") -> Event:
    return SessionOpened(
        session=session,
        request=request,
        project="p",
        base_branch="main",
        base_sha="0" * 40,
        workflow=Workflow(),
        limits=Limits(),
    )


def ended(*cycles: int) -> list[Event]:
    return [CycleEnded(cycle=cycle) for cycle in cycles]


# appending and reading


def test_what_is_appended_is_read_back_in_order(journal: Journal) -> None:
    first = journal.append(SES, 0, ended(1, 2), 10.0)
    second = journal.append(SES, 2, ended(3), 11.5)
    assert journal.read_events(SES) == [*first, *second]
    assert [(entry.seq, entry.at) for entry in journal.read_events(SES)] == [(1, 10.0), (2, 10.0), (3, 11.5)]
    assert journal.read_events(SES, after=2) == list(second)


def test_it_is_there_after_closing_and_opening(path: Path) -> None:
    with Journal.open(path) as journal:
        journal.append(SES, 0, ended(1), 1.0)
    with Journal.open(path) as journal:
        assert journal.find_last_seq(SES) == 1
        assert journal.find_last_seq("ses-20260206-143023") == 0


def test_appending_nothing_is_nothing(journal: Journal) -> None:
    assert journal.append(SES, 0, [], 1.0) == ()
    assert journal.find_last_seq(SES) == 0


def test_append_returns_what_a_replay_will_see(journal: Journal) -> None:
    gate = Gate(
        id="g",
        kind=GateKind.PLAN,
        subject="plan",
        title="t",
        options=FORMS[GateKind.PLAN].options,
        default="quit",
        evidence={"tasks": ("task-1", "task-2")},  # a tuple: JSON makes a list of it
    )
    assert list(journal.append(SES, 0, [GateOpened(gate=gate)], 1.0)) == journal.read_events(SES)


def test_sessions_do_not_mix(journal: Journal) -> None:
    journal.append("ses-a", 0, ended(1), 1.0)
    journal.append("ses-b", 0, ended(7, 8), 1.0)
    assert [entry.event for entry in journal.read_events("ses-b")] == ended(7, 8)


def test_sessions_are_listed_newest_first_with_how_they_ended(journal: Journal) -> None:
    journal.append("ses-a", 0, [opened("ses-a", "первый запрос")], 1.0)
    journal.append("ses-b", 0, [opened("ses-b"), *ended(1)], 2.0)
    journal.append("ses-a", 1, [SessionEnded(outcome="completed"), CycleEnded(cycle=9)], 5.0)
    newest, oldest = journal.list_sessions()
    assert (newest.id, newest.opened_at, newest.last_at, newest.last_seq, newest.ended) == ("ses-b", 2.0, 2.0, 2, None)
    assert (oldest.id, oldest.opened_at, oldest.last_at, oldest.last_seq) == ("ses-a", 1.0, 5.0, 3)
    assert (oldest.request, oldest.ended) == ("первый запрос", "completed")


def test_a_clock_that_was_set_back_does_not_change_the_order_of_sessions(journal: Journal) -> None:
    journal.append("ses-b", 0, [opened("ses-b")], 5_000.0)
    journal.append("ses-a", 0, [opened("ses-a")], 1_000.0)
    assert [info.id for info in journal.list_sessions()] == ["ses-a", "ses-b"]
    unfinished = journal.find_unfinished()
    assert unfinished is not None
    assert unfinished.id == "ses-a"


def test_a_journal_of_the_first_version_has_the_same_sessions(path: Path) -> None:
    """Read as it is by a view, and migrated by the first writer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"PRAGMA application_id = {SESSIONS.application_id}")
        m001_events_and_inbox(db)
        db.execute("PRAGMA user_version = 1")
        rows = [("ses-b", 1, 1.0, opened("ses-b")), ("ses-a", 1, 2.0, opened("ses-a"))]
        rows.append(("ses-a", 2, 3.0, SessionEnded(outcome="completed")))
        db.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", [(*row[:3], *encode_event(row[3])) for row in rows])
    for open_journal in (Journal.open_read_only, Journal.open, Journal.open_read_only):
        with open_journal(path) as journal:
            assert [(info.id, info.ended) for info in journal.list_sessions()] == [
                ("ses-a", "completed"),
                ("ses-b", None),
            ]
            unfinished = journal.find_unfinished()
            assert unfinished is not None
            assert unfinished.id == "ses-b"


def test_an_empty_journal_has_no_sessions(journal: Journal) -> None:
    assert journal.list_sessions() == ()


# the fence


def test_a_second_orchestrator_is_fenced_and_writes_nothing(path: Path, journal: Journal) -> None:
    journal.append(SES, 0, ended(1), 1.0)
    with Journal.open(path) as second:
        second.append(SES, 1, ended(2), 2.0)
        with pytest.raises(Fenced, match="another orchestrator has written event 2"):
            journal.append(SES, 1, ended(3, 4), 3.0)
        assert [entry.event for entry in second.read_events(SES)] == ended(1, 2)


def test_of_many_writers_at_once_exactly_one_wins_each_place(path: Path) -> None:
    Journal.open(path).close()
    start = threading.Barrier(8)

    def write(n: int) -> int:
        with Journal.open(path) as journal:
            start.wait()
            try:
                journal.append(SES, 0, ended(n, n), 1.0)
            except Fenced:
                return 0
            return n

    with ThreadPoolExecutor(8) as pool:
        winners = [n for n in pool.map(write, range(1, 9)) if n]
    with Journal.open_read_only(path) as journal:
        assert [[entry.event for entry in journal.read_events(SES)]] == [ended(n, n) for n in winners]


def test_one_journal_serves_several_threads(journal: Journal) -> None:
    def write(n: int) -> None:
        session = f"ses-{n}"
        for seq in range(20):
            journal.append(session, seq, ended(seq), 1.0)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert [journal.find_last_seq(f"ses-{n}") for n in range(4)] == [20] * 4


def test_a_journal_restored_from_an_older_copy_is_noticed(journal: Journal) -> None:
    journal.append(SES, 0, ended(1), 1.0)
    with pytest.raises(JournalError, match="older copy"):
        journal.append(SES, 5, ended(6), 1.0)
    assert journal.find_last_seq(SES) == 1


def test_a_missing_event_is_noticed(path: Path, journal: Journal) -> None:
    journal.append(SES, 0, ended(1, 2, 3), 1.0)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM events WHERE seq = 2")
    with pytest.raises(JournalError, match="event 2 of session"):
        journal.read_events(SES)


def test_a_session_without_its_beginning_is_noticed(path: Path, journal: Journal) -> None:
    journal.append(SES, 0, ended(1, 2), 1.0)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM events WHERE seq = 1")
    with pytest.raises(JournalError, match="event 1 of session"):
        journal.list_sessions()


def test_an_event_that_cannot_be_written_takes_the_whole_batch_with_it(journal: Journal) -> None:
    bad = TaskEdited(task=Task(id="task-1", title=object(), description=""))  # type: ignore[arg-type]  # on purpose
    with pytest.raises(JournalError, match="TaskEdited"):
        journal.append(SES, 0, [*ended(1), bad], 1.0)
    assert journal.find_last_seq(SES) == 0


# the inbox


def test_a_message_waits_until_it_is_taken(journal: Journal) -> None:
    message = journal.send(SES, "answer", {"gate": "g-1", "choice": "да"}, 5.0)
    assert journal.read_reply(message) == ("waiting", "")
    assert journal.list_waiting(SES) == (
        Message(id=message, session=SES, at=5.0, kind="answer", body={"gate": "g-1", "choice": "да"}),
    )
    assert journal.settle(message, True, "thank you")
    assert journal.list_waiting(SES) == ()
    assert journal.read_reply(message) == ("taken", "thank you")


def test_the_first_settlement_counts(journal: Journal) -> None:
    message = journal.send(SES, "answer", {}, 1.0)
    assert journal.settle(message, False, "too late")
    assert not journal.settle(message, True, "fine")
    assert journal.read_reply(message) == ("refused", "too late")


def test_messages_reach_their_session_and_open_messages_reach_anyone(journal: Journal) -> None:
    mine = journal.send(SES, "stop", {}, 1.0)
    journal.send("ses-other", "stop", {}, 1.0)
    anyone = journal.send(None, "request", {"text": "x"}, 1.0)
    assert [message.id for message in journal.list_waiting(SES)] == [mine, anyone]
    assert [message.id for message in journal.list_waiting(None)] == [anyone]


def test_an_answer_and_its_settlement_are_one_write(path: Path, journal: Journal) -> None:
    message = journal.send(SES, "answer", {}, 1.0)
    with Journal.open(path) as other:
        other.append(SES, 0, ended(1), 1.0)
    with pytest.raises(Fenced):
        journal.append(SES, 0, ended(2), 1.0, settles=[MessageSettlement(message, True, "ok")])
    assert journal.read_reply(message).state == "waiting"
    journal.append(SES, 1, ended(2), 1.0, settles=[MessageSettlement(message, True, "ok")])
    assert journal.read_reply(message) == ("taken", "ok")


def test_a_message_that_json_cannot_hold_is_refused(journal: Journal) -> None:
    with pytest.raises(JournalError, match="the message answer cannot be written to the journal"):
        journal.send(SES, "answer", {"payload": {1, 2}}, 1.0)
    assert journal.list_waiting(SES) == ()


def test_an_unknown_message_has_no_reply(journal: Journal) -> None:
    with pytest.raises(JournalError, match="no message 7"):
        journal.read_reply(7)


# views


def test_a_view_sees_what_is_written_while_it_is_open(path: Path, journal: Journal) -> None:
    with Journal.open_read_only(path) as view:
        journal.append(SES, 0, ended(1), 1.0)
        assert view.find_last_seq(SES) == 1


def test_a_view_is_not_held_up_by_a_writer_and_holds_none_up(path: Path, journal: Journal) -> None:
    journal.append(SES, 0, ended(1), 1.0)
    with closing(sqlite3.connect(path, isolation_level=None)) as busy, Journal.open_read_only(path) as view:
        busy.execute("BEGIN IMMEDIATE")
        assert view.find_last_seq(SES) == 1
        busy.execute("ROLLBACK")
        journal.append(SES, 1, ended(2), 1.0)


def test_a_view_cannot_write(path: Path, journal: Journal) -> None:
    with Journal.open_read_only(path) as view, pytest.raises(JournalError, match="cannot be written"):
        view.send(None, "request", {}, 1.0)


def test_a_view_of_nothing_creates_nothing(path: Path) -> None:
    with pytest.raises(JournalError, match="no session has been started here yet"):
        Journal.open_read_only(path)
    assert not path.parent.exists()


def test_a_view_opens_a_journal_that_was_closed_in_good_order(path: Path) -> None:
    with Journal.open(path) as journal:
        journal.append(SES, 0, ended(1), 1.0)
    with Journal.open_read_only(path) as view:
        assert view.find_last_seq(SES) == 1


# trouble


def test_a_file_that_is_no_database_is_refused_and_not_changed(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"dear diary, " * 500)
    for opener in (Journal.open, Journal.open_read_only):
        with pytest.raises(JournalError, match="not a journal") as caught:
            opener(path)
        assert str(path) in str(caught.value)
        assert "mv " in str(caught.value)
    assert path.read_bytes() == b"dear diary, " * 500
    assert list(path.parent.iterdir()) == [path]


def test_an_empty_file_is_a_loss_and_not_a_fresh_start(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.touch()
    with pytest.raises(JournalError, match="an empty file"):
        Journal.open(path)
    assert path.stat().st_size == 0


def test_another_programs_database_is_refused(path: Path) -> None:
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")
    before = path.read_bytes()
    with pytest.raises(JournalError, match="another program's database"):
        Journal.open(path)
    assert path.read_bytes() == before


def test_a_newer_journal_is_refused_and_not_changed(path: Path) -> None:
    Journal.open(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    for opener in (Journal.open, Journal.open_read_only):
        with pytest.raises(JournalError, match="has version 99"):
            opener(path)
    assert path.read_bytes() == before


def test_a_damaged_journal_is_reported_with_the_remedy(path: Path) -> None:
    with Journal.open(path) as journal:
        for n in range(200):
            journal.append(SES, n, [CycleStarted(cycle=n, base_sha="f" * 400)], 1.0)
    with path.open("r+b") as file:
        file.seek(4096 * 2)
        file.write(b"\xff" * 4096 * 10)
    with Journal.open(path) as journal:
        with pytest.raises(JournalError, match="damaged"):
            journal.read_events(SES)
        with pytest.raises(JournalError, match=r"damaged|missing"):
            journal.list_sessions()


def test_damage_is_found_by_a_check(path: Path) -> None:
    with Journal.open(path) as journal:
        for n in range(50):
            journal.append(SES, n, [CycleStarted(cycle=n, base_sha="f" * 400)], 1.0)
        assert journal.find_damage() == ()
    with path.open("r+b") as file:
        file.seek(-2000, os.SEEK_END)
        file.write(b"\xff" * 2000)
    with Journal.open(path) as journal:
        assert journal.find_damage()
        with pytest.raises(JournalError, match=r"it is damaged\. Restore it from a backup"):
            journal.refuse_damage()


@pytest.fixture
def large(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journal that counts as large, checked and closed."""
    monkeypatch.setattr(journal_module, "SMALL_BYTES", 1000)
    with Journal.open(path) as journal:
        journal.refuse_damage()
        for n in range(50):
            journal.append(SES, n, [CycleStarted(cycle=n, base_sha="f" * 400)], 1.0)
    return path


def list_checks(path: Path) -> list[str]:
    """The checks that an orchestrator runs when it starts."""
    with Journal.open(path) as journal:
        seen: list[str] = []
        journal._db.set_trace_callback(seen.append)  # what SQLite is really asked
        journal.refuse_damage()
        return [sql for sql in seen if "check" in sql]


def test_a_large_journal_that_nothing_has_touched_is_not_read_as_a_whole(large: Path) -> None:
    assert list_checks(large) == []
    assert list_checks(large) == []


@pytest.mark.parametrize("how", ["a message", "a copy", "a kill"])
def test_a_large_journal_that_was_touched_is_checked(large: Path, how: str) -> None:
    if how == "a message":
        with Journal.open(large) as other:
            other.send(SES, "answer", {}, 1.0)
    elif how == "a copy":
        large.with_name("copy").write_bytes(large.read_bytes())
        large.with_name("copy").replace(large)
    else:
        large.with_name("journal.db-wal").touch()
    assert list_checks(large) == ["PRAGMA quick_check(1)"]


def test_damage_of_a_large_journal_is_noticed(large: Path) -> None:
    with large.open("r+b") as file:
        file.seek(-2000, os.SEEK_END)
        file.write(b"\xff" * 2000)
    for _ in range(2):
        with Journal.open(large) as journal, pytest.raises(JournalError, match="it is damaged"):
            journal.refuse_damage()


def test_a_deleted_session_is_not_taken_for_a_lost_one(journal: Journal) -> None:
    journal.append(SES, 0, [opened(SES), SessionEnded(outcome="completed")], 1.0)
    assert journal.delete_session(SES)
    assert journal.count_lost(SES) == 0


def test_an_event_of_a_newer_version_stops_the_replay(path: Path, journal: Journal) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("INSERT INTO events VALUES (?, 1, 0.0, 'CometSighted', '{}')", (SES,))
    with pytest.raises(JournalError, match="CometSighted"):
        journal.read_events(SES)


def test_a_deleted_journal_is_noticed_and_its_content_saved(path: Path, journal: Journal) -> None:
    journal.append(SES, 0, ended(1, 2), 1.0)
    shutil.rmtree(path.parent)
    with pytest.raises(JournalError, match=r"deleted or replaced .*`blueflame resume`"):
        journal.append(SES, 2, ended(3), 1.0)
    with pytest.raises(JournalError, match="deleted or replaced"):
        journal.send(SES, "answer", {}, 1.0)
    journal.close()
    assert list(path.parent.iterdir()) == [path]
    with Journal.open(path) as again:
        assert [entry.event for entry in again.read_events(SES)] == ended(1, 2)
        again.append(SES, 2, ended(3), 1.0)


def test_a_deleted_journal_is_saved_on_every_way_out(path: Path) -> None:
    """An error comes first that is not the journal's: the folders of attempts are gone too."""
    with pytest.raises(JournalError, match="deleted or replaced") as caught, Journal.open(path) as journal:
        journal.append(SES, 0, ended(1, 2), 1.0)
        shutil.rmtree(path.parent)
        raise FileNotFoundError("attempts")
    assert isinstance(caught.value.__cause__, FileNotFoundError)
    with Journal.open(path) as again:
        assert again.find_last_seq(SES) == 2


def test_a_deleted_journal_is_saved_when_nothing_else_went_wrong(path: Path) -> None:
    with Journal.open(path) as journal:
        journal.append(SES, 0, ended(1, 2), 1.0)
        shutil.rmtree(path.parent)
    with Journal.open(path) as again:
        assert again.find_last_seq(SES) == 2


def test_a_journal_whose_repository_is_moved_says_so(path: Path, journal: Journal) -> None:
    journal.append(SES, 0, ended(1), 1.0)
    path.parent.parent.rename(path.parent.parent.with_name("elsewhere"))
    with pytest.raises(JournalError, match=r"is gone\. Put it back, or run `blueflame resume` where it is now"):
        journal.append(SES, 1, ended(2), 1.0)


def test_a_replaced_journal_is_not_written(path: Path, tmp_path: Path, journal: Journal) -> None:
    journal.append(SES, 0, ended(1), 1.0)
    with Journal.open(tmp_path / "other.db") as other:
        other.append(SES, 0, ended(9), 1.0)
    (tmp_path / "other.db").replace(path)
    with pytest.raises(JournalError, match="deleted or replaced"):
        journal.append(SES, 1, ended(2), 1.0)
    with closing(sqlite3.connect(path.with_name("journal.db.rescued"))) as db:
        assert db.execute("SELECT body FROM events").fetchall() == [('{"cycle":1}',)]


def test_a_journal_whose_newest_events_were_deleted_is_noticed(path: Path, journal: Journal) -> None:
    journal.append(SES, 0, ended(1, 2), 1.0)
    path.with_name("journal.db-wal").unlink()
    with pytest.raises(JournalError, match="deleted or replaced"):
        journal.append(SES, 2, ended(3), 1.0)
    journal.close()
    with Journal.open(path) as again:
        assert again.find_last_seq(SES) == 2


def overwrite(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.write(b"\xff" * file.stat().st_size)


@pytest.mark.parametrize("name", ["journal.db", "journal.db-wal"])
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda file: os.truncate(file, 0), id="emptied"),
        pytest.param(lambda file: os.truncate(file, 4096), id="cut off"),
        pytest.param(overwrite, id="overwritten"),
    ],
)
@pytest.mark.parametrize("messages", [0, 1])
def test_a_journal_that_another_program_damages_is_noticed_and_its_content_saved(
    path: Path, journal: Journal, name: str, damage: Callable[[Path], None], messages: int
) -> None:
    journal.refuse_damage()  # as at each start; it reads everything
    for n in range(9):
        journal.append(SES, n, ended(n + 1), 1.0)
    for _ in range(messages):  # each one makes SQLite forget what it has read
        with Journal.open(path) as other:
            other.send(SES, "answer", {}, 1.0)
        journal.list_waiting(SES)
    damage(path.with_name(name))
    with pytest.raises(JournalError, match=r"damaged by another program .*saved there again.*`blueflame resume`"):
        journal.append(SES, 9, ended(10), 1.0)
    journal.close()
    with Journal.open(path) as again:
        again.refuse_damage()
        assert [entry.event for entry in again.read_events(SES)] == ended(*range(1, 10))
        assert len(again.list_waiting(SES)) == messages


def test_damage_that_cannot_be_repaired_is_reported_at_the_end(path: Path, journal: Journal) -> None:
    """The session that runs still has all it needs, and nothing would be better for a stop."""
    for n in range(9):
        journal.append(SES, n, [CycleStarted(cycle=n, base_sha="f" * 8000)], 1.0)
    journal._db.execute("PRAGMA shrink_memory")  # as in a journal that is too large to be remembered
    with path.open("r+b") as file:
        file.seek(4096 * 4)
        file.write(b"\xff" * 4096 * 6)
    journal.append(SES, 9, ended(10), 1.0)
    with pytest.raises(JournalError, match=r"damaged by another program .*move it aside .*refs/blueflame/"):
        journal.refuse_unsaved_damage()
    assert not list(path.parent.glob("*.rescued*"))


@pytest.mark.parametrize("sql", ["VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"])
def test_another_program_may_tidy_up_the_journal(path: Path, journal: Journal, sql: str) -> None:
    for n in range(9):
        journal.append(SES, n, ended(n + 1), 1.0)
        with closing(sqlite3.connect(path)) as db:
            db.execute(sql)
    journal.refuse_unsaved_damage()
    assert journal.find_last_seq(SES) == 9


def test_a_damaged_journal_that_a_person_moves_aside_is_not_put_back(path: Path) -> None:
    """As its message advises: the copy of a process that has it open is damaged, too."""
    with Journal.open(path) as journal:
        for n in range(9):
            journal.append(SES, n, [CycleStarted(cycle=n, base_sha="f" * 8000)], 1.0)
    size = path.stat().st_size
    os.truncate(path, size // 2)
    os.truncate(path, size)
    journal = Journal.open(path)
    path.rename(path.with_name("journal.db.aside"))
    with pytest.raises(JournalError, match=r"it was damaged before: .*restore the journal from a backup"):
        journal.check_file()
    journal.close()
    assert not path.exists()


def test_an_earlier_rescue_is_never_overwritten(path: Path, journal: Journal) -> None:
    path.with_name("journal.db.rescued").write_text("precious")
    path.unlink()
    path.write_text("another file")
    with pytest.raises(JournalError, match=r"journal.db.rescued2"):
        journal.append(SES, 0, ended(1), 1.0)
    assert path.with_name("journal.db.rescued").read_text() == "precious"


def test_the_newest_events_without_their_journal_are_not_thrown_away(path: Path) -> None:
    path.parent.mkdir(parents=True)
    wal = path.with_name("journal.db-wal")
    wal.write_bytes(b"events")
    with pytest.raises(JournalError, match=r"journal\.db-wal"):
        Journal.open(path)
    assert list(path.parent.iterdir()) == [wal]


def test_an_empty_wal_without_its_journal_is_in_no_ones_way(path: Path, journal: Journal) -> None:
    """A reader leaves one; the next request of a house was held after the journal was deleted."""
    journal.append(SES, 0, ended(1), 1.0)
    journal.close()
    path.unlink()
    path.with_name("journal.db-wal").touch()
    with Journal.open(path) as again:
        again.append(SES, 0, ended(1, 2), 1.0)
        assert (again.find_last_seq(SES), again.find_damage()) == (2, ())


def test_a_full_disk_loses_nothing_that_was_written(path: Path, journal: Journal) -> None:
    journal.append(SES, 0, ended(1), 1.0)
    journal._db.execute("PRAGMA max_page_count = 10")  # SQLite's own way to have a full disk
    with pytest.raises(JournalError, match="disk is full"):
        journal.append(SES, 1, [CycleStarted(cycle=n, base_sha="f" * 4000) for n in range(50)], 1.0)
    journal._db.execute("PRAGMA max_page_count = 1000000")
    journal.append(SES, 1, ended(2), 1.0)
    assert [entry.event for entry in journal.read_events(SES)] == ended(1, 2)


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match="cannot open the journal") as caught:
        Journal.open(tmp_path / "file" / "journal.db")
    assert str(tmp_path / "file") in str(caught.value)


def test_a_path_that_is_too_long_for_sqlite_is_named_as_the_cause(tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 200)
    rest = MAX_PATH_BYTES - len(os.fsencode(folder / "d" / "journal.db"))
    halves = folder / ("d" * (rest // 2))

    Journal.open(halves / ("d" * (rest - rest // 2)) / "journal.db").close()
    with pytest.raises(JournalError, match="Move the repository to a shorter path"):
        Journal.open(halves / ("d" * (rest - rest // 2 + 40)) / "journal.db")


def test_a_folder_in_its_place_is_reported(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(JournalError, match="cannot be opened"):
        Journal.open(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_can_be_viewed_but_not_written(path: Path) -> None:
    with Journal.open(path) as journal:
        journal.append(SES, 0, ended(1), 1.0)
    path.parent.chmod(0o500)
    try:
        with Journal.open_read_only(path) as view:
            assert view.find_last_seq(SES) == 1
        with pytest.raises(JournalError, match="writable"), Journal.open(path) as journal:
            journal.append(SES, 1, ended(2), 1.0)
    finally:
        path.parent.chmod(0o700)


def test_a_locked_journal_is_reported_after_a_while(
    path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blueflame.journal.database.BUSY_TIMEOUT", 0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as busy, Journal.open(path) as second:
        busy.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalError, match="another process holds it"):
            second.append(SES, 0, ended(1), 1.0)
        busy.execute("ROLLBACK")


def test_what_others_have_spent_since_a_moment_is_added_up(journal: Journal) -> None:
    def cost(dollars: int) -> Event:
        return AttemptEnded(attempt="a", ended=AttemptOutcome(ending=Ending.FAILED, spend=Spend(micro_usd=dollars)))

    for n, name in enumerate(("old", "between", "own")):
        journal.append(name, 0, [opened(name), cost(1)], at=100.0 * n)
        journal.append(name, 2, [cost(10), *ended(1)], at=100.0 * n + 50)
    assert journal.sum_spend_since(100.0, without="own") == Spend(micro_usd=11)
    assert journal.sum_spend_since(150.0, without="own") == Spend(micro_usd=10)
    assert journal.sum_spend_since(0.0, without="own") == Spend(micro_usd=22)
    assert journal.sum_spend_since(151.0, without="own") == NO_SPEND


def test_sessions_are_listed_without_reading_their_events(journal: Journal, path: Path) -> None:
    for name in ("ses-1", "ses-2", "ses-3"):
        journal.append(name, 0, [opened(name)], 1.0)
    journal.append("ses-2", 1, [SessionEnded(outcome="completed")], 2.0)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE events SET body = 'damaged'")
    assert journal.list_ids() == ("ses-3", "ses-2", "ses-1")
    assert journal.list_unfinished() == ("ses-3", "ses-1")


def test_only_an_ended_session_can_be_deleted_and_the_others_stay(journal: Journal) -> None:
    for name in ("ses-1", "ses-2"):
        journal.append(name, 0, [opened(name)], 1.0)
        journal.send(name, "stop", {}, 1.0)
    journal.append("ses-1", 1, [SessionEnded(outcome="completed")], 2.0)
    assert not journal.delete_session("ses-2")
    assert journal.delete_session("ses-1")
    assert not journal.delete_session("ses-1")
    journal.compact()
    assert journal.list_ids() == ("ses-2",)
    assert [info.id for info in journal.list_sessions()] == ["ses-2"]
    assert journal.read_events("ses-1") == []
    assert journal.list_waiting("ses-1") == ()
    assert len(journal.list_waiting("ses-2")) == 1
    journal.append("ses-3", 0, [opened("ses-3")], 3.0)
    assert journal.list_ids() == ("ses-3", "ses-2")


def test_the_agents_of_a_session_are_listed_without_a_replay(journal: Journal) -> None:
    attempts = [
        Attempt(id=f"{SES}.task-001.worker.{n}", session=SES, subject="task-001", role="worker", n=n, agent_id=f"w-{n}")
        for n in (1, 2)
    ]
    journal.append(SES, 0, [opened(SES), *(AttemptIntended(attempt=each) for each in attempts)], 1.0)
    assert journal.list_agents(SES) == ("w-1", "w-2")
    assert journal.list_agents("ses-none") == ()
