"""Redirections and assignments of one simple command."""

from __future__ import annotations

import re

from blueflame.model.policy import Decision
from blueflame.policy.shell.findings import Redirection
from blueflame.policy.shell.marks import format_marked, is_glob, is_static, is_unknown
from blueflame.policy.shell.paths import CommandContext, judge_path
from blueflame.policy.shell.programs.spec import WordRole
from blueflame.policy.shell.programs.variables import PATH_VARIABLES, is_dangerous_variable

_DESCRIPTOR = re.compile(r"(?:\d{1,3}-?|-)\Z")
_TERMINALS = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty")
_READS = ("<", "<&")
_WRITES = (">", ">>", ">|", "&>", "&>>", ">&", "<>")


def judge_redirection(redirection: Redirection, context: CommandContext) -> Decision | None:
    """None when the shell may open the file."""
    op, target = redirection.op, redirection.target
    if op in ("<<", "<<-", "<<<"):
        return None
    if (op in (">&", "<&") and _DESCRIPTOR.match(target)) or target in _TERMINALS:
        return None
    if op not in _READS and op not in _WRITES:
        return Decision(False, "shell_unreadable", f"unknown redirection {op}")
    if is_unknown(target) or is_glob(target) or (op == "<&" and not is_static(target)):
        return _refuse_redirection(op, target, "the target is only known when it runs; name the file")
    refused = judge_path(target, WordRole.READ if op in _READS else WordRole.WRITE, context)
    if refused is None:
        return None
    return Decision(False, refused.rule, f"{op} {format_marked(target)}: {refused.details}".rstrip())


def _refuse_redirection(op: str, target: str, why: str) -> Decision:
    return Decision(False, "redirect_refused", f"the redirection {op} {format_marked(target)} is refused: {why}")


def judge_assignment(name: str, value: str, context: CommandContext) -> Decision | None:
    """None when the variable may be set to this."""
    if context.free:
        return None
    if is_dangerous_variable(name, value):
        why = f"setting {name} may change which code runs; run the command without it"
        return Decision(False, "option_refused", why)
    if name in PATH_VARIABLES:
        for part in value.split(":"):
            same = part in ("\x00", "\x08") and name == "PYTHONPATH"  # …:$PYTHONPATH
            if not same and (refused := judge_path(part, WordRole(PATH_VARIABLES[name]), context)):
                return Decision(False, refused.rule, f"{name}: {refused.details}")
    return None
