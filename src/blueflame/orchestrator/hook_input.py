"""What a person's own commands are given at the moments of a session. docs/reference/hooks.md is the contract."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HOOK_OUTPUT_BYTES = 4000


def format_hook_input(payload: Mapping[str, Any]) -> str:
    """One line of JSON; a file name that is not text is shown as well as it can be."""
    text = json.dumps(payload, ensure_ascii=False, sort_keys=True)
    return text.encode("utf-8", "replace").decode() + "\n"


def build_hook_environment(base: Mapping[str, str], payload: Mapping[str, Any], *, root: Path) -> dict[str, str]:
    """The person's own environment, for it is their command; only what would point git elsewhere is left out."""
    own = {name: value for name, value in base.items() if not name.startswith("GIT_")}
    return own | {
        "BLUEFLAME_ROOT": str(root),
        "BLUEFLAME_HOOK": str(payload["hook"]),
        "BLUEFLAME_SESSION": str(payload["session"]),
        "BLUEFLAME_CYCLE": str(payload["cycle"]),
        "BLUEFLAME_PROJECT": str(payload["project"]),
        "BLUEFLAME_BASE_BRANCH": str(payload["base_branch"]),
    }
