"""Decide about a shell command: allowed if every simple command in it that may run is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from blueflame.model.policy import EVERYDAY, Decision, PathRules, Policy
from blueflame.policy.shell.findings import OpaqueConstruct, SimpleCommand
from blueflame.policy.shell.judge_command import judge_command
from blueflame.policy.shell.judge_words import judge_assignment, judge_redirection
from blueflame.policy.shell.paths import CommandContext
from blueflame.policy.shell.reader import read_commands
from blueflame.policy.shell.syntax import UnreadableSyntax

MAX_LENGTH = 100_000
_CONTROL_CHARACTERS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_BLANKS = re.compile(r"[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_OTHER_SHELL = re.compile(r"\s*#!(?!\s*(?:/bin/bash|/usr/bin/env bash|/usr/bin/bash)\s*(?:-[eux]+)?\s*$)", re.MULTILINE)


def judge_command_line(
    source: str, tree: Mapping[str, Any], policy: Policy, paths: PathRules, parse: Callable[[str], Any]
) -> Decision:
    """Decide about a whole command line. `tree` is its syntax tree by shfmt; `parse` makes one of `sh -c` texts."""
    context = CommandContext(
        policy=policy,
        paths=paths,
        cwds=("",),
        parse=parse,
        judge_script=judge_script,
        free="*" in policy.allowed_commands,
        everyday=EVERYDAY in policy.allowed_commands,
    )
    return judge_script(source, tree, context) or Decision(True, "allowed", "")


def judge_script(source: str, tree: object, context: CommandContext) -> Decision | None:
    """Return a refusal, or None if the whole script may run."""
    if refused := refuse_text(source):
        return refused
    try:
        found = read_commands(tree, source)
    except UnreadableSyntax as error:
        return Decision(False, "shell_unreadable", f"{error}. Simplify it, or run the parts one by one.")
    defined = frozenset(each.defines for each in found if isinstance(each, OpaqueConstruct) and each.defines)
    context = replace(context, functions=context.functions | defined)
    return next((refused for each in found if (refused := _judge_finding(each, context))), None)


def refuse_text(source: str) -> Decision | None:
    """Refuse characters that are invisible, or that the shell and its parser may take differently."""
    if m := _CONTROL_CHARACTERS.search(source):
        why = f"the command holds a control character (U+{ord(m[0]):04X}); only newline and tab are allowed"
        return Decision(False, "control_characters", why)
    if _BLANKS.search(source) and (m := _BLANKS.search(_QUOTED.sub("", source))):
        why = f"the command holds a blank that the shell does not treat as one (U+{ord(m[0]):04X}); use plain spaces"
        return Decision(False, "control_characters", why)
    if len(source) > MAX_LENGTH:
        return Decision(
            False, "shell_unreadable", f"the command is longer than {MAX_LENGTH} characters; write a file instead"
        )
    if _OTHER_SHELL.match(source):
        return Decision(False, "shell_unreadable", "the first line names another shell; leave that line out")
    return None


def _judge_finding(found: SimpleCommand | OpaqueConstruct, context: CommandContext) -> Decision | None:
    if isinstance(found, OpaqueConstruct):
        why = f"{found.what} cannot be checked before it runs. Write the commands out, one by one."
        return None if context.free or context.everyday else Decision(False, found.rule, why)
    here = replace(context, cwds=_join_folders(found.cwds, context))
    for name, value in found.assigned:
        alone = found.argv[:1] == ("read",) and name == "IFS"
        if not alone and (refused := judge_assignment(name, value, here)):
            return refused
    for redirection in found.redirections:
        if refused := judge_redirection(redirection, here):
            return refused
    return judge_command(found.argv, found.feed, here) if found.argv else None


def _join_folders(cwds: tuple[str, ...] | None, context: CommandContext) -> tuple[str, ...] | None:
    if context.cwds is None or cwds is None:
        return None
    if context.cwds == ("",):
        return cwds
    return tuple(
        f"{outer}/{inner}" if inner and not inner.startswith("/") else inner or outer
        for outer in context.cwds
        for inner in cwds
    )
