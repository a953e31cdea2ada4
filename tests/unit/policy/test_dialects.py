"""Tools of other agents in the policy's words."""

from __future__ import annotations

from typing import Any

import pytest

from blueflame.model.policy import ASK_TOOL
from blueflame.policy.dialects import CODEX, GEMINI, GEMINI_TOOLS, ToolUse, UntranslatableCall, translate_call
from blueflame.policy.tool_inputs import HARMLESS_TOOLS, INPUT_SHAPES, find_input_problem

CWD = "/here/repo"
PATCH = "*** Begin Patch\n*** Add File: src/a.py\n+x\n*** Delete File: ../b\n*** End Patch\n"
TOUCHED = (ToolUse("Write", {"file_path": "/here/repo/src/a.py"}), ToolUse("Edit", {"file_path": "/here/b"}))

SAME: dict[str, tuple[str, str, dict[str, Any], tuple[ToolUse, ...]]] = {
    "codex runs": (CODEX, "Bash", {"command": "make"}, (ToolUse("Bash", {"command": "make"}),)),
    "codex patches": (CODEX, "apply_patch", {"command": PATCH}, TOUCHED),
    "codex patches in a shell": (CODEX, "Bash", {"command": f"apply_patch <<'EOF'\n{PATCH}EOF"}, TOUCHED),
    "codex looks": (CODEX, "view_image", {"path": "a.png"}, (ToolUse("Read", {"file_path": "a.png"}),)),
    "codex and an unknown tool": (CODEX, "spawn_agent", {"x": 1}, (ToolUse("spawn_agent", {"x": 1}),)),
    "gemini runs": (
        GEMINI,
        "run_shell_command",
        {"command": "make", "description": "build it", "dir_path": "sub", "is_background": False},
        (ToolUse("Bash", {"command": "make", "description": "build it", "is_background": False}, "sub"),),
    ),
    "gemini writes": (
        GEMINI,
        "write_file",
        {"file_path": "a", "content": "x"},
        (ToolUse("Write", {"file_path": "a", "content": "x"}),),
    ),
    "gemini edits": (
        GEMINI,
        "replace",
        {"file_path": "a", "instruction": "do", "old_string": "x", "new_string": "y"},
        (ToolUse("Edit", {"file_path": "a", "explanation": "do", "old_string": "x", "new_string": "y"}),),
    ),
    "gemini asks": (GEMINI, "mcp_blueflame_ask", {"question": "?"}, (ToolUse(ASK_TOOL, {"question": "?"}),)),
    "gemini reads": (GEMINI, "read_file", {"absolute_path": "/a"}, (ToolUse("Read", {"file_path": "/a"}),)),
    "gemini lists": (GEMINI, "list_directory", {"dir_path": "."}, (ToolUse("Read", {"file_path": "."}),)),
    "gemini searches": (
        GEMINI,
        "grep_search",
        {"pattern": "x", "dir_path": "src", "include_pattern": "*.py"},
        (ToolUse("Grep", {"pattern": "x", "path": "src", "glob": "*.py"}),),
    ),
    "gemini fetches": (
        GEMINI,
        "web_fetch",
        {"prompt": "sum up https://example.org/a please"},
        (ToolUse("WebFetch", {"url": "https://example.org/a", "prompt": "sum up https://example.org/a please"}),),
    ),
    "gemini asks a helper": (GEMINI, "invoke_agent", {"prompt": "x"}, (ToolUse("invoke_agent", {"prompt": "x"}),)),
    "gemini and an unknown tool": (GEMINI, "nonsense", {"x": 1}, (ToolUse("nonsense", {"x": 1}),)),
}


@pytest.mark.parametrize(("dialect", "tool", "given", "expected"), SAME.values(), ids=SAME.keys())
def test_a_call_is_translated(dialect: str, tool: str, given: dict[str, Any], expected: tuple[ToolUse, ...]) -> None:
    assert translate_call(dialect, tool, given, CWD) == expected
    for each in expected:
        if each.tool in INPUT_SHAPES:
            assert find_input_problem(each.tool, INPUT_SHAPES[each.tool], each.input) == ""


UNCLEAR: dict[str, tuple[str, str, dict[str, Any]]] = {
    "a patch that cannot be read": (CODEX, "apply_patch", {"command": "*** Begin Patch\nnonsense\n*** End Patch"}),
    "a patch that is no text": (CODEX, "apply_patch", {"command": ["x"]}),
    "a patch in a shell that cannot be read": (CODEX, "Bash", {"command": "apply_patch <<'E'\nnonsense\nE\n"}),
    "one file under two names": (GEMINI, "write_file", {"file_path": "a", "absolute_path": "b", "content": "x"}),
    "two folders": (GEMINI, "run_shell_command", {"command": "x", "dir_path": "a", "directory": "b"}),
    "a folder that is no text": (GEMINI, "run_shell_command", {"command": "x", "dir_path": ["a"]}),
    "two addresses": (GEMINI, "web_fetch", {"prompt": "https://example.org https://example.net"}),
}


@pytest.mark.parametrize(("dialect", "tool", "given"), UNCLEAR.values(), ids=UNCLEAR.keys())
def test_an_unclear_call_is_refused(dialect: str, tool: str, given: dict[str, Any]) -> None:
    with pytest.raises(UntranslatableCall):
        translate_call(dialect, tool, given, CWD)


def test_a_patch_with_a_command_around_it_stays_a_command() -> None:
    command = f"cd src && apply_patch <<'EOF'\n{PATCH}EOF"

    assert translate_call(CODEX, "Bash", {"command": command}, CWD) == (ToolUse("Bash", {"command": command}),)


def test_gemini_is_offered_only_tools_that_a_policy_can_judge() -> None:
    assert set(GEMINI_TOOLS) <= {*INPUT_SHAPES, *HARMLESS_TOOLS}
