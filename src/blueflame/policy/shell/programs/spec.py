"""Parse the arguments of a program: options with values, operands, and the role of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import Enum

from blueflame.lazy_dataclass import dataclass
from blueflame.policy.shell.marks import ANY, LOOSE, ONE, UNKNOWN, is_static


class WordRole(Enum):
    """What a program does with a word."""

    TEXT = "text"  # nothing to judge
    GUESS = "guess"  # a file if it looks like one
    READ = "read"  # a file whose content is shown
    SEARCH = "search"  # a file that is searched or counted
    LOOK = "look"  # a file of which only the name and size matter
    PATTERN = "pattern"  # names of files to search in
    TREE = "tree"  # a folder whose build files run: it must be in the worktree
    WRITE = "write"  # a file that is made, changed or removed


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSpec:
    """The arguments of a program. `first` and `last` are roles of operands that differ from the others.

    `options` take a value; `flags` are short options that take one only if it is attached.
    `anything`: every argument is harmless.
    """

    operands: WordRole = WordRole.GUESS
    first: WordRole | None = None
    last: WordRole | None = None
    after: WordRole | None = None  # of operands after `--`
    options: Mapping[str, WordRole] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    long_dash: bool = False  # options of one dash are words, as in go and find
    anything: bool = False
    restores: bool = False  # it writes older content over files, as `git restore` does
    check: Callable[[ParsedArguments], str | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedArguments:
    """`options` in order, with the value or None; `unknown` are words that may become options."""

    options: tuple[tuple[str, str | None], ...] = ()
    operands: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    after: int = 0  # how many of the operands are after `--`


def build_spec(
    operands: WordRole = WordRole.GUESS,
    *,
    first: WordRole | None = None,
    last: WordRole | None = None,
    after: WordRole | None = None,
    text: str = "",
    guess: str = "",
    read: str = "",
    look: str = "",
    tree: str = "",
    pattern: str = "",
    write: str = "",
    refused: str = "",
    flags: str = "",
    long_dash: bool = False,
    anything: bool = False,
    restores: bool = False,
    check: Callable[[ParsedArguments], str | None] | None = None,
) -> ProgramSpec:
    """Build a spec from lists of options, separated by blanks."""
    lists = {
        WordRole.TEXT: text,
        WordRole.GUESS: guess,
        WordRole.READ: read,
        WordRole.LOOK: look,
        WordRole.TREE: tree,
        WordRole.PATTERN: pattern,
        WordRole.WRITE: write,
    }
    return ProgramSpec(
        operands=operands,
        after=after,
        restores=restores,
        first=first,
        last=last,
        options={name: role for role, names in lists.items() for name in names.split()},
        flags=frozenset(flags.split()),
        refused=frozenset(refused.split()),
        long_dash=long_dash,
        anything=anything,
        check=check,
    )


def parse_arguments(spec: ProgramSpec, words: tuple[str, ...]) -> ParsedArguments:
    """Split the words after the program's name into options and operands, abbreviated options completed."""
    options: list[tuple[str, str | None]] = []
    operands: list[str] = []
    unknown: list[str] = []
    after = 0
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            operands.extend(rest)
            after = len(rest)
            break
        if word[:1] in (UNKNOWN, LOOSE, ANY, ONE):  # may begin with a dash, or match a file named like an option
            unknown.append(word)
            operands.append(word)
        elif not word.startswith("-") or word == "-":
            operands.append(word)
        elif word.startswith("--") or (spec.long_dash and not _is_bundle(spec, word)):
            options.append(_parse_long(spec, word, rest))
        else:
            options.extend(_parse_short(spec, word, rest))
    return ParsedArguments(options=tuple(options), operands=tuple(operands), unknown=tuple(unknown), after=after)


def _is_bundle(spec: ProgramSpec, word: str) -> bool:
    return word[:2] in spec.options and word not in spec.options and "=" not in word


def _parse_long(spec: ProgramSpec, word: str, rest: list[str]) -> tuple[str, str | None]:
    name, equals, value = word.partition("=")
    name = complete_option(spec, name)
    if equals:
        return name, value
    if name in spec.options and rest:
        return name, rest.pop(0)
    return name, None


def complete_option(spec: ProgramSpec, name: str) -> str:
    """Complete an abbreviated option; to the most dangerous one if several fit."""
    if name in spec.refused or name in spec.options or not is_static(name) or len(name) < 3 or name[1] != "-":
        return name
    begun = [each for each in (*sorted(spec.refused), *spec.options) if each.startswith(name)]
    return begun[0] if begun else name


def _parse_short(spec: ProgramSpec, word: str, rest: list[str]) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    for at, letter in enumerate(word[1:], start=1):
        name = f"-{letter}"
        attached = word[at + 1 :]
        if name in spec.options:
            found.append((name, attached.removeprefix("=") if attached else (rest.pop(0) if rest else None)))
            return found
        if name in spec.flags or not letter.isalnum():
            found.append((name, attached or None))
            return found
        found.append((name, None))
    return found
