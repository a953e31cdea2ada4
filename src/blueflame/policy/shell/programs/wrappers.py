"""Programs that run another command which they are given: what that command is."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from blueflame.policy.shell.marks import LOOSE, UNKNOWN, is_static
from blueflame.policy.shell.programs.listers import FIND_VALUES, find_roots, listed
from blueflame.policy.shell.programs.spec import Spec, spec
from blueflame.policy.shell.word_lists import words

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """What a wrapper runs. `looked` are files that it looks at itself; `refused` says why it cannot be seen through."""

    argvs: tuple[Words, ...] = ()
    assigned: tuple[tuple[str, str], ...] = ()
    looked: Words = ()
    written: Words = ()
    script: str | None = None  # text that it reads as shell commands
    refused: str = ""


def unwrap(argv: Words, feed: Words | None) -> Inner | None:
    """The commands inside of this one; None when it is not a wrapper."""
    how = WRAPPERS.get(argv[0])
    return how(argv, feed) if how else None


def _after_options(known: Spec, words: Words) -> tuple[Words, str]:
    """The words from the first operand on; and an option that nobody knows here."""
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


def _plain(known: Spec, skip: int = 0) -> Callable[[Words, Words | None], Inner]:
    """A wrapper of the common kind: options, `skip` words of its own, then the command."""

    def read(argv: Words, _: Words | None) -> Inner:
        rest, unknown = _after_options(known, argv[1:])
        if unknown:
            return Inner(refused=f"the option {unknown}")
        if any(not is_static(word) for word in rest[:skip]):
            return Inner(refused="a word that is only known when it runs")
        return Inner(argvs=(rest[skip:],) if rest[skip:] else ())

    return read


def _env(argv: Words, _: Words | None) -> Inner:
    rest, unknown = _after_options(spec(text="-u --unset", flags="-i --ignore-environment -0 --null"), argv[1:])
    if unknown:
        return Inner(refused=f"the option {unknown}")
    assigned: list[tuple[str, str]] = []
    while rest and "=" in rest[0]:
        name, value = rest[0].split("=", 1)
        assigned.append((name, value))
        rest = rest[1:]
    return Inner(argvs=(rest,) if rest else (), assigned=tuple(assigned))


def _command(argv: Words, _: Words | None) -> Inner:
    if len(argv) > 1 and argv[1] in ("-v", "-V"):
        return Inner()
    rest = argv[2:] if argv[1:2] == ("-p",) else argv[1:]
    if rest and rest[0].startswith("-") and rest[0] != "--":
        return Inner(refused=f"the option {rest[0]}")
    rest = rest[1:] if rest[:1] == ("--",) else rest
    return Inner(argvs=(rest,) if rest else ())


_XARGS = spec(
    text="-n -P -L -s -d -E --max-args --max-procs --max-lines --max-chars --delimiter --eof",
    flags="-0 -r -t -x --null --no-run-if-empty --verbose --exit -i -l -e",
)


def _xargs(argv: Words, feed: Words | None) -> Inner:
    """Its command gets words from elsewhere: known only if a listing of files is piped into it."""
    words, replaced = _xargs_replacement(argv[1:])
    rest, unknown = _after_options(_XARGS, words)
    if unknown:
        return Inner(refused=f"the option {unknown}")
    rest = rest or ("echo",)
    if replaced:
        if replaced in rest[0]:
            return Inner(refused="a command that it reads from its input")
        names = feed or (UNKNOWN,)
        return Inner(argvs=tuple(tuple(word.replace(replaced, name) for word in rest) for name in names[:16]))
    return Inner(argvs=((*rest, *(feed or (LOOSE,))),))


def _xargs_replacement(words: Words) -> tuple[Words, str]:
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


_FIND_REFUSED = words("-delete -fprint -fprint0 -fls -fprintf -files0-from -ok -okdir -execdir")


def _find(argv: Words, _: Words | None) -> Inner:
    roots, expression = find_roots(argv[1:])
    if any(_may_be_option(expression, at) for at in range(len(expression))):
        return Inner(refused="a word that is only known when it runs")
    if bad := next((word for word in expression if word in _FIND_REFUSED), None):
        return Inner(refused=f"{bad}")
    names = listed(("find", *roots, *_without_exec(expression)), None) or (UNKNOWN,)
    commands: list[Words] = []
    for at, word in enumerate(expression):
        if word == "-exec":
            command = _until_end(expression[at + 1 :])
            if command and "{}" in command[0]:
                return Inner(refused="-exec of what it finds")
            commands.extend(tuple(each.replace("{}", name) for each in command) for name in names[:16])
    files = tuple(
        expression[at + 1]
        for at, word in enumerate(expression[:-1])
        if word in ("-newer", "-anewer", "-cnewer", "-samefile")
    )
    return Inner(argvs=tuple(commands), looked=(*roots, *files))


def _may_be_option(expression: Words, at: int) -> bool:
    word = expression[at]
    if LOOSE in word:
        return True
    return word[:1] == UNKNOWN and not (at and expression[at - 1] in FIND_VALUES)


def _until_end(words: Words) -> Words:
    for at, word in enumerate(words):
        if word == ";" or (word == "+" and at and words[at - 1] == "{}"):
            return words[:at]
    return words


def _without_exec(expression: Words) -> Words:
    if "-exec" not in expression:
        return expression
    at = expression.index("-exec")
    command = _until_end(expression[at + 1 :])
    return (*expression[:at], *_without_exec(expression[at + len(command) + 2 :]))


_SHELL_FLAGS = re.compile(r"[-+][abefhklmnpruvxBCEHPT]*\Z|--(?:norc|noprofile|posix|login)\Z")
_SHELL_TEXT = re.compile(r"-[a-zA-Z]*c[a-zA-Z]*\Z")


def _shell(argv: Words, _: Words | None) -> Inner | None:
    """sh -c TEXT. A script is not a wrapper but needs a rule of its own; a shell that reads its input is refused."""
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
        known = bool(words) and is_static(words[0])
        return Inner(script=words[0]) if known else Inner(refused="text that is only known when it runs")
    if not words or words[0].startswith(("-", "+")):
        return None if words == ["--version"] else Inner(refused="commands from its input or a file of its own")
    return None


_UV = spec(
    text="--extra --group --only-group --no-group -p --python --package",
    flags="-q --quiet --frozen --locked --no-sync --offline --all-extras --all-groups --dev --no-dev --exact --isolated"
    " --no-progress -v --verbose --active --no-project",
)


def _runner(verb: str, known: Spec) -> Callable[[Words, Words | None], Inner | None]:
    """uv run CMD and its like."""

    def read(argv: Words, _: Words | None) -> Inner | None:
        if argv[1:2] != (verb,):
            return None
        rest, unknown = _after_options(known, argv[2:])
        if unknown == "-m":
            at = argv.index("-m")
            return Inner(argvs=(("python", *argv[at:]),))
        if unknown:
            return Inner(refused=f"the option {unknown}")
        if any("/" in word for word in argv[2 : len(argv) - len(rest)]):
            return Inner(refused="an option with a path")
        if rest and rest[0].endswith(".py") and is_static(rest[0]):
            rest = ("python", *rest)
        return Inner(argvs=(rest,) if rest else (), refused="" if rest else "nothing to run")

    return read


def _applet(argv: Words, _: Words | None) -> Inner:
    return Inner(argvs=(argv[1:],)) if argv[1:] and not argv[1].startswith("-") else Inner(refused="no applet")


WRAPPERS: dict[str, Callable[[Words, Words | None], Inner | None]] = {
    "env": _env,
    "command": _command,
    "builtin": _plain(spec()),
    "timeout": _plain(
        spec(text="-k -s --kill-after --signal", flags="--preserve-status --foreground -v --verbose -f -p"), skip=1
    ),
    "nohup": _plain(spec()),
    "nice": _plain(spec(text="-n --adjustment", flags="-1 -5")),
    "ionice": _plain(spec(text="-c -n --class --classdata", flags="-t --ignore")),
    "time": _plain(spec(text="-f --format", flags="-p --portability -v --verbose -q --quiet")),
    "stdbuf": _plain(spec(text="-i -o -e --input --output --error")),
    "setsid": _plain(spec(flags="-w --wait -f --fork -c --ctty")),
    "unbuffer": _plain(spec(flags="-p")),
    "xvfb-run": _plain(spec(flags="-a --auto-servernum")),
    "busybox": _applet,
    "toybox": _applet,
    "xargs": _xargs,
    "find": _find,
    "sh": _shell,
    "bash": _shell,
    "dash": _shell,
    "ash": _shell,
    "uv": _runner("run", _UV),
    "poetry": _runner("run", spec()),
    "pipenv": _runner("run", spec()),
    "pdm": _runner("run", spec(flags="-s")),
    "rye": _runner("run", spec()),
    "bundle": _runner("exec", spec()),
}
