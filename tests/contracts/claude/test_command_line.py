"""The version and the flags that we need."""

from __future__ import annotations

import subprocess

import pytest

from support.claude_cli import ClaudeRunner, find_binary

FLAGS = (
    "--print",
    "--output-format",
    "--verbose",
    "--include-partial-messages",
    "--include-hook-events",
    "--setting-sources",
    "--strict-mcp-config",
    "--permission-mode",
    "--permission-prompts",
    "--tools",
    "--settings",
    "--json-schema",
    "--append-system-prompt",
    "--model",
    "--session-id",
    "--resume",
    "--no-session-persistence",
    "--max-budget-usd",
    "--plugin-dir",
    "--agents",
    "--mcp-config",
)


def said(claude: ClaudeRunner, *flags: str) -> str:
    done = subprocess.run(
        claude.network.argv(str(find_binary()), *flags), capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def test_it_tells_its_version_first(claude: ClaudeRunner) -> None:
    assert said(claude, "--version") == "2.1.325 (Claude Code)\n"


@pytest.fixture(scope="module")
def help_text(claude: ClaudeRunner) -> str:
    return said(claude, "--help")


@pytest.mark.parametrize("flag", FLAGS)
def test_the_flags_that_we_need_are_in_the_help(help_text: str, flag: str) -> None:
    assert f"{flag} " in help_text
