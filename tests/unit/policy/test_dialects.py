"""Tools of other agents in the policy's words."""

from __future__ import annotations

from typing import Any

import pytest

from blueflame.policy.dialects import CODEX, GEMINI, GEMINI_TOOLS, Meant, Untranslatable, meant
from blueflame.policy.tool_inputs import SHAPES, TOUCHING_NOTHING, misshapen

CWD = "/here/repo"
PATCH = "*** Begin Patch\n*** Add File: src/a.py\n+x\n*** Delete File: ../b\n*** End Patch\n"
TOUCHED = (Meant("Write", {"file_path": "/here/repo/src/a.py"}), Meant("Edit", {"file_path": "/here/b"}))

SAME: dict[str, tuple[str, str, dict[str, Any], tuple[Meant, ...]]] = {
    "codex runs": (CODEX, "Bash", {"command": "make"}, (Meant("Bash", {"command": "make"}),)),
    "codex patches": (CODEX, "apply_patch", {"command": PATCH}, TOUCHED),
    "codex patches in a shell": (CODEX, "Bash", {"command": f"apply_patch <<'EOF'\n{PATCH}EOF"}, TOUCHED),
    "codex looks": (CODEX, "view_image", {"path": "a.png"}, (Meant("Read", {"file_path": "a.png"}),)),
    "codex and a tool nobody knows": (CODEX, "spawn_agent", {"x": 1}, (Meant("spawn_agent", {"x": 1}),)),
    "gemini runs": (
        GEMINI,
        "run_shell_command",
        {"command": "make", "description": "build it", "dir_path": "sub", "is_background": False},
        (Meant("Bash", {"command": "make", "description": "build it", "is_background": False}, "sub"),),
    ),
    "gemini writes": (
        GEMINI,
        "write_file",
        {"file_path": "a", "content": "x"},
        (Meant("Write", {"file_path": "a", "content": "x"}),),
    ),
    "gemini edits": (
        GEMINI,
        "replace",
        {"file_path": "a", "instruction": "do", "old_string": "x", "new_string": "y"},
        (Meant("Edit", {"file_path": "a", "explanation": "do", "old_string": "x", "new_string": "y"}),),
    ),
    "gemini reads": (GEMINI, "read_file", {"absolute_path": "/a"}, (Meant("Read", {"file_path": "/a"}),)),
    "gemini lists": (GEMINI, "list_directory", {"dir_path": "."}, (Meant("Read", {"file_path": "."}),)),
    "gemini searches": (
        GEMINI,
        "grep_search",
        {"pattern": "x", "dir_path": "src", "include_pattern": "*.py"},
        (Meant("Grep", {"pattern": "x", "path": "src", "glob": "*.py"}),),
    ),
    "gemini fetches": (
        GEMINI,
        "web_fetch",
        {"prompt": "sum up https://example.org/a please"},
        (Meant("WebFetch", {"url": "https://example.org/a", "prompt": "sum up https://example.org/a please"}),),
    ),
    "gemini asks a helper": (GEMINI, "invoke_agent", {"prompt": "x"}, (Meant("invoke_agent", {"prompt": "x"}),)),
    "gemini and a tool nobody knows": (GEMINI, "nonsense", {"x": 1}, (Meant("nonsense", {"x": 1}),)),
}


@pytest.mark.parametrize(("dialect", "tool", "given", "expected"), SAME.values(), ids=SAME.keys())
def test_a_call_is_said_in_our_words(
    dialect: str, tool: str, given: dict[str, Any], expected: tuple[Meant, ...]
) -> None:
    assert meant(dialect, tool, given, CWD) == expected
    for each in expected:
        if each.tool in SHAPES:
            assert misshapen(each.tool, SHAPES[each.tool], each.input) == ""


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
def test_what_is_unclear_is_not_guessed(dialect: str, tool: str, given: dict[str, Any]) -> None:
    with pytest.raises(Untranslatable):
        meant(dialect, tool, given, CWD)


def test_a_patch_with_a_command_around_it_stays_a_command() -> None:
    command = f"cd src && apply_patch <<'EOF'\n{PATCH}EOF"

    assert meant(CODEX, "Bash", {"command": command}, CWD) == (Meant("Bash", {"command": command}),)


def test_gemini_is_offered_only_tools_that_a_policy_can_judge() -> None:
    assert set(GEMINI_TOOLS) <= {*SHAPES, *TOUCHING_NOTHING}
