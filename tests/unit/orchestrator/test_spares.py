from __future__ import annotations

import asyncio

from blueflame.model.event import AttemptIntended, AttemptStarted, JournalEntry
from blueflame.orchestrator.attempts.spares import MAX_POLLS, let_others_start, limit_spares
from blueflame.session.replay import apply_event, replay
from blueflame.session.state import Session
from support.session_examples import Outcomes, reported, task


def replay_to_first_intent() -> tuple[Session, JournalEntry]:
    """A session whose planner is starting, and the event with which it has started."""
    journal = reported(Outcomes(task(1))).journal
    cut = next(n for n, entry in enumerate(journal) if isinstance(entry.event, AttemptIntended))
    assert isinstance(journal[cut + 1].event, AttemptStarted)
    return replay(journal[: cut + 1]), journal[cut + 1]


def test_it_waits_until_all_attempts_have_started() -> None:
    session, started = replay_to_first_intent()
    naps = list[float]()

    async def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            apply_event(session, started)

    asyncio.run(let_others_start(sleep, session))
    assert len(naps) == 3


def test_an_attempt_that_cannot_start_does_not_hold_it_up_for_ever() -> None:
    session, _started = replay_to_first_intent()
    naps = list[float]()

    async def sleep(seconds: float) -> None:
        naps.append(seconds)

    asyncio.run(let_others_start(sleep, session))
    assert len(naps) == MAX_POLLS


def test_more_spares_are_kept_of_a_small_tree_than_of_a_large_one() -> None:
    kept = {files: limit_spares(4, files) for files in (0, 200, 1_000, 3_000, 50_000)}
    assert kept == {0: 100, 200: 100, 1_000: 20, 3_000: 6, 50_000: 6}
