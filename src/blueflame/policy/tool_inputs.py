"""What the inputs of each tool mean: which are paths that are read or written, which are only words.

A tool that is not in here is refused even if it is allowed: nobody knows what its inputs touch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from blueflame.policy.path_names import shown


class Use(Enum):
    READ = "read"
    WRITE = "write"
    TEXT = "text"  # words that touch nothing
    FREE = "free"  # any JSON that touches nothing


READ, WRITE, TEXT, FREE = Use.READ, Use.WRITE, Use.TEXT, Use.FREE


@dataclass(frozen=True, slots=True)
class Shape:
    """The inputs of a tool: what each is used for, and which cannot be missing."""

    uses: Mapping[str, Use]
    needs: tuple[str, ...] = ()


ERRAND = Shape({"description": TEXT, "prompt": TEXT, "subagent_type": TEXT, "model": TEXT, "name": TEXT}, ("prompt",))
"""Starts an agent inside of the agent. What that one does is judged call by call, like its parent's."""
SEARCH = {"pattern": TEXT, "path": READ, "glob": TEXT, "type": TEXT, "output_mode": TEXT}

SHAPES: Mapping[str, Shape] = {
    "Read": Shape({"file_path": READ, "pages": TEXT}, ("file_path",)),
    "NotebookRead": Shape({"notebook_path": READ, "cell_id": TEXT}, ("notebook_path",)),
    "LS": Shape({"path": READ, "ignore": FREE}, ("path",)),
    "Glob": Shape({"pattern": TEXT, "path": READ}, ("pattern",)),
    "Grep": Shape(SEARCH, ("pattern",)),
    "Write": Shape({"file_path": WRITE, "content": TEXT}, ("file_path",)),
    "Edit": Shape({"file_path": WRITE, "old_string": TEXT, "new_string": TEXT}, ("file_path",)),
    "MultiEdit": Shape({"file_path": WRITE, "edits": FREE}, ("file_path",)),
    "NotebookEdit": Shape(
        {"notebook_path": WRITE, "new_source": TEXT, "cell_id": TEXT, "cell_type": TEXT, "edit_mode": TEXT},
        ("notebook_path",),
    ),
    "Delete": Shape({"file_path": WRITE}, ("file_path",)),
    "Bash": Shape({"command": TEXT}, ("command",)),
    "Agent": ERRAND,
    "Task": ERRAND,
    "Skill": Shape({"skill": TEXT, "args": TEXT}, ("skill",)),
    "WebFetch": Shape({"url": TEXT, "prompt": TEXT}, ("url",)),
}

TOUCHING_NOTHING = frozenset(
    {
        *("TodoWrite", "TodoRead", "ToolSearch", "ExitPlanMode", "WebSearch", "ReportFindings"),
        *("BashOutput", "KillShell", "KillBash", "TaskOutput", "TaskStop"),
    }
)
"""Tools that read and write no file and start nothing: their inputs need no judging."""

SPEAKING = frozenset({"description", "explanation", "reason", "title", "intent"})
"""Words for people that any tool may be given besides its own inputs."""


def misshapen(tool: str, shape: Shape, given: Mapping[str, Any]) -> str:
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
        if use is None and name not in SPEAKING and not isinstance(value, bool | int | float):
            return f"{tool} has no input {shown(name, 40)!r} that is known here; leave it out"
    return ""
