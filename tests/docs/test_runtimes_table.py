"""The table of runtimes in the documentation is the one in the code."""

from __future__ import annotations

from pathlib import Path

from blueflame.agents.codex import CodexRuntime
from blueflame.agents.gemini import GeminiRuntime
from blueflame.agents.opencode import OpencodeRuntime
from blueflame.model.runtime_support import CAPABILITIES, RUNTIMES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "runtimes.md").read_text(encoding="utf-8")


def test_what_each_runtime_can_be_held_to_is_told_as_it_is() -> None:
    names = list(RUNTIMES)
    rows = [
        f"| {words} | {' | '.join(RUNTIMES[name].enforcement[what] for name in names)} |"
        for what, words in CAPABILITIES.items()
    ]

    assert "\n".join((f"| | {' | '.join(names)} |", f"|{' --- |' * (len(names) + 1)}", *rows)) in PAGE


def test_every_runtime_is_on_the_page() -> None:
    assert [name for name in RUNTIMES if f"`{name}`" not in PAGE] == []


def test_the_versions_that_are_told_are_the_ones_that_are_asked_for_and_installed() -> None:
    script = (ROOT / "scripts" / "agents.sh").read_text(encoding="utf-8")
    wanted = tuple(
        f"{runtime.package.package}@{runtime.package.min_version}"
        for runtime in (CodexRuntime, GeminiRuntime, OpencodeRuntime)
    )

    assert [each for each in wanted if each not in PAGE or each not in script] == []
