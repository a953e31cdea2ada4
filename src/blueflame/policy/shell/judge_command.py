"""Judges one simple command: what it is, what it runs inside, which rule allows it, what its words name."""

from __future__ import annotations

from dataclasses import replace

from blueflame.model.policy import Decision, Unreadable
from blueflame.policy.shell.blocked_patterns import blocked_by
from blueflame.policy.shell.builtin_effects import cd_target
from blueflame.policy.shell.judge_git import judge_git
from blueflame.policy.shell.judge_redirections import judge_assigned
from blueflame.policy.shell.judge_words import judge_guessed, judge_words
from blueflame.policy.shell.marks import is_static, is_unknown, shown
from blueflame.policy.shell.paths import Bench, judge_path
from blueflame.policy.shell.programs.allow_rules import bare_name, is_allowed, lacks_own_rule, make_targets
from blueflame.policy.shell.programs.builtins import CHECKED, PLAIN, REFUSED
from blueflame.policy.shell.programs.filters import FILTERS
from blueflame.policy.shell.programs.legacy_options import plain_words
from blueflame.policy.shell.programs.spec import Parsed, Role, Spec, parse
from blueflame.policy.shell.programs.table import PYTHON, program_spec
from blueflame.policy.shell.programs.wrappers import Inner, unwrap
from blueflame.policy.shell.refusals import Words, named, refuse_unknown, refused_for
from blueflame.policy.shell.state import join_place
from blueflame.policy.shell.word_lists import words

DEEPEST = 6
_SHELLS = words("sh bash dash ash")
_RUNNERS = words("uv poetry pipenv pdm rye bundle")
_STARTERS = words(
    "su runuser sg script flock watch parallel doas strace ltrace gdb setarch taskset chrt numactl systemd-run firejail"
    " proot fakeroot chroot unshare nsenter env exec"
)


def judge_command(argv: Words, feed: Words | None, bench: Bench) -> Decision | None:
    """None when the command may run."""
    if bench.depth > DEEPEST:
        return refused_for("wrapper_refused", argv, "it is wrapped too often to be followed")
    name = argv[0]
    if is_unknown(name) or not is_static(name):
        return (
            None
            if bench.free
            else refused_for("shell_dynamic", argv, "the name of the command is only known when it runs")
        )
    argv = (bare_name(name), *plain_words(bare_name(name), argv[1:]))
    if pattern := blocked_by(argv, bench.policy.blocked_patterns):
        return refused_for("command_blocked", argv, f"the pattern {pattern} refuses it")
    if argv[0] in _STARTERS and (pattern := _blocked_inside(argv, bench)):
        return refused_for("command_blocked", argv, f"the pattern {pattern} refuses what it starts")
    inner = unwrap(argv, feed)
    rules = bench.policy.allowed_commands
    allowed = bench.free or (is_allowed(argv, rules) and not lacks_own_rule(argv, rules))
    if inner is not None:
        return _judge_inner(argv, inner, bench, allowed=allowed)
    if "/" in argv[0] and not argv[0].startswith("/") and bench.places != ("",) and not bench.free:
        return refused_for(
            "command_not_allowed", argv, "a rule with a path means the one at the top; run it from there"
        )
    if _is_outside(argv, bench, Role.TREE if allowed else Role.LOOK):
        return refused_for("outside_worktree", argv, "a cd before it may lead out of the worktree; use cd … && …")
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
        if argv[0] in _SHELLS and inner.script is None and not allowed and not inner.refused.startswith("text"):
            return refuse_unknown(argv, bench.policy)
        rule = "option_refused" if argv[0] == "find" and inner.refused.startswith("-") else "wrapper_refused"
        return refused_for(rule, argv, f"{inner.refused} of {argv[0]} is not allowed")
    for name, value in inner.assigned:
        if refused := judge_assigned(name, value, bench):
            return refused
    for path in inner.looked:
        if refused := judge_path(path, Role.LOOK, bench):
            return named(refused, argv)
    if argv[0] == "env" and not inner.argvs and not allowed:
        return refuse_unknown(argv, bench.policy)  # it would print the environment
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
    from blueflame.policy.shell.judge import judge_script  # the two halves of one recursion

    if bench.parse is None or bench.depth > DEEPEST:
        return refused_for(
            "wrapper_refused", argv, "write the commands directly instead of giving them to a shell as text"
        )
    try:
        tree = bench.parse(script)
    except Unreadable as problem:
        return refused_for("shell_unreadable", argv, f"its text cannot be read: {problem}")
    return judge_script(script, tree, bench)


# --- by name ---


def _judge_by_name(argv: Words, bench: Bench, *, allowed: bool) -> Decision | None:
    name, words = argv[0], argv[1:]
    if name in ("cd", "pushd", "popd"):
        return _judge_cd(argv, bench)
    if name in REFUSED:
        if bench.free:
            return _judge_replaced(argv, bench)
        return refused_for("shell_construct", argv, f"{name} cannot be followed beforehand")
    if name in PLAIN:
        return None
    if name in CHECKED:
        bad = CHECKED[name](words)
        return None if bad is None or bench.free else refused_for("option_refused", argv, f"{shown(bad)} of {name}")
    if name == "git":
        return judge_git(argv, bench, allowed=allowed)
    if name in FILTERS and not allowed:
        return judge_words(argv, FILTERS[name], bench)
    if not allowed:
        return refuse_unknown(argv, bench.policy)
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
        return refused_for(
            "shell_dynamic", argv, "where it leads is not known beforehand; name a folder of the worktree"
        )
    if bench.places is None:
        return refused_for("shell_dynamic", argv, "nobody knows where the shell is by then; use (cd FOLDER && …)")
    verdicts = [
        judge_path(join_place(place, target), Role.LOOK, replace(bench, places=("",))) for place in bench.places
    ]
    # some of the places are only there if an earlier cd failed: what runs next is judged from all of them
    return named(verdicts[0], argv) if all(verdicts) and verdicts[0] else None


def _judge_allowed(argv: Words, bench: Bench) -> Decision | None:
    name, words = argv[0], argv[1:]
    if PYTHON.match(name) and (module := _module(words)):
        return _judge_module(argv, module, bench)
    known = program_spec(name, words)
    if refused := _judge_targets(argv, bench):
        return refused
    return judge_words(argv, known, bench) if known else judge_guessed(argv, bench)


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
        return refused_for("command_blocked", argv, f"the pattern {pattern} refuses it")
    known = program_spec(module[0], module[1:])
    return judge_words(module, known, bench) if known else judge_guessed(module, bench)


def _judge_targets(argv: Words, bench: Bench) -> Decision | None:
    """Where rules name targets of make, no other target may ride along."""
    if argv[0] not in ("make", "gmake") or bench.free:
        return None
    targets = make_targets(bench.policy.allowed_commands)
    if targets is None:
        return None
    asked = [word for word in parse_words(argv).operands if "=" not in word]
    bad = next((word for word in asked if word not in targets), None)
    return None if bad is None else refused_for("command_not_allowed", argv, f"no rule allows the target {shown(bad)}")


def parse_words(argv: Words) -> Parsed:
    known = program_spec(argv[0], argv[1:])
    return parse(known or Spec(), argv[1:])
