"""Read a syntax tree of shfmt into every simple command that may run: real words, redirections, folders.

Nothing is decided here. What is only known when the command runs is marked (`marks`); what cannot be followed is an
`OpaqueConstruct`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from blueflame.policy.shell.arithmetic import is_safe_test
from blueflame.policy.shell.findings import OpaqueConstruct, ReadLog, SimpleCommand
from blueflame.policy.shell.nested import visit_arithmetic, visit_pattern, visit_redirect, visit_test_words, visit_word
from blueflame.policy.shell.programs.listers import list_printed_names
from blueflame.policy.shell.simple_commands import emit_commands, read_call, read_declaration
from blueflame.policy.shell.state import ShellState, join_states, list_choices
from blueflame.policy.shell.syntax import (
    SyntaxNode,
    UnreadableSyntax,
    find_offset,
    read_flag,
    read_kind,
    read_literal,
    read_text,
    require_node,
    require_nodes,
)
from blueflame.policy.shell.words import STATEMENT_FIELDS, expand_word, list_variables


def read_commands(tree: object, source: str) -> tuple[SimpleCommand | OpaqueConstruct, ...]:
    """Return everything that the command `source` may run, in order. Raises UnreadableSyntax."""
    if read_kind(tree) != "File":
        raise UnreadableSyntax("the syntax tree is not that of a whole command")
    log = ReadLog(source=source.encode("utf-8", "surrogatepass"), run=_read_sequence)
    check_comments(tree, log.source)
    try:
        _read_sequence(require_nodes(require_node(tree, "Stmts", "Name").get("Stmts")), ShellState(), log)
    except RecursionError:
        raise UnreadableSyntax("the command is nested too deeply") from None
    return tuple(dict.fromkeys(log.found))


def _read_sequence(stmts: Iterable[SyntaxNode], state: ShellState, log: ReadLog, *, guarded: bool = False) -> None:
    """Read a list of commands. `guarded`: their failure is a condition, so set -e does not end the script."""
    for stmt in stmts:
        _read_statement(stmt, state, log, guarded=guarded)
        plain = not stmt.get("Negated") and not stmt.get("Background") and "Args" in (stmt.get("Cmd") or ())
        if state.careful and not guarded and plain:
            state.cwds = state.cwds_on_success


def _read_statement(stmt: object, state: ShellState, log: ReadLog, *, guarded: bool = False) -> None:
    whole = require_node(stmt, *STATEMENT_FIELDS)
    log.count_step()
    log.enter_level()
    if read_flag(whole, "Coprocess") or read_flag(whole, "Disown"):
        raise UnreadableSyntax("unknown syntax (coprocess)")
    inside = state.fork() if read_flag(whole, "Background") else state
    _read_command(whole, inside, log, guarded=guarded or read_flag(whole, "Negated"))
    if read_flag(whole, "Negated"):
        state.cwds_on_success = state.cwds
    log.leave_level()


def _read_command(stmt: SyntaxNode, state: ShellState, log: ReadLog, *, guarded: bool) -> None:
    cmd = stmt.get("Cmd")
    redirects = require_nodes(stmt.get("Redirs"))
    for redirect in redirects:
        visit_redirect(redirect, state, log)
    if cmd is not None and read_kind(cmd) == "CallExpr":
        read_call(require_node(cmd, "Assigns", "Args"), redirects, state, log)
        return
    if redirects:
        emit_commands((), (), redirects, state, log)
    if cmd is None:
        return
    if (how := COMPOUND.get(read_kind(cmd))) is None:
        raise UnreadableSyntax(f"unknown syntax ({read_kind(cmd)[:40]})")
    state.cwds_on_success = state.cwds
    if any(read_text(each, "Op") in ("<", "<<", "<<-", "<<<", "<&") for each in redirects):
        state = state.copy() if read_kind(cmd) == "Subshell" else state
        state.feed = None
    how(cmd, state, log, guarded)
    if read_kind(cmd) != "BinaryCmd":
        log.last = None


# --- compound commands ---


def _read_group(cmd: SyntaxNode, state: ShellState, log: ReadLog, guarded: bool) -> None:
    inside = state.fork() if read_kind(cmd) == "Subshell" else state
    _read_sequence(require_nodes(require_node(cmd, "Stmts").get("Stmts")), inside, log, guarded=guarded)


def _read_binary(cmd: SyntaxNode, state: ShellState, log: ReadLog, guarded: bool) -> None:
    both = require_node(cmd, "Op", "X", "Y")
    op = read_text(both, "Op")
    if op in ("|", "|&"):
        log.last = None
        _read_statement(both.get("X"), state.fork(), log, guarded=guarded)
        right = state.fork()
        right.feed = list_printed_names(*log.last) if log.last and op == "|" else None
        _read_statement(both.get("Y"), right, log, guarded=guarded)
    elif op == "&&":
        _read_statement(both.get("X"), state, log, guarded=True)
        right = state.copy()
        right.cwds = right.cwds_on_success
        _read_statement(both.get("Y"), right, log, guarded=guarded)
        cwds_on_success = right.cwds_on_success
        state.replace_with(join_states(state, right))
        state.cwds_on_success = cwds_on_success
    elif op == "||":
        _read_or(both, state, log, guarded)
    else:
        raise UnreadableSyntax(f"unknown operator ({op[:10]})")


def _read_or(both: SyntaxNode, state: ShellState, log: ReadLog, guarded: bool) -> None:
    _read_statement(both.get("X"), state, log, guarded=True)
    right = state.copy()
    _read_statement(both.get("Y"), right, log, guarded=guarded)
    if _is_leaving(both.get("Y"), state):
        state.cwds = state.cwds_on_success
        return
    cwds_on_success = state.cwds_on_success
    state.replace_with(join_states(state, right))
    state.cwds_on_success = join_states(ShellState(cwds_on_success=cwds_on_success), right).cwds_on_success


def _is_leaving(stmt: object, state: ShellState) -> bool:
    """Return whether nothing of this shell, or of this round of the loop, runs after the statement."""
    whole = require_node(stmt, *STATEMENT_FIELDS)
    cmd = whole.get("Cmd")
    if cmd is None or whole.get("Background") or whole.get("Redirs"):  # a redirection that fails does not leave
        return False
    if read_kind(cmd) == "Block":
        stmts = require_nodes(cmd.get("Stmts"))
        return bool(stmts) and _is_leaving(stmts[-1], state)
    if read_kind(cmd) != "CallExpr":
        return False
    name, *rest = [each for word in require_nodes(cmd.get("Args")) for each in expand_word(word, {})] or [""]
    ends = name == "exit" or (name in ("break", "continue") and state.looping)
    return ends and len(rest) < 2 and all(each.isdigit() for each in rest)


def _read_if(cmd: SyntaxNode, state: ShellState, log: ReadLog, guarded: bool) -> None:
    whole = require_node(cmd, "Cond", "Then", "Else", "Kind")
    if whole.get("Cond"):
        _read_sequence(require_nodes(whole.get("Cond")), state, log, guarded=True)
    yes = state.copy()
    yes.cwds = yes.cwds_on_success if whole.get("Cond") else yes.cwds
    _read_sequence(require_nodes(whole.get("Then")), yes, log, guarded=guarded)
    if whole.get("Else"):
        log.enter_level()
        _read_if(require_node(whole.get("Else"), "Cond", "Then", "Else", "Kind"), state, log, guarded)
        log.leave_level()
    elif not whole.get("Cond"):
        state.replace_with(yes)
        return
    state.replace_with(join_states(state, yes))
    state.cwds_on_success = state.cwds


def _read_case(cmd: SyntaxNode, state: ShellState, log: ReadLog, guarded: bool) -> None:
    whole = require_node(cmd, "Word", "Items", "Braces")
    visit_word(whole.get("Word"), state, log)
    after = state.copy()
    for item in require_nodes(whole.get("Items")):
        each = require_node(item, "Op", "Patterns", "Stmts")
        for pattern in require_nodes(each.get("Patterns")):
            visit_pattern(pattern, state, log)
        way = join_states(state, after)  # ;& falls through
        _read_sequence(require_nodes(each.get("Stmts")), way, log, guarded=guarded)
        after = join_states(after, way)
    state.replace_with(after)
    state.cwds_on_success = state.cwds


def _read_while(cmd: SyntaxNode, state: ShellState, log: ReadLog, guarded: bool) -> None:
    whole = require_node(cmd, "Until", "Cond", "Do")

    def once(inside: ShellState, found: ReadLog) -> None:
        _read_sequence(require_nodes(whole.get("Cond")), inside, found, guarded=True)
        way = inside.copy()
        if not read_flag(whole, "Until"):
            way.cwds = way.cwds_on_success
        _read_sequence(require_nodes(whole.get("Do")), way, found, guarded=guarded)
        inside.replace_with(join_states(inside, way))

    _read_loop(once, state, log)


def _read_for(cmd: SyntaxNode, state: ShellState, log: ReadLog, guarded: bool) -> None:
    whole = require_node(cmd, "Loop", "Do", "Select", "Braces")
    loop = whole.get("Loop")
    if read_flag(whole, "Select"):
        log.add_opaque("shell_construct", "select")
    body = require_nodes(whole.get("Do"))
    if read_kind(loop) == "CStyleLoop":
        _read_counting_loop(require_node(loop, "Init", "Cond", "Post"), body, state, log, guarded)
        return
    iteration = require_node(loop, "Name", "Items", "InPos")
    name = read_literal(iteration.get("Name"))
    items = require_nodes(iteration.get("Items"))
    for item in items:
        visit_word(item, state, log)
    values = _list_items(items, state) if iteration.get("InPos") and not read_flag(whole, "Select") else None
    log.found.append(SimpleCommand(assigned=((name, ""),), cwds=state.cwds))

    def once(inside: ShellState, found: ReadLog) -> None:
        inside.variables[name] = values
        _read_sequence(body, inside, found, guarded=guarded)

    _read_loop(once, state, log)


def _list_items(items: list[SyntaxNode], state: ShellState) -> tuple[str, ...] | None:
    """Return the values of the loop variable, if its list is known."""
    found: list[str] = []
    for item in items:
        for values in list_choices(state, list_variables(item)):
            found.extend(expand_word(item, values))
    unknown = any("\x00" in each or "\x08" in each for each in found)
    return None if unknown or len(found) > 32 else tuple(dict.fromkeys(found))


def _read_counting_loop(
    loop: SyntaxNode, body: list[SyntaxNode], state: ShellState, log: ReadLog, guarded: bool
) -> None:
    if loop.get("Init") is not None:
        visit_arithmetic(loop.get("Init"), state, log, "arithmetic")

    def once(inside: ShellState, found: ReadLog) -> None:
        for each in (loop.get("Cond"), loop.get("Post")):
            if each is not None:
                visit_arithmetic(each, inside, found, "arithmetic")
        _read_sequence(body, inside, found, guarded=guarded)

    _read_loop(once, state, log)


def _read_loop(once: Callable[[ShellState, ReadLog], None], state: ShellState, log: ReadLog) -> None:
    """Read a loop until its state settles: the state before, joined with the state after each round."""
    outer, state.looping = state.looping, True
    for _ in range(4):
        rehearsal = log.fork()
        after = state.copy()
        once(after, rehearsal)
        log.steps = rehearsal.steps
        after = _join_jumps(after, rehearsal)
        start = join_states(state, after)
        settled = (start.variables, start.cwds) == (state.variables, state.cwds)
        state.replace_with(start)
        if settled:
            break
    else:
        state.cwds = state.cwds_on_success = None
        state.variables = dict.fromkeys(state.variables)
    after = state.copy()
    once(after, log)
    state.replace_with(join_states(state, _join_jumps(after, log)))
    state.cwds_on_success, state.looping = state.cwds, outer


def _join_jumps(state: ShellState, log: ReadLog) -> ShellState:
    for each in log.left:
        state = join_states(state, each)
    return state


def _read_function(cmd: SyntaxNode, state: ShellState, log: ReadLog, guarded: bool) -> None:
    whole = require_node(cmd, "Name", "Names", "Body", "RsrvWord", "Parens")
    name = read_literal(whole.get("Name")) if whole.get("Name") else ""
    log.add_opaque("shell_construct", f"a function ({name[:40]})" if name else "a function", defines=name)
    inside = state.copy()
    inside.variables = {}
    _read_statement(whole.get("Body"), inside, log, guarded=guarded)
    if inside.cwds != state.cwds:
        state.cwds = state.cwds_on_success = None


def _read_arithmetic(cmd: SyntaxNode, state: ShellState, log: ReadLog, _: bool) -> None:
    expressions: Iterable[object] = (
        require_nodes(require_node(cmd, "Exprs").get("Exprs"))
        if read_kind(cmd) == "LetClause"
        else [require_node(cmd, "X", "Unsigned").get("X")]
    )
    for each in expressions:
        visit_arithmetic(each, state, log, "arithmetic")


def _read_test(cmd: SyntaxNode, state: ShellState, log: ReadLog, _: bool) -> None:
    expression = require_node(cmd, "X").get("X")
    visit_test_words(expression, state, log)
    if not is_safe_test(expression, state):
        log.add_opaque("shell_dynamic", "a comparison in [[ … ]] that evaluates an unknown value; use [ … ] instead")


def _read_time(cmd: SyntaxNode, state: ShellState, log: ReadLog, guarded: bool) -> None:
    whole = require_node(cmd, "PosixFormat", "Stmt")
    if whole.get("Stmt"):
        _read_statement(whole.get("Stmt"), state, log, guarded=guarded)


def _read_coprocess(cmd: SyntaxNode, state: ShellState, log: ReadLog, guarded: bool) -> None:
    whole = require_node(cmd, "Name", "Stmt")
    log.add_opaque("shell_construct", "coproc")
    _read_statement(whole.get("Stmt"), state.copy(), log, guarded=guarded)


COMPOUND: dict[str, Callable[[SyntaxNode, ShellState, ReadLog, bool], None]] = {
    "Block": _read_group,
    "Subshell": _read_group,
    "BinaryCmd": _read_binary,
    "IfClause": _read_if,
    "CaseClause": _read_case,
    "WhileClause": _read_while,
    "ForClause": _read_for,
    "FuncDecl": _read_function,
    "ArithmCmd": _read_arithmetic,
    "LetClause": _read_arithmetic,
    "TestClause": _read_test,
    "DeclClause": read_declaration,
    "TimeClause": _read_time,
    "CoprocClause": _read_coprocess,
}


_COMMENT_STARTS = b" \t\n;&|("


def check_comments(tree: object, source: bytes) -> None:
    """Raises UnreadableSyntax for a comment that bash would not see as one, or not up to where shfmt does.

    shfmt takes a backslash at the end of a comment for a continued line, and inside $(…) a # directly after a quote
    for a comment; bash does neither.
    """
    todo = [tree]
    while todo:
        found = todo.pop()
        if isinstance(found, dict):
            if "Hash" in found:
                _check_comment(found, source)
            todo.extend(found.values())
        elif isinstance(found, list):
            todo.extend(found)


def _check_comment(comment: dict[str, object], source: bytes) -> None:
    written = read_text(comment, "Text")
    start = find_offset(comment, "Hash")
    if "\n" in written or written.endswith("\\"):
        raise UnreadableSyntax("a comment that ends with a backslash; leave it out")
    before = source[:start]
    while before.endswith(b"\\\n"):
        before = before[:-2]
    if (before and before[-1:] not in _COMMENT_STARTS) or source[start : start + 1] != b"#":
        raise UnreadableSyntax("a # that may be a comment or not; put a blank before it or quote it")
