"""Simple commands: their words for everything that variables may hold, and what they leave behind."""

from __future__ import annotations

from collections.abc import Iterable

from blueflame.policy.shell.arithmetic import texts
from blueflame.policy.shell.builtin_effects import apply_builtin, declare
from blueflame.policy.shell.findings import Log, Redirection, Simple
from blueflame.policy.shell.nested import visit_assign, visit_word
from blueflame.policy.shell.state import State, choices
from blueflame.policy.shell.syntax import Node, flag, literal, node, nodes, text
from blueflame.policy.shell.words import Values, argv_words, plain_text, single_word, variables_in


def call(cmd: Node, redirects: list[Node], state: State, log: Log) -> None:
    assigns = nodes(cmd.get("Assigns"))
    words = nodes(cmd.get("Args"))
    for assign in assigns:
        visit_assign(assign, state, log)
    for word in words:
        visit_word(word, state, log)
    before = state.copy()
    argvs = emit(words, assigns, redirects, state, log)
    log.last = (argvs[0], state.feed) if len(argvs) == 1 and not redirects else None
    state.arrived = state.places
    if not words:
        for assign in assigns:
            _assign(assign, before, state)
    else:
        if not all(argvs):  # all words may vanish: then the assignments stay
            state.variables |= dict.fromkeys(literal(each.get("Name")) for each in assigns)
        apply_builtin(argvs, state)
        if any(argv[:1] in (("break",), ("continue",)) for argv in argvs):
            log.left.append(state.copy())


def emit(
    words: Iterable[Node], assigns: Iterable[Node], redirects: Iterable[Node], state: State, log: Log
) -> list[tuple[str, ...]]:
    """One simple command for each combination of what its variables may hold."""
    words, assigns, redirects = tuple(words), tuple(assigns), tuple(redirects)
    argvs: list[tuple[str, ...]] = []
    for values in choices(state, _names(words, assigns, redirects)):
        argv = tuple(each for word in words for each in argv_words(word, values))
        assigned = tuple((literal(a.get("Name")), plain_text(v, values)) for a in assigns if (v := a.get("Value")))
        empty = tuple((literal(a.get("Name")), "") for a in assigns if not a.get("Value"))
        targets = tuple(_redirection(each, values) for each in redirects)
        argvs.append(argv)
        log.found.append(
            Simple(argv=argv, assigned=assigned + empty, redirections=targets, places=state.places, feed=state.feed)
        )
        log.step()
    return argvs


def _names(words: Iterable[Node], assigns: Iterable[Node], redirects: Iterable[Node]) -> tuple[str, ...]:
    values = (value for each in assigns if (value := each.get("Value")))
    targets = (target for each in redirects if (target := each.get("Word")))
    return tuple(name for word in (*words, *values, *targets) for name in variables_in(word))


def _redirection(redirect: Node, values: Values) -> Redirection:
    op = text(redirect, "Op")
    if op in ("<<", "<<-", "<<<"):
        return Redirection(op=op, target="")
    return Redirection(op=op, target=single_word(node(redirect.get("Word"), "Parts"), values))


def _assign(assign: Node, before: State, state: State) -> None:
    """An assignment that stays: what the variable may hold from here on."""
    name = literal(assign.get("Name"))
    if name == "_" or assign.get("Array") or assign.get("Index") or flag(assign, "Append"):
        state.variables[name] = None
        return
    value = assign.get("Value")
    found = texts(value, before) if value else [""]
    state.variables[name] = None if any("\x00" in each for each in found) else tuple(dict.fromkeys(found))


def declaration(cmd: Node, state: State, log: Log) -> None:
    whole = node(cmd, "Variant", "Args")
    variant = literal(whole.get("Variant"))
    assigns = nodes(whole.get("Args"))
    for assign in assigns:
        visit_assign(assign, state, log)
    options = [each for each in assigns if flag(each, "Naked") and not each.get("Name")]
    named = [each for each in assigns if each.get("Name")]
    argv = [variant, *(word for each in options for word in argv_words(node(each.get("Value"), "Parts"), {}))]
    before = state.copy()
    emit((), [each for each in named if not flag(each, "Naked")], (), state, log)
    log.found.append(Simple(argv=(*argv, *(literal(each.get("Name")) for each in named)), places=state.places))
    for each in named:
        if not flag(each, "Naked"):
            _assign(each, before, state)
    declare(variant, argv, state, [literal(each.get("Name")) for each in named])
