"""What the inputs of each tool mean: which are paths that are read or written, which are only words.

A tool that is not in here is refused even if it is allowed: nobody knows what its inputs touch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from blueflame.policy.path_names import sanitize_text


class InputUse(Enum):
    READ = "read"
    WRITE = "write"
    TEXT = "text"  # words that touch nothing
    FREE = "free"  # any JSON that touches nothing


READ, WRITE, TEXT, FREE = InputUse.READ, InputUse.WRITE, InputUse.TEXT, InputUse.FREE


@dataclass(frozen=True, slots=True)
class InputShape:
    """The inputs of a tool: what each is used for, and which cannot be missing."""

    uses: Mapping[str, InputUse]
    needs: tuple[str, ...] = ()


SUBAGENT = InputShape(
    {"description": TEXT, "prompt": TEXT, "subagent_type": TEXT, "model": TEXT, "name": TEXT}, ("prompt",)
)
"""Starts an agent inside of the agent. What that one does is judged call by call, like its parent's."""
SEARCH = {"pattern": TEXT, "path": READ, "glob": TEXT, "type": TEXT, "output_mode": TEXT}

INPUT_SHAPES: Mapping[str, InputShape] = {
    "Read": InputShape({"file_path": READ, "pages": TEXT}, ("file_path",)),
    "NotebookRead": InputShape({"notebook_path": READ, "cell_id": TEXT}, ("notebook_path",)),
    "LS": InputShape({"path": READ, "ignore": FREE}, ("path",)),
    "Glob": InputShape({"pattern": TEXT, "path": READ}, ("pattern",)),
    "Grep": InputShape(SEARCH, ("pattern",)),
    "Write": InputShape({"file_path": WRITE, "content": TEXT}, ("file_path",)),
    "Edit": InputShape({"file_path": WRITE, "old_string": TEXT, "new_string": TEXT}, ("file_path",)),
    "MultiEdit": InputShape({"file_path": WRITE, "edits": FREE}, ("file_path",)),
    "NotebookEdit": InputShape(
        {"notebook_path": WRITE, "new_source": TEXT, "cell_id": TEXT, "cell_type": TEXT, "edit_mode": TEXT},
        ("notebook_path",),
    ),
    "Delete": InputShape({"file_path": WRITE}, ("file_path",)),
    "Bash": InputShape({"command": TEXT}, ("command",)),
    "Agent": SUBAGENT,
    "Task": SUBAGENT,
    "Skill": InputShape({"skill": TEXT, "args": TEXT}, ("skill",)),
    "WebFetch": InputShape({"url": TEXT, "prompt": TEXT}, ("url",)),
}

HARMLESS_TOOLS = frozenset(
    {
        *("TodoWrite", "TodoRead", "ToolSearch", "ExitPlanMode", "WebSearch", "ReportFindings"),
        *("BashOutput", "KillShell", "KillBash", "TaskOutput", "TaskStop"),
    }
)
"""Tools that read and write no file and start nothing: their inputs need no judging."""

COMMENT_INPUTS = frozenset({"description", "explanation", "reason", "title", "intent"})
"""Words for people that any tool may be given besides its own inputs."""


def find_input_problem(tool: str, shape: InputShape, given: Mapping[str, Any]) -> str:
    """What is wrong with the inputs; nothing when each is known and of its kind."""
    missing = next((name for name in shape.needs if name not in given), None)
    if missing is not None:
        return f"{tool} needs {missing}"
    for name, value in given.items():
        use = shape.uses.get(name)
        if use is FREE or (value is None and name not in shape.needs):
            continue
        if use is not None and not isinstance(value, str):
            return f"{name} of {tool} is not a text"
        if use is None and name not in COMMENT_INPUTS and not isinstance(value, bool | int | float):
            return f"{tool} has no input {sanitize_text(name, 40)!r} that is known here; leave it out"
    return ""
