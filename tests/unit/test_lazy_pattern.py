"""Patterns that are compiled when they are first used."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import pytest

from blueflame import lazy_pattern
from blueflame.cli.foreground import run_session
from blueflame.lazy_pattern import compile_later


def test_it_is_used_as_a_compiled_one() -> None:
    pattern = compile_later(r"(?P<word>b+)", re.IGNORECASE)

    found = pattern.search("aBb")

    assert found is not None and found["word"] == "Bb"
    assert pattern.findall("BabB") == ["B", "bB"]
    assert (pattern.pattern, pattern.groups) == (r"(?P<word>b+)", 1)


def test_a_wrong_one_is_reported_when_it_is_used() -> None:
    pattern = compile_later("(")

    with pytest.raises(re.error):
        pattern.match("")


def test_every_pattern_can_be_compiled() -> None:
    late = list(_find_patterns())

    assert len(late) > 100
    assert all(isinstance(each.pattern, str) for each in late)


def _find_patterns() -> Iterator[Any]:
    """Find those of all modules that a session imports, also in tables."""
    assert run_session.__module__ in sys.modules
    users = [module for module in sys.modules.values() if hasattr(module, "compile_later")]
    seen: set[int] = set()
    left: list[Any] = [vars(module) for module in users]
    while left:
        each = left.pop()
        if id(each) in seen or isinstance(each, ModuleType | type | FunctionType):
            continue
        seen.add(id(each))
        if type(each) is vars(lazy_pattern)["compile_later"]:
            yield each
        else:
            left += gc.get_referents(each)
