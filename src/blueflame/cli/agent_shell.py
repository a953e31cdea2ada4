"""Refuse decisions from the shell of an agent: it runs commands as the person, and is not the person (decision 0070).

A barrier against mistakes, not a wall: an agent outside of our sandbox can change its environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import click

from blueflame.model.errors import Refused

AGENT_SHELLS: Mapping[str, str] = {
    "CLAUDECODE": "Claude Code",
    "CODEX_SANDBOX": "Codex",
    "CODEX_THREAD_ID": "Codex",
    "GEMINI_CLI": "Gemini CLI",
    "OPENCODE": "opencode",
}
"""What these programs set in the commands that their models run."""


def refuse_agent_shell(doing: str) -> None:
    """Raise Refused where a command of an agent would decide for the person.

    At a terminal the person is asked: some agents run their commands in one as well.
    """
    from blueflame.system.terminal import is_interactive

    marks = [name for name in AGENT_SHELLS if os.environ.get(name)]
    if not marks:
        return
    question = f"{marks[0]} is set: {AGENT_SHELLS[marks[0]]} may have started this shell. Is a person typing here?"
    if not (is_interactive() and click.confirm(question, default=False)):
        raise Refused(
            f"{doing} is refused in a shell of {AGENT_SHELLS[marks[0]]} ({marks[0]} is set): a person decides. "
            "Do it in a terminal of your own, or in the dialog that its MCP tool `answer` opens"
        )
