"""The table of runtimes in the documentation is the one in the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from blueflame.agents.codex import CodexRuntime
from blueflame.agents.credentials import VENDORS
from blueflame.agents.gemini import GeminiRuntime
from blueflame.agents.opencode import OpencodeRuntime
from blueflame.gateway import options
from blueflame.model.runtime_support import CAPABILITIES, CLAUDE_MODELS, RUNTIMES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "runtimes.md").read_text(encoding="utf-8")


def test_the_table_of_enforcement_is_the_one_in_the_code() -> None:
    names = list(RUNTIMES)
    rows = [
        f"| {words} | {' | '.join(RUNTIMES[name].enforcement[what] for name in names)} |"
        for what, words in CAPABILITIES.items()
    ]

    assert "\n".join((f"| | {' | '.join(names)} |", f"|{' --- |' * (len(names) + 1)}", *rows)) in PAGE


def test_every_runtime_is_on_the_page() -> None:
    assert [name for name in RUNTIMES if f"`{name}`" not in PAGE] == []


@pytest.mark.parametrize(
    ("file", "before"),
    [
        ("docs/explanation/glossary.md", "How an agent is driven:"),
        ("docs/reference/config.md", "How the agent is driven:"),
        ("blueflame.yaml.example", "How agents are driven, by name. Built in:"),
    ],
)
def test_other_lists_of_runtimes_are_whole(file: str, before: str) -> None:
    line = (ROOT / file).read_text(encoding="utf-8").partition(before)[2].partition("\n")[0]
    assert [name for name in RUNTIMES if not re.search(rf"\b{name}\b", line)] == []


def test_every_api_of_a_runtime_is_known_to_all_who_list_them() -> None:
    needed = {api for kind in RUNTIMES.values() for api in kind.apis}
    assert set(options.APIS) == set(VENDORS) == needed


def test_the_short_names_of_models_are_on_the_page() -> None:
    assert ", ".join(f"`{name}`" for name in CLAUDE_MODELS) in PAGE


def test_the_versions_on_the_page_are_those_that_are_required_and_installed() -> None:
    script = (ROOT / "scripts" / "agents.sh").read_text(encoding="utf-8")
    wanted = tuple(
        f"{runtime.package.package}@{runtime.package.min_version}"
        for runtime in (CodexRuntime, GeminiRuntime, OpencodeRuntime)
    )

    assert [each for each in wanted if each not in PAGE or each not in script] == []
