"""Build a runtime by its kind: a row of model/runtime_support.RUNTIMES and the module of the same name in agents/."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from blueflame.agents.runtime import Runtime


def build_runtime(kind: str, options: Mapping[str, Any], root: Path) -> Runtime:
    """Build it from its settings; relative paths start at `root`. Only the module of this kind is imported."""
    runtime: Runtime = import_module(f"blueflame.agents.{kind}").build_runtime(options, root)
    return runtime
