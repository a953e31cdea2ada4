"""Claude Code in a terminal: for a planner that a person talks with, and for agents that a person watches.

A small program in the sandbox (terminal_driver.py) pastes the prompt and prints what claude records of the
conversation; then it resumes the conversation in print mode for the structured output.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from blueflame.agents.claude import terminal_driver
from blueflame.agents.claude.conversation import name_session
from blueflame.agents.programs import build_python_command
from blueflame.agents.runtime import AgentBrief, AgentLaunch
from blueflame.system.files import write_atomically

APPROVED_KEY_CHARS = 20  # of a key, by which claude remembers that it may use it
NOTED_EVENTS = ("SessionStart", "UserPromptSubmit", "Stop", "StopFailure")
NOTE_COMMAND = 'f="$HOME/{folder}/{event}"; cat > "$f.$$" && mv "$f.$$" "$f"'
FINAL_PROMPT = {
    False: "The conversation with the person is over. Give the final result now, as it was agreed on, in structured "
    "output. Do not ask any more questions.\n",
    True: "Give your result now, in structured output.\n",
}


def build_terminal_launch(
    launch: AgentLaunch,
    brief: AgentBrief,
    directory: Path,
    *,
    settings: Path,
    governed: Sequence[str],
    asked: Sequence[str],
    alone: bool,
) -> AgentLaunch:
    """Build the launch of the terminal driver in place of `launch`.

    `governed` is the command line with everything that governs claude (`settings` among it), `asked` the flags of print
    mode. The conversation's id is computed from the attempt's, so that a second launch after a crash has the same one.
    `alone`: no person talks with claude, so the conversation ends with its first turn.
    """
    session = name_session(brief.attempt)
    prompt, final, program = (directory / f"claude-{name}" for name in ("prompt.md", "final.md", "talk.json"))
    write_atomically(prompt, brief.prompt)
    write_atomically(final, FINAL_PROMPT[alone])
    content = {
        "talk": [*governed, "--session-id", session],
        "ask": [*governed, *asked, "--resume", session] if brief.schema is not None else [],
        "prompt": str(prompt),
        "final": str(final),
        "alone": alone,
    }
    write_atomically(program, json.dumps(content))
    _add_note_hooks(settings)
    # Imported as a single module, not as part of the package, which would load much more.
    folder = Path(terminal_driver.__file__).parent
    return replace(
        launch,
        argv=build_python_command("terminal_driver", (folder,), program),
        env={"TERM": "xterm-256color", **launch.env},
        stdin="",
        needs=(*launch.needs, folder, prompt, final, program),
        home={**launch.home, **_build_home_files(brief)},
        terminal=True,
    )


def _add_note_hooks(settings: Path) -> None:
    """Add hooks that note when claude is ready, has its prompt and is done. They decide nothing about tools."""
    content = json.loads(settings.read_bytes())
    for event in NOTED_EVENTS:
        command = NOTE_COMMAND.format(folder=terminal_driver.NOTES_FOLDER, event=event)
        content["hooks"][event] = [{"hooks": [{"type": "command", "command": command, "timeout": 10}]}]
    write_atomically(settings, json.dumps(content, indent=1))


def _build_home_files(brief: AgentBrief) -> dict[str, str]:
    """Build the answers to the first-start dialogs about colours, keys and trust."""
    known = {
        "hasCompletedOnboarding": True,
        "customApiKeyResponses": {"approved": [brief.token[-APPROVED_KEY_CHARS:]], "rejected": []},
        "projects": {brief.worktree: {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}},
    }
    return {".claude.json": json.dumps(known)}
