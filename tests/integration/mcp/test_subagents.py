"""A whole session whose work is done by a subagent of the client: taken, watched by the plugin's hook, handed in."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from blueflame.mcp.prompts import PLUGIN
from support.command_line import configure
from support.mcp_clients import Person, choose, connect, converse
from support.repositories import run_git
from support.sandboxes import needs_sandbox

HOOK = PLUGIN / "subagents" / "hooks" / "ask.sh"
WORKER = "blueflame-subagents:worker"


def ask(repo: Path, tool: str, *, agent: str = "a1", kind: str = WORKER, **given: str) -> tuple[int, str]:
    """Ask the hook of the plugin about a call, as Claude Code does; return its exit code and what it says."""
    call = {"tool_name": tool, "tool_input": given, "cwd": str(repo), "tool_use_id": f"toolu_{os.urandom(4).hex()}"}
    sent = json.dumps(call | {"hook_event_name": "PreToolUse", "agent_id": agent, "agent_type": kind})
    environ = {**os.environ, "CLAUDE_PROJECT_DIR": str(repo)}
    done = subprocess.run([HOOK], input=sent, env=environ, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def test_calls_of_the_conversation_itself_are_not_judged(repo: Path) -> None:
    assert ask(repo, "Write", kind="general-purpose", file_path="/etc/passwd") == (0, "")
    assert ask(repo, "Write", kind="general-purpose", content=f'"agent_type":"{WORKER}"') == (0, "")


def test_a_subagent_that_has_taken_nothing_may_only_take(repo: Path) -> None:
    code, words = ask(repo, "Write", file_path=str(repo / "src" / "1.txt"))
    assert (code, "take a task" in words) == (2, True)
    assert ask(repo, "mcp__plugin_blueflame_bf__take") == (0, "")


@needs_sandbox
@pytest.mark.slow
def test_what_a_subagent_hands_in_lands_like_all_work_and_its_level_is_shown(repo: Path, tmp_path: Path) -> None:
    rules = {"allowed_paths": ["src/**"], "bash_rules": {"allowed_commands": ["git add", "git commit"]}}
    config = configure(repo, {"roles": {"lead": {"runtime": "subagent", "budget_usd": 0}}, "permissions": rules})
    person = Person(choose("approve"))

    async def story() -> Any:  # noqa: ANN401 (parsed JSON)
        async with connect(config, tmp_path / "calls", person=person) as mine:
            await mine.call("start", request="Write one", tier=1)
            shown = await mine.until("waits for a subagent")
            assert "outside of the sandbox" in str(shown["events"])
            taken = await mine.call("take")
            assert "no task waits" in await mine.fail("take")
            checkout = taken["checkout"]
            assert checkout in taken["prompt"]
            file = f"{checkout}/src/1.txt"
            allowed = ask(repo, "Write", file_path=file, content="eins\n")
            assert allowed[0] == 0, allowed
            assert ask(repo, "Write", agent="a2", file_path=file, content="two\n")[0] == 2, "it has its own subagent"
            assert ask(repo, "Write", file_path=str(repo / "src" / "1.txt"), content="x")[0] == 2
            assert ask(repo, "Write", file_path="/tmp/x", content="x")[0] == 2
            assert ask(repo, "Bash", command="git status")[0] == 2, "it would run in the person's checkout"
            assert ask(repo, "Bash", command=f"cd {shlex.quote(checkout)} && make")[0] == 2
            assert ask(repo, "Bash", command=f"cd {shlex.quote(checkout)} && git add -A && git commit -m x")[0] == 0
            Path(file).write_text("eins\n")
            run_git(Path(checkout), "add", "-A")
            run_git(Path(checkout), "commit", "-qm", "feat(task-001): write it")
            assert "no attempt" in await mine.fail("hand_in", attempt="../../x", summary="done")
            await mine.call("hand_in", attempt=taken["attempt"], summary="wrote it")
            gate = (await mine.until("'changeset-"))["gates"][0]["id"]
            assert (await mine.call("answer", gate=gate))["answered"]
            await mine.until("'completed'")
            return await mine.read(f"blueflame://sessions/{shown['session']}/report")

    report = converse(story())
    assert run_git(repo, "show", "main:src/1.txt") == "eins\n"
    assert "less than all walls" in person.asked[0]
    assert "outside of the sandbox" in str(report["incidents"])
    audit = "".join(path.read_text() for path in (repo / ".blueflame" / "logs").glob("lead-*.audit.jsonl"))
    assert audit.count('"decision": "allow"') == 2
