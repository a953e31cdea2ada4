"""Expand a word of a command: remove quotes, expand braces, mark what is only known when it runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

from blueflame.policy.shell.braces import Atom, expand_braces
from blueflame.policy.shell.marks import ANY, HOME, LOOSE, MARKS, NUMBER, ONE, PIPE, ROOT, UNKNOWN
from blueflame.policy.shell.programs.listers import list_printed_names
from blueflame.policy.shell.syntax import (
    SyntaxNode,
    UnreadableSyntax,
    list_parts,
    read_flag,
    read_kind,
    read_literal,
    read_text,
    require_node,
    require_nodes,
)

Values: TypeAlias = Mapping[str, str | None]
"""Values of variables; None if unknown."""

_ESCAPES = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))
_ANSI = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)
_COUNT_PARAMETERS = frozenset("?#$!")


def expand_word(word: SyntaxNode, values: Values) -> tuple[str, ...]:
    """Return the words of the command line that one written word becomes."""
    if names := _expand_listing(word, values):
        return (names,)
    atoms, quoted = _read_atoms(word, values)
    if ("{", True) in atoms and any(
        read_kind(part) == "ParamExp" and read_flag(part, "Short") for part in list_parts(word)
    ):
        return (LOOSE,)  # $x{a,b} are the variables xa and xb
    found = [_mark_word(each) for each in expand_braces(atoms)]
    return tuple(each for each in found if each or quoted)


def expand_text(word: SyntaxNode, values: Values) -> str:
    """Expand a word that stays one: the value of an assignment, a target, one side of a comparison."""
    atoms, _ = _read_atoms(word, values)
    return "".join(UNKNOWN if _is_tilde(atoms, at) else each for at, (each, _) in enumerate(atoms)).replace(
        LOOSE, UNKNOWN
    )


def expand_target(word: SyntaxNode, values: Values) -> str:
    """Expand the target of a redirection, which must be one word."""
    found = expand_word(word, values)
    return found[0] if len(found) == 1 else LOOSE


def list_variables(word: SyntaxNode) -> tuple[str, ...]:
    """Return the variables whose plain value is in the word."""
    found: list[str] = []
    for part in list_parts(word):
        match read_kind(part):
            case "ParamExp" if _is_plain_parameter(part):
                found.append(read_literal(part.get("Param")))
            case "DblQuoted":
                found.extend(list_variables({"Parts": part.get("Parts")}))
    return tuple(found)


def _read_atoms(word: SyntaxNode, values: Values) -> tuple[list[Atom], bool]:
    atoms: list[Atom] = []
    quoted = False
    for part in list_parts(word):
        match read_kind(part):
            case "Lit":
                found, escaped = _unquote(read_text(require_node(part, "Value"), "Value"))
                atoms.extend(found)
                quoted = quoted or escaped
            case "SglQuoted":
                quoted = True
                value = read_text(require_node(part, "Value", "Dollar"), "Value")
                atoms.extend((each, False) for each in (_decode_ansi(value) if read_flag(part, "Dollar") else value))
            case "DblQuoted":
                quoted = True
                atoms.extend((each, False) for each in _read_double_quoted(part, values))
            case _:
                atoms.extend(_split_value(_expand_part(part, values)))
    return atoms, quoted


def _unquote(value: str) -> tuple[list[Atom], bool]:
    if "\\" not in value:
        return [(each, True) for each in value], False
    atoms: list[Atom] = []
    at, escaped = 0, False
    while at < len(value):
        if value[at] == "\\" and at + 1 < len(value):
            if value[at + 1] != "\n":
                atoms.append((value[at + 1], False))
                escaped = True
            at += 2
        else:
            atoms.append((value[at], True))
            at += 1
    return atoms, escaped


def _read_double_quoted(part: SyntaxNode, values: Values) -> str:
    found: list[str] = []
    for each in require_nodes(require_node(part, "Parts", "Dollar").get("Parts")):
        if read_kind(each) == "Lit":
            found.append(unescape(read_text(require_node(each, "Value"), "Value"), '$`"\\'))
        else:
            found.append(_expand_part(each, values))
    # $"..." asks for a translation
    return UNKNOWN if read_flag(part, "Dollar") else "".join(found)


def unescape(value: str, special: str) -> str:
    """Remove backslashes before the `special` characters and at line ends."""
    if "\\" not in value:
        return value
    plain = {"\n": "", **dict(zip(special, special, strict=True))}
    return re.sub(r"\\(.)", lambda m: plain.get(m[1], m[0]), value, flags=re.DOTALL)


def _decode_ansi(value: str) -> str:
    try:
        return _ANSI.sub(_decode_ansi_escape, value)
    except (ValueError, OverflowError):
        return UNKNOWN


def _decode_ansi_escape(m: re.Match[str]) -> str:
    short, four, eight, octal, control, other = m.groups()
    if other is not None:
        found = _ESCAPES.get(other, m[0])
    elif control is not None:
        found = chr(ord(control.upper()) & 0x1F)
    elif octal or short:
        code = int(octal, 8) & 0xFF if octal else int(short, 16)
        found = chr(code) if code < 0x80 else UNKNOWN  # may be part of a multibyte character
    else:
        found = chr(int(four or eight, 16))
    return UNKNOWN if found in MARKS or "\ud800" <= found <= "\udfff" else found


def _split_value(value: str) -> list[Atom]:
    """Return an unquoted value: the shell splits it at blanks and expands patterns in it."""
    if any(each in " \t\n*?[\\" for each in value) or UNKNOWN in value:
        return [(LOOSE, True)]
    return [(each, False) for each in value]


def _expand_part(part: SyntaxNode, values: Values) -> str:
    match read_kind(part):
        case "ParamExp":
            return _expand_parameter(part, values)
        case "ArithmExp":
            return NUMBER
        case "CmdSubst":
            return expand_substitution(part, values)
        case "ProcSubst":
            return PIPE
        case "ExtGlob":
            return LOOSE
    raise UnreadableSyntax(f"unknown syntax in a word ({read_kind(part)[:40]})")


PARAMETER_FIELDS = ("Param", "Short", "Excl", "Length", "Index", "Slice", "Repl", "Exp", "Dollar")


def _is_plain_parameter(part: SyntaxNode) -> bool:
    return not any(part.get(each) for each in PARAMETER_FIELDS if each not in ("Param", "Short", "Dollar"))


def _expand_parameter(part: SyntaxNode, values: Values) -> str:
    name = read_literal(require_node(part, *PARAMETER_FIELDS).get("Param"))
    if read_flag(part, "Length") and not part.get("Index"):
        return NUMBER
    if not _is_plain_parameter(part):
        return LOOSE if name in ("@", "*") or part.get("Index") else UNKNOWN
    if name in _COUNT_PARAMETERS:
        return NUMBER
    if name in ("@", "*"):
        return LOOSE
    if name in values:
        found = values[name]
        return UNKNOWN if found is None else found
    return HOME if name == "HOME" else UNKNOWN


def _is_tilde(atoms: list[Atom], at: int) -> bool:
    """Return whether the shell may expand this ~ to a home folder."""
    return atoms[at] == ("~", True) and (at == 0 or atoms[at - 1][0] in "=:")


def _mark_word(atoms: list[Atom]) -> str:
    """Mark home folders and patterns."""
    found: list[str] = []
    at = 0
    while at < len(atoms):
        each, active = atoms[at]
        if active and _is_tilde(atoms, at):
            end = _find_tilde_end(atoms, at)
            found.append(HOME if at == 0 and end == at + 1 else UNKNOWN)
            at = end - 1
        elif active and each in "*?":
            found.append(ANY if each == "*" else ONE)
        elif active and each == "[" and (end := _find_bracket_end(atoms, at)):
            inside = {char for char, _ in atoms[at:end]}
            found.append(LOOSE if LOOSE in inside else UNKNOWN if inside & {"/", UNKNOWN} else ONE)
            at = end
        else:
            found.append(each)
        at += 1
    return "".join(found)


def _find_tilde_end(atoms: list[Atom], start: int) -> int:
    """Return where the name of a home folder such as ~user ends."""
    at = start + 1
    while at < len(atoms) and atoms[at][1] and atoms[at][0] not in "/:" and atoms[at][0] not in MARKS:
        at += 1
    return at


def _find_bracket_end(atoms: list[Atom], start: int) -> int:
    """Return where the [...] that starts here ends; 0 if it does not."""
    for at in range(start + 2, len(atoms)):
        if atoms[at][0] == "]":
            return at
    return 0


def expand_substitution(part: SyntaxNode, values: Values) -> str:
    """Return what a command substitution gives, for the few forms known without running them."""
    stmts = require_nodes(require_node(part, "Stmts", "Backquotes", "TempFile", "ReplyVar").get("Stmts"))
    if len(stmts) != 1:
        return UNKNOWN
    heredoc = _read_cat_heredoc(stmts[0], values)
    if heredoc is not None:
        return heredoc.rstrip("\n")
    if any(redirect.get("Op") not in ("<", "<<<") for redirect in require_nodes(stmts[0].get("Redirs"))):
        return UNKNOWN
    argv = _read_last_argv(stmts[0])
    if argv == ["pwd"] and _is_alone(stmts[0]):
        return values.get("PWD") or UNKNOWN
    if argv == ["git", "rev-parse", "--show-toplevel"] and _is_alone(stmts[0]):
        return ROOT
    return NUMBER if _is_counting(argv) else UNKNOWN


def _expand_listing(word: SyntaxNode, values: Values) -> str:
    """Return the pattern of the file names that the word becomes if it is only a command that prints some."""
    whole = list_parts(word)
    if len(whole) != 1 or read_kind(whole[0]) != "CmdSubst":
        return ""
    stmts = require_nodes(require_node(whole[0], "Stmts", "Backquotes").get("Stmts"))
    if (
        len(stmts) != 1
        or any(stmts[0].get(each) for each in STATEMENT_FIELDS if each != "Cmd")
        or not stmts[0].get("Cmd")
    ):
        return ""
    call = stmts[0]["Cmd"]
    if read_kind(call) != "CallExpr" or call.get("Assigns"):
        return ""
    argv = tuple(each for inner in require_nodes(call.get("Args")) for each in expand_word(inner, values))
    names = list_printed_names(argv, None) if argv[:1] in (("find",), ("git",), ("ls",), ("grep",), ("rg",)) else None
    return names[0] if names is not None and len(names) == 1 else ""


def _is_alone(stmt: SyntaxNode) -> bool:
    return read_kind(stmt.get("Cmd")) == "CallExpr" and not stmt.get("Redirs")


def _is_counting(argv: list[str]) -> bool:
    """Return whether the command prints only one whole number."""
    if argv[:1] == ["wc"]:
        return len(argv) == 2 and argv[1] in ("-l", "-c", "-w", "-m")
    if argv[:2] in (["git", "merge-base"], ["git", "rev-parse"]):  # a commit id, equally harmless
        return all(word == "--short" or not word.startswith("-") for word in argv[2:])
    return argv in (["date", "+%s"], ["nproc"])


def _read_last_argv(stmt: SyntaxNode) -> list[str]:
    """Return the words of the last command in a pipeline; empty if one is not plain."""
    cmd = stmt.get("Cmd")
    if stmt.get("Negated") or stmt.get("Background") or cmd is None:
        return []
    if read_kind(cmd) == "BinaryCmd":
        last = require_node(cmd, "Op", "X", "Y").get("Y")
        return _read_last_argv(require_node(last, *STATEMENT_FIELDS)) if read_text(cmd, "Op") == "|" else []
    if read_kind(cmd) != "CallExpr" or cmd.get("Assigns"):
        return []
    found: list[str] = []
    for word in require_nodes(cmd.get("Args")):
        each = list_parts(word)
        if len(each) != 1 or read_kind(each[0]) != "Lit" or re.search(r"[^\w+%/=.-]", read_text(each[0], "Value")):
            return []
        found.append(read_text(each[0], "Value"))
    return found


STATEMENT_FIELDS = ("Cmd", "Redirs", "Negated", "Background", "Coprocess", "Disown")


def _read_cat_heredoc(stmt: SyntaxNode, values: Values) -> str | None:
    """Return the text of `cat <<'EOF'`: how agents write commit messages of several lines."""
    redirects = require_nodes(stmt.get("Redirs"))
    if _read_last_argv(stmt) != ["cat"] or len(redirects) != 1 or read_kind(stmt.get("Cmd")) != "CallExpr":
        return None
    redirect = redirects[0]
    if redirect.get("Op") not in ("<<", "<<-") or redirect.get("N") or not redirect.get("Hdoc"):
        return None
    return read_heredoc(redirect, values)


def read_heredoc(redirect: SyntaxNode, values: Values) -> str:
    """Return the text of a here-document, expansions marked."""
    quoted = is_quoted(redirect.get("Word"))
    found: list[str] = []
    for part in list_parts(redirect.get("Hdoc")):
        if read_kind(part) != "Lit":
            found.append(_expand_part(part, values))
        else:
            value = read_text(require_node(part, "Value"), "Value")
            found.append(value if quoted else unescape(value, "$`\\"))
    whole = "".join(found)
    return re.sub(r"(?m)^\t+", "", whole) if redirect.get("Op") == "<<-" else whole


def is_quoted(delimiter: object) -> bool:
    return any(read_kind(each) != "Lit" or "\\" in read_text(each, "Value") for each in list_parts(delimiter))
