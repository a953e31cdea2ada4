"""Whether an example has a key."""

from __future__ import annotations

from typing import Any


def is_in(data: Any, path: tuple[str, ...]) -> bool:  # noqa: ANN401 (YAML has any type)
    if not path or path[0] == "<VARIABLE>":
        return True
    if not isinstance(data, dict):
        return False
    if path[0].startswith("<"):
        return any(is_in(inner, path[1:]) for inner in data.values())
    return path[0] in data and is_in(data[path[0]], path[1:])
