"""kill -9 of the house at random while requests arrive: each leads to exactly one session or one reported refusal.

BLUEFLAME_HOUSE_KILLS=40 makes it a long run (`make torture-house`).
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from blueflame.dispatch.state import FINAL_STATES
from blueflame.journal.journal import Journal
from blueflame.model.event import GateAnswered, SessionEnded
from blueflame.model.house.arrival import IncomingRequest
from blueflame.model.house.event import AnswerSettled, RequestReceived, RequestRefused
from blueflame.system.flock import read_lock_holder
from support.houses import HouseStage, make_house

KILLS = int(os.environ.get("BLUEFLAME_HOUSE_KILLS", "3"))
SEED = int(os.environ.get("BLUEFLAME_TORTURE_SEED", "1"))


def test_a_house_that_is_killed_at_random_loses_and_repeats_nothing(tmp_path: Path) -> None:
    dice = random.Random(SEED)
    with make_house(tmp_path, "shop", "blog", "site") as stage:
        stage.write("pool: {agents: 2}\nlimits: {sessions: 2}\n")
        asked = [
            stage.ask(f"Add number {n}", repository=name) for n in range(max(1, KILLS // 6)) for name in stage.names
        ]
        asked.append(stage.ask("Add  number 0", repository="shop"))  # the same as the first one
        asked.append(stage.ask("Add a page", repository="shopp"))
        for _ in range(KILLS):
            with stage.serve() as house:
                stage.until(lambda: read_lock_holder(stage.paths.lock) is not None, "the house")
                until = time.monotonic() + dice.uniform(0.0, 12.0)
                while time.monotonic() < until:
                    stage.approve_all()
                    stage.hand_in(*dice.sample(asked, 2))  # arrive again, as a source that was killed gives them
                    time.sleep(0.3)
                os.kill(house.pid, signal.SIGKILL)
                house.wait()
        with stage.serve():
            stage.until(lambda: is_done(stage, asked), "the end")
        check_stories(stage, len(asked))


def is_done(stage: HouseStage, asked: Sequence[IncomingRequest]) -> bool:
    """Whether all requests have ended, and all answers were settled; what is asked meanwhile is answered."""
    stage.approve_all()
    records = [stage.find_request(each) for each in asked]
    if not all(each is not None and each.state in FINAL_STATES for each in records):
        return False
    return len(stage.list_events(AnswerSettled)) == len(stage.answered)


def check_stories(stage: HouseStage, asked: int) -> None:
    events = stage.read_events()
    received = [each for each in events if isinstance(each.event, RequestReceived)]
    assert len(received) == asked, "each request is received once"
    refused = [each.stream for each in events if isinstance(each.event, RequestRefused)]
    sessions = Counter(each.request_id for name in stage.names for each in stage.list_sessions(name))
    assert len(refused) == 2
    for each in received:
        assert sessions[each.stream] == (0 if each.stream in refused else 1), each.stream
    assert sum(sessions.values()) == asked - 2, "no session without a request"
    for name in stage.names:
        with Journal.open_read_only(stage.root / name / ".blueflame" / "journal.db") as journal:
            for session in journal.list_ids():
                own = [entry.event for entry in journal.read_events(session)]
                answers = Counter(event.gate for event in own if isinstance(event, GateAnswered))
                assert set(answers.values()) <= {1}, "no gate is answered twice"
                assert sum(isinstance(event, SessionEnded) for event in own) == 1
    settled = stage.list_events(AnswerSettled)
    assert set(Counter((each.source, each.key) for each in settled).values()) == {1}, "each answer is settled once"
    assert all(each.accepted for each in settled)
