"""Budgets: the call after the last one that fits is refused; no budget is exceeded by more than one call."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from blueflame.telemetry.usage import read_metered_usage
from support.model_gateways import AgentAnswer, RunningGateway, build_model_options, start_model_gateway
from support.model_providers import (
    answer_json,
    build_message,
    build_message_events,
    start_provider,
    stream_events,
    wait_then,
)
from support.wardens import wait_until

TWO_CALLS = [{"name": "attempt", "unit": "tokens", "limit": 240}]  # each call takes 120


def test_when_a_budget_is_used_up_the_next_call_is_refused_with_advice(tmp_path: Path) -> None:
    budgets = [{"name": "session", "unit": "tokens", "limit": 10_000}, {"name": "attempt", "unit": "usd", "limit": 400}]
    with (
        start_provider(answer_json(200, build_message())) as provider,
        start_model_gateway(tmp_path / "a", build_model_options(provider.url, budgets=budgets)) as gateway,
    ):
        answers = [gateway.send_call() for _ in range(4)]
        received, lines = gateway.read_status(), gateway.read_usage()

    words = (
        "The budget of this attempt is used up: $0.0004 of $0.0004."
        " No further call is answered; commit what you have and stop."
    )
    assert [answer.status for answer in answers] == [200, 200, 402, 402]
    assert answers[2].content == {"type": "error", "error": {"type": "billing_error", "message": words}}
    assert answers[2].headers["x-should-retry"] == "false"
    assert len(provider.asked) == 2
    assert received["refused"] == {"budget": "attempt", "unit": "usd", "used": 400, "limit": 400, "words": words}
    assert received["near"] == ["$0.0004 of the $0.0004 are used that this attempt may cost."], "once"
    assert [line["refused"] for line in lines] == ["", "", "budget", "budget"]
    assert [line["micro_usd"] for line in lines] == [200, 200, 0, 0]


@pytest.mark.parametrize(
    ("target", "place"),
    [
        ("/anthropic/v1/messages", ("error", "message")),
        ("/openai/responses", ("error", "message")),
        ("/openai/chat/completions", ("error", "message")),
        ("/gemini/v1beta/models/gemini-test:generateContent", ("error", "message")),
    ],
)
def test_a_refusal_has_the_shape_of_its_api(build_used_up: RunningGateway, target: str, place: tuple[str, str]) -> None:
    received = build_used_up.send_call(target)

    assert received.status == 402
    assert "240 tokens of 200 tokens" in received.content[place[0]][place[1]]


@pytest.fixture(scope="module")
def build_used_up(tmp_path_factory: pytest.TempPathFactory) -> Any:  # noqa: ANN401 (a generator of gateways)
    budgets = [{"name": "attempt", "unit": "tokens", "limit": 200}]
    folder = tmp_path_factory.mktemp("model") / "a"
    with (
        start_provider(answer_json(200, build_message())) as provider,
        start_model_gateway(folder, build_model_options(provider.url, budgets=budgets)) as gateway,
    ):
        gateway.send_call()
        gateway.send_call()
        yield gateway


def test_an_empty_budget_refuses_the_first_call(tmp_path: Path) -> None:
    budgets = [{"name": "day", "unit": "usd", "limit": 0}]
    with (
        start_provider(answer_json(200, build_message())) as provider,
        start_model_gateway(tmp_path / "a", build_model_options(provider.url, budgets=budgets)) as gateway,
    ):
        assert gateway.send_call().status == 402
        assert gateway.read_status()["refused"]["budget"] == "day"
    assert provider.asked == []


def test_parallel_calls_wait_when_together_they_could_exceed_the_budget(tmp_path: Path) -> None:
    """Ten calls at once, with budget for two: the third must not run."""
    with (
        start_provider(answer_json(200, build_message())) as provider,
        start_model_gateway(tmp_path / "a", build_model_options(provider.url, budgets=TWO_CALLS)) as gateway,
        ThreadPoolExecutor(10) as pool,
    ):
        answers = list(pool.map(lambda _: gateway.send_call(), range(10)))
        lines = gateway.read_usage()

    assert sorted(answer.status for answer in answers) == [200] * 2 + [402] * 8
    assert len(provider.asked) == 2
    assert sum(line["input"] + line["output"] for line in lines) == 240


def test_parallel_calls_run_together_when_the_budget_has_room(tmp_path: Path) -> None:
    gate = threading.Event()
    budgets = [{"name": "attempt", "unit": "tokens", "limit": 100_000}]
    with (
        start_provider(
            answer_json(200, build_message()), wait_then(gate, answer_json(200, build_message()))
        ) as provider,
        start_model_gateway(tmp_path / "a", build_model_options(provider.url, budgets=budgets)) as gateway,
        ThreadPoolExecutor(3) as pool,
    ):
        small = {"model": "claude-test", "max_tokens": 1000}
        assert gateway.send_call(body=small).status == 200
        waiting = [pool.submit(gateway.send_call, body=small) for _ in range(3)]
        wait_until(lambda: len(provider.asked) == 4, "all three are with the provider at once")
        gate.set()
        assert [call.result().status for call in waiting] == [200] * 3


def test_an_agent_that_asks_again_before_its_stream_has_ended_is_counted_all_the_same(tmp_path: Path) -> None:
    """message_stop was sent, the end of the body was not."""
    gate = threading.Event()
    budgets = [{"name": "attempt", "unit": "tokens", "limit": 120}]
    with (
        start_provider(stream_events([*build_message_events(), gate])) as provider,
        start_model_gateway(tmp_path / "a", build_model_options(provider.url, budgets=budgets)) as gateway,
        gateway.start_call() as first,
    ):
        first.read_head()
        seen = b""
        while b"message_stop" not in seen:
            seen += first.read_chunk()
        second: AgentAnswer = gateway.send_call()
        gate.set()
        first.read_chunk()

    assert second.status == 402
    assert len(provider.asked) == 1


def test_a_call_that_cannot_be_logged_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "usage.jsonl").symlink_to("/dev/full")
    with (
        start_provider(answer_json(200, build_message())) as provider,
        start_model_gateway(tmp_path / "a", build_model_options(provider.url)) as gateway,
    ):
        answers = [gateway.send_call() for _ in range(2)]

    assert [answer.status for answer in answers] == [200, 403]
    assert "the record of what the model costs cannot be written" in answers[1].content["error"]["message"]
    assert len(provider.asked) == 1


@pytest.mark.parametrize("waits", [False, True])
def test_a_call_of_a_gateway_that_was_killed_counts_by_its_last_estimate_unless_it_was_refused(
    tmp_path: Path, waits: bool
) -> None:
    start, *rest = build_message_events()
    hangs = stream_events([start, threading.Event(), *rest])
    with (
        start_provider(answer_json(200, build_message()), answer_json(529, {}) if waits else hangs) as provider,
        start_model_gateway(tmp_path / "a", build_model_options(provider.url)) as gateway,
    ):
        gateway.send_call()
        with gateway.start_call(body={"model": "claude-test", "stream": True, "max_tokens": 30_000}):
            wait_until(lambda: len(provider.asked) == 2, "the provider has it")
            if waits:
                gateway.wait_until_parked()
            running = read_metered_usage(gateway.folder, ended=False)
            os.kill(gateway.pid, signal.SIGKILL)

    ended = read_metered_usage(gateway.folder)
    assert (running.calls, running.spend.output_tokens) == (1, 20)
    assert (ended.calls, ended.incomplete, ended.spend.output_tokens) == ((1, 0, 20) if waits else (2, 1, 1020))
