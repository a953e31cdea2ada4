"""Rewrite options in older forms to the usual form."""

from __future__ import annotations

import re

from blueflame.policy.shell.programs.table import PYTHON


def normalise_options(name: str, words: tuple[str, ...]) -> tuple[str, ...]:
    """Rewrite options such as tar xfC, dd of= and python -Im."""
    if name in ("tar", "bsdtar") and words and re.fullmatch(r"[A-Za-z]+", words[0]):
        return _normalise_tar(words)
    if name == "dd":
        return tuple(f"--{word}" if word.startswith(("if=", "of=")) else word for word in words)
    if name == "jq":
        return _normalise_jq(words)
    if PYTHON.match(name):
        return _normalise_python(words)
    return words


def _normalise_tar(words: tuple[str, ...]) -> tuple[str, ...]:
    """Letters without a dash take their values in order from the words that follow."""
    found: list[str] = []
    rest = list(words[1:])
    for letter in words[0]:
        found.append(f"-{letter}")
        if letter in "bfCHgTXIFLVKN" and rest:
            found.append(rest.pop(0))
    return (*found, *rest)


def _normalise_jq(words: tuple[str, ...]) -> tuple[str, ...]:
    """Join options of jq that take a name and a value: only the value matters."""
    found: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in ("--arg", "--argjson", "--slurpfile", "--rawfile", "--argfile") and len(rest) > 1:
            word = f"{word}={rest[1]}"
            rest = rest[2:]
        found.append(word)
    return tuple(found)


def _normalise_python(words: tuple[str, ...]) -> tuple[str, ...]:
    found: list[str] = []
    for at, word in enumerate(words):
        m = re.fullmatch(r"-([bBdEIOPqRsSuv]*)m(.*)", word)
        if m:
            flags = (f"-{m[1]}",) if m[1] else ()
            return (*found, *flags, "-m", *((m[2],) if m[2] else ()), *words[at + 1 :])
        if not word.startswith("-") and not (at and words[at - 1] in ("-X", "-W")):
            break
        found.append(word)
    return words
