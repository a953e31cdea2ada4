"""Reads a shell command, as shfmt parsed it, into every simple command that it may run: real words, targets, folders.

Nothing is decided here. What the shell only knows when it runs is marked (shell_marks); what nobody can follow is an oddity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from blueflame.rules.commands.listing import listed
from blueflame.rules.shell_comments import check_comments
from blueflame.rules.shell_effects import apply_builtin, declare
from blueflame.rules.shell_nodes import (
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
from blueflame.rules.shell_state import State, choices, joined
from blueflame.rules.shell_sums import is_safe_sum, is_safe_test, texts
from blueflame.rules.shell_words import (
    PARAMETER,
    STATEMENT,
    argv_words,
    is_quoted,
    plain_text,
    single_word,
    variables_in,
)

MOST_STEPS = 4000
DEEPEST = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirection:
    """`target` is marked text: a file, or the descriptor after >& and <&."""

    op: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Simple:
    """One simple command that may run. Without words it is a bare redirection or assignment."""

    argv: tuple[str, ...] = ()
    assigned: tuple[tuple[str, str], ...] = ()
    redirections: tuple[Redirection, ...] = ()
    places: tuple[str, ...] | None = ("",)
    feed: tuple[str, ...] | None = None  # patterns of the file names that are piped into it, if it is those


@dataclass(frozen=True, slots=True, kw_only=True)
class Oddity:
    """Something that cannot be followed: the rule it falls under, and what it is."""

    rule: str
    what: str


@dataclass(slots=True)
class Log:
    """What was found so far. Steps are counted, so that no command can keep us busy for long."""

    source: bytes
    found: list[Simple | Oddity] = field(default_factory=list)
    last: tuple[tuple[str, ...], tuple[str, ...] | None] | None = None  # the last simple command and what it was fed
    left: list[State] = field(default_factory=list)  # where break and continue jump out of a loop
    steps: int = 0
    depth: int = 0
    backquoted: int = 0

    def odd(self, rule: str, what: str) -> None:
        self.found.append(Oddity(rule=rule, what=what))

    def step(self) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise Strange("the command is too long to be judged; run it in parts")


def read(tree: object, source: str) -> tuple[Simple | Oddity, ...]:
    """Everything that the command `source` may run, in order. Raises Strange when that cannot be said."""
    if kind(tree) != "File":
        raise Strange("the syntax tree is not that of a whole command")
    log = Log(source=source.encode("utf-8", "surrogatepass"))
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
    log.depth += 1
    if log.depth > DEEPEST:
        raise Strange("the command is nested too deeply")
    if flag(whole, "Coprocess") or flag(whole, "Disown"):
        raise Strange("unknown syntax (coprocess)")
    inside = state.copy() if flag(whole, "Background") else state
    _command(whole, inside, log, guarded=guarded or flag(whole, "Negated"))
    if flag(whole, "Negated"):
        state.arrived = state.places
    log.depth -= 1


def _command(stmt: Node, state: State, log: Log, *, guarded: bool) -> None:
    cmd = stmt.get("Cmd")
    redirects = nodes(stmt.get("Redirs"))
    for redirect in redirects:
        _visit_redirect(redirect, state, log)
    if cmd is not None and kind(cmd) == "CallExpr":
        _call(node(cmd, "Assigns", "Args"), redirects, state, log)
        return
    if redirects:
        _emit((), (), redirects, state, log)
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


# --- simple commands ---


def _call(call: Node, redirects: list[Node], state: State, log: Log) -> None:
    assigns = nodes(call.get("Assigns"))
    words = nodes(call.get("Args"))
    for assign in assigns:
        _visit_assign(assign, state, log)
    for word in words:
        _visit_word(word, state, log)
    before = state.copy()
    argvs = _emit(words, assigns, redirects, state, log)
    log.last = (argvs[0], state.feed) if len(argvs) == 1 and not redirects else None
    state.arrived = state.places
    if not words:
        for assign in assigns:
            _assign(assign, before, state)
    else:
        apply_builtin(argvs, state)
        if any(argv[:1] in (("break",), ("continue",)) for argv in argvs):
            log.left.append(state.copy())


def _emit(
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


def _redirection(redirect: Node, values: dict[str, str | None] | object) -> Redirection:
    op = text(redirect, "Op")
    if op in ("<<", "<<-", "<<<"):
        return Redirection(op=op, target="")
    assert isinstance(values, dict)
    return Redirection(op=op, target=single_word(node(redirect.get("Word"), "Parts"), values))


def _assign(assign: Node, before: State, state: State) -> None:
    """An assignment that stays: what the variable may hold from here on."""
    name = literal(assign.get("Name"))
    if assign.get("Array") or assign.get("Index") or flag(assign, "Append"):
        state.variables[name] = None
        return
    value = assign.get("Value")
    found = texts(value, before) if value else [""]
    state.variables[name] = None if any("\x00" in each for each in found) else tuple(dict.fromkeys(found))


# --- looking into words ---


def _visit_redirect(redirect: Node, state: State, log: Log) -> None:
    node(redirect, "Op", "N", "Word", "Hdoc")
    if redirect.get("N") and not literal(redirect.get("N")).isdigit():
        log.odd("shell_construct", "a redirection that sets a variable")
    _visit_word(redirect.get("Word"), state, log, delimiter=text(redirect, "Op") in ("<<", "<<-"))
    if redirect.get("Hdoc"):
        if log.backquoted:
            raise Strange("a here-document between backquotes")
        _check_document(redirect)
        _visit_word(redirect.get("Hdoc"), state, log)


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


def _visit_assign(assign: Node, state: State, log: Log) -> None:
    node(assign, *ASSIGN)
    if assign.get("Index"):
        _visit_sum(assign.get("Index"), state, log, "the index of a list")
    if assign.get("Value"):
        _visit_word(assign.get("Value"), state, log)
    if assign.get("Array"):
        for element in nodes(node(assign.get("Array"), "Elems").get("Elems")):
            if node(element, "Index", "Value").get("Index"):
                _visit_sum(element.get("Index"), state, log, "the index of a list")
            if element.get("Value"):
                _visit_word(element.get("Value"), state, log)


def _visit_word(word: object, state: State, log: Log, *, delimiter: bool = False) -> None:
    """Every command that stands inside of a word. The delimiter of a here-document is only text."""
    for part in parts(word):
        log.step()
        match kind(part):
            case "Lit" | "SglQuoted":
                pass
            case "DblQuoted":
                _visit_word({"Parts": part.get("Parts")}, state, log, delimiter=delimiter)
            case _ if delimiter:
                raise Strange("a here-document with an odd end")
            case "CmdSubst":
                _substitution(node(part, "Stmts", "Backquotes"), state, log)
            case "ProcSubst":
                _substitution(node(part, "Op", "Stmts"), state, log)
            case "ParamExp":
                _visit_parameter(part, state, log)
            case "ArithmExp":
                _visit_sum(node(part, "X", "Bracket", "Unsigned").get("X"), state, log, "a sum")
            case "ExtGlob":
                log.odd("shell_construct", "an extended pattern")
            case other:
                raise Strange(f"unknown syntax in a word ({other[:40]})")


def _substitution(part: Node, state: State, log: Log) -> None:
    log.depth += 1
    if flag(part, "Backquotes") and b"\\" in log.source[offset_of(part, "Pos") : offset_of(part, "End")]:
        raise Strange("a backslash between backquotes, which means something else there; use $(…) instead")
    log.backquoted += flag(part, "Backquotes")
    _sequence(nodes(part.get("Stmts")), state.copy(), log)
    log.backquoted -= flag(part, "Backquotes")
    log.depth -= 1


def _visit_parameter(part: Node, state: State, log: Log) -> None:
    name = literal(node(part, *PARAMETER).get("Param"))
    if flag(part, "Excl"):
        log.odd("shell_dynamic", f"a variable named by another (${{!{name}}})")
    index = part.get("Index")
    if index is not None and _index(index) not in ("@", "*"):
        _visit_sum(index, state, log, "the index of a list")
    if part.get("Slice"):
        cut = node(part.get("Slice"), "Offset", "Length")
        for each in (cut.get("Offset"), cut.get("Length")):
            if each is not None:
                _visit_sum(each, state, log, "the start or length of a part")
    if part.get("Repl"):
        change = node(part.get("Repl"), "All", "Anchor", "Orig", "With")
        for word in (change.get("Orig"), change.get("With")):
            if word is not None:
                _visit_word(word, state, log)
    if part.get("Exp"):
        _visit_default(name, node(part.get("Exp"), "Op", "Word"), state, log)


def _index(index: object) -> str:
    return plain_text(node(index, "Parts"), {}) if kind(index) == "Word" else ""


def _visit_default(name: str, expansion: Node, state: State, log: Log) -> None:
    if expansion.get("Word"):
        _visit_word(expansion.get("Word"), state, log)
    op = text(expansion, "Op")
    if op == "@":
        log.odd("shell_dynamic", f"a transformed variable (${{{name}@…}})")
    if op in ("=", ":="):
        state.variables[name] = None
        log.found.append(Simple(assigned=((name, "\x00"),), places=state.places))


def _visit_sum(expression: object, state: State, log: Log, what: str) -> None:
    _visit_sum_words(expression, state, log)
    if not is_safe_sum(expression, state):
        log.odd("shell_dynamic", f"{what} that uses a value nobody knows beforehand")


def _visit_sum_words(expression: object, state: State, log: Log) -> None:
    """Commands that stand inside of a sum."""
    if kind(expression) == "Word":
        if any(kind(part) != "Lit" for part in parts(expression)):
            _check_sum_text(node(expression, "Parts"), log)
        _visit_word({"Parts": parts(expression)}, state, log)
        return
    log.depth += 1
    if log.depth > DEEPEST:
        raise Strange("the command is nested too deeply")
    whole = node(expression, "Op", "Post", "X", "Y")
    for side in (whole.get("X"), whole.get("Y")):
        if side is not None:
            _visit_sum_words(side, state, log)
    log.depth -= 1


def _check_sum_text(word: Node, log: Log) -> None:
    """Bash finds the end of a sum by counting brackets: quotes and notes in a command within mislead it."""
    written = log.source[offset_of(word, "Pos") : offset_of(word, "End")]
    if (b"$(" in written or b"`" in written) and any(
        each in written for each in (b"'", b'"', b"#", b"\\", b"\n", b"<<")
    ):
        raise Strange("a sum with a command in it that holds quotes, notes or several lines")


# --- everything that is made of other commands ---


def _block(cmd: Node, state: State, log: Log, guarded: bool) -> None:
    _sequence(nodes(node(cmd, "Stmts").get("Stmts")), state, log, guarded=guarded)


def _subshell(cmd: Node, state: State, log: Log, guarded: bool) -> None:
    _sequence(nodes(node(cmd, "Stmts").get("Stmts")), state.copy(), log, guarded=guarded)


def _binary(cmd: Node, state: State, log: Log, guarded: bool) -> None:
    both = node(cmd, "Op", "X", "Y")
    op = text(both, "Op")
    if op in ("|", "|&"):
        log.last = None
        _statement(both.get("X"), state.copy(), log, guarded=guarded)
        right = state.copy()
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
    if _leaves(both.get("Y")):
        state.places = state.arrived
        return
    arrived = state.arrived
    state.become(joined(state, right))
    state.arrived = joined(State(arrived=arrived), right).arrived


def _leaves(stmt: object) -> bool:
    """True when nothing of this shell runs after the statement."""
    cmd = node(stmt, *STATEMENT).get("Cmd")
    if cmd is None or node(stmt, *STATEMENT).get("Background"):
        return False
    if stmt_redirects := node(stmt, *STATEMENT).get("Redirs"):
        return not stmt_redirects  # a redirection that fails keeps it from leaving
    if kind(cmd) == "Block":
        stmts = nodes(cmd.get("Stmts"))
        return bool(stmts) and _leaves(stmts[-1])
    if kind(cmd) != "CallExpr":
        return False
    words = [each for word in nodes(cmd.get("Args")) for each in argv_words(word, {})]
    return (
        words[:1] in (["exit"], ["break"], ["continue"])
        and all(each.isdigit() for each in words[1:2])
        and len(words) < 3
    )


def _if(cmd: Node, state: State, log: Log, guarded: bool) -> None:
    whole = node(cmd, "Cond", "Then", "Else", "Kind")
    if whole.get("Cond"):
        _sequence(nodes(whole.get("Cond")), state, log, guarded=True)
    yes = state.copy()
    yes.places = yes.arrived if whole.get("Cond") else yes.places
    _sequence(nodes(whole.get("Then")), yes, log, guarded=guarded)
    if whole.get("Else"):
        log.depth += 1
        if log.depth > DEEPEST:
            raise Strange("the command is nested too deeply")
        _if(node(whole.get("Else"), "Cond", "Then", "Else", "Kind"), state, log, guarded)
        log.depth -= 1
    elif not whole.get("Cond"):
        state.become(yes)
        return
    state.become(joined(state, yes))
    state.arrived = state.places


def _case(cmd: Node, state: State, log: Log, guarded: bool) -> None:
    whole = node(cmd, "Word", "Items", "Braces")
    _visit_word(whole.get("Word"), state, log)
    after = state.copy()
    for item in nodes(whole.get("Items")):
        each = node(item, "Op", "Patterns", "Stmts")
        for pattern in nodes(each.get("Patterns")):
            _visit_pattern(pattern, state, log)
        way = joined(state, after)  # ;& falls through
        _sequence(nodes(each.get("Stmts")), way, log, guarded=guarded)
        after = joined(after, way)
    state.become(after)
    state.arrived = state.places


def _visit_pattern(pattern: Node, state: State, log: Log) -> None:
    """Patterns only compare; extended ones are at home here."""
    plain = [each for each in parts(pattern) if kind(each) != "ExtGlob"]
    _visit_word({"Parts": plain}, state, log)


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
    iteration = node(loop, "Name", "Items")
    name = literal(iteration.get("Name"))
    items = nodes(iteration.get("Items"))
    for item in items:
        _visit_word(item, state, log)
    values = _items(items, state) if loop.get("InPos") and not flag(whole, "Select") else None
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
        _visit_sum(loop.get("Init"), state, log, "a sum")

    def once(inside: State, found: Log) -> None:
        for each in (loop.get("Cond"), loop.get("Post")):
            if each is not None:
                _visit_sum(each, inside, found, "a sum")
        _sequence(body, inside, found, guarded=guarded)

    _loop(once, state, log)


def _loop(once: Callable[[State, Log], None], state: State, log: Log) -> None:
    """What holds at the start of every round: the state before, joined with what the rounds make of it."""
    for _ in range(4):
        rehearsal = Log(source=log.source, steps=log.steps, depth=log.depth, backquoted=log.backquoted)
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
    state.arrived = state.places


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


def _sum_command(cmd: Node, state: State, log: Log, guarded: bool) -> None:
    _visit_sum(node(cmd, "X", "Unsigned").get("X"), state, log, "a sum")


def _let(cmd: Node, state: State, log: Log, guarded: bool) -> None:
    for each in nodes(node(cmd, "Exprs").get("Exprs")):
        _visit_sum(each, state, log, "a sum")


def _test(cmd: Node, state: State, log: Log, guarded: bool) -> None:
    expression = node(cmd, "X").get("X")
    _visit_test_words(expression, state, log)
    if not is_safe_test(expression, state):
        log.odd("shell_dynamic", "a comparison in [[ … ]] that reads an unknown value as a sum; use [ … ] instead")


def _visit_test_words(expression: object, state: State, log: Log) -> None:
    if kind(expression) == "Word":
        plain = [each for each in parts(expression) if kind(each) != "ExtGlob"]
        _visit_word({"Parts": plain}, state, log)
        return
    log.depth += 1
    if log.depth > DEEPEST:
        raise Strange("the command is nested too deeply")
    whole = node(expression, "Op", "X", "Y")
    for side in (whole.get("X"), whole.get("Y")):
        if side is not None:
            _visit_test_words(side, state, log)
    log.depth -= 1


def _declaration(cmd: Node, state: State, log: Log, guarded: bool) -> None:
    whole = node(cmd, "Variant", "Args")
    variant = literal(whole.get("Variant"))
    assigns = nodes(whole.get("Args"))
    for assign in assigns:
        _visit_assign(assign, state, log)
    options = [each for each in assigns if flag(each, "Naked") and not each.get("Name")]
    named = [each for each in assigns if each.get("Name")]
    argv = [variant, *(word for each in options for word in argv_words(node(each.get("Value"), "Parts"), {}))]
    before = state.copy()
    _emit((), [each for each in named if not flag(each, "Naked")], (), state, log)
    log.found.append(Simple(argv=(*argv, *(literal(each.get("Name")) for each in named)), places=state.places))
    for each in named:
        if not flag(each, "Naked"):
            _assign(each, before, state)
    declare(variant, argv, state, [literal(each.get("Name")) for each in named])


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
