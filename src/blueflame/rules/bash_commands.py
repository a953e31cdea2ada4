"""Judges one simple command: what it is, what it runs inside, which rule allows it, what its words name."""

from __future__ import annotations

import re
from dataclasses import replace

from blueflame.model.policy import Decision, Unreadable
from blueflame.rules.bash_words import judge_assigned
from blueflame.rules.commands.builtins import CHECKED, PLAIN, REFUSED
from blueflame.rules.commands.filters import FILTERS
from blueflame.rules.commands.git import SUBCOMMANDS, GitCall, check_git, is_reading_config, read_git, revisions
from blueflame.rules.commands.matching import bare_name, is_allowed, lacks_own_rule, make_targets, words_of
from blueflame.rules.commands.programs import PYTHON, plain_words, program_spec
from blueflame.rules.commands.spec import Parsed, Role, Spec, parse
from blueflame.rules.commands.wrappers import Inner, unwrap
from blueflame.rules.shell_blocked import blocked_by
from blueflame.rules.shell_effects import cd_target
from blueflame.rules.shell_lists import words
from blueflame.rules.shell_marks import is_static, is_unknown, shown
from blueflame.rules.shell_paths import Bench, judge_path
from blueflame.rules.shell_state import join_place

Words = tuple[str, ...]
DEEPEST = 6
_NO_FIRST = frozenset(("-e", "--regexp", "--expression", "-f", "--file", "--from-file", "--files", "--type-list"))
_RUNNERS = words("uv poetry pipenv pdm rye bundle")
_FREE_GIT = frozenset(("rev-parse", "ls-files", "merge-base", "version"))
_STARTERS = words(
    "su runuser sg script flock watch parallel doas strace ltrace gdb setarch taskset chrt numactl systemd-run firejail"
    " proot fakeroot chroot unshare nsenter env exec"
)
_PAGERS = words("less more most man info vi vim nvim view ex ed emacs nano pico joe micro top htop")


def judge_command(argv: Words, feed: Words | None, bench: Bench) -> Decision | None:
    """None when the command may run."""
    if bench.depth > DEEPEST:
        return _refused("wrapper_refused", argv, "it is wrapped too often to be followed")
    name = argv[0]
    if is_unknown(name) or not is_static(name):
        return (
            None
            if bench.free
            else _refused("shell_dynamic", argv, "the name of the command is only known when it runs")
        )
    argv = (bare_name(name), *plain_words(bare_name(name), argv[1:]))
    if pattern := blocked_by(argv, bench.policy.blocked_patterns):
        return _refused("command_blocked", argv, f"the pattern {pattern} refuses it")
    if argv[0] in _STARTERS and (pattern := _blocked_inside(argv, bench)):
        return _refused("command_blocked", argv, f"the pattern {pattern} refuses what it starts")
    inner = unwrap(argv, feed)
    rules = bench.policy.allowed_commands
    allowed = bench.free or (is_allowed(argv, rules) and not lacks_own_rule(argv, rules))
    if inner is not None:
        return _judge_inner(argv, inner, bench, allowed=allowed)
    if "/" in argv[0] and not argv[0].startswith("/") and bench.places != ("",) and not bench.free:
        return _refused("command_not_allowed", argv, "a rule with a path means the one at the top; run it from there")
    if _is_outside(argv, bench, Role.TREE if allowed else Role.LOOK):
        return _refused("outside_worktree", argv, "a cd before it may lead out of the worktree; use cd … && …")
    return _judge_by_name(argv, bench, allowed=allowed)


def _blocked_inside(argv: Words, bench: Bench) -> str | None:
    """Programs that start another one somewhere among their words, in ways that we do not follow."""
    tails = (argv[at:] for at in range(1, min(len(argv), 20)) if not argv[at].startswith("-"))
    split = (tuple(word.split()) for word in argv[1:20] if " " in word)
    return next(
        (found for each in (*tails, *split) if (found := blocked_by(each, bench.policy.blocked_patterns))), None
    )


def _is_outside(argv: Words, bench: Bench, role: Role) -> bool:
    """Where a cd may have failed or led outside, only harmless builtins go on."""
    if bench.free or argv[0] in PLAIN or argv[0] in CHECKED or argv[0] in ("cd", "pushd", "popd"):
        return False
    return bench.places is None or any(
        judge_path(place or ".", role, replace(bench, places=("",))) for place in bench.places
    )


# --- wrappers ---


def _judge_inner(argv: Words, inner: Inner, bench: Bench, *, allowed: bool) -> Decision | None:
    deeper = replace(bench, depth=bench.depth + 1)
    if inner.refused:
        if bench.free or (allowed and argv[0] in _RUNNERS):
            return None
        rule = "option_refused" if argv[0] == "find" and inner.refused.startswith("-") else "wrapper_refused"
        return _refused(rule, argv, f"{inner.refused} of {argv[0]} is not allowed")
    for name, value in inner.assigned:
        if refused := judge_assigned(name, value, bench):
            return refused
    for path in inner.looked:
        if refused := judge_path(path, Role.LOOK, bench):
            return _named(refused, argv)
    if inner.script is not None:
        return _judge_text(argv, inner.script, deeper)
    for each in inner.argvs:
        refused = judge_command(each, None, deeper)
        excused = allowed and argv[0] in _RUNNERS and refused is not None and refused.rule == "command_not_allowed"
        if refused is not None and not excused:
            return refused
    return None


def _judge_text(argv: Words, script: str, bench: Bench) -> Decision | None:
    """sh -c: the text is a command of its own."""
    from blueflame.rules.bash import judge_script  # the two halves of one recursion

    if bench.parse is None or bench.depth > DEEPEST:
        return _refused(
            "wrapper_refused", argv, "write the commands directly instead of giving them to a shell as text"
        )
    try:
        tree = bench.parse(script)
    except Unreadable as problem:
        return _refused("shell_unreadable", argv, f"its text cannot be read: {problem}")
    return judge_script(script, tree, bench)


# --- by name ---


def _judge_by_name(argv: Words, bench: Bench, *, allowed: bool) -> Decision | None:
    name, words = argv[0], argv[1:]
    if name in ("cd", "pushd", "popd"):
        return _judge_cd(argv, bench)
    if name in REFUSED:
        if bench.free:
            return _judge_replaced(argv, bench)
        return _refused("shell_construct", argv, f"{name} cannot be followed beforehand")
    if name in PLAIN:
        return None
    if name in CHECKED:
        bad = CHECKED[name](words)
        return None if bad is None or bench.free else _refused("option_refused", argv, f"{shown(bad)} of {name}")
    if name == "git":
        return _judge_git(argv, bench, allowed=allowed)
    if name in FILTERS and not allowed:
        return _judge_words(argv, FILTERS[name], bench)
    if not allowed:
        return _refuse_unknown(argv, bench)
    return _judge_allowed(argv, bench)


def _judge_replaced(argv: Words, bench: Bench) -> Decision | None:
    """Where any command may run, blocked ones still may not hide behind exec, eval and trap."""
    deeper = replace(bench, depth=bench.depth + 1)
    if argv[0] == "exec" and len(argv) > 1:
        return judge_command(argv[1:], None, deeper)
    script = " ".join(argv[1:]) if argv[0] == "eval" else argv[1] if argv[0] == "trap" and len(argv) > 2 else ""
    if not script or not is_static(script) or bench.parse is None or script.startswith("-"):
        return None
    return _judge_text(argv, script, deeper)


def _judge_cd(argv: Words, bench: Bench) -> Decision | None:
    if bench.free or argv[0] == "popd":
        return None
    target = cd_target(argv)
    if target is None:
        return _refused("shell_dynamic", argv, "where it leads is not known beforehand; name a folder of the worktree")
    if bench.places is None:
        return _refused("shell_dynamic", argv, "nobody knows where the shell is by then; use (cd FOLDER && …)")
    verdicts = [
        judge_path(join_place(place, target), Role.LOOK, replace(bench, places=("",))) for place in bench.places
    ]
    # some of the places are only there if an earlier cd failed: what runs next is judged from all of them
    return _named(verdicts[0], argv) if all(verdicts) and verdicts[0] else None


def _refuse_unknown(argv: Words, bench: Bench) -> Decision:
    if argv[0] in _PAGERS:
        return _refused("command_not_allowed", argv, f"{argv[0]} waits for a person; use cat, head or sed -n")
    rules = ", ".join(bench.policy.allowed_commands[:20]) or "nothing"
    more = ", …" if len(bench.policy.allowed_commands) > 20 else ""
    why = f"no rule allows it. Allowed: {rules}{more}; and plain filters such as ls, cat, grep, head, wc, diff"
    return _refused("command_not_allowed", argv, f"{why}. Write files with the Write tool")


def _judge_allowed(argv: Words, bench: Bench) -> Decision | None:
    name, words = argv[0], argv[1:]
    if PYTHON.match(name) and (module := _module(words)):
        return _judge_module(argv, module, bench)
    known = program_spec(name, words)
    if refused := _judge_targets(argv, bench):
        return refused
    return _judge_words(argv, known, bench) if known else _judge_guessed(argv, bench)


def _module(words: Words) -> Words:
    """The words of python -m MODULE …, without python's own options."""
    for at, word in enumerate(words):
        if word == "-m":
            return words[at + 1 :]
        if not word.startswith("-") or word in ("-c", "-"):
            return ()
    return ()


def _judge_module(argv: Words, module: Words, bench: Bench) -> Decision | None:
    if pattern := blocked_by(module, bench.policy.blocked_patterns):
        return _refused("command_blocked", argv, f"the pattern {pattern} refuses it")
    known = program_spec(module[0], module[1:])
    return _judge_words(module, known, bench) if known else _judge_guessed(module, bench)


def _judge_targets(argv: Words, bench: Bench) -> Decision | None:
    """Where rules name targets of make, no other target may ride along."""
    if argv[0] not in ("make", "gmake") or bench.free:
        return None
    targets = make_targets(bench.policy.allowed_commands)
    if targets is None:
        return None
    asked = [word for word in parse_words(argv).operands if "=" not in word]
    bad = next((word for word in asked if word not in targets), None)
    return None if bad is None else _refused("command_not_allowed", argv, f"no rule allows the target {shown(bad)}")


def parse_words(argv: Words) -> Parsed:
    known = program_spec(argv[0], argv[1:])
    return parse(known or Spec(), argv[1:])


# --- words ---


def _judge_words(argv: Words, known: Spec, bench: Bench) -> Decision | None:
    """Each word by what the program's spec says that it is."""
    if known.anything:
        return None
    parsed = parse(known, argv[1:])
    if refused := _judge_options(argv, known, parsed, bench):
        return refused
    roles = _roles(known, parsed)
    for word, role in zip(parsed.operands, roles, strict=True):
        if refused := _judge_operand(word, role, bench):
            return _named(refused, argv)
    return None


def _judge_options(argv: Words, known: Spec, parsed: Parsed, bench: Bench) -> Decision | None:
    for name, value in parsed.options:
        if name in known.refused and not bench.free:
            return _refused("option_refused", argv, f"the option {name} may run or load something else")
        if not is_static(name) and not bench.free:
            return _refused("shell_dynamic", argv, f"the option {shown(name)} is only known when it runs")
        role = known.options.get(name, Role.GUESS)
        if value is not None and (refused := _judge_operand(value, role, bench)):
            return _named(refused, argv)
    if known.check is not None and not bench.free and (bad := known.check(parsed)):
        return _refused("option_refused", argv, f"{shown(bad)} is not allowed")
    risky = known.refused or any(role is Role.WRITE for role in known.options.values())
    bad = next(
        (word for word in parsed.unknown if risky and (is_unknown(word) or known.operands is not Role.READ)), None
    )
    if bad is not None and not bench.free and argv[0] not in ("grep", "rg", "wc", "ls"):
        return _refused("shell_dynamic", argv, f"{shown(bad)} may become an option; put ./ before it or name it")
    return None


def _roles(known: Spec, parsed: Parsed) -> list[Role]:
    roles = [known.operands] * len(parsed.operands)
    has_first = known.first is not None and not any(name in _NO_FIRST for name, _ in parsed.options)
    if roles and has_first and known.first is not None:
        roles[0] = known.first
    if (
        len(roles) > 1
        and known.last is not None
        and not any(name in ("-t", "--target-directory") for name, _ in parsed.options)
    ):
        roles[-1] = known.last
    return roles


def _judge_operand(word: str, role: Role, bench: Bench) -> Decision | None:
    if role is Role.GUESS:
        return _judge_guess(word, bench)
    return judge_path(word, role, bench)


def _judge_guessed(argv: Words, bench: Bench) -> Decision | None:
    """A program that a rule allows and that we do not know: its files must be readable, its words known."""
    for word in argv[1:]:
        if refused := _judge_guess(word, bench):
            return _named(refused, argv)
    return None


def _judge_guess(word: str, bench: Bench) -> Decision | None:
    """A file may hide behind the = of an option, behind a short option, a @, a : or file://."""
    if "://" in word and not word.startswith("file:"):
        return None
    for part in re.split(r"[=:,@]", word.replace("file://", "")):
        value = part[part.index("/") :] if part.startswith("-") and "/" in part else part
        if value.startswith("-"):
            continue
        if value.startswith("~/"):
            return Decision(
                False, "outside_worktree", f"{shown(value)} is in the home folder; stay inside of the worktree"
            )
        if refused := judge_path(value, Role.GUESS, bench):
            return refused
    return None


# --- git ---


def _judge_git(argv: Words, bench: Bench, *, allowed: bool) -> Decision | None:
    call = read_git(argv[1:])
    if call.refused and not is_static(call.refused) and not bench.free:
        return _refused("shell_dynamic", argv, "the subcommand is only known when it runs")
    if call.refused and not bench.free:
        return _refused("option_refused", argv, f"the option {shown(call.refused)} of git may change what runs")
    for folder in call.folders:
        if refused := judge_path(folder, Role.TREE, bench):
            return _named(refused, argv)
    if not is_static(call.subcommand):
        return None if bench.free else _refused("shell_dynamic", argv, "the subcommand is only known when it runs")
    if not allowed and not (call.subcommand in _FREE_GIT and _knows_git(bench)):
        return _refuse_unknown(argv, bench)
    if call.subcommand not in SUBCOMMANDS:
        return (
            None
            if allowed and _is_named(call, bench)
            else _refused("command_not_allowed", argv, "no subcommand of git")
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
        return _refused("option_refused", argv, f"{bad} may run a program or change what git runs")
    if call.subcommand == "config" and is_reading_config(parsed):
        return None
    short = (f"git {call.subcommand}", *call.words)
    for word in parsed.operands:
        for path in revisions(word):
            if refused := judge_path(path, Role.GUESS, bench):
                return _named(refused, argv)
    return _judge_words(short, known, bench)


# --- what is said ---


def _named(refused: Decision, argv: Words) -> Decision:
    return Decision(False, refused.rule, f"{_short(argv)}: {refused.details}")


def _refused(rule: str, argv: Words, why: str) -> Decision:
    return Decision(
        False, rule, f"{_short(argv)}: {why}.".replace("..", ".") if why.endswith(".") else f"{_short(argv)}: {why}."
    )


def _short(argv: Words) -> str:
    line = " ".join(shown(word) for word in argv).replace("\n", " ")
    return line if len(line) <= 120 else f"{line[:117]}…"
