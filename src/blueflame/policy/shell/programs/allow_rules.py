"""Match allow rules by words: `git diff` allows git diff with any arguments, but not git difftool or ./git diff."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from blueflame.policy.shell.marks import split_names
from blueflame.policy.shell.programs.git import parse_git_call
from blueflame.policy.shell.programs.spec import ProgramSpec, parse_arguments
from blueflame.policy.shell.programs.table import PYTHON, find_spec

_SYSTEM = re.compile(r"(?:/usr/local/s?bin|/usr/s?bin|/s?bin|/opt/homebrew/bin)/([^/]+)\Z")
_SYNONYMS = {
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
_SCRIPT_RUNNERS = frozenset(("npm", "yarn", "pnpm", "bun"))


def strip_system_path(name: str) -> str:
    """Return the bare name of a program in a system folder; any other path is kept."""
    m = _SYSTEM.match(name)
    return m[1] if m else name


@lru_cache(maxsize=4096)
def split_rule(rule: str) -> tuple[str, ...]:
    return tuple(rule.split())


def is_allowed(argv: tuple[str, ...], rules: tuple[str, ...]) -> bool:
    """Return whether a rule matches the first words of the command, without its options."""
    filed = _index_rules(rules)
    meant = ((form, rule) for form in _list_forms(argv) for rule in filed.get(_find_index_key(form[0]), ()))
    return any(_is_rule_match(form, rule) for form, rule in meant) or _is_allowed_as_module(argv, rules)


@lru_cache(maxsize=16)
def _index_rules(rules: tuple[str, ...]) -> Mapping[str, tuple[tuple[str, ...], ...]]:
    """Index the rules by program: a thousand rules take no longer than ten."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for rule in map(split_rule, rules):
        if rule:
            found.setdefault(_find_index_key(strip_system_path(rule[0])), []).append(rule)
    return {name: tuple(about) for name, about in found.items()}


def _find_index_key(name: str) -> str:
    return "python" if PYTHON.match(name) else name


def _is_allowed_as_module(argv: tuple[str, ...], rules: tuple[str, ...]) -> bool:
    """Return whether a rule for python -m MODULE allows the module by its name."""
    if argv[0] not in ("pytest", "mypy", "ruff", "tox", "black", "flake8", "coverage", "unittest"):
        return False
    return any(
        split_rule(rule)[1:2] == ("-m",) and _is_rule_match(("python", "-m", *argv), split_rule(rule)) for rule in rules
    )


def _is_rule_match(argv: tuple[str, ...], rule: tuple[str, ...]) -> bool:
    if not rule or len(argv) < len(rule):
        return False
    first = strip_system_path(rule[0])
    same = argv[0] == first or (PYTHON.match(argv[0]) is not None and PYTHON.match(first) is not None)
    return same and argv[1 : len(rule)] == rule[1:]


def _list_forms(argv: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the forms in which a rule may name the command."""
    forms = [argv]
    if argv[0] == "git":
        call = parse_git_call(argv[1:])
        return [("git", call.subcommand, *call.words)]
    known = find_spec(argv[0], argv[1:])
    operands = parse_arguments(known or ProgramSpec(), argv[1:]).operands
    if known is not None:
        forms.append((argv[0], *operands))
    if same := _SYNONYMS.get((argv[0], operands[0] if operands else "")):
        forms.append((argv[0], *same, *operands[1:]))
    if argv[0] in _SCRIPT_RUNNERS and operands[:1] in (("run",), ("run-script",)):
        forms.append((argv[0], *operands[1:]))
    if PYTHON.match(argv[0]):
        forms.extend(_list_module_forms(argv))
    return forms


def _list_module_forms(argv: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return `pytest` for python -m pytest, without python's harmless options."""
    at = 1
    while at < len(argv) and (argv[at] in ("-X", "-W") or re.fullmatch(r"-[bBdEIOPqRsSuv]+|-[XW]\w+", argv[at])):
        at += 2 if argv[at] in ("-X", "-W") else 1
    if argv[at : at + 1] == ("-m",) and len(argv) > at + 1:
        return [argv[at + 1 :], (argv[0], *argv[at:])]
    return [(argv[0], *argv[at:])]


NEEDS_OWN_RULE = {
    **dict.fromkeys(
        ("npm", "pnpm", "yarn", "bun"), split_names("exec x dlx create init explore node publish login unpublish")
    ),
    "cargo": split_names("install publish login owner yank"),
    "go": split_names("install generate get"),
    "git": split_names("push"),
}
"""Subcommands that run or publish anything: a rule for the program alone does not allow them."""


def is_missing_own_rule(argv: tuple[str, ...], rules: tuple[str, ...]) -> bool:
    """Return whether the subcommand must be named in a rule, and is not."""
    known = NEEDS_OWN_RULE.get(argv[0])
    asked = [word for word in argv[1:] if not word.startswith("-")][:1]
    if known is None or not asked or asked[0] not in known:
        return False
    return not any(split_rule(rule)[:2] == (argv[0], asked[0]) for rule in rules)


def list_make_targets(rules: tuple[str, ...]) -> frozenset[str] | None:
    """Return the targets that rules name; None if a rule allows all of make."""
    ours = [split_rule(rule) for rule in rules if split_rule(rule)[:1] in (("make",), ("gmake",))]
    if not ours or any(len(rule) == 1 for rule in ours):
        return None
    return frozenset(word for rule in ours for word in rule[1:])
