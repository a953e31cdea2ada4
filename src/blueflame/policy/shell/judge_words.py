"""Judge the words, redirections and assignments of one simple command."""

from __future__ import annotations

import re

from blueflame.model.policy import Decision
from blueflame.policy.shell.findings import Redirection
from blueflame.policy.shell.marks import format_marked, is_glob, is_static, is_unknown
from blueflame.policy.shell.paths import CommandContext, judge_path
from blueflame.policy.shell.programs.spec import ParsedArguments, ProgramSpec, WordRole, parse_arguments
from blueflame.policy.shell.programs.variables import PATH_VARIABLES, is_dangerous_variable, is_wall_variable
from blueflame.policy.shell.refusals import Words, name_command, refuse_command

_NO_FIRST = frozenset(("-e", "--regexp", "--expression", "-f", "--file", "--from-file", "--files", "--type-list"))


def judge_words(argv: Words, known: ProgramSpec, context: CommandContext) -> Decision | None:
    """Judge each word by its role in the program's spec."""
    if known.anything:
        return None
    parsed = parse_arguments(known, argv[1:])
    if refused := _judge_options(argv, known, parsed, context):
        return refused
    roles = _assign_roles(known, parsed)
    for word, role in zip(parsed.operands, roles, strict=True):
        if refused := _judge_operand(word, role, context):
            return name_command(refused, argv)
    return None


def _judge_options(
    argv: Words, known: ProgramSpec, parsed: ParsedArguments, context: CommandContext
) -> Decision | None:
    for name, value in parsed.options:
        if name in known.refused and (argv[0].startswith("git ") or not _is_trusting(context)) and not context.free:
            why = f"the option {name} waits for input, or may run or load other code; leave it out"
            return refuse_command("option_refused", argv, why)
        if not is_static(name) and not _is_trusting(context):
            return refuse_command("shell_dynamic", argv, f"the option {format_marked(name)} is only known when it runs")
        role = known.options.get(name, WordRole.GUESS)
        if value is not None and (refused := _judge_operand(value, role, context)):
            return name_command(refused, argv)
    if known.check is not None and not _is_trusting(context) and (bad := known.check(parsed)):
        return refuse_command("option_refused", argv, f"{format_marked(bad)} is not allowed")
    risky = known.refused or any(role is WordRole.WRITE for role in known.options.values())
    bad = next(
        (word for word in parsed.unknown if risky and (is_unknown(word) or known.operands is not WordRole.READ)), None
    )
    if bad is not None and not _is_trusting(context) and argv[0] not in ("grep", "rg", "wc", "ls", "du", "file"):
        return refuse_command(
            "shell_dynamic", argv, f"{format_marked(bad)} may become an option; put ./ before it or name it"
        )
    return None


def _is_trusting(context: CommandContext) -> bool:
    """Return whether options may run other code: the agent may run its own in any case."""
    return context.free or context.everyday


def _assign_roles(known: ProgramSpec, parsed: ParsedArguments) -> list[WordRole]:
    roles = [known.operands] * len(parsed.operands)
    options = {name for name, _ in parsed.options}
    if roles and known.first is not None and not options & _NO_FIRST:
        roles[0] = known.first
    if len(roles) > 1 and known.last is not None and not options & {"-t", "--target-directory"}:
        roles[-1] = known.last
    if known.after is not None:
        roles[len(roles) - parsed.after :] = [known.after] * parsed.after
    return _excuse_own_state(roles, parsed) if known.restores else roles


def _excuse_own_state(roles: list[WordRole], parsed: ParsedArguments) -> list[WordRole]:
    """Taking changes out of the index writes no file; undoing all own changes brings back what was committed."""
    options = {name for name, _ in parsed.options}
    before = parsed.operands[: len(parsed.operands) - parsed.after] if parsed.after else ()
    own = not options & {"-s", "--source"} and not set(before) - {"HEAD"}
    index_only = bool(options & {"-S", "--staged"}) and not options & {"-W", "--worktree"}
    return [
        WordRole.LOOK if role is WordRole.WRITE and (index_only or (own and word in _WHOLE_TREE)) else role
        for word, role in zip(parsed.operands, roles, strict=True)
    ]


def _judge_operand(word: str, role: WordRole, context: CommandContext) -> Decision | None:
    if role is WordRole.GUESS:
        return _judge_possible_path(word, context)
    return judge_path(word, role, context)


def judge_unknown_program(argv: Words, context: CommandContext) -> Decision | None:
    """Judge an allowed program without a spec: its files must be readable and its words known."""
    for word in argv[1:]:
        if refused := _judge_possible_path(word, context):
            return name_command(refused, argv)
    return None


def _judge_possible_path(word: str, context: CommandContext) -> Decision | None:
    """Judge a word that may name a file after an option, =, @, : or file://."""
    if ("://" in word and not word.startswith("file:")) or (context.everyday and _CODE.search(word)):
        return None
    for part in re.split(r"[=:,@]", word.replace("file://", "")):
        value = part[part.index("/") :] if part.startswith("-") and "/" in part else part
        if value.startswith("-"):
            continue
        if value.startswith("~/"):
            return Decision(
                False, "outside_worktree", f"{format_marked(value)} is in the home folder; stay in the worktree"
            )
        if refused := judge_path(value, WordRole.GUESS, context):
            return refused
    return None


_CODE = re.compile(r"[\s(){};|<>\"'`]")
"""In text such as a program for `php -r`, which is no path."""
_WHOLE_TREE = frozenset((".", "./", ":/"))
_COVERAGE_DATA = re.compile(r"(?:\./)?\.coverage(?:\.\w+)?")
"""Where coverage writes without the variable, too."""
_DESCRIPTOR = re.compile(r"(?:\d{1,3}-?|-)\Z")
_TERMINALS = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty")
_READS = ("<", "<&")
_WRITES = (">", ">>", ">|", "&>", "&>>", ">&", "<>")


def judge_redirection(redirection: Redirection, context: CommandContext) -> Decision | None:
    """Return a refusal, or None if the shell may open the file."""
    op, target = redirection.op, redirection.target
    if op in ("<<", "<<-", "<<<"):
        return None
    if (op in (">&", "<&") and _DESCRIPTOR.match(target)) or target in _TERMINALS:
        return None
    if op not in _READS and op not in _WRITES:
        return Decision(False, "shell_unreadable", f"unknown redirection {op}")
    unclear = is_unknown(target) or is_glob(target) or (op == "<&" and not is_static(target))
    if unclear and not context.everyday:
        why = "the target is only known when it runs; name the file"
        return Decision(False, "redirect_refused", f"the redirection {op} {format_marked(target)} is refused: {why}")
    refused = judge_path(target, WordRole.READ if op in _READS else WordRole.WRITE, context)
    if refused is None:
        return None
    return Decision(False, refused.rule, f"{op} {format_marked(target)}: {refused.details}".rstrip())


def judge_assignment(name: str, value: str, context: CommandContext) -> Decision | None:
    """Return a refusal, or None if the variable may be set to this value."""
    if context.free:
        return None
    if is_wall_variable(name, value) if context.everyday else is_dangerous_variable(name, value):
        why = f"setting {name} may change which code runs; run the command without it"
        return Decision(False, "option_refused", why)
    if name == "COVERAGE_FILE" and _COVERAGE_DATA.fullmatch(value):
        return None
    if name in PATH_VARIABLES:
        for part in value.split(":"):
            same = part in ("\x00", "\x08") and name == "PYTHONPATH"  # …:$PYTHONPATH
            if not same and (refused := judge_path(part, WordRole(PATH_VARIABLES[name]), context)):
                return Decision(False, refused.rule, f"{name}: {refused.details}")
    return None
