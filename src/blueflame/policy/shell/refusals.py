"""Messages for refused commands: the command, the reason, and what is allowed instead."""

from __future__ import annotations

from blueflame.model.policy import Decision, Policy
from blueflame.policy.shell.marks import format_marked, split_names

Words = tuple[str, ...]
_PAGERS = split_names("less more most man info vi vim nvim view ex ed emacs nano pico joe micro top htop")


def refuse_unknown(argv: Words, policy: Policy) -> Decision:
    if argv[0] in _PAGERS:
        return refuse_command("command_not_allowed", argv, f"{argv[0]} is interactive; use cat, head or sed -n")
    rules = ", ".join(policy.allowed_commands[:20]) or "nothing"
    more = ", …" if len(policy.allowed_commands) > 20 else ""
    why = f"no rule allows it. Allowed: {rules}{more}; and plain filters such as ls, cat, grep, head, wc, diff"
    return refuse_command("command_not_allowed", argv, f"{why}. Write files with the Write tool")


def name_command(refused: Decision, argv: Words) -> Decision:
    return Decision(False, refused.rule, f"{_format_short(argv)}: {refused.details}")


def refuse_command(rule: str, argv: Words, why: str) -> Decision:
    return Decision(False, rule, f"{_format_short(argv)}: {why.removesuffix('.')}.")


def _format_short(argv: Words) -> str:
    line = " ".join(format_marked(word) for word in argv).replace("\n", " ")
    return line if len(line) <= 120 else f"{line[:117]}…"
