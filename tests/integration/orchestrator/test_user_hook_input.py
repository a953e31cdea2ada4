from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from blueflame.orchestrator.user_hooks import build_hook_environment, format_hook_input

PAYLOAD: dict[str, Any] = {
    "schema_version": 1,
    "hook": "post_plan",
    "session": "ses-20260101-000000",
    "cycle": 1,
    "project": "пример",
    "base_branch": "main",
    "tasks": [],
}


def test_a_hook_gets_its_payload_as_one_line_of_json() -> None:
    text = format_hook_input(PAYLOAD)

    assert text.count("\n") == 1
    assert json.loads(text) == PAYLOAD


def test_a_name_that_is_not_utf_8_still_gives_readable_json() -> None:
    assert json.loads(format_hook_input(PAYLOAD | {"path": "caf\udce9"}).encode())["path"] == "caf?"


def test_a_hook_finds_the_occasion_in_its_environment(tmp_path: Path) -> None:
    env = build_hook_environment({"PATH": "/bin", "SLACK_TOKEN": "x", "GIT_DIR": "/else"}, PAYLOAD, root=tmp_path)
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
