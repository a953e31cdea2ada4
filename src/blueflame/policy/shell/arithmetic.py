"""Sums and comparisons. The shell reads the value of a variable in a sum as a sum again, commands in it included:
so only numbers, and variables that are known to hold numbers, pass."""

from __future__ import annotations

import re

from blueflame.policy.shell.marks import _NAME, NUMBER, is_name
from blueflame.policy.shell.state import State, choices, is_number
from blueflame.policy.shell.syntax import Node, Strange, kind, node, parts, text
from blueflame.policy.shell.words import plain_text, variables_in

_SUM = re.compile(rf"(?:\d\w*|[A-Za-z_]\w*|[{NUMBER}\s+*/%<>=!&|^~?:(),-])*\Z", re.ASCII)
_NAMES = re.compile(r"(?<!\w)[A-Za-z_]\w*", re.ASCII)
_NUMERIC = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))
_BY_NAME = frozenset(("-v", "-R"))
_CHANGES = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"))


def is_safe_sum(expression: object, state: State, depth: int = 0) -> bool:
    """True when the sum can run nothing. Variables that it sets hold numbers from then on."""
    if depth > 50:
        raise Strange("a sum is nested too deeply")
    match kind(expression):
        case "BinaryArithm":
            both = node(expression, "Op", "X", "Y")
            safe = is_safe_sum(both.get("Y"), state, depth + 1)
            _note_change(both, state, safe=safe)
            return safe and is_safe_sum(both.get("X"), state, depth + 1)
        case "UnaryArithm":
            one = node(expression, "Op", "Post", "X")
            safe = is_safe_sum(one.get("X"), state, depth + 1)
            _note_change(one, state, safe=safe)
            return safe
        case "ParenArithm":
            return is_safe_sum(node(expression, "X").get("X"), state, depth + 1)
        case "Word":
            return _is_safe_operand(node(expression, "Parts"), state)
    raise Strange(f"unknown syntax in a sum ({kind(expression)[:40]})")


def _note_change(both: Node, state: State, *, safe: bool) -> None:
    if text(both, "Op") in _CHANGES and kind(both.get("X")) == "Word":
        name = plain_text(node(both.get("X"), "Parts"), {})
        if is_name(name):
            state.variables[name] = (NUMBER,) if safe else None


def _is_safe_operand(word: Node, state: State) -> bool:
    return all(_is_safe_text(found, state) for found in texts(word, state))


def _is_safe_text(found: str, state: State) -> bool:
    return bool(_SUM.match(found)) and all(is_number(state, name) for name in _NAMES.findall(found))


def texts(word: Node, state: State) -> list[str]:
    """All that the word may be."""
    return [plain_text(word, values) for values in choices(state, variables_in(word))]


def is_safe_test(expression: object, state: State, depth: int = 0) -> bool:
    """True when what stands between [[ and ]] can run nothing."""
    if depth > 50:
        raise Strange("a test is nested too deeply")
    match kind(expression):
        case "BinaryTest":
            both = node(expression, "Op", "X", "Y")
            sides = (both.get("X"), both.get("Y"))
            if text(both, "Op") in _NUMERIC:
                return all(_is_safe_operand(node(side, "Parts"), state) for side in sides)
            return all(is_safe_test(side, state, depth + 1) for side in sides)
        case "UnaryTest":
            one = node(expression, "Op", "X")
            if text(one, "Op") in _BY_NAME:
                return all(_NAME.match(found) for found in texts(node(one.get("X"), "Parts"), state))
            return is_safe_test(one.get("X"), state, depth + 1)
        case "ParenTest":
            return is_safe_test(node(expression, "X").get("X"), state, depth + 1)
        case "Word":
            parts(expression)
            return True
    raise Strange(f"unknown syntax in a test ({kind(expression)[:40]})")
