"""What an agent is started with, in the tests of runtimes."""

from __future__ import annotations

from typing import Any

from blueflame.agents.runtime import AgentBrief

GATEWAY = "http://127.0.0.1:61128"
TOOLS = ("Read", "Write", "Edit", "Glob", "Grep", "Bash")


def build_brief(**changes: Any) -> AgentBrief:  # noqa: ANN401 (fields of any kind)
    given: dict[str, Any] = {
        "attempt": "ses-1.task-001.worker.1",
        "agent_id": "worker-0a1b2c3d",
        "role": "worker",
        "subject": "task-001",
        "n": 1,
        "session": "ses-1",
        "worktree": '/somewhere/my "repo".x',
        "prompt": "Do it.",
        "model": "some-model",
        "tools": TOOLS,
        "system": "Be brief.",
        "gateway": GATEWAY,
        "token": "bf-token",
    }
    return AgentBrief(**{**given, **changes})
