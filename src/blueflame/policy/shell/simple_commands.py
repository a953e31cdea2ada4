"""Expand simple commands for each value of their variables, and apply what they change in the shell."""

from __future__ import annotations

from collections.abc import Iterable

from blueflame.policy.shell.arithmetic import list_texts
from blueflame.policy.shell.findings import ReadLog, Redirection, SimpleCommand
from blueflame.policy.shell.marks import ANY, HOME, LOOSE, ONE, PIPE, UNKNOWN, is_static
from blueflame.policy.shell.nested import visit_assign, visit_word
from blueflame.policy.shell.state import ShellState, join_cwd, list_choices, merge_cwds
from blueflame.policy.shell.syntax import SyntaxNode, read_flag, read_literal, read_text, require_node, require_nodes
from blueflame.policy.shell.words import Values, expand_target, expand_text, expand_word, list_variables


def read_call(cmd: SyntaxNode, redirects: list[SyntaxNode], state: ShellState, log: ReadLog) -> None:
    assigns = require_nodes(cmd.get("Assigns"))
    words = require_nodes(cmd.get("Args"))
    for assign in assigns:
        visit_assign(assign, state, log)
    for word in words:
        visit_word(word, state, log)
    before = state.copy()
    argvs = emit_commands(words, assigns, redirects, state, log)
    log.last = (argvs[0], state.feed) if len(argvs) == 1 and not redirects else None
    state.cwds_on_success = state.cwds
    if not words:
        for assign in assigns:
            _apply_assignment(assign, before, state)
    else:
        if not all(argvs):  # all words may expand to nothing: then the assignments stay
            state.variables |= dict.fromkeys(read_literal(each.get("Name")) for each in assigns)
        apply_builtin(argvs, state)
        if any(argv[:1] in (("break",), ("continue",)) for argv in argvs):
            log.left.append(state.copy())


def emit_commands(
    words: Iterable[SyntaxNode],
    assigns: Iterable[SyntaxNode],
    redirects: Iterable[SyntaxNode],
    state: ShellState,
    log: ReadLog,
) -> list[tuple[str, ...]]:
    """Record one simple command for each combination of the values of its variables."""
    words, assigns, redirects = tuple(words), tuple(assigns), tuple(redirects)
    argvs: list[tuple[str, ...]] = []
    for values in list_choices(state, _list_names(words, assigns, redirects)):
        argv = tuple(each for word in words for each in expand_word(word, values))
        assigned = tuple(
            (read_literal(a.get("Name")), expand_text(v, values)) for a in assigns if (v := a.get("Value"))
        )
        empty = tuple((read_literal(a.get("Name")), "") for a in assigns if not a.get("Value"))
        targets = tuple(_read_redirection(each, values) for each in redirects)
        argvs.append(argv)
        log.found.append(
            SimpleCommand(argv=argv, assigned=assigned + empty, redirections=targets, cwds=state.cwds, feed=state.feed)
        )
        log.count_step()
    return argvs


def _list_names(
    words: Iterable[SyntaxNode], assigns: Iterable[SyntaxNode], redirects: Iterable[SyntaxNode]
) -> tuple[str, ...]:
    values = (value for each in assigns if (value := each.get("Value")))
    targets = (target for each in redirects if (target := each.get("Word")))
    return tuple(name for word in (*words, *values, *targets) for name in list_variables(word))


def _read_redirection(redirect: SyntaxNode, values: Values) -> Redirection:
    op = read_text(redirect, "Op")
    if op in ("<<", "<<-", "<<<"):
        return Redirection(op=op, target="")
    return Redirection(op=op, target=expand_target(require_node(redirect.get("Word"), "Parts"), values))


def _apply_assignment(assign: SyntaxNode, before: ShellState, state: ShellState) -> None:
    """Apply an assignment that stays in effect."""
    name = read_literal(assign.get("Name"))
    if name == "_" or assign.get("Array") or assign.get("Index") or read_flag(assign, "Append"):
        state.variables[name] = None
        return
    value = assign.get("Value")
    found = list_texts(value, before) if value else [""]
    state.variables[name] = None if any("\x00" in each for each in found) else tuple(dict.fromkeys(found))


def read_declaration(cmd: SyntaxNode, state: ShellState, log: ReadLog, _guarded: bool) -> None:
    whole = require_node(cmd, "Variant", "Args")
    variant = read_literal(whole.get("Variant"))
    assigns = require_nodes(whole.get("Args"))
    for assign in assigns:
        visit_assign(assign, state, log)
    options = [each for each in assigns if read_flag(each, "Naked") and not each.get("Name")]
    named = [each for each in assigns if each.get("Name")]
    argv = [variant, *(word for each in options for word in expand_word(require_node(each.get("Value"), "Parts"), {}))]
    before = state.copy()
    emit_commands((), [each for each in named if not read_flag(each, "Naked")], (), state, log)
    log.found.append(SimpleCommand(argv=(*argv, *(read_literal(each.get("Name")) for each in named)), cwds=state.cwds))
    for each in named:
        if not read_flag(each, "Naked"):
            _apply_assignment(each, before, state)
    if variant != "export" or len(argv) > 1:  # declare -i and the like evaluate values as arithmetic
        state.variables |= dict.fromkeys(read_literal(each.get("Name")) for each in named)


_UNFIT = frozenset((UNKNOWN, LOOSE, ANY, ONE, HOME, PIPE))


def apply_builtin(argvs: list[tuple[str, ...]], state: ShellState) -> None:
    """Change the state as the command does; it may have any of these words."""
    names = {_find_builtin_name(argv) for argv in argvs if argv}
    if names & {"cd", "pushd", "popd"}:
        _apply_cd(argvs, state)
    for argv in argvs:
        _apply_variables(_strip_prefixes(argv), state)


def _strip_prefixes(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Drop leading `command` and `builtin`."""
    while len(argv) > 1 and argv[0] in ("command", "builtin"):
        argv = argv[1:]
    return argv


def _find_builtin_name(argv: tuple[str, ...]) -> str:
    bare = _strip_prefixes(argv)
    return bare[0] if bare else ""


def _apply_cd(argvs: list[tuple[str, ...]], state: ShellState) -> None:
    before, stack = state.cwds, state.stack
    cwds: tuple[str, ...] | None = ()
    for argv in argvs:
        cwds = merge_cwds(cwds, _find_destinations(_strip_prefixes(argv), state))
    state.cwds_on_success, state.cwds = cwds, merge_cwds(state.cwds, cwds)  # a cd may fail
    if all(_find_builtin_name(argv) == "pushd" for argv in argvs):
        state.stack = (*stack, before)[-20:]
    elif any(_find_builtin_name(argv) == "popd" for argv in argvs):
        state.stack = stack[:-1]


def _find_destinations(argv: tuple[str, ...], state: ShellState) -> tuple[str, ...] | None:
    if argv[0] == "popd":
        return state.stack[-1] if state.stack and len(argv) == 1 else None
    target = find_cd_target(argv)
    if argv[0] not in ("cd", "pushd") or target is None or state.cwds is None:
        return None
    return tuple(dict.fromkeys(join_cwd(cwd, target) for cwd in state.cwds))


def find_cd_target(argv: tuple[str, ...]) -> str | None:
    """Return where `cd` goes, or None if that is unknown."""
    words = [word for word in argv[1:] if word not in ("-P", "-L", "--", "-e")]
    if len(words) != 1 or words[0].startswith(("-", "+")) or not words[0] or not _UNFIT.isdisjoint(words[0]):
        return None
    return words[0]


def _apply_variables(argv: tuple[str, ...], state: ShellState) -> None:
    """Apply builtins that set variables by name."""
    if not argv:
        return
    if argv[0] in ("read", "mapfile", "readarray", "getopts", "unset", "wait") or argv[:2] == ("printf", "-v"):
        _forget_variables((*argv[1:], "REPLY"), state)
        names = [word for word in argv[1:] if not word.startswith("-")]
        if argv[0] == "read" and len(names) == 1 and state.feed:
            state.variables[names[0]] = state.feed  # one line of the listing
    elif argv[0] == "set":
        _apply_set(argv, state)
    elif argv[0] in ("eval", "source", ".", "trap", "alias", "shopt", "enable", "hash"):
        state.variables = dict.fromkeys(state.variables)
        state.cwds = state.cwds_on_success = None


def _forget_variables(words: Iterable[str], state: ShellState) -> None:
    for word in words:
        if is_static(word):
            state.variables[word.split("[")[0]] = None
        else:
            state.variables = dict.fromkeys(state.variables)


def _apply_set(argv: tuple[str, ...], state: ShellState) -> None:
    named = ""  # -o or +o, whose name follows
    for word in argv[1:]:
        if named:
            state.careful = named == "-" if word == "errexit" else state.careful
            named = ""
        elif word == "--" or not word.startswith(("-", "+")):
            return
        else:
            state.careful = word.startswith("-") if "e" in word else state.careful
            named = word[0] if word.endswith("o") else ""
