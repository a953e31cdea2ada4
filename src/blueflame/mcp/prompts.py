"""The jobs that a person asks for: the skills of the plugin, which are the prompts of the server as well."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

PLUGIN = Path(__file__).parent / "plugin"
JOBS = ("run", "plan", "review", "status", "resume", "fix")
FENCE = "---\n"


def read_description(job: str) -> str:
    head = _read_skill(job)[0]
    return next(line.partition(": ")[2] for line in head.splitlines() if line.startswith("description: "))


def build_prompt(job: str) -> Callable[[str], str]:
    def prompt(words: str = "") -> str:
        return _read_skill(job)[1].replace("$ARGUMENTS", words).strip()

    return prompt


def _read_skill(job: str) -> tuple[str, str]:
    """Read the head and the text of a skill."""
    _, head, text = (PLUGIN / "skills" / job / "SKILL.md").read_text(encoding="utf-8").split(FENCE, 2)
    return head, text
