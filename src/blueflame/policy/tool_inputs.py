"""The inputs of each tool: which are paths that are read or written, which are only text.

A tool that is missing here is refused even if the policy allows it, because its effects are unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from blueflame.lazy_dataclass import dataclass
from blueflame.policy.path_names import sanitize_text


class InputUse(Enum):
    READ = "read"
    WRITE = "write"
    TEXT = "text"  # a string without effect
    FREE = "free"  # any JSON without effect


READ, WRITE, TEXT, FREE = InputUse.READ, InputUse.WRITE, InputUse.TEXT, InputUse.FREE


@dataclass(frozen=True, slots=True)
class InputShape:
    """The inputs of a tool: what each is used for, and which are required."""

    uses: Mapping[str, InputUse]
    needs: tuple[str, ...] = ()


SUBAGENT = InputShape(
    {"description": TEXT, "prompt": TEXT, "subagent_type": TEXT, "model": TEXT, "name": TEXT}, ("prompt",)
)
"""Starts an agent inside the agent, whose calls are judged like its parent's."""
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
"""Tools that read and write no file and start nothing: any input is fine."""

COMMENT_INPUTS = frozenset({"description", "explanation", "reason", "title", "intent"})
"""Descriptions that any tool may get besides its inputs."""


def find_input_problem(tool: str, shape: InputShape, given: Mapping[str, Any]) -> str:
    """Return what is wrong with the inputs, or ""."""
    missing = next((name for name in shape.needs if name not in given), None)
    if missing is not None:
        return f"{tool} needs {missing}"
    for name, value in given.items():
        use = shape.uses.get(name)
        if use is FREE or (value is None and name not in shape.needs):
            continue
        if use is not None and not isinstance(value, str):
            return f"{name} of {tool} is not a string"
        if use is None and name not in COMMENT_INPUTS and not isinstance(value, bool | int | float):
            return f"{tool} has no known input {sanitize_text(name, 40)!r}; leave it out"
    return ""
