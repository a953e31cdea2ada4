"""Rules by words: `git diff` allows git diff with whatever follows, and neither git difftool nor ./git diff."""

from __future__ import annotations

import re
from functools import lru_cache

from blueflame.rules.commands.git import read_git
from blueflame.rules.commands.programs import PYTHON, program_spec
from blueflame.rules.commands.spec import Spec, parse

_SYSTEM = re.compile(r"(?:/usr/local/s?bin|/usr/s?bin|/s?bin|/opt/homebrew/bin)/([^/]+)\Z")
_SAME = {
    ("npm", "t"): ("test",),
    ("npm", "tst"): ("test",),
    ("npm", "run-script"): ("run",),
    ("npm", "rum"): ("run",),
    ("pnpm", "t"): ("test",),
    ("pnpm", "run-script"): ("run",),
    ("cargo", "t"): ("test",),
    ("cargo", "b"): ("build",),
    ("cargo", "c"): ("check",),
    ("cargo", "r"): ("run",),
}
_SCRIPTS = frozenset(("npm", "yarn", "pnpm", "bun"))


def bare_name(name: str) -> str:
    """The name of a program that is given by its place in the system; any other path stays as it is."""
    m = _SYSTEM.match(name)
    return m[1] if m else name


@lru_cache(maxsize=4096)
def words_of(rule: str) -> tuple[str, ...]:
    return tuple(rule.split())


def is_allowed(argv: tuple[str, ...], rules: tuple[str, ...]) -> bool:
    """True when the words of a rule are the first words of the command, its options left aside."""
    forms = _forms(argv)
    return any(_begins(form, words_of(rule)) for rule in rules for form in forms)


def _begins(argv: tuple[str, ...], rule: tuple[str, ...]) -> bool:
    if not rule or len(argv) < len(rule):
        return False
    first = bare_name(rule[0])
    same = argv[0] == first or (PYTHON.match(argv[0]) is not None and PYTHON.match(first) is not None)
    return same and argv[1 : len(rule)] == rule[1:]


def _forms(argv: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The same command as it may stand in a rule."""
    forms = [argv]
    if argv[0] == "git":
        call = read_git(argv[1:])
        return [("git", call.subcommand, *call.words)]
    known = program_spec(argv[0], argv[1:])
    operands = parse(known or Spec(), argv[1:]).operands
    if known is not None:
        forms.append((argv[0], *operands))
    if same := _SAME.get((argv[0], operands[0] if operands else "")):
        forms.append((argv[0], *same, *operands[1:]))
    if argv[0] in _SCRIPTS and operands[:1] in (("run",), ("run-script",)):
        forms.append((argv[0], *operands[1:]))
    if PYTHON.match(argv[0]):
        forms.extend(_as_module(argv))
    elif argv[0] in ("pytest", "mypy", "ruff", "tox", "black", "flake8", "coverage", "unittest"):
        forms.append(("python", "-m", *argv))
    return forms


def _as_module(argv: tuple[str, ...]) -> list[tuple[str, ...]]:
    """python -m pytest is pytest; python's own harmless options count for nothing."""
    at = 1
    while at < len(argv) and re.fullmatch(r"-[bBdEIOOqsSuv]+|-X[a-z]+|-W[a-z]+", argv[at]):
        at += 1
    if argv[at : at + 1] == ("-m",) and len(argv) > at + 1:
        return [argv[at + 1 :], (argv[0], *argv[at:])]
    return [(argv[0], *argv[at:])]


def make_targets(rules: tuple[str, ...]) -> frozenset[str] | None:
    """The targets that rules name; None when a rule allows make as a whole."""
    ours = [words_of(rule) for rule in rules if words_of(rule)[:1] in (("make",), ("gmake",))]
    if not ours or any(len(rule) == 1 for rule in ours):
        return None
    return frozenset(word for rule in ours for word in rule[1:])
