"""Commands under wardens: seen through once, ended with all they started, found again after a crash."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from blueflame.model.errors import ProcessFailed
from blueflame.orchestrator.engine.commands import MAX_TRIES, Command, CommandResult, run_command
from blueflame.orchestrator.engine.interface import Running
from blueflame.orchestrator.engine.local import LocalEngine


def command(folder: Path, text: str, *, stdin: str = "", timeout: float = 30) -> Command:
    return Command(
        name="ses-1.post_plan-1.hook", text=text, cwd=folder, env=dict(os.environ), timeout=timeout, stdin=stdin
    )


def run(folder: Path, text: str, *, stdin: str = "", timeout: float = 30) -> CommandResult | None:
    return asyncio.run(run_command(LocalEngine(folder / "state"), command(folder, text, stdin=stdin, timeout=timeout)))


async def running(engine: LocalEngine, name: str) -> Running:
    while not isinstance(now := await engine.inspect(name), Running) or now.agent_pid is None:
        await asyncio.sleep(0.01)
    return now


def test_what_is_on_stdin_arrives(tmp_path: Path) -> None:
    ran = run(tmp_path, "cat", stdin='{"hook": "привет"}\n')

    assert ran is not None
    log = LocalEngine(tmp_path / "state").read_log(ran.attempt, 1000)
    assert (ran.exit_code, log.text) == (0, '{"hook": "привет"}\n')


def test_a_signal_becomes_an_exit_code_as_in_a_shell(tmp_path: Path) -> None:
    ran = run(tmp_path, "kill -USR1 $$")

    assert ran is not None
    assert ran.exit_code == 128 + signal.SIGUSR1


def test_a_cancelled_command_has_no_result_and_runs_again_when_it_is_asked_for_again(tmp_path: Path) -> None:
    async def story() -> tuple[CommandResult | None, CommandResult | None]:
        engine = LocalEngine(tmp_path / "state")
        first = asyncio.create_task(run_command(engine, command(tmp_path, "test -e go || sleep 60")))
        await running(engine, "ses-1.post_plan-1.hook.1")
        await engine.cancel("ses-1.post_plan-1.hook.1", "stopping", grace=0)
        ended = await first
        (tmp_path / "go").touch()
        return ended, await run_command(LocalEngine(tmp_path / "state"), command(tmp_path, "test -e go || sleep 60"))

    ended, again = asyncio.run(story())

    assert ended is None
    assert again is not None
    assert again.exit_code == 0


def test_a_command_that_was_stopped_any_number_of_times_is_run_again(tmp_path: Path) -> None:
    async def stop(n: int) -> CommandResult | None:
        engine = LocalEngine(tmp_path / "state")
        task = asyncio.create_task(run_command(engine, command(tmp_path, "test -e go || sleep 60")))
        await running(engine, f"ses-1.post_plan-1.hook.{n}")
        await engine.cancel(f"ses-1.post_plan-1.hook.{n}", "stopping", grace=0)
        return await task

    for n in range(1, MAX_TRIES + 2):
        assert asyncio.run(stop(n)) is None
    (tmp_path / "go").touch()
    again = run(tmp_path, "test -e go || sleep 60")

    assert again is not None
    assert again.exit_code == 0


def test_a_command_whose_warden_was_killed_is_run_again_under_a_new_name(tmp_path: Path) -> None:
    text = "echo x >> runs; test -e go || sleep 60"

    async def story() -> CommandResult | None:
        engine = LocalEngine(tmp_path / "state")
        task = asyncio.create_task(run_command(engine, command(tmp_path, text)))
        warden = await running(engine, "ses-1.post_plan-1.hook.1")
        while not (tmp_path / "runs").exists():
            await asyncio.sleep(0.01)
        (tmp_path / "go").touch()
        os.kill(warden.pid, signal.SIGKILL)
        return await task

    ran = asyncio.run(story())

    assert ran is not None
    assert ran.exit_code == 0
    assert (tmp_path / "runs").read_text() == "x\nx\n"


@pytest.mark.parametrize("kill", ["kill -9 $$", "sh -c 'kill -9 $$'; exit $?", "sh -c 'kill -TERM $$'; exit $?"])
def test_a_command_that_was_killed_once_is_run_again(tmp_path: Path, kill: str) -> None:
    ran = run(tmp_path, f"echo x >> runs; test -e once && exit 3; touch once; {kill}")

    assert ran is not None
    assert ran.exit_code == 3
    assert (tmp_path / "runs").read_text() == "x\nx\n"


def test_a_command_that_is_killed_each_time_has_failed(tmp_path: Path) -> None:
    ran = run(tmp_path, "echo x >> runs; kill -9 $$")

    assert ran is not None
    assert ran.exit_code == 128 + signal.SIGKILL
    assert (tmp_path / "runs").read_text() == "x\n" * MAX_TRIES


def test_a_command_that_removes_its_own_folder_is_not_run_again_at_once(tmp_path: Path) -> None:
    text = f"echo x >> runs; rm -rf {tmp_path / 'state' / 'attempts'}; test -e once || {{ touch once; sleep 60; }}"

    with pytest.raises(
        ProcessFailed, match=r"the result of .* is gone: .*hook\.1 was removed while it ran; if it does"
    ):
        run(tmp_path, text)
    assert (tmp_path / "runs").read_text() == "x\n"


def test_a_new_engine_finds_a_command_that_an_earlier_one_started(tmp_path: Path) -> None:
    text = "echo x >> runs; while ! test -e go; do sleep 0.02; done"

    async def story() -> CommandResult | None:
        first = asyncio.create_task(run_command(LocalEngine(tmp_path / "state"), command(tmp_path, text)))
        later = LocalEngine(tmp_path / "state")
        await running(later, "ses-1.post_plan-1.hook.1")
        first.cancel()
        (tmp_path / "go").touch()
        return await run_command(later, command(tmp_path, text))

    ran = asyncio.run(story())

    assert ran is not None
    assert ran.exit_code == 0
    assert (tmp_path / "runs").read_text() == "x\n"
