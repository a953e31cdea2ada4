"""Simple commands: their words for everything that variables may hold, and what they leave behind."""

from __future__ import annotations

from collections.abc import Iterable

from blueflame.policy.shell.arithmetic import list_texts
from blueflame.policy.shell.builtin_effects import apply_builtin, apply_declaration
from blueflame.policy.shell.findings import ReadLog, Redirection, SimpleCommand
from blueflame.policy.shell.nested import visit_assign, visit_word
from blueflame.policy.shell.state import ShellState, list_choices
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
        if not all(argvs):  # all words may vanish: then the assignments stay
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
    """One simple command for each combination of what its variables may hold."""
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
    """An assignment that stays: what the variable may hold from here on."""
    name = read_literal(assign.get("Name"))
    if name == "_" or assign.get("Array") or assign.get("Index") or read_flag(assign, "Append"):
        state.variables[name] = None
        return
    value = assign.get("Value")
    found = list_texts(value, before) if value else [""]
    state.variables[name] = None if any("\x00" in each for each in found) else tuple(dict.fromkeys(found))


def read_declaration(cmd: SyntaxNode, state: ShellState, log: ReadLog) -> None:
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
    apply_declaration(variant, argv, state, [read_literal(each.get("Name")) for each in named])
