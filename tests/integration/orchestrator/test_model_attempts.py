"""Attempts that call a model: where the secret is and is not, what refusals and outages make of them, lost wardens."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from blueflame.orchestrator.engine.interface import AttemptSpec, ExitReason, ProcessOutcome, Running, SetupStep
from blueflame.orchestrator.engine.local import LocalEngine
from support.model_gateways import SECRET, TOKEN, build_model_options
from support.model_providers import (
    answer_json,
    build_error,
    build_message,
    build_message_events,
    never_answer,
    start_provider,
    stream_events,
    wait_then,
)

ATTEMPT = "ses-20260101-000000.task-001.worker.1"
PATIENCE = 30.0
CALL = f"""
call() {{
    exec 5<>"/dev/tcp/127.0.0.1/$BLUEFLAME_GATEWAY_PORT"
    printf 'POST /anthropic/v1/messages HTTP/1.1\\r\\nx-api-key: {TOKEN}\\r\\ncontent-length: 2\\r\\n\\r\\n{{}}' >&5
    read -r _ status _ <&5
    cat <&5 >/dev/null
    echo "$status"
    [ "$status" = 200 ]
}}
"""
FINE = answer_json(200, build_message())
ONE_CALL = [{"name": "attempt", "unit": "tokens", "limit": 1}]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "мой проект" / ".blueflame"


def order(state: Path, url: str, script: str, *, secrets: dict[str, str] | None = None, **model: Any) -> AttemptSpec:  # noqa: ANN401
    work = state.parent / "work"
    work.mkdir(parents=True, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    return AttemptSpec(
        attempt=ATTEMPT,
        argv=("bash", "-c", CALL + script),
        env={"PATH": os.environ["PATH"]},
        cwd=str(work),
        grace=1.0,
        walls={"gateway": {"port": port, "hosts": [], "model": build_model_options(url, **model)}},
        secrets={"key": SECRET} if secrets is None else secrets,
    )


def play(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, PATIENCE * 2))


def run(state: Path, given: AttemptSpec) -> ProcessOutcome:
    async def story() -> ProcessOutcome:
        engine = LocalEngine(state)
        await engine.submit(given)
        return await engine.wait(given.attempt)

    return asyncio.run(asyncio.wait_for(story(), PATIENCE * 2))


def said(state: Path) -> list[str]:
    return (state / "attempts" / ATTEMPT / "stdout.log").read_text().split()


def usage(state: Path) -> list[dict[str, Any]]:
    text = (state / "attempts" / ATTEMPT / "usage.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


async def until(condition: Callable[[], object], what: str) -> None:
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up, f"timed out waiting until {what}"
        await asyncio.sleep(0.01)


def places_with_the_secret(state: Path) -> list[str]:
    """Every file of the state, and what every process shows of itself."""
    files = [path for path in state.parent.rglob("*") if path.is_file()]
    shown = [Path(f"/proc/{entry.name}/{name}") for entry in _processes() for name in ("environ", "cmdline")]
    return [str(path) for path in (*files, *shown) if SECRET.encode() in _read(path)]


def _processes() -> list[Path]:
    return [entry for entry in Path("/proc").iterdir() if entry.name.isdigit() and int(entry.name) != os.getpid()]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_the_secret_reaches_the_provider_and_is_nowhere_else(state: Path) -> None:
    gate = threading.Event()

    async def story(given: AttemptSpec) -> None:
        engine = LocalEngine(state)
        await engine.submit(given)
        await until(lambda: far.asked, "the call is with the provider")
        while_it_ran = places_with_the_secret(state)
        gate.set()
        ended = await engine.wait(given.attempt)

        assert (ended.reason, ended.exit_code) == (ExitReason.EXITED, 0)
        assert while_it_ran == []
        assert places_with_the_secret(state) == []
        assert SECRET not in repr(given)

    with start_provider(wait_then(gate, FINE)) as far:
        play(story(order(state, far.url, "call")))

    assert far.asked[0].headers["x-api-key"] == SECRET
    assert [line["input"] for line in usage(state)] == [100]


def test_without_its_secret_an_attempt_is_not_started(state: Path) -> None:
    with start_provider(FINE) as far:
        ended = run(state, order(state, far.url, "call", secrets={}))

    assert ended.reason is ExitReason.SPAWN_FAILED
    assert "the gateway cannot be started" in ended.detail
    assert "the secret key was not given to the warden" in ended.detail
    assert far.asked == []


def test_the_model_is_at_the_configured_port_and_setup_steps_do_not_take_it(state: Path) -> None:
    with start_provider(FINE) as far:
        given = order(state, far.url, 'call && echo "$BLUEFLAME_GATEWAY_PORT"')
        ended = run(state, replace(given, setup=(SetupStep(name="look", command="true"),)))

    assert ended.exit_code == 0
    assert said(state) == ["200", str(given.walls["gateway"]["port"])]


@pytest.mark.verification(50)
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("call; call", ExitReason.BUDGET),  # its exit code is that of the last call
        ("call; call; sleep 600", ExitReason.BUDGET),  # it does not care, and is ended after its grace
        ("call; call; exit 0", ExitReason.EXITED),  # it took the hint
    ],
)
def test_an_agent_whose_budget_is_used_up_ends_as_such(state: Path, script: str, reason: ExitReason) -> None:
    with start_provider(FINE) as far:
        ended = run(state, order(state, far.url, script, budgets=ONE_CALL))

    assert ended.reason is reason
    assert said(state) == ["200", "402"]
    assert ("The budget of this attempt is used up: 120 tokens of 1 tokens" in ended.detail) is (
        reason is ExitReason.BUDGET
    )
    assert [line["refused"] for line in usage(state)] == ["", "budget"]


def test_an_agent_whose_model_is_away_for_too_long_ends_as_an_outage(state: Path) -> None:
    with start_provider(answer_json(503, build_error("api_error", "Down."))) as far:
        ended = run(state, order(state, far.url, "call", outage_wait=0.0))

    assert (ended.reason, ended.detail) == (ExitReason.OUTAGE, "503: Down.")


@pytest.mark.parametrize(("timeout", "silence"), [(2.0, 0.0), (0.0, 2.0)])
def test_the_silence_of_a_provider_is_not_the_agents(state: Path, timeout: float, silence: float) -> None:
    """Whatever limit of the attempt is shorter than the usual minute and a half."""
    with start_provider(never_answer) as far:
        given = order(state, far.url, "call", silence=0.3, outage_wait=1.5)
        ended = run(state, replace(given, timeout=timeout, silence=silence))

    assert (ended.reason, ended.cause) == (ExitReason.OUTAGE, "network")
    assert ended.detail == "127.0.0.1 has sent nothing for 0.3 seconds"


def test_its_clocks_stand_still_while_it_waits_for_its_model(state: Path) -> None:
    """It may be silent for two and a half seconds, and waits for four."""

    async def story(given: AttemptSpec) -> None:
        engine = LocalEngine(state)
        await engine.submit(given)
        seen: list[Running] = []
        while not seen or not seen[-1].parked:
            standing = await engine.inspect(given.attempt)
            seen += [standing] if isinstance(standing, Running) else []
            await asyncio.sleep(0.01)
        ended = await engine.wait(given.attempt)

        assert (seen[-1].parked["kind"], seen[-1].parked["reason"]) == ("rate_limit", "429: Slow down.")
        assert (ended.reason, ended.exit_code, ended.detail) == (ExitReason.EXITED, 0, "")

    with start_provider(answer_json(429, build_error(), retry_after_ms="4000"), FINE) as far:
        play(story(replace(order(state, far.url, "call"), timeout=3.0, silence=2.5)))

    assert [line["tries"] for line in usage(state)] == [2]


def test_an_attempt_whose_warden_was_killed_has_its_last_call_on_record(state: Path) -> None:
    start, text, *rest = build_message_events()
    gate = threading.Event()

    async def story(given: AttemptSpec) -> None:
        engine = LocalEngine(state)
        await engine.submit(given)
        await until(lambda: far.asked, "the call is with the provider")
        standing = await engine.inspect(given.attempt)
        assert isinstance(standing, Running)
        threading.Timer(0.2, gate.set).start()
        os.kill(standing.pid, signal.SIGKILL)
        ended = await engine.wait(given.attempt)

        assert ended.reason is ExitReason.LOST
        assert [(line["output"], line["complete"]) for line in usage(state)] == [(20, True)]

    with start_provider(stream_events([start, text, gate, *rest])) as far:
        play(story(order(state, far.url, "call")))
