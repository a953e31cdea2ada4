"""Messages for refused commands: the command, the reason, and what is allowed instead."""

from __future__ import annotations

from blueflame.model.policy import BLOCKED_PATTERNS, EVERYDAY, Decision, Policy
from blueflame.policy.shell.marks import format_marked, split_names

Words = tuple[str, ...]
_PAGERS = split_names("less more most man info vi vim nvim view ex ed emacs nano pico joe micro top htop")


def refuse_unknown(argv: Words, policy: Policy) -> Decision:
    if argv[0] in _PAGERS:
        return refuse_command("command_not_allowed", argv, f"{argv[0]} is interactive; use cat, head or sed -n")
    if EVERYDAY in policy.allowed_commands:
        why = "it is not among the programs that run here. Use a common tool, a script of yours in the checkout"
        return refuse_command("command_not_allowed", argv, f"{why}, or say in your last message that it is missing")
    rules = ", ".join(policy.allowed_commands[:20]) or "nothing"
    more = ", …" if len(policy.allowed_commands) > 20 else ""
    why = f"no rule allows it. Allowed: {rules}{more}; and plain filters such as ls, cat, grep, head, wc, diff"
    return refuse_command("command_not_allowed", argv, f"{why}. Write files with the Write tool")


def refuse_blocked(argv: Words, pattern: str, policy: Policy) -> Decision:
    """Refuse by a blocked pattern: agents get the reason or its place in the configuration, never the expression."""
    place = f"entry {policy.blocked_patterns.index(pattern) + 1} of bash_rules.blocked_patterns"
    instead = BLOCKED_PATTERNS.get(pattern, "do it another way, or without")
    return refuse_command("command_blocked", argv, f"it is blocked by {place}: {instead}")


def name_command(refused: Decision, argv: Words) -> Decision:
    return Decision(False, refused.rule, f"{_format_short(argv)}: {refused.details}")


def refuse_command(rule: str, argv: Words, why: str) -> Decision:
    return Decision(False, rule, f"{_format_short(argv)}: {why.removesuffix('.')}.")


def _format_short(argv: Words) -> str:
    line = " ".join(format_marked(word) for word in argv).replace("\n", " ")
    return line if len(line) <= 120 else f"{line[:117]}…"
