"""Every agent here gets a key that must never be sent anywhere, and the loopback model."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from blueflame.testing import LoopbackModel
from support.model_scripts import build_model_script
from support.npm_agents import KEY, ServeModel

THEIRS = ("ANTHROPIC_", "CLAUDE", "OPENAI_", "CODEX_", "GEMINI_", "GOOGLE_", "OPENCODE")


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[ServeModel]:
    """Start a model that plays these scenarios; agents of every API reach this one."""
    for name in [name for name in os.environ if name.startswith(THEIRS)]:
        monkeypatch.delenv(name)
    for vendor in ("ANTHROPIC", "OPENAI", "GEMINI"):
        monkeypatch.setenv(f"{vendor}_API_KEY", KEY)
    with ExitStack() as stack:

        def serving(*scenarios: Mapping[str, Any]) -> LoopbackModel:
            model = stack.enter_context(LoopbackModel(build_model_script(*scenarios, key=KEY)))
            monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
            monkeypatch.setenv("OPENAI_BASE_URL", f"{model.url}/v1")
            monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", model.url)
            return model

        yield serving
