"""Builtins of the shell: which are harmless, and which change what the following commands mean."""

from __future__ import annotations

import re
from collections.abc import Callable

from blueflame.policy.shell.marks import LOOSE, NUMBER, is_name, is_static, is_unknown, split_names
from blueflame.policy.shell.programs.variables import is_dangerous_variable

REFUSED = split_names(
    "eval source . exec trap alias unalias enable bind complete compgen compopt history fc suspend logout coproc"
    " declare typeset local readonly mapfile readarray caller disown newgrp"
)
"""They run text as commands, replace the shell, or change what names mean: the effect cannot be checked before."""

HARMLESS = split_names("true false : exit return break continue shift pwd times fg bg type dirs umask echo")
_SET_LETTERS = re.compile(r"[-+][euxvfnao]*\Z")
_SET_NAMES = split_names("errexit nounset pipefail xtrace verbose noglob allexport")


def _check_set(words: tuple[str, ...]) -> str | None:
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            return None
        if not is_static(word):
            return "a value that is only known when it runs"
        if not word.startswith(("-", "+")):
            return None
        if not _SET_LETTERS.match(word):
            return word
        if word.endswith("o"):
            at += 1
            if at < len(words) and words[at] not in _SET_NAMES:
                return words[at]
        at += 1
    return None


def _allow_only(pattern: str) -> Callable[[tuple[str, ...]], str | None]:
    compiled = re.compile(pattern)
    return lambda words: next((word for word in words if not compiled.fullmatch(word)), None)


def _check_printf(words: tuple[str, ...]) -> str | None:
    first = words[0] if words else ""
    if first == "-v":
        return None if len(words) > 1 and _is_harmless_name(words[1]) else "-v with that name"
    if first.startswith("-v") or (is_unknown(first[:1]) and len(words) > 1 and not is_static(words[1])):
        return "-v"
    return None


def _check_test(words: tuple[str, ...]) -> str | None:
    if any(LOOSE in word for word in words):
        return "an unquoted value; put it in double quotes"
    for at, word in enumerate(words[:-1]):
        if word in ("-v", "-R") and not is_name(words[at + 1]):
            return f"{word} with that name"
    bare = words[:-1] if words[-1:] == ("]",) else words
    if len(bare) == 2 and is_unknown(bare[0][:1]):
        return "an operator that is only known when it runs"
    return None


def _check_read(words: tuple[str, ...]) -> str | None:
    rest = list(words)
    while rest and rest[0].startswith("-") and len(rest[0]) > 1:
        word = rest.pop(0)
        if word == "--":
            break
        m = re.fullmatch(r"-[rs]*(?:([pdntNu])(.*)|a)?", word, re.DOTALL)
        if m is None or not is_static(word[:2]):
            return word
        if m[1] and not m[2]:
            rest[:1] = []
    return next((word for word in rest if not _is_harmless_name(word)), None)


def _check_unset(words: tuple[str, ...]) -> str | None:
    return next((word for word in words if word not in ("-v", "-f") and not _is_harmless_name(word)), None)


def _check_export(words: tuple[str, ...]) -> str | None:
    return next((word for word in words if word != "-p" and not is_name(word)), None)


def _check_kill(words: tuple[str, ...]) -> str | None:
    rest = words[1:] if re.fullmatch(r"-(?:[A-Z]+|\d+|l)", words[0] if words else "") else words
    return next((word for word in rest if not re.fullmatch(rf"%[\d+%-]*|{NUMBER}", word)), None)


def _check_hash(words: tuple[str, ...]) -> str | None:
    return None if words == ("-r",) or not words else words[0]


def _check_getopts(words: tuple[str, ...]) -> str | None:
    return None if len(words) >= 2 and _is_harmless_name(words[1]) else "that name"


def _is_harmless_name(word: str) -> bool:
    return is_name(word) and not is_dangerous_variable(word, "\x00")


CHECKED: dict[str, Callable[[tuple[str, ...]], str | None]] = {
    "set": _check_set,
    "shopt": _allow_only("globstar|nullglob|failglob|-[suq]"),
    "printf": _check_printf,
    "test": _check_test,
    "[": _check_test,
    "read": _check_read,
    "unset": _check_unset,
    "export": _check_export,
    "kill": _check_kill,
    "wait": _allow_only(rf"-[nf]+|%[\d+%-]*|\d+|{NUMBER}"),
    "jobs": _allow_only("-[lnprs]+"),
    "hash": _check_hash,
    "ulimit": _allow_only(r"-[A-Za-z]+|\d+|unlimited"),
    "getopts": _check_getopts,
}
"""Harmless unless the function returns the word that is not."""
