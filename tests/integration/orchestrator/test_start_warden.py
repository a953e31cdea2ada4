"""Wardens are forked from one process, and do not depend on it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blueflame.model.errors import ProcessFailed
from blueflame.orchestrator.engine import start_warden as module
from blueflame.orchestrator.engine.start_warden import (
    MAX_INPUT_BYTES,
    close_fork_server,
    prepare_wardens,
    start_warden,
)
from support.wardens import is_alive, wait_until, write_launch


@pytest.fixture(autouse=True)
def own_server() -> Iterator[None]:
    close_fork_server()  # of an earlier test in this process
    yield
    close_fork_server()


def read_outcome(folder: Path) -> dict[str, Any]:
    wait_until((folder / "outcome.json").exists, f"{folder.name} has ended")
    found: dict[str, Any] = json.loads((folder / "outcome.json").read_text())
    return found


def test_each_warden_has_its_own_session_and_log_and_no_file_of_another(tmp_path: Path) -> None:
    pids = []
    for name in ("первый", "second", "third"):
        pids.append(start_warden(write_launch(tmp_path / name, "sleep", "60"), {}))
    [server] = module._servers
    for name in ("первый", "second", "third"):
        wait_until((tmp_path / name / "agent.json").exists, f"{name} handles signals")
    try:
        for pid, name in zip(pids, ("первый", "second", "third"), strict=True):
            assert os.getsid(pid) == pid != os.getsid(0)
            assert Path(f"/proc/{pid}/fd/1").readlink() == tmp_path / name / "warden.log"
            files = [str(handle.readlink()) for handle in Path(f"/proc/{pid}/fd").iterdir() if handle.exists()]
            assert not [file for file in files if str(tmp_path) in file and name not in file]
        assert server.process.is_running
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
    for name in ("первый", "second", "third"):
        assert read_outcome(tmp_path / name)["reason"] == "cancelled"


def test_a_warden_has_the_name_of_its_attempt(tmp_path: Path) -> None:
    folder = tmp_path / "ses-20261118-120000.task-001.worker.1"
    pid = start_warden(write_launch(folder, "sleep", "60"), {})
    wait_until((folder / "agent.json").exists, "it handles signals")
    assert Path(f"/proc/{pid}/comm").read_text() == "task-001.worker\n"
    os.kill(pid, signal.SIGTERM)
    assert read_outcome(folder)["reason"] == "cancelled"


def test_a_killed_server_takes_no_warden_with_it_and_is_replaced(tmp_path: Path) -> None:
    wait = "until [ -e go ]; do sleep 0.01; done"
    first = start_warden(write_launch(tmp_path / "first", "sh", "-c", wait), {})
    server = module._servers[0].process
    server.kill()
    start_warden(write_launch(tmp_path / "second", "true"), {})
    assert module._servers[0].process.pid != server.pid
    assert read_outcome(tmp_path / "second")["exit_code"] == 0
    assert is_alive(first)
    (tmp_path / "first" / "go").touch()
    assert read_outcome(tmp_path / "first")["exit_code"] == 0


def test_a_server_that_cannot_start_is_reported_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FORK_SERVER_CODE", "raise SystemExit('no such module')")
    with pytest.raises(ProcessFailed, match=r"does not answer \(.*warden.log\): no such module"):
        start_warden(write_launch(tmp_path / "attempt", "true"), {})


def test_a_warden_that_cannot_be_forked_is_reported_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse = "import os\ndef fork(): raise BlockingIOError(11, 'no')\nos.fork = fork\n"
    monkeypatch.setattr(module, "FORK_SERVER_CODE", refuse + module.FORK_SERVER_CODE)
    with pytest.raises(ProcessFailed, match=r"cannot start a warden: .*the limit on processes is reached"):
        start_warden(write_launch(tmp_path / "attempt", "true"), {})


def test_secrets_that_no_pipe_holds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ProcessFailed, match="bytes of input are too many"):
        start_warden(tmp_path / "attempt", {"key": "x" * MAX_INPUT_BYTES})


def test_a_server_that_was_started_ahead_forks_the_first_warden(tmp_path: Path) -> None:
    prepare_wardens(tmp_path)
    [ahead] = module._servers
    start_warden(write_launch(tmp_path / "first", "true"), {})
    assert read_outcome(tmp_path / "first")["exit_code"] == 0
    assert module._servers == [ahead]


def test_a_server_that_cannot_be_started_ahead_is_reported_by_the_first_warden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "no-python"))
    prepare_wardens(tmp_path)
    with pytest.raises(ProcessFailed, match="no-python"):
        start_warden(write_launch(tmp_path / "attempt", "true"), {})


def test_a_log_that_cannot_be_written_starts_none_ahead(tmp_path: Path) -> None:
    prepare_wardens(tmp_path / "removed")
    assert module._servers == []
