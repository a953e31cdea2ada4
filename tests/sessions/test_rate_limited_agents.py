"""Real gateways that meet a limit: what the orchestrator sees of it, and what a person's "try now" does."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from blueflame.journal.house import HouseJournal
from blueflame.model.attempt import Attempt, AttemptRecord
from blueflame.model.event import Event, RuntimeParked, RuntimeResumed
from blueflame.model.settings.roles import RuntimeSettings
from blueflame.orchestrator.context import SessionContext
from blueflame.orchestrator.engine.interface import AttemptSpec, ExitReason, ProcessOutcome
from blueflame.orchestrator.lifecycle import lock_project, open_session
from blueflame.orchestrator.monitors.accounts import find_shared_wait
from blueflame.orchestrator.monitors.limits import LimitMonitor
from blueflame.orchestrator.monitors.rate_limits import await_runtime, remove_shared_wait
from blueflame.orchestrator.wiring import build_context
from blueflame.session.effects import AwaitRuntime
from blueflame.session.state import Session
from blueflame.system.layout import POOL_VARIABLE
from support.model_gateways import SECRET, TOKEN, build_model_options
from support.model_providers import answer_json, build_error, build_message, start_provider
from support.sessions import Stage, task

PATIENCE = 60.0
FINE = answer_json(200, build_message())
CALL = f"""
exec 5<>"/dev/tcp/127.0.0.1/$BLUEFLAME_GATEWAY_PORT"
printf 'POST /anthropic/v1/messages HTTP/1.1\\r\\nx-api-key: {TOKEN}\\r\\ncontent-length: 2\\r\\n\\r\\n{{}}' >&5
read -r _ status _ <&5
[ "$status" = 200 ]
"""


@dataclass
class Scene:
    """One running agent and its watcher."""

    context: SessionContext
    session: Session
    attempt: str
    said: list[Event] = field(default_factory=list)

    @property
    def word(self) -> Path:
        return self.context.paths.parked("scripted")

    async def submit(self, url: str, **model: Any) -> None:  # noqa: ANN401 (as the gateway's orders have it)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        orders = build_model_options(url, shared=str(self.word), **model)
        await self.context.engine.submit(
            AttemptSpec(
                attempt=self.attempt,
                argv=("bash", "-c", CALL),
                env={"PATH": os.environ["PATH"]},
                cwd=str(self.context.repo.root),
                grace=1.0,
                walls={"gateway": {"port": port, "hosts": [], "model": orders}},
                secrets={"key": SECRET},
            )
        )

    async def until_parked(self) -> RuntimeParked:
        watcher = LimitMonitor(lambda: self.context, self.session, self.said.extend)
        while not self.said:
            await watcher.poll(time.time())
            await asyncio.sleep(0.05)
        (result,) = self.said
        assert isinstance(result, RuntimeParked)
        self.session.parked["scripted"] = result
        return result

    async def end(self) -> ProcessOutcome:
        return await self.context.engine.wait(self.attempt)


@pytest.fixture
def scene(stage: Stage) -> Scene:
    stage.play(task(1))
    project = stage.project()
    with lock_project(project) as journal:
        session = open_session(project, journal, request="x")
    name = f"{session.id}.task-001.worker.1"
    attempt = Attempt(id=name, session=session.id, subject="task-001", role="worker", n=1, agent_id="worker-1")
    session.live[name] = attempt
    session.attempts[name] = AttemptRecord(attempt=attempt, intended_at=0.0)
    return Scene(build_context(project, session, script=stage.script), session, name)


def play(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, PATIENCE))


def test_a_limit_is_seen_waited_for_and_over_when_the_agent_got_through(scene: Scene) -> None:
    async def story() -> None:
        await scene.submit(far.url)
        result = await scene.until_parked()
        assert (result.kind, result.reason, result.agents) == ("rate_limit", "429: Slow down.", 1)
        resumed = await await_runtime(scene.context, scene.session, AwaitRuntime("scripted"), lambda _events: None)
        assert resumed == [RuntimeResumed(runtime="scripted", reason="no agent waits for it any more")]
        assert (await scene.end()).exit_code == 0
        assert not scene.word.exists()

    with start_provider(answer_json(429, build_error(), retry_after_ms="4000"), FINE) as far:
        play(story())


def test_try_now_lets_the_agent_that_waits_try_at_once(scene: Scene) -> None:
    async def story() -> None:
        await scene.submit(far.url, rate_limit_wait=7200.0)
        result = await scene.until_parked()
        assert result.until is not None
        assert result.until > time.time() + 1000
        remove_shared_wait(scene.word)
        assert (await scene.end()).exit_code == 0

    with start_provider(answer_json(429, build_error(), retry_after_ms="3600000"), FINE) as far:
        play(story())


@pytest.mark.parametrize(
    ("replies", "orders", "reason", "cause"),
    [
        ((answer_json(503, build_error("api_error", "Down.")),), {"outage_wait": 0.0}, ExitReason.OUTAGE, "outage"),
        (
            (answer_json(429, build_error(), retry_after_ms="9000"),),
            {"rate_limit_wait": 1.0},
            ExitReason.OUTAGE,
            "rate_limit",
        ),
        ((answer_json(401, build_error("authentication_error", "No.")),), {}, ExitReason.ACCOUNT, "login"),
        ((answer_json(404, build_error("not_found_error", "model: x")),), {}, ExitReason.ACCOUNT, "model"),
    ],
)
def test_an_ending_by_a_limit_names_the_limit(
    scene: Scene, replies: tuple[Any, ...], orders: dict[str, Any], reason: ExitReason, cause: str
) -> None:
    async def story() -> None:
        await scene.submit(far.url, **orders)
        ended = await scene.end()
        assert (ended.reason, ended.cause) == (reason, cause)

    with start_provider(*replies) as far:
        play(story())


def test_repositories_of_a_house_share_the_limits_of_an_account(scene: Scene, tmp_path: Path) -> None:
    house = {POOL_VARIABLE: str(tmp_path / "house"), "ANTHROPIC_API_KEY": "k"}
    HouseJournal.open(tmp_path / "house" / "house.db").close()

    def find(runtime: str, environ: Mapping[str, str], upstream: str | None = None) -> Path:
        settings = scene.context.settings.model_copy(update={"runtimes": {runtime: RuntimeSettings(upstream=upstream)}})
        paths = replace(scene.context.paths, root=tmp_path / "elsewhere")
        return find_shared_wait(replace(scene.context, settings=settings, environ=environ, paths=paths), runtime)

    usual = find("claude", house)
    assert usual.parent == tmp_path / "house" / "parked"
    assert find_shared_wait(replace(scene.context, environ=house), "claude") == usual, "the same in another repository"
    assert find("tmux", house) == usual, "another runtime with the same account"
    assert find("claude", house, upstream="https://models.example") != usual
    assert find("codex", house | {"OPENAI_API_KEY": "k"}) != usual
    own = tmp_path / "elsewhere" / ".blueflame" / "parked" / "claude.json"
    assert find("claude", {}) == own
    assert find("claude", {POOL_VARIABLE: str(tmp_path / "deleted")}) == own
