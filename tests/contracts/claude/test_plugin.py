"""The plugin in the real claude: its skills start sessions through the core, and the model cannot decide a gate."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from blueflame import __version__
from blueflame.mcp.prompts import JOBS, PLUGIN
from blueflame.model.errors import BlueFlameError
from blueflame.orchestrator.project import Project, open_project
from blueflame.orchestrator.sessions import find_running_pid, find_session, load_session, open_journal
from blueflame.session.state import Session
from blueflame.testing import LoopbackModel, ReceivedRequest
from support.claude_cli import STREAM, ClaudeRun, ClaudeRunner, Json, build_model_script, find_binary
from support.command_line import YES, configure, finish, here, launched, task, until, write
from support.repositories import run_git

TOOL = "mcp__plugin_blueflame_bf__"
FLAGS = (*STREAM, "--setting-sources", "", "--plugin-dir", str(PLUGIN))
REQUEST = "Write one"
SUBTASK = "Begin with your task"
MAX_ALWAYS_ON = 150  # tokens
MAX_SESSION = 3_000


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
    waits = {"MCP_CONNECTION_NONBLOCKING": "0"}  # else the model may be faster than our server
    return {"PATH": f"{programs}:{os.environ['PATH']}", **waits, **{name: os.environ.get(name) for name in kept}}


def run_claude(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "DISABLE_AUTOUPDATER": "1"}
    argv = [str(find_binary()), *words]
    return subprocess.run(argv, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("manifest", ["", "subagents", ".claude-plugin/plugin.json", ".claude-plugin/marketplace.json"])
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
    tmp_path: Path,
    programs: Path,
    own_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    binary = find_binary()
    assert binary
    (tmp_path / "claude").symlink_to(binary)
    monkeypatch.setenv("PATH", f"{tmp_path}:{programs}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    settings, servers = own_home / ".claude" / "settings.json", own_home / ".claude.json"
    for _ in range(2):  # again changes nothing
        for given in (("mcp", "install", "claude"), ("plugin", "install", "--subagents")):
            said = here(capsys, *given)
            assert said.code == 0, said.err
    assert json.loads(servers.read_text())["mcpServers"]["blueflame"]["args"][-1] == "mcp"
    assert json.loads(settings.read_text())["enabledPlugins"] == {
        "blueflame@blueflame": True,
        "blueflame-subagents@blueflame": True,
    }
    for words in (("mcp", "uninstall", "claude"), ("plugin", "uninstall")) * 2:
        said = here(capsys, *words)
        assert said.code == 0, said.err
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
            allowed = ("--allowed-tools", "Bash")  # the person lets it run any command
            answer, shell = list_results(place.run(*FLAGS, *allowed, prompt="/blueflame:review plan"))
            assert "no answer (cancel): the gate stays open" in answer
            assert "is refused in a shell of Claude Code" in shell
            assert "plan" in load(project).open_gates
        finally:
            with launched("stop", cwd=place.repo) as stopping:
                finish(stopping)
            until(lambda: find_running_pid(project) is None, what="its end")


@pytest.fixture
def worked(tmp_path: Path) -> dict[str, Any]:
    """The settings of agents that plan one task, and do it."""
    steps = [{"write": {"path": "src/1.txt", "text": "eins\n"}}, {"commit": "feat({task}): write it"}]
    script = write(tmp_path / "script.yaml", {"planner": [{"plan": [task(1)]}], "defaults": {"worker": steps}})
    return {"runtimes": {"scripted": {"script": str(script)}}}


def use(tool: str, **given: object) -> Json:
    return {"tool": {"name": f"{TOOL}{tool}", "input": given}}


def test_a_whole_session_costs_the_conversation_few_tokens(
    claude: ClaudeRunner, environment: dict[str, str | None], worked: dict[str, Any]
) -> None:
    """From the skill to the landing, with the definitions of its tools, which the model looks up; by what is sent."""
    names = ",".join(f"{TOOL}{name}" for name in ("size", "start", "status", "answer"))
    finds = {"tool": {"name": "ToolSearch", "input": {"query": f"select:{names}", "max_results": 5}}}
    begins = (finds, use("size", request=REQUEST), use("start", request=REQUEST, tier=3), {"text": "It runs."})
    plans = (use("status"), use("answer", gate="plan"), {"text": "The work begins."})
    gate = "changeset-cs-001"
    reviews = (use("status", since=9), use("answer", gate=gate), {"text": "It lands."})
    ends = (use("status", since=29), {"text": "It has landed."})
    allowed = ("--allowed-tools", TOOL.removesuffix("__"))  # as a person does at the first question
    with claude.place({"text": "Hello."}, *begins, *plans, *reviews, *ends, env=environment) as place:
        project = open_project(configure(place.repo, worked))
        with place.talk(*FLAGS, *allowed) as talk:
            talk.say("Good morning")
            talk.wait_for_servers()
            before = place.model.requests[-1]
            talk.say(f"/blueflame:run {REQUEST}")
            for waits in ("plan", gate):
                until(partial(is_open, project, waits), what=waits)
                talk.say("How is it?")  # its dialog is approved
            until(lambda: load(project).ended, what="its end")
            talk.say("How is it?")
        last = place.model.requests[-1]
        conversation = json.dumps(last.body["messages"], ensure_ascii=False)
        assert ["Задача 1" in talk.asked[0], "src/1.txt" in talk.asked[1]] == [True, True]
        assert '\\"state\\":\\"completed' in conversation
        cost = measure_tokens(last) - measure_tokens(before)
        assert cost < MAX_SESSION, cost


def measure_tokens(asked: ReceivedRequest) -> int:
    """The tokens of a question to the model, by all that is sent. Claude's last public tokenizer has 3.15 bytes a token
    here, so three are cautious."""
    return len(json.dumps(asked.body, ensure_ascii=False).encode()) // 3


def test_a_subagent_takes_a_task_and_its_calls_are_judged_by_the_hook(
    claude: ClaudeRunner, environment: dict[str, str | None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rules = {"allowed_paths": ["src/**"], "bash_rules": {"allowed_commands": ["git add", "git commit"]}}
    lead = {"runtime": "subagent", "budget_usd": 0}
    decisions = write(tmp_path / "decisions.yaml", YES)
    env = environment | {"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1"}
    with claude.place({"text": "unused"}, env=env) as place:
        project = open_project(configure(place.repo, {"roles": {"lead": lead}, "permissions": rules}))
        with launched("run", "--tier", "1", "--decisions-file", decisions, REQUEST, cwd=place.repo) as running:
            name, checkout = until(lambda: find_started(project), what="the attempt")
            script = build_subagent_script(name, checkout, place.repo)
            with LoopbackModel(script, listener=claude.network.listen()) as place.model:
                flags = (*FLAGS, "--plugin-dir", str(PLUGIN / "subagents"))
                with place.talk(*flags) as talk:
                    talk.say("Good morning")
                    talk.wait_for_servers()
                    talk.say("/blueflame-subagents:dispatch")
            said = finish(running)
        assert said.code == 0, said.err
        made = load(project).attempts[name]
        assert "outside of the sandbox" in made.attempt.unguarded
        assert run_git(place.repo, "show", "main:src/1.txt") == "eins\n"
        assert not (place.repo / "src" / "own.txt").exists()
        audit = (place.repo / ".blueflame" / "logs" / f"{made.attempt.agent_id}.audit.jsonl").read_text()
        assert [json.loads(line)["decision"] for line in audit.splitlines()[1:]] == ["allow", "block", "allow"]


def is_open(project: Project, gate: str) -> bool:
    return gate in load(project).open_gates


def find_started(project: Project) -> tuple[str, ...]:
    with suppress(BlueFlameError):
        session = load(project)
        live = [session.attempts[name] for name in session.live]
        return next(((each.attempt.id, each.worktree) for each in live if each.worktree), ())
    return ()


def build_subagent_script(attempt: str, checkout: str, repo: Path) -> Json:
    worker = {"description": "a task", "prompt": SUBTASK, "subagent_type": "blueflame-subagents:worker"}
    parent: list[Json] = [
        {"text": "Hello."},
        {"tool": {"name": "Agent", "input": worker}},
        {"text": "It is handed in."},
    ]
    calls = (
        {"name": f"{TOOL}take", "input": {}},
        {"name": "Write", "input": {"file_path": f"{checkout}/src/1.txt", "content": "eins\n"}},
        {"name": "Write", "input": {"file_path": f"{repo}/src/own.txt", "content": "not here"}},
        {"name": "Bash", "input": {"command": f"cd '{checkout}' && git add -A && git commit -m 'Write it'"}},
        {"name": f"{TOOL}hand_in", "input": {"attempt": attempt, "summary": "wrote it"}},
    )
    part = {"when": {"user": SUBTASK}, "turns": [*({"tool": call} for call in calls), {"text": "done"}]}
    return build_model_script(*parent, others=[part])


def list_results(ran: ClaudeRun) -> list[str]:
    assert ran.code == 0, ran.err
    return [ran.tool_results[call["id"]] for call in ran.calls]


def load(project: Project) -> Session:
    with open_journal(project) as journal:
        return load_session(journal, find_session(journal, None))
