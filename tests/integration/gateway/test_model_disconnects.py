"""Agents that disconnect and attempts that end during a call: its usage is still read."""

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
        start_provider(stream_events([START, TEXT, go_on, DELTA, STOP])) as provider,
        start_model_gateway(tmp_path / "a", build_model_options(provider.url)) as gateway,
    ):
        with gateway.start_call() as agent_call:
            agent_call.read_head()
        go_on.set()
        (line,) = gateway.wait_for_usage()

    assert (line["status"], line["output"], line["complete"]) == (200, 20, True)


def test_when_the_attempt_ends_the_last_answer_has_a_moment(tmp_path: Path) -> None:
    """`close` waits for it, so that the usage log is complete when the warden continues."""
    go_on = threading.Event()
    with (
        start_provider(stream_events([START, TEXT, go_on, DELTA, STOP])) as provider,
        start_model_gateway(tmp_path / "a", build_model_options(provider.url)) as gateway,
        gateway.start_call() as agent_call,
    ):
        agent_call.read_head()
        threading.Timer(0.1, go_on.set).start()
        assert gateway.read_status("close")["lives"] is False
        (line,) = gateway.read_usage()

    assert (line["output"], line["complete"]) == (20, True)


def test_an_answer_that_takes_too_long_is_cut_off_and_counted_at_its_most(tmp_path: Path) -> None:
    """The provider may go on without us and charge for all of it."""
    with (
        start_provider(stream_events([START, TEXT, threading.Event()])) as provider,
        start_model_gateway(tmp_path / "a", build_model_options(provider.url)) as gateway,
        gateway.start_call() as agent_call,
    ):
        agent_call.read_head()
        agent_call.read_chunk()
        assert gateway.read_status("close")["lives"] is False
        (line,) = gateway.read_usage()

    assert (line["status"], line["input"], line["output"], line["complete"]) == (200, 100, 128_000, False)


def test_a_gateway_whose_warden_was_killed_reads_on_and_ends(tmp_path: Path) -> None:
    go_on = threading.Event()
    with (
        start_provider(stream_events([START, TEXT, go_on, DELTA, STOP]), never_answer) as provider,
        start_model_gateway(tmp_path / "a", build_model_options(provider.url)) as gateway,
        gateway.start_call() as one,
    ):
        one.read_head()  # the first call is answered first
        with gateway.start_call() as _other:
            wait_until(lambda: len(provider.asked) == 2, "both calls are with the provider")
            gateway.warden.kill()
            gateway.warden.wait()
            threading.Timer(0.1, go_on.set).start()
            wait_until(lambda: not is_alive(gateway.pid), "the gateway has ended")
        lines = sorted(gateway.read_usage(), key=lambda line: bool(line["complete"]))

    assert [(line["status"], line["output"], line["complete"]) for line in lines] == [
        (0, 128_000, False),
        (200, 20, True),
    ]
