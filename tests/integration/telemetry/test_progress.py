from __future__ import annotations

import json
from pathlib import Path

import pytest

from blueflame.agents.scripted import ScriptedRuntime
from blueflame.model.attempt import Attempt
from blueflame.telemetry.progress import STEP_BYTES, AgentProgress, ProgressReader

ATTEMPT = Attempt(
    id="ses-1.task-001.worker.1", session="ses-1", subject="task-001", role="worker", n=1, agent_id="worker-0a1b2c3d"
)


@pytest.fixture
def listener() -> ProgressReader:
    return ProgressReader({"scripted": ScriptedRuntime()})


def speak(folder: Path, *lines: object) -> None:
    with (folder / "stdout.log").open("a") as spool:
        spool.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def test_text_and_cost_add_up_over_several_reads(tmp_path: Path, listener: ProgressReader) -> None:
    assert listener.read_progress(ATTEMPT, tmp_path) == AgentProgress()
    speak(tmp_path, {"type": "say", "text": "раз"}, {"type": "usage", "cost_usd": 0.5})
    first = listener.read_progress(ATTEMPT, tmp_path)
    assert (first.text, first.spend.usd) == ("раз", 0.5)
    assert listener.read_progress(ATTEMPT, tmp_path) == first
    speak(tmp_path, {"type": "usage", "cost_usd": 0.25})
    again = listener.read_progress(ATTEMPT, tmp_path)
    assert (again.text, again.spend.usd) == ("раз", 0.75)


def test_a_flood_is_caught_up_with_bit_by_bit(tmp_path: Path, listener: ProgressReader) -> None:
    speak(tmp_path, *[{"type": "usage", "input_tokens": 1, "pad": "x" * 1000}] * 2000)
    size = (tmp_path / "stdout.log").stat().st_size
    heard = listener.read_progress(ATTEMPT, tmp_path)
    assert 0 < heard.offset <= STEP_BYTES
    heard = listener.read_progress(ATTEMPT, tmp_path, most=size // 2)
    assert size // 2 < heard.offset <= size // 2 + 2 * STEP_BYTES
    while heard.offset < size:
        heard = listener.read_progress(ATTEMPT, tmp_path)
    assert heard.spend.tokens == 2000


def test_the_output_of_an_unknown_runtime_is_not_read(tmp_path: Path) -> None:
    speak(tmp_path, {"type": "say", "text": "hello"})
    assert ProgressReader({}).read_progress(ATTEMPT, tmp_path) == AgentProgress()


def test_who_is_gone_is_forgotten(tmp_path: Path, listener: ProgressReader) -> None:
    speak(tmp_path, {"type": "say", "text": "hello"})
    listener.read_progress(ATTEMPT, tmp_path)
    listener.keep_only({})
    (tmp_path / "stdout.log").unlink()
    assert listener.read_progress(ATTEMPT, tmp_path) == AgentProgress()
