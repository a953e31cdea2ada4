"""How a run ends: exit code, `is_error` and the reason, for everything that can happen to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from support.claude_cli import SEALED, STREAM, ClaudeRun, ClaudeRunner, ClaudeWorkspace, Json

FLAGS = [*STREAM, *SEALED, "--permission-mode", "acceptEdits"]
PATIENCE = 30.0


def fail(claude: ClaudeRunner, status: int, *, retries: str | None = "0", **more: object) -> ClaudeRun:
    turn = {"status": status, "error": "as scripted", **more}
    return claude.run(turn, flags=FLAGS, env={"CLAUDE_CODE_MAX_RETRIES": retries})


@pytest.mark.parametrize(
    ("status", "calls"),
    [(400, 6), (401, 1), (403, 1), (429, 1), (500, 1), (529, 1)],
)
def test_an_error_of_the_api_is_an_error_whatever_the_subtype_says(
    claude: ClaudeRunner, status: int, calls: int
) -> None:
    """It retries 400 five times without betas, regardless of the limit of retries."""
    ran = fail(claude, status)
    result = ran.result
    assert (ran.code, result["subtype"], result["is_error"], result["terminal_reason"]) == (
        1,
        "success",
        True,
        "api_error",
    )
    assert result["api_error_status"] == status
    assert "as scripted" in result["result"]
    assert len(ran.asked) == calls


def test_402_ends_it_at_once_with_the_words_that_were_sent(claude: ClaudeRunner) -> None:
    """So the gateway reports a used-up budget with 402: claude does not retry, and keeps the message unchanged."""
    gone = {"status": 402, "error": "the budget is gone"}
    ran = claude.run({"tool": {"shell": "touch made"}}, gone, flags=FLAGS, env={"CLAUDE_CODE_MAX_RETRIES": None})
    assert (ran.repo / "made").exists()
    assert (ran.code, len(ran.asked)) == (1, 2)
    assert ran.result["result"] == "API Error: 402 the budget is gone"


def test_a_rate_limit_is_retried_as_often_as_configured(claude: ClaudeRunner) -> None:
    ran = fail(claude, 429, retries="1")
    assert len(ran.asked) == 2
    (retry,) = ran.events("system", "api_retry")
    assert (retry["attempt"], retry["max_retries"], retry["error_status"], retry["error"]) == (1, 1, 429, "rate_limit")


def test_a_rate_limit_that_says_so_is_not_tried_again(claude: ClaudeRunner) -> None:
    ran = fail(claude, 429, retries=None, headers={"x-should-retry": "false"})
    assert len(ran.asked) == 1
    assert ran.code == 1


def test_retry_after_is_obeyed(claude: ClaudeRunner) -> None:
    limited = {"status": 429, "headers": {"retry-after": "1"}, "times": 1, "then": {"text": "done"}}
    ran = claude.run(limited, flags=FLAGS, env={"CLAUDE_CODE_MAX_RETRIES": None})
    assert (ran.code, ran.result["is_error"], ran.result["result"]) == (0, False, "done")
    assert [retry["retry_delay_ms"] for retry in ran.events("system", "api_retry")] == [1000]


def test_a_long_retry_after_ends_it_at_once(claude: ClaudeRunner) -> None:
    """So the gateway must not forward a rate limit of hours."""
    ran = fail(claude, 429, retries=None, headers={"retry-after": "3600"})
    assert (ran.code, len(ran.asked)) == (1, 1)


@pytest.mark.parametrize(
    ("env", "most"),
    [
        ({"CLAUDE_CODE_MAX_RETRIES": "1000"}, 15),
        ({"CLAUDE_CODE_MAX_RETRIES": None, "CLAUDE_CODE_RETRY_WATCHDOG": "1"}, 300),
    ],
    ids=["asked for 1000", "watchdog"],
)
def test_there_is_a_limit_to_how_often_it_tries_again(
    claude: ClaudeRunner, env: dict[str, str | None], most: int
) -> None:
    once = {"status": 503, "times": 1, "then": {"text": "done"}}
    ran = claude.run(once, flags=FLAGS, env=env)
    assert [retry["max_retries"] for retry in ran.events("system", "api_retry")] == [most]
    assert ran.code == 0


@pytest.mark.parametrize("trouble", [{"cut": 5}, {"broken": 5}], ids=["cut", "error"])
def test_an_answer_that_breaks_off_is_asked_for_again(claude: ClaudeRunner, trouble: Json) -> None:
    """Whether its own figures count the first call depends on timing: only the requests show it."""
    turn = {"text": "x" * 300, "usage": {"input": 500, "output": 70}, **trouble}
    again = {"text": "done", "usage": {"input": 600, "output": 5}}
    with claude.place({**turn, "times": 1, "then": again}, env={"CLAUDE_CODE_MAX_RETRIES": None}) as place:
        ran = place.run(*FLAGS)
        served = [(each.input, each.output, each.complete) for each in place.model.served]
    assert served == [(500, 1, False), (600, 5, True)]
    assert (ran.code, ran.result["result"]) == (0, "done")
    assert ran.result["usage"]["input_tokens"] in {600, 1100}


def test_pings_before_the_answer_are_taken_as_signs_of_life(claude: ClaudeRunner) -> None:
    """With pings a gateway can delay an answer for as long as it must; without them claude gives up after minutes."""
    waits = {"text": "at last", "pings": 5, "pace": 0.02, "usage": {"input": 700, "output": 7}}
    ran = claude.run(waits, flags=FLAGS, env={"API_TIMEOUT_MS": "60000"})
    assert (ran.code, ran.result["result"], len(ran.asked)) == (0, "at last", 1)
    assert ran.result["usage"]["input_tokens"] == 700


def test_the_budget_of_the_cli_is_looked_at_after_each_call_so_it_is_passed(claude: ClaudeRunner) -> None:
    costly = {"input": 20000, "output": 10}  # 0.08 dollars or more
    ran = claude.run(
        *[{"tool": {"shell": "true"}, "usage": costly} for _ in range(9)],
        flags=[*FLAGS, "--max-budget-usd", "0.2", "--model", "claude-opus-5-5"],
    )
    result = ran.result
    assert (ran.code, result["subtype"], result["is_error"], result["terminal_reason"]) == (
        1,
        "error_max_budget_usd",
        True,
        "budget_exhausted",
    )
    assert result["total_cost_usd"] > 0.2
    assert "result" not in result
    (counted,) = result["modelUsage"].values()
    assert counted["inputTokens"] == 20000 * len(ran.asked)
    assert result["usage"]["input_tokens"] == 20000 * (len(ran.asked) - 1), "the last call is left out there"


def alive(mark: str) -> list[psutil.Process]:
    """Find the commands that the agent's shell runs, by a name that only they have."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if mark in process.cmdline() and process.name() == "tail":
                found.append(process)
    return found


def until(what: str, seen: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not seen():
        assert time.monotonic() < deadline, f"timed out waiting for {what}"
        time.sleep(0.02)


@contextmanager
def in_a_command(claude: ClaudeRunner, mark: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a run whose shell command never ends; claude refuses a bare `sleep`."""
    wait = {"tool": {"shell": f"tail -f {mark}"}}
    with claude.place(wait, {"text": "done"}, files={mark: ""}) as place:
        flags = [*FLAGS, "--allowed-tools", "Bash"]
        with started(place, *flags) as process:
            try:
                until("the command", lambda: alive(mark))
                yield process
            finally:
                for left in alive(mark):
                    left.kill()


@contextmanager
def started(place: ClaudeWorkspace, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    prompt = place.root / "prompt"
    prompt.write_text("go")
    with prompt.open() as stdin:
        process = subprocess.Popen(
            place.argv(*flags),
            cwd=place.repo,
            env=place.environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    with process:
        try:
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[bytes], number: int) -> tuple[int, list[Json]]:
    os.kill(process.pid, number)
    out, _ = process.communicate(timeout=PATIENCE)
    lines = [json.loads(line) for line in out.decode().splitlines()]
    return process.returncode, [line for line in lines if line["type"] == "result"]


def unique(number: int) -> str:
    return f"waits-{number}-{os.getpid()}"


def test_sigint_ends_it_with_a_result_line_exit_0_and_no_child(claude: ClaudeRunner) -> None:
    mark = unique(1)
    with in_a_command(claude, mark) as process:
        code, (result,) = ended(process, signal.SIGINT)
        assert (code, result["subtype"], result["is_error"]) == (0, "error_during_execution", True)
        until("its command to end", lambda: not alive(mark))


def test_sigterm_ends_it_with_143_without_a_result_line_and_no_child(claude: ClaudeRunner) -> None:
    mark = unique(2)
    with in_a_command(claude, mark) as process:
        assert ended(process, signal.SIGTERM) == (143, [])
        until("its command to end", lambda: not alive(mark))


def test_sigkill_leaves_the_commands_of_its_shell_behind(claude: ClaudeRunner) -> None:
    mark = unique(3)
    with in_a_command(claude, mark) as process:
        assert ended(process, signal.SIGKILL) == (-9, [])
        assert alive(mark)


def test_the_side_files_stay_in_home_and_tmpdir(claude: ClaudeRunner) -> None:
    def temporary() -> set[Path]:
        return set(Path("/tmp").glob("claude-*")) | set(Path("/tmp").glob("cc-socks*"))

    before = temporary()
    ran = claude.run({"tool": {"shell": "true"}}, {"text": "done"}, flags=FLAGS)
    assert temporary() - before == set()
    assert (ran.home / ".claude.json").exists()
