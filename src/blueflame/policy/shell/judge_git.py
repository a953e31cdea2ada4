"""Judges one call of git: its global options, its subcommand, and what that one's words mean."""

from __future__ import annotations

from dataclasses import replace

from blueflame.model.policy import Decision
from blueflame.policy.shell.judge_words import judge_words
from blueflame.policy.shell.marks import is_static, shown
from blueflame.policy.shell.paths import Bench, judge_path
from blueflame.policy.shell.programs.allow_rules import words_of
from blueflame.policy.shell.programs.git import SUBCOMMANDS, GitCall, check_git, is_reading_config, read_git, revisions
from blueflame.policy.shell.programs.spec import Role, parse
from blueflame.policy.shell.refusals import Words, named, refuse_unknown, refused_for
from blueflame.policy.shell.state import join_place

_FREE_GIT = frozenset(("rev-parse", "ls-files", "merge-base", "version"))


def judge_git(argv: Words, bench: Bench, *, allowed: bool) -> Decision | None:
    call = read_git(argv[1:])
    if call.refused and not is_static(call.refused) and not bench.free:
        return refused_for("shell_dynamic", argv, "the subcommand is only known when it runs")
    if call.refused and not bench.free:
        return refused_for("option_refused", argv, f"the option {shown(call.refused)} of git may change what runs")
    for folder in call.folders:
        if refused := judge_path(folder, Role.TREE, bench):
            return named(refused, argv)
    if not is_static(call.subcommand):
        return None if bench.free else refused_for("shell_dynamic", argv, "the subcommand is only known when it runs")
    if not allowed and not (call.subcommand in _FREE_GIT and _knows_git(bench)):
        return refuse_unknown(argv, bench.policy)
    if call.subcommand not in SUBCOMMANDS:
        return (
            None
            if allowed and _is_named(call, bench)
            else refused_for("command_not_allowed", argv, "no subcommand of git")
        )
    return _judge_git_words(argv, call, _moved(bench, call.folders))


def _knows_git(bench: Bench) -> bool:
    return any(words_of(rule)[:1] == ("git",) for rule in bench.policy.allowed_commands)


def _is_named(call: GitCall, bench: Bench) -> bool:
    rules = {words_of(rule)[:2] for rule in bench.policy.allowed_commands}
    return bench.free or ("git", call.subcommand) in rules


def _moved(bench: Bench, folders: Words) -> Bench:
    for folder in folders:
        if bench.places is not None:
            bench = replace(bench, places=tuple(join_place(place, folder) for place in bench.places))
    return bench


def _judge_git_words(argv: Words, call: GitCall, bench: Bench) -> Decision | None:
    known = SUBCOMMANDS[call.subcommand]
    parsed = parse(known, call.words)
    if not bench.free and (bad := check_git(call, parsed)):
        return refused_for("option_refused", argv, f"{bad} may run a program or change what git runs")
    if call.subcommand == "config" and is_reading_config(parsed):
        return None
    short = (f"git {call.subcommand}", *call.words)
    for word in parsed.operands:
        for path in revisions(word):
            if refused := judge_path(path, Role.GUESS, bench):
                return named(refused, argv)
    return judge_words(short, known, bench)
