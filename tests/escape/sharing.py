"""Work that is done once for all tests, also if several processes run them."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[], Mapping[str, T]]) -> Mapping[str, T]:
    """Return the result of `make` as JSON: the first caller makes it, the others wait for it."""
    base = factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    path = shared / f"escape-{name}.json"
    with Path(f"{path}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            path.write_text(json.dumps(make()))
        made: Mapping[str, T] = json.loads(path.read_text())
        return made
