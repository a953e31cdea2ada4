"""Names of what builds, tests and package managers leave behind: agents make and remove it, and nothing of it lands."""

from __future__ import annotations

import re

_FOLDERS = (
    "build dist out bin target node_modules coverage htmlcov __pycache__ venv obj tmp temp logs _build .venv .tox .nox"
    " .eggs .pytest_cache .mypy_cache .ruff_cache .hypothesis .next .nuxt .turbo .cache .parcel-cache .vite .gradle"
    " .nyc_output .build .dart_tool .bundle .phpunit.cache .ccache test-results playwright-report"
)
_OUTPUTS = frozenset(_FOLDERS.split())
_NAME = re.compile(
    r".*\.(?:pyc|pyo|o|obj|a|class|log|tmp|gcda|gcno|gcov|profraw|egg-info|prof|test|out|pid|bak|orig|rej|tsbuildinfo)"
    r"|cmake-build-.+|\.coverage(?:\..+)?|coverage\.(?:xml|json|out|lcov|html)|lcov\.info|junit\.xml|core\.\d+|nohup\.out"
)


def is_build_output(path: str) -> bool:
    """Return whether a relative path is, or is in, a folder of build output, or has the name of such a file."""
    parts = path.split("/")
    return not _OUTPUTS.isdisjoint(parts) or any(map(_NAME.fullmatch, parts))
