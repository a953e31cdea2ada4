"""Agents that go away in the middle, and attempts that end there: what their calls used is still learned."""

from __future__ import annotations

import threading
from pathlib import Path

from support.model_gateways import build_model_options, start_model_gateway
from support.model_providers import build_message_events, never_answer, start_provider, stream_events
from support.wardens import is_alive, wait_until

START, TEXT, DELTA, STOP = build_message_events()


def test_an_answer_is_read_to_its_end_after_the_agent_disconnects(tmp_path: Path) -> None:
    go_on = threading.Event()
    with (
        start_provider(stream_events([START, TEXT, go_on, DELTA, STOP])) as far,
        start_model_gateway(tmp_path / "a", build_model_options(far.url)) as door,
    ):
        with door.start_call() as talk:
            talk.read_head()
        go_on.set()
        (line,) = door.wait_for_usage()

    assert (line["status"], line["output"], line["complete"]) == (200, 20, True)


def test_when_the_attempt_ends_the_last_answer_has_a_moment(tmp_path: Path) -> None:
    """`close` waits for it, so that the record is whole when the warden goes on."""
    go_on = threading.Event()
    with (
        start_provider(stream_events([START, TEXT, go_on, DELTA, STOP])) as far,
        start_model_gateway(tmp_path / "a", build_model_options(far.url)) as door,
        door.start_call() as talk,
    ):
        talk.read_head()
        threading.Timer(0.1, go_on.set).start()
        assert door.read_status("close")["lives"] is False
        (line,) = door.read_usage()

    assert (line["output"], line["complete"]) == (20, True)


def test_an_answer_that_takes_too_long_is_cut_off_and_marked_incomplete(tmp_path: Path) -> None:
    with (
        start_provider(stream_events([START, TEXT, threading.Event()])) as far,
        start_model_gateway(tmp_path / "a", build_model_options(far.url)) as door,
        door.start_call() as talk,
    ):
        talk.read_head()
        talk.read_chunk()
        assert door.read_status("close")["lives"] is False
        (line,) = door.read_usage()

    assert (line["status"], line["input"], line["output"], line["complete"]) == (200, 100, 1, False)


def test_a_gateway_whose_warden_was_killed_reads_on_and_ends(tmp_path: Path) -> None:
    go_on = threading.Event()
    with (
        start_provider(stream_events([START, TEXT, go_on, DELTA, STOP]), never_answer) as far,
        start_model_gateway(tmp_path / "a", build_model_options(far.url)) as door,
        door.start_call() as one,
    ):
        one.read_head()  # first: whoever asks first is answered
        with door.start_call() as _other:
            wait_until(lambda: len(far.asked) == 2, "both calls are with the provider")
            door.warden.kill()
            door.warden.wait()
            threading.Timer(0.1, go_on.set).start()
            wait_until(lambda: not is_alive(door.pid), "the gateway has ended")
        lines = sorted(door.read_usage(), key=lambda line: bool(line["complete"]))

    assert [(line["status"], line["output"], line["complete"]) for line in lines] == [(0, 0, False), (200, 20, True)]
