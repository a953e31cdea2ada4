"""The files of the plugin agree with the server; whether the real claude takes them is a contract test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blueflame import __version__
from blueflame.mcp.prompts import JOBS, PLUGIN, read_description
from support.mcp_clients import connect, converse

TOOL = "mcp__plugin_blueflame_bf__"


def test_the_version_is_ours() -> None:
    manifest = json.loads((PLUGIN / ".claude-plugin" / "plugin.json").read_text())
    assert manifest["version"] == __version__


def test_every_folder_of_a_skill_is_a_job() -> None:
    assert sorted(each.name for each in (PLUGIN / "skills").iterdir()) == sorted(JOBS)


@pytest.mark.parametrize("job", JOBS)
def test_a_skill_may_use_tools_of_the_server_and_no_shell(job: str, repo: Path, tmp_path: Path) -> None:
    async def list_tools() -> set[str]:
        async with connect(repo / "blueflame.yaml", tmp_path / "calls") as mine:
            return {f"{TOOL}{tool.name}" for tool in (await mine.client.list_tools()).tools}

    text = (PLUGIN / "skills" / job / "SKILL.md").read_text()
    allowed = text.partition("allowed-tools: ")[2].splitlines()[0].split(", ")
    assert set(allowed) <= converse(list_tools())
    assert len(read_description(job)) < 120
