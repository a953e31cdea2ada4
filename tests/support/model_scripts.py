"""Scripts of the loopback model for whole sessions with real agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

KEY = "sk-ant-api03-this-must-never-be-seen-anywhere"


def build_planner_scenario(*tasks: Mapping[str, Any]) -> dict[str, Any]:
    """A planner that runs one command and then plans these tasks."""
    return {
        "when": {"user": "You are the planner of a team"},
        "turns": [
            {"tool": {"shell": "git log --oneline"}, "usage": {"input": 900, "output": 31, "cache_write": 400}},
            {"structured": {"tasks": list(tasks)}, "usage": {"input": 80, "output": 211, "cache_read": 1300}},
            {"text": "planned"},
        ],
    }


def build_worker_scenario(task: str, *turns: Mapping[str, Any]) -> dict[str, Any]:
    return {"when": {"user": rf"Your task: implement (?P<task>{task})"}, "turns": list(turns)}


def build_write_turns(path: str, text: str) -> list[dict[str, Any]]:
    """A worker that writes a file with its tool, commits it in a shell and reports it."""
    return [
        {
            "text": "I write it.",
            "tool": {"write": "{{cwd}}/" + path, "content": text},
            "usage": {"input": 1200, "output": 57},
        },
        {
            "tool": {"shell": f"git add {path} && git commit -q -m 'feat({{{{task}}}}): write {path}'"},
            "usage": {"input": 300, "output": 44, "cache_read": 1000, "cache_write": 222},
        },
        {"text": f"{path} is written.", "usage": {"input": 100, "output": 9, "cache_read": 1500}},
    ]


def build_reviewer_scenario(status: str = "pass", notes: str = "it does what was asked") -> dict[str, Any]:
    return {
        "when": {"user": "You are a reviewer"},
        "turns": [
            {"structured": {"status": status, "notes": notes, "issues": []}, "usage": {"input": 700, "output": 66}},
            {"text": "judged"},
        ],
    }


def build_model_script(*scenarios: Mapping[str, Any], key: str = KEY) -> dict[str, Any]:
    return {"key": key, "scenarios": list(scenarios)}


def sum_served(served: Sequence[Any]) -> dict[str, int]:
    """Sum the tokens that the model server sent."""
    names = ("input", "output", "cache_read", "cache_write")
    return {name: sum(getattr(each, name) for each in served) for name in names}
