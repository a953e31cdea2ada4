"""The plugin in the real claude: its skills start sessions through the core, and the model cannot decide a gate."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from blueflame import __version__
from blueflame.mcp.prompts import JOBS, PLUGIN
from blueflame.orchestrator.project import Project, open_project
from blueflame.orchestrator.sessions import find_running_pid, find_session, load_session, open_journal
from blueflame.session.state import Session
from support.claude_cli import STREAM, ClaudeRun, ClaudeRunner, find_binary
from support.command_line import configure, finish, here, launched, task, until, write

TOOL = "mcp__plugin_blueflame_blueflame__"
FLAGS = (*STREAM, "--setting-sources", "", "--plugin-dir", str(PLUGIN))
REQUEST = "Write one"
MAX_ALWAYS_ON = 150  # tokens


pytestmark = pytest.mark.skipif(
    find_binary() is None, reason="the claude binary is not installed; `pip install blueflame[dev]` brings it"
)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `blueflame`, as an installation puts it on PATH."""
    folder = tmp_path_factory.mktemp("bin")
    write(folder / "blueflame", f'#!/bin/sh\nexec {sys.executable} -m blueflame "$@"\n').chmod(0o755)
    return folder


@pytest.fixture
def environment(programs: Path) -> dict[str, str | None]:
    kept = ("XDG_STATE_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM")
    return {"PATH": f"{programs}:{os.environ['PATH']}", **{name: os.environ.get(name) for name in kept}}


def run_claude(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "DISABLE_AUTOUPDATER": "1"}
    argv = [str(find_binary()), *words]
    return subprocess.run(argv, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("manifest", ["", ".claude-plugin/plugin.json", ".claude-plugin/marketplace.json"])
def test_the_plugin_is_valid(tmp_path: Path, manifest: str) -> None:
    done = run_claude(tmp_path, "plugin", "validate", "--strict", str(PLUGIN / manifest))
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_is_installed_from_its_folder_and_costs_a_conversation_little(tmp_path: Path) -> None:
    for words in (("marketplace", "add", str(PLUGIN)), ("install", "blueflame@blueflame")):
        done = run_claude(tmp_path, "plugin", *words)
        assert done.returncode == 0, done.stdout + done.stderr
    details = run_claude(tmp_path, "plugin", "details", "blueflame").stdout
    assert __version__ in details
    assert all(job in details for job in JOBS)
    always_on = details.partition("Always-on:")[2].split()[0]
    assert int(always_on.strip("~")) <= MAX_ALWAYS_ON


def test_our_commands_register_the_server_and_the_plugin_and_remove_them(
    tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    binary = find_binary()
    assert binary
    (tmp_path / "claude").symlink_to(binary)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    settings, servers = own_home / ".claude" / "settings.json", own_home / ".claude.json"
    for _ in range(2):  # again changes nothing
        for words in (("mcp", "install", "claude"), ("plugin", "install")):
            said = here(capsys, *words)
            assert said.code == 0, said.err
    assert json.loads(servers.read_text())["mcpServers"]["blueflame"]["args"][-1] == "mcp"
    assert json.loads(settings.read_text())["enabledPlugins"] == {"blueflame@blueflame": True}
    for words in (("mcp", "uninstall", "claude"), ("plugin", "uninstall")):
        assert here(capsys, *words).code == 0
    assert "blueflame" not in json.loads(servers.read_text()).get("mcpServers", {})
    assert not json.loads(settings.read_text()).get("enabledPlugins")


@pytest.fixture
def played(tmp_path: Path) -> dict[str, Any]:
    """The settings of agents that play a script."""
    script = write(tmp_path / "script.yaml", {"planner": [{"plan": [task(1)]}], "defaults": {"worker": []}})
    return {"runtimes": {"scripted": {"script": str(script)}}}


def test_a_skill_starts_a_session_and_the_model_cannot_approve_it(
    claude: ClaudeRunner, environment: dict[str, str | None], played: dict[str, Any]
) -> None:
    starts = {"tool": {"name": f"{TOOL}start", "input": {"request": REQUEST, "tier": 3}}}
    decides = (
        {"tool": {"name": f"{TOOL}answer", "input": {"gate": "plan", "choice": "approve"}}},
        {"tool": {"shell": "blueflame answer plan approve"}},
        {"text": "The plan waits for you."},
    )
    review = {"when": {"user": "Review what waits"}, "turns": list(decides)}
    with claude.place(starts, {"text": "It runs."}, others=[review], env=environment) as place:
        project = open_project(configure(place.repo, played))
        try:
            started = place.run(*FLAGS, prompt=f"/blueflame:run {REQUEST}")
            assert "ses-" in list_results(started)[0]
            until(lambda: "plan" in load(project).open_gates, what="the gate")
            assert find_running_pid(project) is not None, "the session outlives the conversation"
            answer, shell = list_results(place.run(*FLAGS, prompt="/blueflame:review plan"))
            assert "no answer (cancel): the gate stays open" in answer
            assert "requires approval" in shell
            assert "plan" in load(project).open_gates
        finally:
            with launched("stop", cwd=place.repo) as stopping:
                finish(stopping)
            until(lambda: find_running_pid(project) is None, what="its end")


def list_results(ran: ClaudeRun) -> list[str]:
    assert ran.code == 0, ran.err
    return [ran.tool_results[call["id"]] for call in ran.calls]


def load(project: Project) -> Session:
    with open_journal(project) as journal:
        return load_session(journal, find_session(journal, None))
