"""What each runtime can hold its agents to: enforced, detected or impossible (docs/reference/runtimes.md)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from blueflame.lazy_dataclass import dataclass


class Enforcement(StrEnum):
    ENFORCED = "enforced"  # it cannot happen otherwise
    DETECTED = "detected"  # it can, but it shows, and the attempt does not count
    IMPOSSIBLE = "impossible"  # not here


E, D, I = Enforcement.ENFORCED, Enforcement.DETECTED, Enforcement.IMPOSSIBLE  # noqa: E741 (a table reads best in letters)

CAPABILITIES: Mapping[str, str] = {
    "tools": "only the tools that the policy allows",
    "paths": "files are read and written only where the policy allows it",
    "shell": "only commands that the policy allows",
    "scope": "a worker writes only where its task has a lock",
    "structured_output": "plans and verdicts in the form that is asked for",
    "metering": "every token of every model call is counted",
    "budget": "no model call after the budget is gone",
    "rate_limits": "a provider's limit is waited for, and is not a failure",
    "interactive": "a planner that talks with the person first",
    "skills": "skills and plugins for roles",
    "messages": "messages to a running agent: `blueflame say`",
    "conversation": "a retry, or the next task of a seat, continues the conversation",
    "questions": "a tool with which a running agent asks the person and waits",
}
"""What a runtime can be asked for, in words for people."""

OF_CLAUDE_ONLY = ("interactive", "skills", "conversation", "questions")

CLAUDE_MODELS = ("sonnet", "haiku", "opus", "fable")
"""Short names of Claude's models, which no other program knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeKind:
    """One row of the table below; `agents/<name>` has the module with its `build_runtime`."""

    apis: tuple[str, ...] = ()  # of its model; empty when only the launch determines it
    knows_claude_models: bool = False
    enforcement: Mapping[str, Enforcement]
    unguarded: str = ""  # which wall its agents do not have, in words for people; "" when all stand


RUNTIMES: Mapping[str, RuntimeKind] = {
    "claude": RuntimeKind(
        apis=("anthropic",),
        knows_claude_models=True,
        enforcement=dict.fromkeys(CAPABILITIES, E),
    ),
    "tmux": RuntimeKind(
        apis=("anthropic",),
        knows_claude_models=True,
        enforcement={**dict.fromkeys(CAPABILITIES, E), "structured_output": D, "conversation": I, "questions": I},
    ),
    "codex": RuntimeKind(
        apis=("openai",),
        enforcement={**dict.fromkeys(CAPABILITIES, E), **dict.fromkeys(OF_CLAUDE_ONLY, I)},
    ),
    "gemini": RuntimeKind(
        apis=("gemini",),
        enforcement={
            **dict.fromkeys(CAPABILITIES, E),
            "structured_output": D,
            **dict.fromkeys(OF_CLAUDE_ONLY, I),
            "questions": E,
        },
    ),
    "opencode": RuntimeKind(
        apis=("openai",),
        enforcement={
            **dict.fromkeys(CAPABILITIES, E),
            "structured_output": D,
            **dict.fromkeys((*OF_CLAUDE_ONLY, "messages"), I),
        },
    ),
    "acp": RuntimeKind(
        enforcement={
            **dict.fromkeys(("tools", "paths", "shell", "scope", "structured_output"), D),
            **dict.fromkeys(("metering", "budget", "rate_limits"), E),
            **dict.fromkeys((*OF_CLAUDE_ONLY, "messages"), I),
        },
    ),
    "command": RuntimeKind(
        knows_claude_models=True,
        enforcement={
            **dict.fromkeys(("paths", "scope"), D),
            **dict.fromkeys(("metering", "budget", "rate_limits"), E),
            **dict.fromkeys(("tools", "shell", "structured_output", "messages", *OF_CLAUDE_ONLY), I),
        },
        unguarded="no watcher: its calls are not judged one by one, the sandbox and the postcheck hold it",
    ),
    "subagent": RuntimeKind(
        knows_claude_models=True,
        enforcement={
            **dict.fromkeys(("tools", "paths", "shell", "scope", "messages"), D),
            **dict.fromkeys(("structured_output", "metering", "budget", "rate_limits", *OF_CLAUDE_ONLY), I),
        },
        unguarded="outside of the sandbox and of the gateway: a subagent of your conversation, with your rights",
    ),
    "scripted": RuntimeKind(
        knows_claude_models=True,
        enforcement={
            **dict.fromkeys(("tools", "paths", "shell", "scope"), D),
            **dict.fromkeys(("metering", "budget"), D),
            **dict.fromkeys(("rate_limits", *OF_CLAUDE_ONLY), I),
            **dict.fromkeys(("structured_output", "messages", "questions"), E),
        },
    ),
}
"""Every runtime there is. Pages and settings that list them are compared with it by tests."""


def find_enforcement(kind: str, what: str) -> Enforcement:
    """An unknown runtime can be held to nothing."""
    return RUNTIMES[kind].enforcement[what] if kind in RUNTIMES else Enforcement.IMPOSSIBLE


def can_take_messages(kind: str) -> bool:
    """Whether an agent of this runtime reads why a call is refused: that is how it gets messages and warnings."""
    return find_enforcement(kind, "messages") is not Enforcement.IMPOSSIBLE
