"""Find the commands inside words, redirection targets, arithmetic and tests."""

from __future__ import annotations

import re

from blueflame.policy.shell.arithmetic import is_safe_arithmetic
from blueflame.policy.shell.findings import ReadLog, SimpleCommand
from blueflame.policy.shell.state import ShellState
from blueflame.policy.shell.syntax import (
    SyntaxNode,
    UnreadableSyntax,
    find_line,
    find_offset,
    list_parts,
    read_flag,
    read_kind,
    read_literal,
    read_text,
    require_node,
    require_nodes,
)
from blueflame.policy.shell.words import PARAMETER_FIELDS, expand_text, is_quoted

_HIDDEN_SUBSTITUTION = re.compile(r"(?<!\\)(?:\\\\)*(?:`|\$[({])")


def visit_redirect(redirect: SyntaxNode, state: ShellState, log: ReadLog) -> None:
    require_node(redirect, "Op", "N", "Word", "Hdoc")
    if redirect.get("N") and not read_literal(redirect.get("N")).isdigit():
        log.add_opaque("shell_construct", "a redirection that sets a variable")
    visit_word(redirect.get("Word"), state, log, delimiter=read_text(redirect, "Op") in ("<<", "<<-"))
    if redirect.get("Hdoc"):
        if log.backquoted:
            raise UnreadableSyntax("a here-document between backquotes")
        _check_heredoc(redirect)
        if not is_quoted(redirect.get("Word")):
            visit_word(redirect.get("Hdoc"), state, log)


def _check_heredoc(redirect: SyntaxNode) -> None:
    """Refuse a here-document whose end line may be hidden: bash reads it line by line."""
    end = expand_text(require_node(redirect.get("Word"), "Parts"), {})
    for part in list_parts(redirect.get("Hdoc")):
        if read_kind(part) == "Lit":
            if end in (line.lstrip("\t") for line in read_text(part, "Value").split("\n")):
                raise UnreadableSyntax("a here-document that may end earlier than it seems")
        elif is_quoted(redirect.get("Word")):
            raise UnreadableSyntax("a quoted here-document with something in it")
        elif find_line(part, "Pos") != find_line(part, "End"):
            raise UnreadableSyntax("a here-document with an expansion over several lines")


ASSIGN_FIELDS = ("Append", "Naked", "Name", "Index", "Value", "Array")


def visit_assign(assign: SyntaxNode, state: ShellState, log: ReadLog) -> None:
    require_node(assign, *ASSIGN_FIELDS)
    if assign.get("Index"):
        visit_arithmetic(assign.get("Index"), state, log, "the index of a list")
    if assign.get("Value"):
        visit_word(assign.get("Value"), state, log)
    if assign.get("Array"):
        for element in require_nodes(require_node(assign.get("Array"), "Elems").get("Elems")):
            if require_node(element, "Index", "Value").get("Index"):
                visit_arithmetic(element.get("Index"), state, log, "the index of a list")
            if element.get("Value"):
                visit_word(element.get("Value"), state, log)


def visit_word(word: object, state: ShellState, log: ReadLog, *, delimiter: bool = False) -> None:
    """Read every command inside a word. The delimiter of a here-document is only text."""
    for part in list_parts(word):
        log.count_step()
        match read_kind(part):
            case "Lit":
                if _HIDDEN_SUBSTITUTION.search(read_text(part, "Value")):
                    raise UnreadableSyntax("a substitution where none is expected")
            case "SglQuoted":
                pass
            case "DblQuoted":
                visit_word({"Parts": part.get("Parts")}, state, log, delimiter=delimiter)
            case _ if delimiter:
                raise UnreadableSyntax("a here-document with an unusual delimiter")
            case "CmdSubst":
                _visit_substitution(require_node(part, "Stmts", "Backquotes"), state, log)
            case "ProcSubst":
                _visit_substitution(require_node(part, "Op", "Stmts"), state, log)
            case "ParamExp":
                _visit_parameter(part, state, log)
            case "ArithmExp":
                visit_arithmetic(require_node(part, "X", "Bracket", "Unsigned").get("X"), state, log, "arithmetic")
            case "ExtGlob":
                _check_extended_pattern(part)
                log.add_opaque("shell_construct", "an extended pattern")
            case other:
                raise UnreadableSyntax(f"unknown syntax in a word ({other[:40]})")


def _visit_substitution(part: SyntaxNode, state: ShellState, log: ReadLog) -> None:
    log.enter_level()
    written = log.source[find_offset(part, "Pos") : find_offset(part, "End")] if read_flag(part, "Backquotes") else b""
    if any(each in written for each in (b"\\", b"'", b'"')):
        raise UnreadableSyntax("quotes or a backslash between backquotes; use $(…) instead")
    log.backquoted += read_flag(part, "Backquotes")
    log.run(require_nodes(part.get("Stmts")), state.fork(), log)
    log.backquoted -= read_flag(part, "Backquotes")
    log.leave_level()


def _visit_parameter(part: SyntaxNode, state: ShellState, log: ReadLog) -> None:
    name = read_literal(require_node(part, *PARAMETER_FIELDS).get("Param"))
    if read_flag(part, "Excl"):
        log.add_opaque("shell_dynamic", f"a variable named by another (${{!{name}}})")
    index = part.get("Index")
    if index is not None:
        subscript = expand_text(require_node(index, "Parts"), {}) if read_kind(index) == "Word" else ""
        if subscript not in ("@", "*"):
            visit_arithmetic(index, state, log, "the index of a list")
    if part.get("Slice"):
        cut = require_node(part.get("Slice"), "Offset", "Length")
        for each in (cut.get("Offset"), cut.get("Length")):
            if each is not None:
                visit_arithmetic(each, state, log, "the start or length of a substring")
    if part.get("Repl"):
        change = require_node(part.get("Repl"), "All", "Anchor", "Orig", "With")
        for word in (change.get("Orig"), change.get("With")):
            if word is not None:
                visit_word(word, state, log)
    if part.get("Exp"):
        _visit_default(name, require_node(part.get("Exp"), "Op", "Word"), state, log)


def _visit_default(name: str, expansion: SyntaxNode, state: ShellState, log: ReadLog) -> None:
    if expansion.get("Word"):
        visit_word(expansion.get("Word"), state, log)
    op = read_text(expansion, "Op")
    if op == "@":
        log.add_opaque("shell_dynamic", f"a transformed variable (${{{name}@…}})")
    if op in ("=", ":="):
        state.variables[name] = None
        log.found.append(SimpleCommand(assigned=((name, "\x00"),), cwds=state.cwds))


def visit_arithmetic(expression: object, state: ShellState, log: ReadLog, what: str) -> None:
    _visit_arithmetic_words(expression, state, log)
    if not is_safe_arithmetic(expression, state):
        log.add_opaque("shell_dynamic", f"{what} that uses an unknown value")


def _visit_arithmetic_words(expression: object, state: ShellState, log: ReadLog) -> None:
    """Read the commands inside arithmetic."""
    if read_kind(expression) == "Word":
        if any(read_kind(part) != "Lit" for part in list_parts(expression)):
            _check_arithmetic_text(require_node(expression, "Parts"), log)
        visit_word({"Parts": list_parts(expression)}, state, log)
        return
    log.enter_level()
    whole = require_node(expression, "Op", "Post", "X", "Y")
    for side in (whole.get("X"), whole.get("Y")):
        if side is not None:
            _visit_arithmetic_words(side, state, log)
    log.leave_level()


def _check_arithmetic_text(word: SyntaxNode, log: ReadLog) -> None:
    """Refuse quotes and comments in a command inside arithmetic: bash finds the end by counting brackets."""
    written = log.source[find_offset(word, "Pos") : find_offset(word, "End")]
    if (b"$(" in written or b"`" in written) and any(
        each in written for each in (b"'", b'"', b"#", b"\\", b"\n", b"<<")
    ):
        raise UnreadableSyntax("arithmetic with a command that holds quotes, comments or several lines")


def visit_pattern(pattern: SyntaxNode, state: ShellState, log: ReadLog) -> None:
    """Visit a pattern, which only compares; it may be an extended one."""
    for each in list_parts(pattern):
        if read_kind(each) == "ExtGlob":
            _check_extended_pattern(each)
    visit_word({"Parts": [each for each in list_parts(pattern) if read_kind(each) != "ExtGlob"]}, state, log)


def _check_extended_pattern(part: SyntaxNode) -> None:
    """Refuse an extended pattern that is not plain text: shfmt does not parse its inside."""
    if re.search(r"[$`\\'\"<>]", read_literal(require_node(part, "Op", "Pattern").get("Pattern"))):
        raise UnreadableSyntax("an extended pattern with more than plain text in it")


def visit_test_words(expression: object, state: ShellState, log: ReadLog) -> None:
    if read_kind(expression) == "Word":
        visit_pattern({"Parts": list_parts(expression)}, state, log)
        return
    log.enter_level()
    whole = require_node(expression, "Op", "X", "Y")
    for side in (whole.get("X"), whole.get("Y")):
        if side is not None:
            visit_test_words(side, state, log)
    log.leave_level()
