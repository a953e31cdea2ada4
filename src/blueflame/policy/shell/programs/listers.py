"""Patterns of the file names that a command can print, so that a command that receives them can be judged."""

from __future__ import annotations

import re

from blueflame.policy.shell.marks import ANY, ONE, is_static, split_names

DEEP = f"{ANY}{ANY}"
_KEEPS = frozenset(("head", "tail", "sort", "uniq", "tac", "shuf"))
_LISTS = frozenset(
    ("--name-only", "-l", "--files-with-matches", "--files-without-match", "-L", "--files", "-rl", "-lr", "-rln")
)
FIND_VALUES = split_names(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -type -xtype -maxdepth -mindepth -size"
    " -mtime -mmin -atime"
    " -amin -ctime -cmin -newer -anewer -cnewer -user -group -uid -gid -perm -links -inum -samefile -fstype"
    " -printf -regextype"
    " -used -lname -ilname -newermt -context"
)


def list_printed_names(argv: tuple[str, ...], feed: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return patterns of all names that the command can print; None if it prints anything else."""
    if not argv or not is_static(argv[0]):
        return None
    match argv[0]:
        case "find":
            return _list_find_names(argv[1:])
        case "git":
            return _list_git_names(argv[1:])
        case "ls":
            return _list_ls_names(argv[1:])
        case "echo":
            return argv[1:] if all(not word.startswith("-") for word in argv[1:]) else None
        case "grep" | "egrep" | "rg" | "fgrep":
            return _list_grep_names(argv, feed)
    return feed if argv[0] in _KEEPS and all(word.startswith("-") or word.isdigit() for word in argv[1:]) else None


def split_find(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the folders where find starts, and its expression."""
    at = 0
    while at < len(words) and words[at] in ("-H", "-L", "-P"):
        at += 1
    start = at
    while at < len(words) and not words[at].startswith(("-", "(", ")", "!", ",")):
        at += 1
    return words[start:at] or (".",), words[at:]


def _list_find_names(words: tuple[str, ...]) -> tuple[str, ...] | None:
    roots, expression = split_find(words)
    if not all(is_static(root) for root in roots) or any(word in ("-printf", "-exec", "-ls") for word in expression):
        return None
    names = _list_find_patterns(expression)
    return tuple(f"{root}/{DEEP}/{name}" for root in roots for name in names)


def _list_find_patterns(expression: tuple[str, ...]) -> tuple[str, ...]:
    """Return the name patterns of which one must match; any name if the expression is more complex."""
    named = {at for at, word in enumerate(expression) if word in ("-name", "-iname")}
    others = {"!", "-not", ","}
    if (
        not named
        or others & set(expression)
        or (len(named) > 1 and len(named) != expression.count("-o") + expression.count("-or") + 1)
    ):
        return (ANY,)
    if len(named) == 1 and ("-o" in expression or "-or" in expression):
        return (ANY,)
    return tuple(mark_pattern(expression[at + 1]) if at + 1 < len(expression) else ANY for at in sorted(named))


def mark_pattern(pattern: str) -> str:
    """Translate a file name pattern of a program into marks."""
    pattern = re.sub(r"\[[^]]*\]", ONE, pattern)
    return re.sub(r"\*+", ANY, pattern).replace("?", ONE)


def _list_git_names(words: tuple[str, ...]) -> tuple[str, ...] | None:
    if words[:1] == ("ls-files",):
        specs = [word for word in words[1:] if not word.startswith("-")]
        if any(word.startswith(("-s", "--stage", "-t", "-v", "--format", "--debug")) for word in words[1:]):
            return None
        found = []
        for each in map(mark_pattern, specs):
            folder, _, name = each.rpartition("/")
            if ANY in each or ONE in each:  # git's * goes across folders
                found.append(f"{folder or '.'}/{DEEP}/{name or ANY}")
            else:
                found += [each, f"{each.rstrip('/')}/{DEEP}/{ANY}"]
        return tuple(found) or (f"./{DEEP}/{ANY}",)
    if words[:1] in (("diff",), ("show",), ("log",), ("grep",)) and _LISTS & set(words):
        return (f"./{DEEP}/{ANY}",)
    return None


def _list_ls_names(words: tuple[str, ...]) -> tuple[str, ...] | None:
    if any(word.startswith("-") and (re.search(r"[lsiZgon]", word) or word.startswith("--")) for word in words):
        return None
    files = tuple(word for word in words if not word.startswith("-"))
    hidden = any(re.match(r"-\w*[aA]", word) for word in words)
    if hidden:
        return (f"./{DEEP}/{ANY}",)
    return tuple(word if ANY in word or ONE in word else ANY for word in files) or (ANY,)


def _list_grep_names(argv: tuple[str, ...], feed: tuple[str, ...] | None) -> tuple[str, ...] | None:
    operands = [word for word in argv[1:] if not word.startswith("-")]
    if any(re.match(r"-[A-Za-z]*[lL]|--files", word) for word in argv[1:]):
        roots = operands if "--files" in argv else operands[1:]
        deep = argv[0] == "rg" or any(re.match(r"-[A-Za-z]*[rR]|--recursive", word) for word in argv[1:])
        return tuple(f"{root}/{DEEP}/{ANY}" if deep else root for root in roots) or (f"./{DEEP}/{ANY}",)
    filters = len(operands) == 1 and not any(re.match(r"-[A-Za-z]*[norR]|--", word) for word in argv[1:])
    return feed if filters else None
