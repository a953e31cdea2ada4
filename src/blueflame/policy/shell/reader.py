"""Reads a shell command, as shfmt parsed it, into every simple command that it may run: real words, targets, folders.

Nothing is decided here. What the shell only knows when it runs is marked (shell_marks); what nobody can follow is an
oddity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from blueflame.policy.shell.arithmetic import is_safe_test
from blueflame.policy.shell.comments import check_comments
from blueflame.policy.shell.findings import Log, Oddity, Simple
from blueflame.policy.shell.nested import visit_pattern, visit_redirect, visit_sum, visit_test_words, visit_word
from blueflame.policy.shell.programs.listers import listed
from blueflame.policy.shell.simple_commands import call, declaration, emit
from blueflame.policy.shell.state import State, choices, joined
from blueflame.policy.shell.syntax import Node, Strange, flag, kind, literal, node, nodes, text
from blueflame.policy.shell.words import STATEMENT, argv_words, variables_in


def read(tree: object, source: str) -> tuple[Simple | Oddity, ...]:
    """Everything that the command `source` may run, in order. Raises Strange when that cannot be said."""
    if kind(tree) != "File":
        raise Strange("the syntax tree is not that of a whole command")
    log = Log(source=source.encode("utf-8", "surrogatepass"), run=_sequence)
    check_comments(tree, log.source)
    try:
        _sequence(nodes(node(tree, "Stmts", "Name").get("Stmts")), State(), log)
    except RecursionError:
        raise Strange("the command is nested too deeply") from None
    return tuple(dict.fromkeys(log.found))


def _sequence(stmts: Iterable[Node], state: State, log: Log, *, guarded: bool = False) -> None:
    """Commands one after the other. `guarded`: a failure in here is somebody's condition, so set -e does not end it."""
    for stmt in stmts:
        _statement(stmt, state, log, guarded=guarded)
        if state.careful and not guarded and _is_plain_call(stmt):
            state.places = state.arrived


def _is_plain_call(stmt: Node) -> bool:
    return not stmt.get("Negated") and not stmt.get("Background") and "Args" in (stmt.get("Cmd") or ())


def _statement(stmt: object, state: State, log: Log, *, guarded: bool = False) -> None:
    whole = node(stmt, *STATEMENT)
    log.step()
    log.enter()
    if flag(whole, "Coprocess") or flag(whole, "Disown"):
        raise Strange("unknown syntax (coprocess)")
    inside = state.apart() if flag(whole, "Background") else state
    _command(whole, inside, log, guarded=guarded or flag(whole, "Negated"))
    if flag(whole, "Negated"):
        state.arrived = state.places
    log.leave()


def _command(stmt: Node, state: State, log: Log, *, guarded: bool) -> None:
    cmd = stmt.get("Cmd")
    redirects = nodes(stmt.get("Redirs"))
    for redirect in redirects:
        visit_redirect(redirect, state, log)
    if cmd is not None and kind(cmd) == "CallExpr":
        call(node(cmd, "Assigns", "Args"), redirects, state, log)
        return
    if redirects:
        emit((), (), redirects, state, log)
    if cmd is None:
        return
    if (how := COMPOUND.get(kind(cmd))) is None:
        raise Strange(f"unknown syntax ({kind(cmd)[:40]})")
    state.arrived = state.places
    if any(text(each, "Op") in ("<", "<<", "<<-", "<<<", "<&") for each in redirects):
        state = state.copy() if kind(cmd) == "Subshell" else state
        state.feed = None
    how(cmd, state, log, guarded)
    if kind(cmd) != "BinaryCmd":
        log.last = None


# --- everything that is made of other commands ---


def _block(cmd: Node, state: State, log: Log, guarded: bool) -> None:
    _sequence(nodes(node(cmd, "Stmts").get("Stmts")), state, log, guarded=guarded)


def _subshell(cmd: Node, state: State, log: Log, guarded: bool) -> None:
    _sequence(nodes(node(cmd, "Stmts").get("Stmts")), state.apart(), log, guarded=guarded)


def _binary(cmd: Node, state: State, log: Log, guarded: bool) -> None:
    both = node(cmd, "Op", "X", "Y")
    op = text(both, "Op")
    if op in ("|", "|&"):
        log.last = None
        _statement(both.get("X"), state.apart(), log, guarded=guarded)
        right = state.apart()
        right.feed = listed(*log.last) if log.last and op == "|" else None
        _statement(both.get("Y"), right, log, guarded=guarded)
    elif op == "&&":
        _statement(both.get("X"), state, log, guarded=True)
        right = state.copy()
        right.places = right.arrived
        _statement(both.get("Y"), right, log, guarded=guarded)
        arrived = right.arrived
        state.become(joined(state, right))
        state.arrived = arrived
    elif op == "||":
        _either(both, state, log, guarded)
    else:
        raise Strange(f"unknown operator ({op[:10]})")


def _either(both: Node, state: State, log: Log, guarded: bool) -> None:
    _statement(both.get("X"), state, log, guarded=True)
    right = state.copy()
    _statement(both.get("Y"), right, log, guarded=guarded)
    if _leaves(both.get("Y"), state):
        state.places = state.arrived
        return
    arrived = state.arrived
    state.become(joined(state, right))
    state.arrived = joined(State(arrived=arrived), right).arrived


def _leaves(stmt: object, state: State) -> bool:
    """True when nothing of this shell, or of this round of a loop, runs after the statement."""
    whole = node(stmt, *STATEMENT)
    cmd = whole.get("Cmd")
    if cmd is None or whole.get("Background") or whole.get("Redirs"):  # a redirection that fails keeps it here
        return False
    if kind(cmd) == "Block":
        stmts = nodes(cmd.get("Stmts"))
        return bool(stmts) and _leaves(stmts[-1], state)
    if kind(cmd) != "CallExpr":
        return False
    name, *rest = [each for word in nodes(cmd.get("Args")) for each in argv_words(word, {})] or [""]
    ends = name == "exit" or (name in ("break", "continue") and state.looping)
    return ends and len(rest) < 2 and all(each.isdigit() for each in rest)


def _if(cmd: Node, state: State, log: Log, guarded: bool) -> None:
    whole = node(cmd, "Cond", "Then", "Else", "Kind")
    if whole.get("Cond"):
        _sequence(nodes(whole.get("Cond")), state, log, guarded=True)
    yes = state.copy()
    yes.places = yes.arrived if whole.get("Cond") else yes.places
    _sequence(nodes(whole.get("Then")), yes, log, guarded=guarded)
    if whole.get("Else"):
        log.enter()
        _if(node(whole.get("Else"), "Cond", "Then", "Else", "Kind"), state, log, guarded)
        log.leave()
    elif not whole.get("Cond"):
        state.become(yes)
        return
    state.become(joined(state, yes))
    state.arrived = state.places


def _case(cmd: Node, state: State, log: Log, guarded: bool) -> None:
    whole = node(cmd, "Word", "Items", "Braces")
    visit_word(whole.get("Word"), state, log)
    after = state.copy()
    for item in nodes(whole.get("Items")):
        each = node(item, "Op", "Patterns", "Stmts")
        for pattern in nodes(each.get("Patterns")):
            visit_pattern(pattern, state, log)
        way = joined(state, after)  # ;& falls through
        _sequence(nodes(each.get("Stmts")), way, log, guarded=guarded)
        after = joined(after, way)
    state.become(after)
    state.arrived = state.places


def _while(cmd: Node, state: State, log: Log, guarded: bool) -> None:
    whole = node(cmd, "Until", "Cond", "Do")

    def once(inside: State, found: Log) -> None:
        _sequence(nodes(whole.get("Cond")), inside, found, guarded=True)
        way = inside.copy()
        if not flag(whole, "Until"):
            way.places = way.arrived
        _sequence(nodes(whole.get("Do")), way, found, guarded=guarded)
        inside.become(joined(inside, way))

    _loop(once, state, log)


def _for(cmd: Node, state: State, log: Log, guarded: bool) -> None:
    whole = node(cmd, "Loop", "Do", "Select", "Braces")
    loop = whole.get("Loop")
    if flag(whole, "Select"):
        log.odd("shell_construct", "select")
    body = nodes(whole.get("Do"))
    if kind(loop) == "CStyleLoop":
        _count(node(loop, "Init", "Cond", "Post"), body, state, log, guarded)
        return
    iteration = node(loop, "Name", "Items", "InPos")
    name = literal(iteration.get("Name"))
    items = nodes(iteration.get("Items"))
    for item in items:
        visit_word(item, state, log)
    values = _items(items, state) if iteration.get("InPos") and not flag(whole, "Select") else None
    log.found.append(Simple(assigned=((name, ""),), places=state.places))

    def once(inside: State, found: Log) -> None:
        inside.variables[name] = values
        _sequence(body, inside, found, guarded=guarded)

    _loop(once, state, log)


def _items(items: list[Node], state: State) -> tuple[str, ...] | None:
    """What the variable of a loop may hold, when its list is known."""
    found: list[str] = []
    for item in items:
        for values in choices(state, variables_in(item)):
            found.extend(argv_words(item, values))
    unknown = any("\x00" in each or "\x08" in each for each in found)
    return None if unknown or len(found) > 32 else tuple(dict.fromkeys(found))


def _count(loop: Node, body: list[Node], state: State, log: Log, guarded: bool) -> None:
    if loop.get("Init") is not None:
        visit_sum(loop.get("Init"), state, log, "a sum")

    def once(inside: State, found: Log) -> None:
        for each in (loop.get("Cond"), loop.get("Post")):
            if each is not None:
                visit_sum(each, inside, found, "a sum")
        _sequence(body, inside, found, guarded=guarded)

    _loop(once, state, log)


def _loop(once: Callable[[State, Log], None], state: State, log: Log) -> None:
    """What holds at the start of every round: the state before, joined with what the rounds make of it."""
    outer, state.looping = state.looping, True
    for _ in range(4):
        rehearsal = log.rehearsal()
        after = state.copy()
        once(after, rehearsal)
        log.steps = rehearsal.steps
        after = _with_jumps(after, rehearsal)
        start = joined(state, after)
        settled = (start.variables, start.places) == (state.variables, state.places)
        state.become(start)
        if settled:
            break
    else:
        state.places = state.arrived = None
        state.variables = dict.fromkeys(state.variables)
    after = state.copy()
    once(after, log)
    state.become(joined(state, _with_jumps(after, log)))
    state.arrived, state.looping = state.places, outer


def _with_jumps(state: State, log: Log) -> State:
    for each in log.left:
        state = joined(state, each)
    return state


def _function(cmd: Node, state: State, log: Log, guarded: bool) -> None:
    whole = node(cmd, "Name", "Names", "Body", "RsrvWord", "Parens")
    log.odd("shell_construct", f"a function ({literal(whole.get('Name'))[:40]})" if whole.get("Name") else "a function")
    inside = state.copy()
    inside.variables = {}
    _statement(whole.get("Body"), inside, log, guarded=guarded)
    if inside.places != state.places:
        state.places = state.arrived = None


def _declaration(cmd: Node, state: State, log: Log, _: bool) -> None:
    declaration(cmd, state, log)


def _sum_command(cmd: Node, state: State, log: Log, _: bool) -> None:
    visit_sum(node(cmd, "X", "Unsigned").get("X"), state, log, "a sum")


def _let(cmd: Node, state: State, log: Log, _: bool) -> None:
    for each in nodes(node(cmd, "Exprs").get("Exprs")):
        visit_sum(each, state, log, "a sum")


def _test(cmd: Node, state: State, log: Log, _: bool) -> None:
    expression = node(cmd, "X").get("X")
    visit_test_words(expression, state, log)
    if not is_safe_test(expression, state):
        log.odd("shell_dynamic", "a comparison in [[ … ]] that reads an unknown value as a sum; use [ … ] instead")


def _time(cmd: Node, state: State, log: Log, guarded: bool) -> None:
    whole = node(cmd, "PosixFormat", "Stmt")
    if whole.get("Stmt"):
        _statement(whole.get("Stmt"), state, log, guarded=guarded)


def _coprocess(cmd: Node, state: State, log: Log, guarded: bool) -> None:
    whole = node(cmd, "Name", "Stmt")
    log.odd("shell_construct", "coproc")
    _statement(whole.get("Stmt"), state.copy(), log, guarded=guarded)


COMPOUND: dict[str, Callable[[Node, State, Log, bool], None]] = {
    "Block": _block,
    "Subshell": _subshell,
    "BinaryCmd": _binary,
    "IfClause": _if,
    "CaseClause": _case,
    "WhileClause": _while,
    "ForClause": _for,
    "FuncDecl": _function,
    "ArithmCmd": _sum_command,
    "LetClause": _let,
    "TestClause": _test,
    "DeclClause": _declaration,
    "TimeClause": _time,
    "CoprocClause": _coprocess,
}
