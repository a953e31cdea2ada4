"""What builtins do to the shell itself: the folder it is in, its variables, its options."""

from __future__ import annotations

from collections.abc import Iterable

from blueflame.policy.shell.marks import ANY, HOME, LOOSE, ONE, PIPE, UNKNOWN, is_static
from blueflame.policy.shell.state import ShellState, join_cwd, merge_cwds

_UNFIT = frozenset((UNKNOWN, LOOSE, ANY, ONE, HOME, PIPE))


def apply_builtin(argvs: list[tuple[str, ...]], state: ShellState) -> None:
    """Changes the state as the command does that may have any of these words."""
    names = {_find_builtin_name(argv) for argv in argvs if argv}
    if names & {"cd", "pushd", "popd"}:
        _apply_cd(argvs, state)
    for argv in argvs:
        _apply_variables(_strip_prefixes(argv), state)


def _strip_prefixes(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Without the words that only say that a builtin is meant."""
    while len(argv) > 1 and argv[0] in ("command", "builtin"):
        argv = argv[1:]
    return argv


def _find_builtin_name(argv: tuple[str, ...]) -> str:
    bare = _strip_prefixes(argv)
    return bare[0] if bare else ""


def _apply_cd(argvs: list[tuple[str, ...]], state: ShellState) -> None:
    before, stack = state.cwds, state.stack
    cwds: tuple[str, ...] | None = ()
    for argv in argvs:
        cwds = merge_cwds(cwds, _find_destinations(_strip_prefixes(argv), state))
    state.change_folder(cwds)
    if all(_find_builtin_name(argv) == "pushd" for argv in argvs):
        state.stack = (*stack, before)[-20:]
    elif any(_find_builtin_name(argv) == "popd" for argv in argvs):
        state.stack = stack[:-1]


def _find_destinations(argv: tuple[str, ...], state: ShellState) -> tuple[str, ...] | None:
    if argv[0] == "popd":
        return state.stack[-1] if state.stack and len(argv) == 1 else None
    target = find_cd_target(argv)
    if argv[0] not in ("cd", "pushd") or target is None or state.cwds is None:
        return None
    return tuple(dict.fromkeys(join_cwd(cwd, target) for cwd in state.cwds))


def find_cd_target(argv: tuple[str, ...]) -> str | None:
    """Where `cd` goes; None when nobody can say."""
    words = [word for word in argv[1:] if word not in ("-P", "-L", "--", "-e")]
    if len(words) != 1 or words[0].startswith(("-", "+")) or not words[0] or not _UNFIT.isdisjoint(words[0]):
        return None
    return words[0]


def _apply_variables(argv: tuple[str, ...], state: ShellState) -> None:
    """Builtins that set variables by name."""
    if not argv:
        return
    if argv[0] in ("read", "mapfile", "readarray", "getopts", "unset", "wait") or argv[:2] == ("printf", "-v"):
        _forget_variables((*argv[1:], "REPLY"), state)
        names = [word for word in argv[1:] if not word.startswith("-")]
        if argv[0] == "read" and len(names) == 1 and state.feed:
            state.variables[names[0]] = state.feed  # one line of the listing
    elif argv[0] == "set":
        _apply_set(argv, state)
    elif argv[0] in ("eval", "source", ".", "trap", "alias", "shopt", "enable", "hash"):
        state.variables = dict.fromkeys(state.variables)
        state.cwds = state.cwds_on_success = None


def _forget_variables(words: Iterable[str], state: ShellState) -> None:
    for word in words:
        if is_static(word):
            state.variables[word.split("[")[0]] = None
        else:
            state.variables = dict.fromkeys(state.variables)


def _apply_set(argv: tuple[str, ...], state: ShellState) -> None:
    named = ""  # -o or +o, whose name follows
    for word in argv[1:]:
        if named:
            state.careful = named == "-" if word == "errexit" else state.careful
            named = ""
        elif word == "--" or not word.startswith(("-", "+")):
            return
        else:
            state.careful = word.startswith("-") if "e" in word else state.careful
            named = word[0] if word.endswith("o") else ""


def apply_declaration(variant: str, argv: list[str], state: ShellState, names: list[str]) -> None:
    """declare -i and its like make sums of values: such a variable holds nothing that we know."""
    if variant != "export" or len(argv) > 1:
        for name in names:
            state.variables[name] = None
