from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from blueflame.tools.hooks import OUTPUT_BYTES, HookResult, hook_environment, run_hook

PAYLOAD: dict[str, Any] = {
    "schema_version": 1,
    "hook": "post_plan",
    "session": "ses-20260101-000000",
    "cycle": 1,
    "project": "пример",
    "base_branch": "main",
    "tasks": [],
}


def run(command: str, tmp_path: Path, *, timeout: float = 20, **more: str) -> HookResult:
    place = tmp_path / "мой repo"
    place.mkdir(exist_ok=True)
    return asyncio.run(
        run_hook(command, PAYLOAD | more, cwd=place, timeout=timeout, log=tmp_path / "logs" / "hook.log")
    )


def test_a_hook_gets_its_payload_as_json_on_stdin(tmp_path: Path) -> None:
    result = run("cat > 'got it.json'", tmp_path)
    assert (result.exit_code, result.timed_out) == (0, False)
    assert json.loads((tmp_path / "мой repo" / "got it.json").read_text()) == PAYLOAD


def test_a_name_that_is_not_utf_8_still_gives_readable_json(tmp_path: Path) -> None:
    run("cat > got.json", tmp_path, path="caf\udce9")
    assert json.loads((tmp_path / "мой repo" / "got.json").read_bytes())["path"] == "caf?"


def test_exit_code_and_both_outputs_come_back(tmp_path: Path) -> None:
    result = run("echo вон; echo beschwerde >&2; exit 3", tmp_path)
    assert (result.exit_code, result.output) == (3, "вон\nbeschwerde\n")


def test_a_hook_that_does_not_read_its_input_is_fine(tmp_path: Path) -> None:
    assert run("true", tmp_path, request="x" * 1_000_000).exit_code == 0


def test_a_hook_is_killed_with_its_children_at_the_timeout(tmp_path: Path) -> None:
    result = run("(sleep 60; echo survived > survived) & echo started; sleep 60", tmp_path, timeout=0.5)
    assert result.timed_out
    assert result.output == "started\n"
    assert not (tmp_path / "мой repo" / "survived").exists()


def test_only_the_end_of_a_long_output_is_kept(tmp_path: Path) -> None:
    result = run("yes noise | head -c 300000; echo end", tmp_path)
    assert len(result.output.encode()) <= OUTPUT_BYTES
    assert result.output.endswith("end\n")


def test_the_log_holds_the_last_run_only(tmp_path: Path) -> None:
    run("echo first", tmp_path)
    assert run("echo second", tmp_path).output == "second\n"


def test_a_command_that_does_not_exist_is_an_exit_code(tmp_path: Path) -> None:
    assert run("/nowhere/hook.sh", tmp_path).exit_code == 127


def test_a_hook_finds_the_occasion_in_its_environment(tmp_path: Path) -> None:
    env = hook_environment({"PATH": "/bin", "SLACK_TOKEN": "x", "GIT_DIR": "/else"}, PAYLOAD, root=tmp_path)
    assert env == {
        "PATH": "/bin",
        "SLACK_TOKEN": "x",  # it is the person's own command
        "BLUEFLAME_ROOT": str(tmp_path),
        "BLUEFLAME_HOOK": "post_plan",
        "BLUEFLAME_SESSION": "ses-20260101-000000",
        "BLUEFLAME_CYCLE": "1",
        "BLUEFLAME_PROJECT": "пример",
        "BLUEFLAME_BASE_BRANCH": "main",
    }
