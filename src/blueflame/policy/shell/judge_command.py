"""Judge one simple command: what it is, what it wraps, which rule allows it, what its words name."""

from __future__ import annotations

from dataclasses import replace

from blueflame.model.policy import Decision, UnparsableCommand
from blueflame.policy.shell.blocked_patterns import find_blocking_pattern
from blueflame.policy.shell.judge_words import judge_assignment, judge_unknown_program, judge_words
from blueflame.policy.shell.marks import fill_marks, format_marked, is_static, is_unknown, split_names
from blueflame.policy.shell.paths import CommandContext, judge_path
from blueflame.policy.shell.programs.allow_rules import (
    is_allowed,
    is_missing_own_rule,
    list_make_targets,
    split_rule,
    strip_system_path,
)
from blueflame.policy.shell.programs.builtins import CHECKED, HARMLESS, REFUSED
from blueflame.policy.shell.programs.everyday import (
    find_git_objection,
    find_objection,
    is_everyday,
    is_everyday_git,
    is_harmless_call,
)
from blueflame.policy.shell.programs.filters import FILTERS
from blueflame.policy.shell.programs.git import (
    SUBCOMMANDS,
    GitCall,
    check_git,
    is_reading_config,
    list_revision_paths,
    parse_git_call,
)
from blueflame.policy.shell.programs.legacy_options import normalise_options
from blueflame.policy.shell.programs.spec import ProgramSpec, WordRole, parse_arguments
from blueflame.policy.shell.programs.table import PYTHON, find_spec
from blueflame.policy.shell.programs.wrappers import WrappedCommand, unwrap_command
from blueflame.policy.shell.refusals import Words, name_command, refuse_blocked, refuse_command, refuse_unknown
from blueflame.policy.shell.simple_commands import find_cd_target
from blueflame.policy.shell.state import join_cwd

MAX_WRAPPERS = 6
_SHELLS = split_names("sh bash dash ash")
_RUNNERS = split_names("uv poetry pipenv pdm rye bundle")
_LAUNCHERS = split_names(
    "su runuser sg script flock watch parallel doas strace ltrace gdb setarch taskset chrt numactl systemd-run firejail"
    " proot fakeroot chroot unshare nsenter env exec"
)


_SETS_VARIABLES = split_names("read unset printf export getopts hash kill")
"""Builtins that are checked in any case: the first change variables, kill ends other processes."""
_ANY = ProgramSpec()


def judge_command(argv: Words, feed: Words | None, context: CommandContext) -> Decision | None:
    """Return a refusal, or None if the command may run."""
    if context.depth > MAX_WRAPPERS:
        return refuse_command("wrapper_refused", argv, "it has too many wrappers")
    name = argv[0]
    if context.everyday and "/" in name:
        if refused := judge_path(name, WordRole.READ, context):
            return name_command(refused, argv)
        name = _name_own_program(name, context)
    if is_unknown(name) or not is_static(name):
        if context.free:
            return None
        return refuse_command("shell_dynamic", argv, "the command name is only known when it runs; write it out")
    argv = (strip_system_path(name), *normalise_options(strip_system_path(name), argv[1:]))
    if found := find_blocking_pattern(argv, context.policy.blocked_patterns) or _find_blocked_inside(argv, context):
        return refuse_blocked(argv, found, context.policy)
    inner = unwrap_command(argv, feed)
    allowed = context.free or _is_listed(argv, context)
    if context.everyday and not allowed:
        if objection := find_objection(argv):
            return refuse_command("command_not_allowed", argv, objection)
        allowed = is_everyday(argv[0]) or "/" in argv[0] or argv[0] in context.functions
    if inner is not None:
        return _judge_wrapped(argv, inner, context, allowed=allowed)
    relative = "/" in argv[0] and not argv[0].startswith("/")
    if relative and context.cwds != ("",) and not (context.free or context.everyday):
        return refuse_command(
            "command_not_allowed",
            argv,
            "a rule with a path means the file at the top of the worktree; run it from there",
        )
    if _is_outside(argv, context, WordRole.TREE if allowed and not context.everyday else WordRole.LOOK):
        return refuse_command("outside_worktree", argv, "a cd before it may leave the worktree; use cd … && …")
    return _judge_by_name(argv, context, allowed=allowed)


def _is_listed(argv: Words, context: CommandContext) -> bool:
    rules = context.policy.allowed_commands
    return is_allowed(argv, rules) and not is_missing_own_rule(argv, rules)


def _name_own_program(name: str, context: CommandContext) -> str:
    """Return the bare name of a known program, also where its folder is not; the path of one in the checkout."""
    bare = name.rsplit("/", 1)[-1]
    if not is_static(name) or is_everyday(bare) or bare == "git":
        return bare
    folders = (context.policy.worktree, *context.policy.scratch)
    return name if not name.startswith("/") or any(name.startswith(f"{each}/") for each in folders) else bare


def _find_blocked_inside(argv: Words, context: CommandContext) -> str | None:
    """Return the pattern that blocks what a launcher such as `flock` or `watch` starts."""
    if argv[0] not in _LAUNCHERS:
        return None
    tails = (argv[at:] for at in range(1, min(len(argv), 20)) if not argv[at].startswith("-"))
    split = (tuple(word.split()) for word in argv[1:20] if " " in word)
    return next(
        (found for each in (*tails, *split) if (found := find_blocking_pattern(each, context.policy.blocked_patterns))),
        None,
    )


def _is_outside(argv: Words, context: CommandContext, role: WordRole) -> bool:
    """Return whether the command may run outside the worktree; harmless builtins may."""
    if context.free or argv[0] in HARMLESS or argv[0] in CHECKED or argv[0] in ("cd", "pushd", "popd"):
        return False
    if context.cwds is None:
        return not context.everyday
    return any(judge_path(cwd or ".", role, replace(context, cwds=("",))) for cwd in context.cwds)


# --- wrappers ---


def _judge_wrapped(argv: Words, inner: WrappedCommand, context: CommandContext, *, allowed: bool) -> Decision | None:
    deeper = replace(context, depth=context.depth + 1)
    if inner.refused and not (context.everyday and (inner.argvs or inner.script)):
        if context.free or (allowed and argv[0] in _RUNNERS):
            return None
        if argv[0] in _SHELLS and inner.script is None and not allowed and not inner.refused.startswith("text"):
            return refuse_unknown(argv, context.policy)
        rule = "option_refused" if argv[0] == "find" and inner.refused.startswith("-") else "wrapper_refused"
        return refuse_command(rule, argv, f"{inner.refused} of {argv[0]} is not allowed")
    for name, value in inner.assigned:
        if refused := judge_assignment(name, value, context):
            return refused
    for path in inner.looked:
        if refused := judge_path(path, WordRole.LOOK, context):
            return name_command(refused, argv)
    if argv[0] == "env" and not inner.argvs and not allowed:
        return refuse_unknown(argv, context.policy)  # it prints the environment
    if inner.script is not None:
        return _judge_script_text(argv, fill_marks(inner.script), deeper)
    for each in inner.argvs:
        refused = judge_command(each, None, deeper)
        if refused is not None and not (allowed and argv[0] in _RUNNERS and _is_unlisted(each, refused, context)):
            return refused
    return None


def _is_unlisted(argv: Words, refused: Decision, context: CommandContext) -> bool:
    """Return whether the command is only refused because no rule names it, as a project's own program after uv run."""
    if refused.rule != "command_not_allowed":
        return False
    known = argv[0] == "git" or is_everyday(argv[0]) or unwrap_command(argv, None) or find_objection(argv)
    return not (context.everyday and known)


def _judge_script_text(argv: Words, script: str, context: CommandContext) -> Decision | None:
    """Judge the text of `sh -c` as a command line."""
    if context.depth > MAX_WRAPPERS:
        return refuse_command("wrapper_refused", argv, "write the commands directly instead of as text for a shell")
    try:
        tree = context.parse(script)
    except UnparsableCommand as problem:
        return refuse_command("shell_unreadable", argv, f"its text cannot be read: {problem}")
    return context.judge_script(script, tree, context)


# --- by name ---


def _judge_by_name(argv: Words, context: CommandContext, *, allowed: bool) -> Decision | None:
    name, words = argv[0], argv[1:]
    if name in ("cd", "pushd", "popd"):
        return _judge_cd(argv, context)
    if name in REFUSED:
        if context.free or context.everyday:
            return _judge_unrestricted(argv, context)
        return refuse_command("shell_construct", argv, f"{name} cannot be checked before it runs")
    if name in HARMLESS:
        return None
    if name in CHECKED:
        bad = CHECKED[name](words)
        if bad is None or context.free or (context.everyday and name not in _SETS_VARIABLES):
            return None
        return refuse_command("option_refused", argv, f"{format_marked(bad)} of {name}")
    if name == "git":
        return judge_git(argv, context, allowed=allowed)
    if name in FILTERS and not allowed:
        return judge_words(argv, FILTERS[name], context)
    if not allowed:
        return refuse_unknown(argv, context.policy)
    return _judge_allowed(argv, context)


def _judge_unrestricted(argv: Words, context: CommandContext) -> Decision | None:
    """Judge exec, eval, trap and source where most commands may run: blocked ones still may not."""
    deeper = replace(context, depth=context.depth + 1)
    if argv[0] in ("source", ".") and len(argv) > 1:
        return judge_path(argv[1], WordRole.READ, context)
    if argv[0] == "eval" and context.everyday and not all(map(is_static, argv)):
        return refuse_command("shell_dynamic", argv, "its commands are only known when it runs; write them out")
    if argv[0] == "exec" and len(argv) > 1:
        return judge_command(argv[1:], None, deeper)
    script = " ".join(argv[1:]) if argv[0] == "eval" else argv[1] if argv[0] == "trap" and len(argv) > 2 else ""
    if not script or not is_static(script) or script.startswith("-"):
        return None
    return _judge_script_text(argv, script, deeper)


def _judge_cd(argv: Words, context: CommandContext) -> Decision | None:
    if context.free or argv[0] == "popd":
        return None
    target = find_cd_target(argv)
    if target is None and context.everyday and len(argv) == 2 and argv[1] != "-":
        return judge_path(argv[1], WordRole.LOOK, context)
    if target is None:
        return refuse_command(
            "shell_dynamic", argv, "its target is only known when it runs; name a folder of the worktree"
        )
    if context.cwds is None:
        if context.everyday:
            return judge_path(target, WordRole.LOOK, context)
        return refuse_command("shell_dynamic", argv, "the shell's folder is unknown by then; use (cd FOLDER && …)")
    verdicts = [judge_path(join_cwd(cwd, target), WordRole.LOOK, replace(context, cwds=("",))) for cwd in context.cwds]
    # some folders only apply if an earlier cd failed: what runs next is judged from all of them
    return name_command(verdicts[0], argv) if all(verdicts) and verdicts[0] else None


def _judge_allowed(argv: Words, context: CommandContext) -> Decision | None:
    if PYTHON.match(argv[0]) and (module := _find_module(argv[1:])):
        if pattern := find_blocking_pattern(module, context.policy.blocked_patterns):
            return refuse_blocked(argv, pattern, context.policy)
        argv = module
    elif refused := _judge_targets(argv, context):
        return refused
    known = find_spec(argv[0], argv[1:])
    return judge_words(argv, known, context) if known else judge_unknown_program(argv, context)


def _find_module(words: Words) -> Words:
    """Return the words of python -m MODULE …, without python's options."""
    for at, word in enumerate(words):
        if word == "-m":
            return words[at + 1 :]
        if not word.startswith("-") or word in ("-c", "-"):
            return ()
    return ()


def _judge_targets(argv: Words, context: CommandContext) -> Decision | None:
    """Where rules name targets of make, refuse other targets."""
    if argv[0] not in ("make", "gmake") or context.free or context.everyday:
        return None
    targets = list_make_targets(context.policy.allowed_commands)
    if targets is None:
        return None
    operands = parse_arguments(find_spec(argv[0], argv[1:]) or ProgramSpec(), argv[1:]).operands
    bad = next((word for word in operands if "=" not in word and word not in targets), None)
    if bad is None:
        return None
    return refuse_command("command_not_allowed", argv, f"no rule allows the target {format_marked(bad)}")


_FREE_SUBCOMMANDS = frozenset(("rev-parse", "ls-files", "merge-base", "version"))


def judge_git(argv: Words, context: CommandContext, *, allowed: bool) -> Decision | None:
    call = parse_git_call(argv[1:])
    everyday = context.everyday and not allowed
    harmless = context.free or (context.everyday and is_harmless_call(call))
    if not harmless and (refused := _refuse_git_options(argv, call)):
        return refused
    for folder in call.folders:
        if refused := judge_path(folder, WordRole.TREE, context):
            return name_command(refused, argv)
    if not is_static(call.subcommand):
        return None if context.free else _refuse_unknown_subcommand(argv)
    if everyday and (objection := find_git_objection(call, parse_arguments(_find_git_spec(call), call.words))):
        return refuse_command("command_not_allowed", argv, objection)
    rules = {split_rule(rule)[:2] for rule in context.policy.allowed_commands}
    has_git_rule = any(rule[:1] == ("git",) for rule in rules)
    allowed = allowed or (everyday and is_everyday_git(call))
    if everyday and not allowed:
        return refuse_command(
            "command_not_allowed", argv, "use the git commands that only read or change your checkout"
        )
    if not allowed and not (call.subcommand in _FREE_SUBCOMMANDS and has_git_rule):
        return refuse_unknown(argv, context.policy)
    if call.subcommand not in SUBCOMMANDS:
        if allowed and (context.free or ("git", call.subcommand) in rules):
            return None
        return refuse_command("command_not_allowed", argv, "unknown subcommand of git")
    if context.cwds is not None:
        for folder in call.folders:
            context = replace(context, cwds=tuple(join_cwd(cwd, folder) for cwd in context.cwds or ()))
    return _judge_git_words(argv, call, context)


def _refuse_git_options(argv: Words, call: GitCall) -> Decision | None:
    if not call.refused:
        return None
    if not is_static(call.refused):
        return _refuse_unknown_subcommand(argv)
    option = format_marked(call.refused)
    return refuse_command("option_refused", argv, f"the option {option} of git may change what runs; leave it out")


def _refuse_unknown_subcommand(argv: Words) -> Decision:
    return refuse_command("shell_dynamic", argv, "the subcommand is only known when it runs; write it out")


def _find_git_spec(call: GitCall) -> ProgramSpec:
    return SUBCOMMANDS.get(call.subcommand, _ANY)


def _judge_git_words(argv: Words, call: GitCall, context: CommandContext) -> Decision | None:
    known = SUBCOMMANDS[call.subcommand]
    parsed = parse_arguments(known, call.words)
    if not context.free and (bad := check_git(call, parsed)):
        return refuse_command("option_refused", argv, f"{bad} may run a program or change what git runs; leave it out")
    if call.subcommand == "config" and is_reading_config(parsed):
        return None
    short = (f"git {call.subcommand}", *call.words)
    for word in parsed.operands:
        for path in list_revision_paths(word):
            if refused := judge_path(path, WordRole.GUESS, context):
                return name_command(refused, argv)
    return judge_words(short, known, context)
