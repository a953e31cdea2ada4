"""kill -9 in the middle of writing: the journal opens, holds whole batches only and all that was acknowledged."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from itertools import count
from pathlib import Path

import pytest

from blueflame.journal import database
from blueflame.journal.journal import Journal
from blueflame.journal.mark import WRITING_BACK, mark_written, read_mark
from blueflame.model.errors import JournalError
from blueflame.model.event import CycleStarted
from support.disks import mounted

SES = "ses-20260206-143022"
BATCH = 7

WRITER = """
import sys
from pathlib import Path
from blueflame.model.errors import JournalError
from blueflame.model.event import CycleStarted
from blueflame.journal.journal import Fenced, Journal

with Journal.open(Path(sys.argv[1])) as journal:
    seq = journal.find_last_seq(sys.argv[2])
    while True:
        events = [CycleStarted(cycle=seq, base_sha="f" * 3000 + str(n)) for n in range(int(sys.argv[3]))]
        try:
            seq = journal.append(sys.argv[2], seq, events, 1.0)[-1].seq
        except Fenced:
            seq = journal.find_last_seq(sys.argv[2])
            continue
        print(seq, flush=True)
"""


def writer(path: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", WRITER, str(path), SES, str(BATCH)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def check_whole_batches(path: Path, acknowledged: int) -> int:
    with Journal.open(path) as journal:
        assert journal.find_damage() == ()
        events = [entry.event for entry in journal.read_events(SES)]
    assert len(events) >= acknowledged
    assert len(events) % BATCH == 0
    for first in range(0, len(events), BATCH):
        batch = events[first : first + BATCH]
        assert batch == [CycleStarted(cycle=first, base_sha="f" * 3000 + str(n)) for n in range(BATCH)]
    return len(events)


@pytest.mark.slow
def test_a_killed_writer_leaves_whole_batches(tmp_path: Path) -> None:
    path = tmp_path / "журнал" / "journal.db"
    dice = random.Random(2)
    for _ in range(5):
        with writer(path) as process:
            assert process.stdout
            acknowledged = [int(process.stdout.readline()) for _ in range(dice.randint(1, 12))]
            process.kill()
            acknowledged += [int(line) for line in process.stdout if line.endswith("\n")]
        check_whole_batches(path, acknowledged[-1])


def kill_after(path: Path, batches: int) -> int:
    """Let a writer be killed; return the last event that it acknowledged."""
    with writer(path) as process:
        assert process.stdout
        acknowledged = [int(process.stdout.readline()) for _ in range(batches)]
        process.kill()
        return [*acknowledged, *(int(line) for line in process.stdout if line.endswith("\n"))][-1]


DYING = """
import os
real = Journal.append
def append(journal, *given):
    journal._db.set_trace_callback(lambda sql: "wal_checkpoint" in sql and os.kill(os.getpid(), 9))
    return real(journal, *given)
Journal.append = append
"""  # killed when it begins to write back


def test_a_wal_deleted_after_a_kill_while_it_was_written_back_is_restored(tmp_path: Path) -> None:
    path, whole = tmp_path / "journal.db", tmp_path / "whole"
    argv = [sys.executable, "-c", WRITER.replace("\n\nwith", f"\n{DYING}\nwith"), str(path), SES, str(BATCH)]
    killed = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    written = look(shutil.copytree(tmp_path, whole) / path.name)  # written back when the copy is closed
    pages = (whole / path.name).read_bytes()
    with path.open("r+b") as file:
        file.write(pages[: len(pages) // 2 // 4096 * 4096])  # as far as it came
    path.with_name("journal.db-wal").unlink()

    assert (killed.returncode, written) == (-signal.SIGKILL, check_whole_batches(path, BATCH))


def kill_while_whole(folder: Path) -> Path:
    """Let a writer be killed while its -wal is not written back: what a kill leaves then is no journal without it."""
    for n in count():
        path = folder / str(n) / "journal.db"
        kill_after(path, 2)
        if (mark := read_mark(path)) is not None and mark.file != WRITING_BACK:
            return path
    raise AssertionError("unreachable")


def look(path: Path) -> int:
    """Look with another program, which makes an empty -wal where it is missing."""
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("SELECT count(*) FROM events").fetchone()[0])


READER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], uri=True)
db.execute("SELECT count(*) FROM events").fetchone()
print(flush=True)
sys.stdin.read()
"""


@contextmanager
def watch(path: Path) -> Iterator[None]:
    """Another program reads it and stays; one of this process would share its index with our own connection."""
    argv = [sys.executable, "-c", READER, f"{path.as_uri()}?mode=ro"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdout
        reader.stdout.readline()
        yield


@pytest.mark.parametrize("gone", [("-wal",), ("-wal", "-shm"), ("-shm",)], ids=str)
@pytest.mark.parametrize("watched", [False, True], ids=["", "watched"])
def test_a_wal_deleted_after_a_kill_is_restored(tmp_path: Path, gone: tuple[str, ...], watched: bool) -> None:
    path = tmp_path / "journal.db"
    acknowledged = kill_after(path, 2)
    for end in gone:
        path.with_name(f"journal.db{end}").unlink()
    with watch(path) if watched else nullcontext():
        check_whole_batches(path, acknowledged)
    assert check_whole_batches(path, acknowledged) == look(path)


@pytest.mark.parametrize("gone", [("-wal",), ("-wal", "-shm"), ("-shm",)], ids=str)
def test_no_other_process_opens_a_journal_before_its_writer_has_saved_it(
    tmp_path: Path, gone: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the writer hangs: what another one sends beside it is lost, or damages the journal."""
    monkeypatch.setattr(database, "RESCUE_SECONDS", 0.1)
    path = tmp_path / "journal.db"
    hanging = Journal.open(path)
    hanging.append(SES, 0, [CycleStarted(cycle=1, base_sha="f")], 1.0)
    for end in gone:
        path.with_name(f"journal.db{end}").unlink()
    for opened in (Journal.open, Journal.open_read_only):
        with pytest.raises(JournalError, match=f"while process {os.getpid()} has it open"):
            opened(path)
    with pytest.raises(JournalError, match="saved there again"):
        hanging.list_waiting(SES)
    hanging.close()
    with Journal.open(path) as after:
        assert (after.find_last_seq(SES), after.find_damage()) == (1, ())


def test_a_journal_on_another_disk_is_not_taken_for_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel lists locks by inodes, and small disks all begin with the same ones."""
    monkeypatch.setattr(database, "RESCUE_SECONDS", 0.1)
    paths = [tmp_path / name / "journal.db" for name in ("one", "other")]
    disks = mounted(paths[0].parent, 1), mounted(paths[1].parent, 1)
    with disks[0], disks[1], Journal.open(paths[0]), Journal.open(paths[1]) as journal:
        assert paths[0].stat().st_ino == paths[1].stat().st_ino
        assert journal.find_last_seq(SES) == 0


def test_a_wal_is_not_restored_over_what_was_written_since(tmp_path: Path) -> None:
    path = kill_while_whole(tmp_path)
    path.with_name("journal.db-wal").unlink()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE another_program (n)")
    with Journal.open(path) as journal:
        assert journal.find_damage() == ()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM another_program").fetchone() == (0,)


SENDER = """
import sys
from pathlib import Path
from blueflame.journal import database
from blueflame.journal.journal import Journal

with Journal.open(Path(sys.argv[1])) as journal:
    journal.send(sys.argv[2], "answer", {}, 1.0)
"""


def test_an_index_that_an_orchestrator_uses_is_left_alone(tmp_path: Path) -> None:
    """Its -wal is empty until it first writes; another process must not take that for a lost one."""
    path = tmp_path / "journal.db"
    with Journal.open(path) as journal:
        journal.append(SES, 0, [CycleStarted(cycle=1, base_sha="f")], 1.0)
    mark_written(path, SES, 1)  # by a writer whose events were all written back before it closed
    with Journal.open(path) as orchestrator:
        index = path.with_name("journal.db-shm").stat().st_ino
        subprocess.run([sys.executable, "-c", SENDER, str(path), SES], check=True)
        assert path.with_name("journal.db-shm").stat().st_ino == index
        assert [each.kind for each in orchestrator.list_waiting(SES)] == ["answer"]


@pytest.mark.parametrize("left", [0, 0.9], ids=["emptied", "cut"])
def test_events_that_a_truncated_wal_has_lost_are_counted(tmp_path: Path, left: float) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    with Journal.open(before / "journal.db") as journal:
        for n in range(3):
            journal.append(SES, n, [CycleStarted(cycle=n, base_sha="f" * 40)], 1.0)
        shutil.copytree(before, after)  # as a kill would leave it
    wal = after / "journal.db-wal"
    os.truncate(wal, int(wal.stat().st_size * left))
    with Journal.open(after / "journal.db") as journal:
        journal.refuse_damage()
        found = journal.find_last_seq(SES)
        assert journal.count_lost(SES) == 3 - found > 0
        journal.append(SES, found, [CycleStarted(cycle=9, base_sha="")], 1.0)
        assert journal.count_lost(SES) == 0


@pytest.mark.slow
def test_two_writers_of_one_session_never_mix(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with writer(path) as one, writer(path) as two:
        assert one.stdout and two.stdout
        acknowledged = [int(process.stdout.readline()) for process in (one, two, one, two) if process.stdout]
        one.kill()
        two.kill()
    assert len(set(acknowledged)) == len(acknowledged)
    check_whole_batches(path, max(acknowledged))
