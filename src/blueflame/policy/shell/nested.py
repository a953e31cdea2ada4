"""Looks into words, targets, sums and tests for the commands that stand inside of them."""

from __future__ import annotations

import re

from blueflame.policy.shell.arithmetic import is_safe_sum
from blueflame.policy.shell.findings import Log, Simple
from blueflame.policy.shell.state import State
from blueflame.policy.shell.syntax import (
    Node,
    Strange,
    flag,
    kind,
    line_of,
    literal,
    node,
    nodes,
    offset_of,
    parts,
    text,
)
from blueflame.policy.shell.words import PARAMETER, is_quoted, plain_text

_HIDDEN = re.compile(r"(?<!\\)(?:\\\\)*(?:`|\$[({])")


def visit_redirect(redirect: Node, state: State, log: Log) -> None:
    node(redirect, "Op", "N", "Word", "Hdoc")
    if redirect.get("N") and not literal(redirect.get("N")).isdigit():
        log.odd("shell_construct", "a redirection that sets a variable")
    visit_word(redirect.get("Word"), state, log, delimiter=text(redirect, "Op") in ("<<", "<<-"))
    if redirect.get("Hdoc"):
        if log.backquoted:
            raise Strange("a here-document between backquotes")
        _check_document(redirect)
        if not is_quoted(redirect.get("Word")):
            visit_word(redirect.get("Hdoc"), state, log)


def _check_document(redirect: Node) -> None:
    """Bash takes a here-document line by line up to its end, whatever stands in it; so nothing may hide that line."""
    end = plain_text(node(redirect.get("Word"), "Parts"), {})
    for part in parts(redirect.get("Hdoc")):
        if kind(part) == "Lit":
            if end in (line.lstrip("\t") for line in text(part, "Value").split("\n")):
                raise Strange("a here-document that may end earlier than it seems")
        elif is_quoted(redirect.get("Word")):
            raise Strange("a quoted here-document with something in it")
        elif line_of(part, "Pos") != line_of(part, "End"):
            raise Strange("a here-document with an expansion over several lines")


ASSIGN = ("Append", "Naked", "Name", "Index", "Value", "Array")


def visit_assign(assign: Node, state: State, log: Log) -> None:
    node(assign, *ASSIGN)
    if assign.get("Index"):
        visit_sum(assign.get("Index"), state, log, "the index of a list")
    if assign.get("Value"):
        visit_word(assign.get("Value"), state, log)
    if assign.get("Array"):
        for element in nodes(node(assign.get("Array"), "Elems").get("Elems")):
            if node(element, "Index", "Value").get("Index"):
                visit_sum(element.get("Index"), state, log, "the index of a list")
            if element.get("Value"):
                visit_word(element.get("Value"), state, log)


def visit_word(word: object, state: State, log: Log, *, delimiter: bool = False) -> None:
    """Every command that stands inside of a word. The delimiter of a here-document is only text."""
    for part in parts(word):
        log.step()
        match kind(part):
            case "Lit":
                if _HIDDEN.search(text(part, "Value")):
                    raise Strange("a substitution in a place where none is expected")
            case "SglQuoted":
                pass
            case "DblQuoted":
                visit_word({"Parts": part.get("Parts")}, state, log, delimiter=delimiter)
            case _ if delimiter:
                raise Strange("a here-document with an odd end")
            case "CmdSubst":
                _substitution(node(part, "Stmts", "Backquotes"), state, log)
            case "ProcSubst":
                _substitution(node(part, "Op", "Stmts"), state, log)
            case "ParamExp":
                _visit_parameter(part, state, log)
            case "ArithmExp":
                visit_sum(node(part, "X", "Bracket", "Unsigned").get("X"), state, log, "a sum")
            case "ExtGlob":
                _check_pattern(part)
                log.odd("shell_construct", "an extended pattern")
            case other:
                raise Strange(f"unknown syntax in a word ({other[:40]})")


def _substitution(part: Node, state: State, log: Log) -> None:
    log.enter()
    written = log.source[offset_of(part, "Pos") : offset_of(part, "End")] if flag(part, "Backquotes") else b""
    if any(each in written for each in (b"\\", b"'", b'"')):
        raise Strange("quotes or a backslash between backquotes, which mean something else there; use $(…) instead")
    log.backquoted += flag(part, "Backquotes")
    log.run(nodes(part.get("Stmts")), state.apart(), log)
    log.backquoted -= flag(part, "Backquotes")
    log.leave()


def _visit_parameter(part: Node, state: State, log: Log) -> None:
    name = literal(node(part, *PARAMETER).get("Param"))
    if flag(part, "Excl"):
        log.odd("shell_dynamic", f"a variable named by another (${{!{name}}})")
    index = part.get("Index")
    if index is not None and _index(index) not in ("@", "*"):
        visit_sum(index, state, log, "the index of a list")
    if part.get("Slice"):
        cut = node(part.get("Slice"), "Offset", "Length")
        for each in (cut.get("Offset"), cut.get("Length")):
            if each is not None:
                visit_sum(each, state, log, "the start or length of a part")
    if part.get("Repl"):
        change = node(part.get("Repl"), "All", "Anchor", "Orig", "With")
        for word in (change.get("Orig"), change.get("With")):
            if word is not None:
                visit_word(word, state, log)
    if part.get("Exp"):
        _visit_default(name, node(part.get("Exp"), "Op", "Word"), state, log)


def _index(index: object) -> str:
    return plain_text(node(index, "Parts"), {}) if kind(index) == "Word" else ""


def _visit_default(name: str, expansion: Node, state: State, log: Log) -> None:
    if expansion.get("Word"):
        visit_word(expansion.get("Word"), state, log)
    op = text(expansion, "Op")
    if op == "@":
        log.odd("shell_dynamic", f"a transformed variable (${{{name}@…}})")
    if op in ("=", ":="):
        state.variables[name] = None
        log.found.append(Simple(assigned=((name, "\x00"),), places=state.places))


def visit_sum(expression: object, state: State, log: Log, what: str) -> None:
    _visit_sum_words(expression, state, log)
    if not is_safe_sum(expression, state):
        log.odd("shell_dynamic", f"{what} that uses a value nobody knows beforehand")


def _visit_sum_words(expression: object, state: State, log: Log) -> None:
    """Commands that stand inside of a sum."""
    if kind(expression) == "Word":
        if any(kind(part) != "Lit" for part in parts(expression)):
            _check_sum_text(node(expression, "Parts"), log)
        visit_word({"Parts": parts(expression)}, state, log)
        return
    log.enter()
    whole = node(expression, "Op", "Post", "X", "Y")
    for side in (whole.get("X"), whole.get("Y")):
        if side is not None:
            _visit_sum_words(side, state, log)
    log.leave()


def _check_sum_text(word: Node, log: Log) -> None:
    """Bash finds the end of a sum by counting brackets: quotes and notes in a command within mislead it."""
    written = log.source[offset_of(word, "Pos") : offset_of(word, "End")]
    if (b"$(" in written or b"`" in written) and any(
        each in written for each in (b"'", b'"', b"#", b"\\", b"\n", b"<<")
    ):
        raise Strange("a sum with a command in it that holds quotes, notes or several lines")


def visit_pattern(pattern: Node, state: State, log: Log) -> None:
    """Patterns only compare; extended ones are at home here."""
    for each in parts(pattern):
        if kind(each) == "ExtGlob":
            _check_pattern(each)
    visit_word({"Parts": [each for each in parts(pattern) if kind(each) != "ExtGlob"]}, state, log)


def _check_pattern(part: Node) -> None:
    """What stands inside of an extended pattern is not parsed, so it must be plain."""
    if re.search(r"[$`\\'\"<>]", literal(node(part, "Op", "Pattern").get("Pattern"))):
        raise Strange("an extended pattern with more than plain text in it")


def visit_test_words(expression: object, state: State, log: Log) -> None:
    if kind(expression) == "Word":
        visit_pattern({"Parts": parts(expression)}, state, log)
        return
    log.enter()
    whole = node(expression, "Op", "X", "Y")
    for side in (whole.get("X"), whole.get("Y")):
        if side is not None:
            visit_test_words(side, state, log)
    log.leave()
