"""Judges one call of git: its global options, its subcommand, and what that one's words mean."""

from __future__ import annotations

from dataclasses import replace

from blueflame.model.policy import Decision
from blueflame.policy.shell.judge_words import judge_words
from blueflame.policy.shell.marks import format_marked, is_static
from blueflame.policy.shell.paths import CommandContext, judge_path
from blueflame.policy.shell.programs.allow_rules import split_rule
from blueflame.policy.shell.programs.git import (
    SUBCOMMANDS,
    GitCall,
    check_git,
    is_reading_config,
    list_revision_paths,
    parse_git_call,
)
from blueflame.policy.shell.programs.spec import WordRole, parse_arguments
from blueflame.policy.shell.refusals import Words, name_command, refuse_command, refuse_unknown
from blueflame.policy.shell.state import join_cwd

_FREE_SUBCOMMANDS = frozenset(("rev-parse", "ls-files", "merge-base", "version"))


def judge_git(argv: Words, context: CommandContext, *, allowed: bool) -> Decision | None:
    call = parse_git_call(argv[1:])
    if call.refused and not is_static(call.refused) and not context.free:
        return refuse_command("shell_dynamic", argv, "the subcommand is only known when it runs")
    if call.refused and not context.free:
        return refuse_command(
            "option_refused", argv, f"the option {format_marked(call.refused)} of git may change what runs"
        )
    for folder in call.folders:
        if refused := judge_path(folder, WordRole.TREE, context):
            return name_command(refused, argv)
    if not is_static(call.subcommand):
        return (
            None if context.free else refuse_command("shell_dynamic", argv, "the subcommand is only known when it runs")
        )
    if not allowed and not (call.subcommand in _FREE_SUBCOMMANDS and _has_git_rule(context)):
        return refuse_unknown(argv, context.policy)
    if call.subcommand not in SUBCOMMANDS:
        return (
            None
            if allowed and _is_named_in_rules(call, context)
            else refuse_command("command_not_allowed", argv, "no subcommand of git")
        )
    return _judge_git_words(argv, call, _enter_folders(context, call.folders))


def _has_git_rule(context: CommandContext) -> bool:
    return any(split_rule(rule)[:1] == ("git",) for rule in context.policy.allowed_commands)


def _is_named_in_rules(call: GitCall, context: CommandContext) -> bool:
    rules = {split_rule(rule)[:2] for rule in context.policy.allowed_commands}
    return context.free or ("git", call.subcommand) in rules


def _enter_folders(context: CommandContext, folders: Words) -> CommandContext:
    for folder in folders:
        if context.cwds is not None:
            context = replace(context, cwds=tuple(join_cwd(cwd, folder) for cwd in context.cwds))
    return context


def _judge_git_words(argv: Words, call: GitCall, context: CommandContext) -> Decision | None:
    known = SUBCOMMANDS[call.subcommand]
    parsed = parse_arguments(known, call.words)
    if not context.free and (bad := check_git(call, parsed)):
        return refuse_command("option_refused", argv, f"{bad} may run a program or change what git runs")
    if call.subcommand == "config" and is_reading_config(parsed):
        return None
    short = (f"git {call.subcommand}", *call.words)
    for word in parsed.operands:
        for path in list_revision_paths(word):
            if refused := judge_path(path, WordRole.GUESS, context):
                return name_command(refused, argv)
    return judge_words(short, known, context)
