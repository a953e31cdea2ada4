"""kill -9 of the house, its sessions and their agents at random while requests and answers arrive from every source.

Each request leads to exactly one session or one reported refusal, no gate is answered twice, no message is lost, and
one comes twice only if the house was killed while it was sent. BLUEFLAME_HOUSE_KILLS=60 makes it a long run
(`make torture-house`), in which more arrives all the time; BLUEFLAME_TORTURE_SEED=2 gives other dice.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from blueflame.dispatch.state import FINAL_STATES, fold_request
from blueflame.journal.house import HouseJournal
from blueflame.journal.journal import Journal
from blueflame.model.event import GateAnswered, SessionEnded
from blueflame.model.house.event import AnswerSettled, RequestEnded, RequestReceived, RequestRefused
from blueflame.system.flock import read_lock_holder
from support.house_traffic import ANNA, BOB, HouseTraffic, SentMessage, run_traffic
from support.houses import PATIENCE, HouseStage, make_house

KILLS = int(os.environ.get("BLUEFLAME_HOUSE_KILLS", "2"))
SEED = int(os.environ.get("BLUEFLAME_TORTURE_SEED") or "1")  # make gives an empty one
SOURCES = 7
MORE = 0.1 if KILLS > 2 else 0.0  # how often something arrives beyond one of each; a session takes two CPU seconds


def test_a_house_that_is_killed_at_random_loses_and_repeats_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(SEED)
    environ: dict[str, str] = {}
    with make_house(tmp_path, "shop", "blog", "site") as stage, run_traffic(stage, dice, environ) as traffic:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        victims = Victims(stage)
        killed_at = [serve_and_kill(stage, traffic, victims, dice) for _ in range(KILLS)]
        while traffic.sent < SOURCES:  # it was killed early each time
            traffic.send_one()
        with stage.serve():
            stage.until(lambda: is_done(stage, traffic), "the end", PATIENCE * (1 + KILLS // 10))
        check_requests(stage, traffic)
        check_gates(stage)
        check_messages(stage, traffic, killed_at)


@dataclass
class Victims:
    """The orchestrators and wardens of the sessions; each session is struck twice at most: it is given up after five
    processes in a row that did not end it, and a task after as many attempts as it has."""

    stage: HouseStage
    struck: Counter[tuple[str, str]] = field(default_factory=Counter)

    def kill_one(self, dice: random.Random) -> None:
        if found := self._list_processes():
            self._kill(dice.choice(found))

    def kill_all(self) -> None:
        for each in self._list_processes():
            self._kill(each)

    def _kill(self, victim: tuple[str, str, int]) -> None:
        repository, session, pid = victim
        if self.struck[repository, session] < 2:
            self.struck[repository, session] += 1
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _list_processes(self) -> list[tuple[str, str, int]]:
        """Repository, session and pid of what holds a lock: the orchestrator, and the warden of each attempt."""
        found = []
        for name in self.stage.names:
            state = self.stage.root / name / ".blueflame"
            for lock in (state / "orchestrator.lock", *state.glob("attempts/*/lock")):
                pid = (read_lock_holder(lock) or "").partition(" ")[0]
                sessions = self.stage.list_sessions(name)
                if pid.isdigit() and sessions:
                    found.append((name, sessions[-1].session, int(pid)))
        return found


def serve_and_kill(stage: HouseStage, traffic: HouseTraffic, victims: Victims, dice: random.Random) -> float:
    with stage.serve() as house:
        stage.until(lambda: read_lock_holder(stage.paths.lock) is not None, "the house")
        until = time.monotonic() + dice.uniform(0.0, 8.0)
        while time.monotonic() < until:
            if traffic.sent < SOURCES or dice.random() < MORE:
                traffic.send_one()
            traffic.deliver_calls()
            traffic.answer_gates()
            if dice.random() < 0.06:
                victims.kill_one(dice)
            time.sleep(0.2)
        if dice.random() < 0.2:
            victims.kill_all()  # as when the machine loses its power
        os.kill(house.pid, signal.SIGKILL)
        house.wait()
        return time.monotonic()


def is_done(stage: HouseStage, traffic: HouseTraffic) -> bool:
    """Whether all that was sent has come to its end, and the chats know it; what is asked meanwhile is answered."""
    traffic.deliver_calls()
    traffic.answer_gates()
    with HouseJournal.open_read_only(stage.paths.journal) as journal:
        if journal.list_waiting(limit=1) or not traffic.is_delivered or traffic.api.pending:
            return False
        records = [fold_request(journal.read_stream(name)) for name in journal.list_streams(10_000)]
        waiting = [key for key in journal.read_notes("telegram") if key.startswith("out:")]
    if waiting or find_missing(stage, traffic):
        return False
    return all(each is not None and each.state in FINAL_STATES for each in records)


def list_received(stage: HouseStage) -> list[RequestReceived]:
    return stage.list_events(RequestReceived)


def find_missing(stage: HouseStage, traffic: HouseTraffic) -> set[tuple[str, str]]:
    """What was sent and is not received; the key of a plan file ends with what it says."""
    received = {(each.request.source, each.request.key.partition("@")[0]) for each in list_received(stage)}
    wanted = {(source, key) for source, keys in traffic.expected.items() for key in keys}
    return wanted - received


def check_requests(stage: HouseStage, traffic: HouseTraffic) -> None:
    received = [each.request for each in list_received(stage)]
    assert set(Counter((each.source, each.key) for each in received).values()) == {1}, "each is received once"
    by_source = Counter(each.source for each in received)
    wanted = {source: len(keys) for source, keys in traffic.expected.items()}
    assert wanted.items() <= by_source.items()
    assert by_source["terminal"] == traffic.detached
    with HouseJournal.open_read_only(stage.paths.journal) as journal:
        seen = json.loads(journal.read_cursor("feeds/news"))["seen"]
    assert by_source["feeds"] == len(seen) >= 1, "what was fetched is received"
    assert by_source["schedules"] >= 1
    assert set(by_source) == {*wanted, "terminal", "feeds", "schedules"}

    entries = stage.read_events()
    refused = {each.stream for each in entries if isinstance(each.event, RequestRefused)}
    ended = Counter(each.stream for each in entries if isinstance(each.event, RequestEnded | RequestRefused))
    sessions = Counter(each.request_id for name in stage.names for each in stage.list_sessions(name))
    for each in [entry.stream for entry in entries if isinstance(entry.event, RequestReceived)]:
        assert (sessions[each], ended[each]) == (0 if each in refused else 1, 1), each
    assert sum(sessions.values()) + len(refused) == len(received), "no session without a request"


def check_gates(stage: HouseStage) -> None:
    for name in stage.names:
        with Journal.open_read_only(stage.root / name / ".blueflame" / "journal.db") as journal:
            for session in journal.list_ids():
                own = [entry.event for entry in journal.read_events(session)]
                answers = Counter(event.gate for event in own if isinstance(event, GateAnswered))
                assert set(answers.values()) <= {1}, "no gate is answered twice"
                assert sum(isinstance(event, SessionEnded) for event in own) == 1
    settled = stage.list_events(AnswerSettled)
    assert set(Counter((each.source, each.key) for each in settled).values()) <= {1}, "each answer is settled once"
    accepted = Counter((each.session, each.gate) for each in settled if each.accepted)
    assert set(accepted.values()) <= {1}, "one answer to a gate is accepted"


def check_messages(stage: HouseStage, traffic: HouseTraffic, killed_at: Sequence[float]) -> None:
    copies: dict[tuple[int, int | None, str], list[SentMessage]] = defaultdict(list)
    for each in traffic.api.taken:
        copies[each.chat, each.reply_to, each.text].append(each)
    assert {each.chat for each in traffic.api.taken} <= {ANNA, BOB}, "strangers get no answer"
    repeated = [pair for each in copies.values() for pair in itertools.pairwise(each)]
    kills = Counter((first.chat, find_kill(first, second, killed_at)) for first, second in repeated)
    assert set(kills.values()) <= {1}, "a kill repeats at most one message of a chat"
    for entry in stage.read_events():
        if isinstance(entry.event, RequestReceived) and entry.event.request.source == "telegram":
            chat, message = map(int, entry.event.request.reply_to.split(":"))
            replies = [text for to, reply, text in copies if (to, reply) == (chat, message)]
            where = entry.event.repository
            begins = (f"{where}: queued as {entry.stream}", f"{where}: received as {entry.stream}")
            first = [text for text in replies if text.startswith(begins)]
            last = [text for text in replies if text.endswith(f", {entry.stream})") or text.startswith("Not accepted")]
            assert len(last) == 1, replies
            assert len(first) == (0 if replies == last else 1), replies


def find_kill(first: SentMessage, second: SentMessage, killed_at: Sequence[float]) -> float:
    """The kill that kept the house from noting that the first copy was sent."""
    between = [at for at in killed_at if first.at <= at <= second.at]
    assert between, f"sent twice without a kill: {second.text}"
    return between[0]
