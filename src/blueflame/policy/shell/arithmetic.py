"""Check arithmetic and tests. The shell evaluates the value of a variable in arithmetic again, commands included:
so only numbers, and variables that are known to hold numbers, pass."""

from __future__ import annotations

import re

from blueflame.policy.shell.marks import NAME, NUMBER, is_name
from blueflame.policy.shell.state import ShellState, is_numeric_variable, list_choices
from blueflame.policy.shell.syntax import SyntaxNode, UnreadableSyntax, list_parts, read_kind, read_text, require_node
from blueflame.policy.shell.words import expand_text, list_variables

_ARITHMETIC = re.compile(rf"(?:\d\w*|[A-Za-z_]\w*|[{NUMBER}\s+*/%<>=!&|^~?:(),-])*\Z", re.ASCII)
_NAMES = re.compile(r"(?<!\w)[A-Za-z_]\w*", re.ASCII)
_NUMERIC = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))
_BY_NAME = frozenset(("-v", "-R"))
_CHANGES = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"))


def is_safe_arithmetic(expression: object, state: ShellState, depth: int = 0) -> bool:
    """Return whether the expression runs nothing. Variables that it sets hold numbers afterwards."""
    if depth > 50:
        raise UnreadableSyntax("arithmetic is nested too deeply")
    match read_kind(expression):
        case "BinaryArithm":
            both = require_node(expression, "Op", "X", "Y")
            safe = is_safe_arithmetic(both.get("Y"), state, depth + 1)
            _record_assignment(both, state, safe=safe)
            return safe and is_safe_arithmetic(both.get("X"), state, depth + 1)
        case "UnaryArithm":
            one = require_node(expression, "Op", "Post", "X")
            safe = is_safe_arithmetic(one.get("X"), state, depth + 1)
            _record_assignment(one, state, safe=safe)
            return safe
        case "ParenArithm":
            return is_safe_arithmetic(require_node(expression, "X").get("X"), state, depth + 1)
        case "Word":
            return _is_safe_operand(require_node(expression, "Parts"), state)
    raise UnreadableSyntax(f"unknown syntax in arithmetic ({read_kind(expression)[:40]})")


def _record_assignment(both: SyntaxNode, state: ShellState, *, safe: bool) -> None:
    if read_text(both, "Op") in _CHANGES and read_kind(both.get("X")) == "Word":
        name = expand_text(require_node(both.get("X"), "Parts"), {})
        if is_name(name):
            state.variables[name] = (NUMBER,) if safe else None


def _is_safe_operand(word: SyntaxNode, state: ShellState) -> bool:
    return all(
        _ARITHMETIC.match(found) and all(is_numeric_variable(state, name) for name in _NAMES.findall(found))
        for found in list_texts(word, state)
    )


def list_texts(word: SyntaxNode, state: ShellState) -> list[str]:
    """Return every text that the word may become."""
    return [expand_text(word, values) for values in list_choices(state, list_variables(word))]


def is_safe_test(expression: object, state: ShellState, depth: int = 0) -> bool:
    """Return whether the test between [[ and ]] runs nothing."""
    if depth > 50:
        raise UnreadableSyntax("a test is nested too deeply")
    match read_kind(expression):
        case "BinaryTest":
            both = require_node(expression, "Op", "X", "Y")
            sides = (both.get("X"), both.get("Y"))
            if read_text(both, "Op") in _NUMERIC:
                return all(_is_safe_operand(require_node(side, "Parts"), state) for side in sides)
            return all(is_safe_test(side, state, depth + 1) for side in sides)
        case "UnaryTest":
            one = require_node(expression, "Op", "X")
            if read_text(one, "Op") in _BY_NAME:
                return all(NAME.match(found) for found in list_texts(require_node(one.get("X"), "Parts"), state))
            return is_safe_test(one.get("X"), state, depth + 1)
        case "ParenTest":
            return is_safe_test(require_node(expression, "X").get("X"), state, depth + 1)
        case "Word":
            list_parts(expression)
            return True
    raise UnreadableSyntax(f"unknown syntax in a test ({read_kind(expression)[:40]})")
