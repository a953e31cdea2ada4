"""Claude Code in a terminal: for a planner that a person talks with, and for agents that a person watches.

A small program in the box (terminal_driver.py) hands over the prompt and tells what claude writes down of the talk;
then the same conversation is asked once more, in print mode, for its result in the form that is wanted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from blueflame.agents.claude import terminal_driver as talker
from blueflame.agents.runtime import Brief, Launch
from blueflame.system.files import write_whole

APPROVED = 20  # characters of a key by which claude remembers that it may use it
ENTRY = (
    "import sys; sys.path.append(sys.argv.pop(1)); "
    "from terminal_driver import main; raise SystemExit(main(sys.argv[1]))"
)
NOTED = ("SessionStart", "UserPromptSubmit", "Stop", "StopFailure")
NOTE = 'f="$HOME/{folder}/{event}"; cat > "$f.$$" && mv "$f.$$" "$f"'
FINAL = {
    False: "The conversation with the person is over. Give the final result now, as it was agreed on, in structured "
    "output. Do not ask anything any more.\n",
    True: "Give your result now, in structured output.\n",
}


def talking(
    launch: Launch,
    brief: Brief,
    directory: Path,
    *,
    settings: Path,
    governed: Sequence[str],
    asked: Sequence[str],
    alone: bool = False,
) -> Launch:
    """`governed` starts claude behind its walls, with `settings`; `asked` are the flags of print mode. The
    conversation's name follows from the attempt's, so that a second launch after a crash means the same one.
    `alone`: nobody is expected to talk, so that it is over with claude's first turn."""
    session = str(uuid5(NAMESPACE_URL, f"blueflame:{brief.attempt}"))
    prompt, final, program = (directory / f"claude-{name}" for name in ("prompt.md", "final.md", "talk.json"))
    write_whole(prompt, brief.prompt)
    write_whole(final, FINAL[alone])
    content = {
        "talk": [*governed, "--session-id", session],
        "ask": [*governed, *asked, "--resume", session] if brief.schema is not None else [],
        "prompt": str(prompt),
        "final": str(final),
        "alone": alone,
    }
    write_whole(program, json.dumps(content))
    _note_events(settings)
    # Imported beside itself and not as part of the package, so that nothing heavy comes along.
    folder = Path(talker.__file__).parent
    return replace(
        launch,
        argv=(sys.executable, "-I", "-S", "-E", "-X", "utf8", "-c", ENTRY, str(folder), str(program)),
        env={"TERM": "xterm-256color", **launch.env},
        stdin="",
        needs=(*launch.needs, folder, prompt, final, program),
        home={**launch.home, **_home(brief)},
        terminal=True,
    )


def _note_events(settings: Path) -> None:
    """Claude's own hooks say when it is ready, has its prompt and is done. They decide nothing about tools."""
    content = json.loads(settings.read_bytes())
    for event in NOTED:
        command = NOTE.format(folder=talker.NOTES, event=event)
        content["hooks"][event] = [{"hooks": [{"type": "command", "command": command, "timeout": 10}]}]
    write_whole(settings, json.dumps(content, indent=1))


def _home(brief: Brief) -> dict[str, str]:
    """So that it asks the person about their task, and not about colours, keys and trust."""
    known = {
        "hasCompletedOnboarding": True,
        "customApiKeyResponses": {"approved": [brief.token[-APPROVED:]], "rejected": []},
        "projects": {brief.worktree: {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}},
    }
    return {".claude.json": json.dumps(known)}
