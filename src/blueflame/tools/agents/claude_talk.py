"""A planner that a person talks with: claude in a terminal, and then the same conversation once more for its plan."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from blueflame.tools.agents.runtime import Brief, Launch
from blueflame.tools.files import write_whole

LONGEST_PROMPT = 100_000  # bytes: the terminal's claude takes its first prompt as an argument, and those are short
APPROVED = 20  # characters of a key by which claude remembers that it may use it

SCRIPT = """#!/bin/sh
# A person talks with claude on the terminal, which is standard input; what it says there is not for our reader.
{talk} -- "$(cat {prompt})" 1>&0 2>&0 || exit
# Then the same conversation is asked for its result, in print mode.
exec {ask} < {final}
"""
FINAL = (
    "The conversation with the person is over. Give the final result now, as it was agreed on, in structured output. "
    "Do not ask anything any more.\n"
)


def talking(launch: Launch, brief: Brief, directory: Path, *, governed: Sequence[str], asked: Sequence[str]) -> Launch:
    """`governed` starts claude behind its walls, `asked` are the flags of print mode. The conversation's name follows
    from the attempt's, so that a second launch after a crash means the same one."""
    session = str(uuid5(NAMESPACE_URL, f"blueflame:{brief.attempt}"))
    script, final = directory / "claude-talk.sh", directory / "claude-final.txt"
    prompts = _put_prompt(brief, directory)
    write_whole(final, FINAL)
    words = {
        "talk": shlex.join((*governed, "--session-id", session)),
        "ask": shlex.join((*governed, *asked, "--resume", session)),
        "prompt": shlex.quote(str(prompts[0])),
        "final": shlex.quote(str(final)),
    }
    write_whole(script, SCRIPT.format(**words))
    needs = (*launch.needs, script, final, *prompts)
    return replace(launch, argv=("/bin/sh", str(script)), stdin="", needs=needs, home=_home(brief), terminal=True)


def _put_prompt(brief: Brief, directory: Path) -> tuple[Path, ...]:
    """The first is what claude is told; one that is too long for that only names the second."""
    prompt = directory / "claude-prompt.md"
    if len(brief.prompt.encode()) <= LONGEST_PROMPT:
        write_whole(prompt, brief.prompt)
        return (prompt,)
    whole = directory / "claude-brief.md"
    write_whole(whole, brief.prompt)
    write_whole(prompt, f"Your instructions are in the file {whole}. Read all of it first, then do what it says.\n")
    return prompt, whole


def _home(brief: Brief) -> dict[str, str]:
    """So that it asks the person about their task, and not about colours, keys and trust."""
    known = {
        "hasCompletedOnboarding": True,
        "customApiKeyResponses": {"approved": [brief.token[-APPROVED:]], "rejected": []},
        "projects": {brief.worktree: {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}},
    }
    return {".claude.json": json.dumps(known)}
