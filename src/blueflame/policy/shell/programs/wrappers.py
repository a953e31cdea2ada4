"""Programs that run another command: find that command."""

from __future__ import annotations

import re
from collections.abc import Callable

from blueflame.lazy_dataclass import dataclass
from blueflame.policy.shell.marks import LOOSE, MARKS, PIPE, UNKNOWN, is_static, split_names
from blueflame.policy.shell.programs.listers import FIND_VALUES, list_printed_names, split_find
from blueflame.policy.shell.programs.spec import ProgramSpec, build_spec

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedCommand:
    """What a wrapper runs. `looked` are files that it inspects; `refused` is why a list of commands cannot allow it."""

    argvs: tuple[Words, ...] = ()
    assigned: tuple[tuple[str, str], ...] = ()
    looked: Words = ()
    script: str | None = None  # text that it runs as shell commands
    refused: str = ""


def unwrap_command(argv: Words, feed: Words | None) -> WrappedCommand | None:
    """Return the commands that this one runs; None if it is not a wrapper."""
    how = WRAPPERS.get(argv[0])
    return how(argv, feed) if how else None


def _skip_options(known: ProgramSpec, words: Words) -> tuple[Words, str]:
    """Return the words from the first operand on, and the first unknown option."""
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            return words[at + 1 :], ""
        if not is_static(word):
            return words[at:], "" if not word.startswith("-") and word[0] not in (UNKNOWN, LOOSE) else word
        if not word.startswith("-") or word == "-":
            return words[at:], ""
        name = word.split("=", 1)[0] if word.startswith("--") else word[:2]
        if name in known.refused or (name not in known.options and name not in known.flags):
            return (), word
        at += 2 if name in known.options and word == name else 1
    return (), ""


def _build_unwrapper(known: ProgramSpec, skip: int = 0) -> Callable[[Words, Words | None], WrappedCommand]:
    """Build the reader of a simple wrapper: options, `skip` operands, then the command."""

    def read(argv: Words, _: Words | None) -> WrappedCommand:
        rest, unknown = _skip_options(known, argv[1:])
        if unknown:
            return WrappedCommand(refused=f"the option {unknown}")
        if any(not is_static(word) for word in rest[:skip]):
            return WrappedCommand(refused="a word that is only known when it runs")
        return WrappedCommand(argvs=(rest[skip:],) if rest[skip:] else ())

    return read


def _unwrap_env(argv: Words, _: Words | None) -> WrappedCommand:
    rest, unknown = _skip_options(build_spec(text="-u --unset", flags="-i --ignore-environment -0 --null"), argv[1:])
    if unknown:
        return WrappedCommand(refused=f"the option {unknown}")
    assigned: list[tuple[str, str]] = []
    while rest and "=" in rest[0]:
        name, value = rest[0].split("=", 1)
        assigned.append((name, value))
        rest = rest[1:]
    return WrappedCommand(argvs=(rest,) if rest else (), assigned=tuple(assigned))


def _unwrap_builtin(argv: Words, _: Words | None) -> WrappedCommand:
    if len(argv) > 1 and argv[1] in ("-v", "-V"):
        return WrappedCommand()
    rest = argv[2:] if argv[1:2] == ("-p",) else argv[1:]
    if rest and rest[0].startswith("-") and rest[0] != "--":
        return WrappedCommand(refused=f"the option {rest[0]}")
    rest = rest[1:] if rest[:1] == ("--",) else rest
    return WrappedCommand(argvs=(rest,) if rest else ())


_XARGS_OPTIONS = build_spec(
    text="-n -P -L -s -d -E --max-args --max-procs --max-lines --max-chars --delimiter --eof",
    flags="-0 -r -t -x --null --no-run-if-empty --verbose --exit -i -l -e",
)


def _unwrap_xargs(argv: Words, feed: Words | None) -> WrappedCommand:
    """Unwrap xargs, whose words are known only if a list of files is piped into it."""
    words, replaced = _split_replacement(argv[1:])
    rest, unknown = _skip_options(_XARGS_OPTIONS, words)
    if unknown:
        return WrappedCommand(refused=f"the option {unknown}")
    rest = rest or ("echo",)
    if replaced:
        if replaced in rest[0]:
            return WrappedCommand(refused="a command that it reads from its input")
        names = feed or (UNKNOWN,)
        return WrappedCommand(argvs=tuple(tuple(word.replace(replaced, name) for word in rest) for name in names[:16]))
    return WrappedCommand(argvs=((*rest, *(feed or (LOOSE,))),))


def _split_replacement(words: Words) -> tuple[Words, str]:
    for at, word in enumerate(words):
        if not word.startswith("-"):
            break
        if word == "-I" and at + 1 < len(words):
            return (*words[:at], *words[at + 2 :]), words[at + 1]
        if word.startswith(("-I", "--replace=")):
            return (*words[:at], *words[at + 1 :]), word[2:] if word.startswith("-I") else word[10:]
        if word in ("--replace", "-i"):
            return (*words[:at], *words[at + 1 :]), "{}"
    return words, ""


_FIND_REFUSED = split_names("-delete -fprint -fprint0 -fls -fprintf -files0-from -ok -okdir -execdir")
_FIND_CHANGES = frozenset(("-delete", "-execdir"))
"""Refused by a list of commands, judged by what they do under `@everyday`."""


def _unwrap_find(argv: Words, _: Words | None) -> WrappedCommand:
    roots, expression = split_find(argv[1:])
    if any(_can_be_option(expression, at) for at in range(len(expression))):
        return WrappedCommand(refused="a word that is only known when it runs")
    if bad := next((word for word in expression if word in _FIND_REFUSED - _FIND_CHANGES), None):
        return WrappedCommand(refused=bad)
    names = list_printed_names(("find", *roots, *_drop_exec(expression)), None) or (UNKNOWN,)
    commands: list[Words] = []
    for at, word in enumerate(expression):
        if word in ("-exec", "-execdir"):
            command = _take_exec_command(expression[at + 1 :])
            if command and "{}" in command[0]:
                return WrappedCommand(refused="-exec of what it finds")
            commands.extend(tuple(each.replace("{}", name) for each in command) for name in names[:16])
        elif word == "-delete":
            commands.extend(("rm", name) for name in names[:16])
    files = tuple(
        expression[at + 1]
        for at, word in enumerate(expression[:-1])
        if word in ("-newer", "-anewer", "-cnewer", "-samefile")
    )
    changes = next((word for word in expression if word in _FIND_CHANGES), "")
    return WrappedCommand(argvs=tuple(commands), looked=(*roots, *files), refused=changes)


def _can_be_option(expression: Words, at: int) -> bool:
    word = expression[at]
    if LOOSE in word:
        return True
    return word[:1] == UNKNOWN and not (at and expression[at - 1] in FIND_VALUES)


def _take_exec_command(words: Words) -> Words:
    for at, word in enumerate(words):
        if word == ";" or (word == "+" and at and words[at - 1] == "{}"):
            return words[:at]
    return words


def _drop_exec(expression: Words) -> Words:
    if "-exec" not in expression:
        return expression
    at = expression.index("-exec")
    command = _take_exec_command(expression[at + 1 :])
    return (*expression[:at], *_drop_exec(expression[at + len(command) + 2 :]))


_SHELL_FLAGS = re.compile(r"[-+][abefhklmnpruvxBCEHPT]*\Z|--(?:norc|noprofile|posix|login)\Z")
_SHELL_TEXT = re.compile(r"-[a-zA-Z]*c[a-zA-Z]*\Z")


def _unwrap_shell(argv: Words, _: Words | None) -> WrappedCommand | None:
    """Unwrap sh -c TEXT. A script file needs its own rule; a shell that reads its input is refused."""
    words = list(argv[1:])
    reads_text = False
    while words:
        if words[0] in ("-o", "+o", "-O", "+O"):
            words = words[2:]
        elif _SHELL_TEXT.match(words[0]):
            reads_text = True
            words.pop(0)
        elif words[0] != "-" and _SHELL_FLAGS.match(words[0]):
            words.pop(0)
        else:
            break
    if reads_text:
        if words and is_static(words[0]):
            return WrappedCommand(script=words[0])
        partly = words[0] if words and not MARKS.issuperset(words[0]) else None
        return WrappedCommand(refused="text that is only known when it runs", script=partly)
    if not words or words[0].startswith(("-", "+", PIPE)):
        return None if words == ["--version"] else WrappedCommand(refused="commands from its input or its own file")
    return None


_UV_OPTIONS = build_spec(
    text="--extra --group --only-group --no-group -p --python --package",
    flags="-q --quiet --frozen --locked --no-sync --offline --all-extras --all-groups --dev --no-dev --exact --isolated"
    " --no-progress -v --verbose --active --no-project",
)


def _build_runner(verb: str, known: ProgramSpec) -> Callable[[Words, Words | None], WrappedCommand | None]:
    """Build the reader of `uv run CMD` and the like."""

    def read(argv: Words, _: Words | None) -> WrappedCommand | None:
        if argv[1:2] != (verb,):
            return None
        rest, unknown = _skip_options(known, argv[2:])
        if unknown == "-m":
            at = argv.index("-m")
            return WrappedCommand(argvs=(("python", *argv[at:]),))
        if unknown:
            return WrappedCommand(refused=f"the option {unknown}")
        if any("/" in word for word in argv[2 : len(argv) - len(rest)]):
            return WrappedCommand(refused="an option with a path")
        if rest and rest[0].endswith(".py") and is_static(rest[0]):
            rest = ("python", *rest)
        return WrappedCommand(argvs=(rest,) if rest else (), refused="" if rest else "nothing to run")

    return read


def _unwrap_applet(argv: Words, _: Words | None) -> WrappedCommand:
    if argv[1:] and not argv[1].startswith("-"):
        return WrappedCommand(argvs=(argv[1:],))
    return WrappedCommand(refused="no applet")


WRAPPERS: dict[str, Callable[[Words, Words | None], WrappedCommand | None]] = {
    "env": _unwrap_env,
    "command": _unwrap_builtin,
    "builtin": _build_unwrapper(build_spec()),
    "timeout": _build_unwrapper(
        build_spec(text="-k -s --kill-after --signal", flags="--preserve-status --foreground -v --verbose -f -p"),
        skip=1,
    ),
    "nohup": _build_unwrapper(build_spec()),
    "nice": _build_unwrapper(build_spec(text="-n --adjustment", flags="-1 -5")),
    "ionice": _build_unwrapper(build_spec(text="-c -n --class --classdata", flags="-t --ignore")),
    "time": _build_unwrapper(build_spec(text="-f --format", flags="-p --portability -v --verbose -q --quiet")),
    "stdbuf": _build_unwrapper(build_spec(text="-i -o -e --input --output --error")),
    "setsid": _build_unwrapper(build_spec(flags="-w --wait -f --fork -c --ctty")),
    "unbuffer": _build_unwrapper(build_spec(flags="-p")),
    "xvfb-run": _build_unwrapper(build_spec(flags="-a --auto-servernum")),
    "busybox": _unwrap_applet,
    "toybox": _unwrap_applet,
    "xargs": _unwrap_xargs,
    "find": _unwrap_find,
    "sh": _unwrap_shell,
    "bash": _unwrap_shell,
    "dash": _unwrap_shell,
    "ash": _unwrap_shell,
    "uv": _build_runner("run", _UV_OPTIONS),
    "poetry": _build_runner("run", build_spec()),
    "pipenv": _build_runner("run", build_spec()),
    "pdm": _build_runner("run", build_spec(flags="-s")),
    "rye": _build_runner("run", build_spec()),
    "bundle": _build_runner("exec", build_spec()),
}
