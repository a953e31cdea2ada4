"""Clients that load our MCP server from the entry that `blueflame mcp install` writes, and call a tool of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from blueflame.agents.codex import CodexRuntime
from blueflame.agents.gemini import GeminiRuntime
from blueflame.agents.opencode import OpencodeRuntime
from blueflame.agents.programs import NpmRuntime
from blueflame.journal.journal import Journal
from blueflame.system.layout import StatePaths
from blueflame.testing import LoopbackModel
from support.command_line import configure, here, write
from support.model_scripts import build_model_script
from support.npm_agents import KEY, find_agent_program
from support.recorded_session import ID, Story

PROGRAMS: Mapping[str, type[NpmRuntime]] = {
    "codex": CodexRuntime,
    "gemini": GeminiRuntime,
    "opencode": OpencodeRuntime,
}
PROMPT = "Where does Blue Flame stand?"


class Client(NamedTuple):
    settings: str  # in its HOME, with `{url}` for the model
    text: str
    argv: tuple[str, ...]
    tool: str  # as its model calls it
    env: Mapping[str, str]
    waits: int = 0


CODEX = """\
# mine
model = "gpt-5.5"
model_provider = "loop"
approval_policy = "never"
[model_providers.loop]
name = "Loop"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
requires_openai_auth = false
supports_websockets = false
"""
GEMINI = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "privacy": {"usageStatisticsEnabled": False},
    "general": {"enableAutoUpdate": False},
}
OPENCODE = {
    "autoupdate": False,
    "share": "disabled",
    "model": "loop/m1",
    "small_model": "loop/m1",
    "provider": {
        "loop": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "{url}/v1", "apiKey": KEY},
            "models": {"m1": {"limit": {"context": 100000, "output": 8000}}},
        }
    },
}
CLIENTS = {
    "codex": Client(
        ".codex/config.toml",
        CODEX,
        ("exec", "--json", "--disable", "plugins", "--sandbox", "danger-full-access", "--skip-git-repo-check", PROMPT),
        "mcp__blueflame.status",
        {},
        waits=4,
    ),
    "gemini": Client(
        ".gemini/settings.json",
        json.dumps(GEMINI),
        ("-m", "gemini-3.1-pro-preview", "-p", PROMPT, "--approval-mode", "yolo", "--skip-trust"),
        "mcp_blueflame_status",
        {},
    ),
    "opencode": Client(
        ".config/opencode/opencode.json",
        json.dumps(OPENCODE),
        ("run", "--format", "json", PROMPT),
        "blueflame_status",
        {
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        },
    ),
}


@pytest.fixture
def planned(repo: Path) -> Path:
    """A repository with a session that waits for its plan to be approved."""
    configure(repo)
    state = StatePaths(repo)
    state.state.mkdir()
    with Journal.open(state.journal) as journal:
        for entry in Story().planned().recorded:
            journal.append(ID, entry.seq - 1, [entry.event], entry.at)
    return repo


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`blueflame` on PATH, as an installation puts it there."""
    (tmp_path / "bin").mkdir()
    program = write(tmp_path / "bin" / "blueflame", f'#!/bin/sh\nexec {sys.executable} -m blueflame "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_calls_a_tool_of_the_server_that_was_registered_with_it(
    name: str, planned: Path, own_home: Path, installed: None, capsys: pytest.CaptureFixture[str]
) -> None:
    if not find_agent_program(name).exists():
        pytest.skip(f"{name} is not installed; `make test-agents` does that")
    client = CLIENTS[name]
    waits = [{"tool": {"shell": "sleep 8"}}] * client.waits  # it does not wait for the server to start
    turns = [*waits, {"tool": {"name": client.tool, "input": {}}}, {"text": "A plan waits."}]
    with LoopbackModel(build_model_script({"turns": turns}, key=KEY)) as model:
        settings = own_home / client.settings
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(client.text.replace("{url}", model.url))
        assert here(capsys, "mcp", "install", name).code == 0
        said = run_client(name, client, planned, own_home, model.url)
        asked = json.dumps([each.body for each in model.requests], ensure_ascii=False)
    assert find_call_log(own_home).exists(), said + asked[-3000:]
    calls = [json.loads(line) for line in find_call_log(own_home).read_text().splitlines()]
    assert [call["name"] for call in calls] == ["status"], said
    assert name in calls[0]["client"].lower()
    assert ID in asked, "the model got the result"
    assert "Approve the plan" in asked


def find_call_log(home: Path) -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or home / ".local" / "state") / "blueflame" / "mcp-calls.jsonl"


def run_client(name: str, client: Client, repo: Path, home: Path, url: str) -> str:
    kept = ("PATH", "XDG_STATE_HOME", "GIT_CONFIG_GLOBAL", "LANG")
    environ: dict[str, Any] = {each: os.environ[each] for each in kept if each in os.environ}
    environ |= {"HOME": str(home), "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": KEY, "OPENAI_API_KEY": KEY}
    program = PROGRAMS[name](root=repo, command=str(find_agent_program(name))).require_program()
    done = subprocess.run(
        [*program.argv, *client.argv],
        cwd=repo,
        env=environ | dict(client.env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return f"{done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
