"""kill -9 in the middle of writing: the journal opens, holds whole batches only and all that was acknowledged."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from blueflame.journal.journal import Journal
from blueflame.model.event import CycleStarted

SES = "ses-20260206-143022"
BATCH = 7

WRITER = """
import sys
from pathlib import Path
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
