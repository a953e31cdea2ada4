"""Judge the words of a command that are files or globs, from every folder in which the shell may be."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from blueflame.lazy_dataclass import dataclass
from blueflame.model.policy import Decision, PathRules, Policy
from blueflame.policy.shell.marks import (
    ANY,
    HOME,
    LOOSE,
    NUMBER,
    ONE,
    PIPE,
    ROOT,
    START,
    UNKNOWN,
    format_marked,
    is_glob,
)
from blueflame.policy.shell.programs.listers import mark_pattern
from blueflame.policy.shell.programs.spec import WordRole
from blueflame.policy.shell.state import join_cwd

_DEVICES = frozenset(
    ("-", "/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/zero", "/dev/urandom", "/dev/random")
)
_DESCRIPTOR = re.compile(r"/dev/fd/\d{1,3}\Z")
_NETWORK = ("/dev/tcp", "/dev/udp")
_COMMON_GLOB = re.compile(rf"[\w-]*{ANY}[\w-]*(?:\.[\w-]{{1,12}}){{0,2}}\Z")
"""Names as in src/*.py: searching all of them does not ask for a blocked one, unless every such name is."""
_SOURCE_SUFFIX = re.compile(
    r"\.(?:py|pyi|js|jsx|mjs|cjs|ts|tsx|go|rs|c|h|cc|cpp|hpp|java|kt|rb|php|swift|cs|md|rst|css|scss|html|vue|svelte|sql|ex|exs)\Z"
)
_TOOL_CACHE = re.compile(
    rf"{HOME}/(?:\.cache|\.cargo/(?:registry|git|bin)|\.rustup|go|\.npm|\.pnpm-store|\.yarn|\.m2/repository|\.gradle|\.gem"
    r"|\.pyenv|\.nvm|\.nuget|\.local/(?:bin|lib|share))(?:/(?!.*\.\.)|\Z)"
)
"""What toolchains keep in the home folder: sources of dependencies, which agents read."""
SEGMENTS = f"{ANY}{ANY}"
"""Any number of folders, as find visits them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """What one simple command is judged by: the policy, the folders and the recursion for `sh -c`."""

    policy: Policy
    paths: PathRules
    cwds: tuple[str, ...] | None
    parse: Callable[[str], Any]
    judge_script: Callable[[str, object, CommandContext], Decision | None]  # for `sh -c`: a command inside a command
    free: bool = False  # the rule "*": any command at all
    everyday: bool = False  # the rule "@everyday": a sandbox holds the agent, so only what can be seen is judged
    functions: frozenset[str] = frozenset()  # that the script defines; their commands are judged where they are defined
    depth: int = 0


def judge_path(word: str, role: WordRole, context: CommandContext) -> Decision | None:
    """Return a refusal, or None if the file may be used so."""
    if role is WordRole.PATTERN:
        return None if word.startswith("!") else judge_path(mark_pattern(word), WordRole.SEARCH, context)
    if role is WordRole.TEXT or word in _DEVICES or word.startswith(PIPE) or _DESCRIPTOR.match(word) or not word:
        return None
    if word.startswith(_NETWORK):
        return Decision(False, "redirect_refused", f"{format_marked(word)} would open a network connection")
    if context.free and (UNKNOWN in word or LOOSE in word or HOME in word):
        return None
    if context.everyday and role is not WordRole.WRITE and _TOOL_CACHE.match(word):
        return None
    if HOME in word:
        return Decision(False, "outside_worktree", f"{format_marked(word)} is in the home folder; stay in the worktree")
    if context.everyday and (UNKNOWN in word or LOOSE in word):
        return _judge_known_start(word, role, context)
    if UNKNOWN in word or LOOSE in word:
        why = f"the file {format_marked(word)} is only known when the command runs; name it"
        return Decision(False, "shell_dynamic", why)
    word = word.replace(NUMBER, "0")
    path_like = word.startswith(("/", "~", START, ROOT, ".")) or ".." in word or is_glob(word)
    if role is WordRole.GUESS and not path_like:
        return _judge_bare_word(word, context)
    return _judge_glob(word, role, context) if is_glob(word) else _judge_known(word, role, context)


def _judge_known_start(word: str, role: WordRole, context: CommandContext) -> Decision | None:
    """Judge the folders before the part that is only known when it runs; the postcheck sees the rest."""
    at = min(word.index(mark) for mark in (UNKNOWN, LOOSE) if mark in word)
    if role is WordRole.WRITE and ".." in word[at:].split("/"):
        return Decision(False, "outside_worktree", f"{format_marked(word)} may leave the worktree; name the file")
    folder = word[: word.rfind("/", 0, at) + 1]
    return judge_path(folder, WordRole.LOOK, context) if folder else None


def _judge_bare_word(word: str, context: CommandContext) -> Decision | None:
    """Refuse a plain word that names a blocked file."""
    if " " in word or "\n" in word or len(word) > 250:
        return None
    verdict = _judge_known(word, WordRole.READ, context)
    return verdict if verdict is not None and verdict.rule == "blocked_path" else None


def _judge_known(word: str, role: WordRole, context: CommandContext) -> Decision | None:
    if context.cwds is None and not context.everyday and not word.startswith(("/", START, ROOT)):
        return Decision(False, "shell_dynamic", f"the folder of {format_marked(word)} is unknown; use one cd, with &&")
    for cwd in context.cwds or ("",):
        path = resolve_marks(join_cwd(cwd, word), context.policy)
        verdict = context.paths.check_write(path) if role is WordRole.WRITE else context.paths.check_read(path)
        if not verdict.allowed and not _is_excused(verdict, role, context):
            return verdict
        # scratch folders and toolchains may be read, but not built
        outside = path.startswith("/") and not f"{path}/".startswith(f"{context.policy.worktree}/")
        if role is WordRole.TREE and not (context.free or context.everyday) and outside:
            return Decision(False, "outside_worktree", f"{path} is not in the worktree, so its build files are unknown")
    return None


def _is_excused(verdict: Decision, role: WordRole, context: CommandContext) -> bool:
    if role in (WordRole.LOOK, WordRole.TREE):
        return verdict.rule == "blocked_path"
    return context.free and role is not WordRole.WRITE and verdict.rule != "blocked_path"


def resolve_marks(path: str, policy: Policy) -> str:
    """Replace the marks of a path, so that it can be checked."""
    if path.startswith(ROOT):
        return policy.worktree + path[1:]
    if path.startswith(START):
        return f".{path[1:]}"
    return f"./{path}" if path.startswith(("~", "-")) else path


def _judge_glob(word: str, role: WordRole, context: CommandContext) -> Decision | None:
    first = min(word.index(mark) for mark in (ANY, ONE) if mark in word)
    prefix, rest = word[:first], word[first:]
    if ".." in rest.split("/"):
        return Decision(False, "outside_worktree", f"{format_marked(word)} uses .. after a pattern; name the files")
    folder = prefix[: prefix.rfind("/") + 1] or "."
    verdict = _judge_known(folder, WordRole.LOOK, context)
    if verdict is not None:
        return verdict
    last = word.rsplit("/", 1)[-1]
    common = _COMMON_GLOB.match(last)
    if context.everyday and role is not WordRole.LOOK and (common or not is_glob(last)):
        return _judge_example(word, role, context)
    if role is WordRole.WRITE and not context.everyday:
        return Decision(
            False, "shell_dynamic", f"which files {format_marked(word)} changes is only known when it runs; name them"
        )
    if role in (WordRole.LOOK, WordRole.TREE) or context.free:
        return None
    if role in (WordRole.SEARCH, WordRole.GUESS) and common:
        return _judge_example(word, role, context)
    return _judge_blocked_matches(word, context)


def _judge_example(word: str, role: WordRole, context: CommandContext) -> Decision | None:
    """Judge a name that the pattern matches."""
    return _judge_known(word.replace(SEGMENTS, "x").replace(ANY, "x").replace(ONE, "x"), role, context)


def _judge_blocked_matches(word: str, context: CommandContext) -> Decision | None:
    for pattern in context.policy.blocked_paths.written:
        for cwd in context.cwds or ("",):
            path = resolve_marks(join_cwd(cwd, word), context.policy)
            if can_overlap(path, pattern):
                why = f"{format_marked(word)} may match blocked files ({pattern}); name the files or narrow it"
                return Decision(False, "blocked_path", why)
    return None


@lru_cache(maxsize=4096)
def can_overlap(glob: str, pattern: str) -> bool:
    """Return whether a file may match both the marked glob and the pattern as in .gitignore."""
    if pattern.startswith(("!", "#")) or not pattern.strip("/"):
        return False
    ours = [each for each in glob.split("/") if each not in ("", ".")]
    segments = pattern.strip("/").lower().split("/")
    theirs = [SEGMENTS if each == "**" else mark_pattern(each).replace("\\", "") for each in segments]
    # find and git list names with a leading dot as well; but .env.py holds no secrets
    hidden = SEGMENTS in ours and not _SOURCE_SUFFIX.search(ours[-1])
    if len(theirs) == 1 and not pattern.startswith("/"):  # a name at any depth
        return any(_can_names_overlap(each.lower(), theirs[0], hidden) for each in ours if each != SEGMENTS)
    starts = range(len(ours)) if glob.startswith("/") else range(1)  # it may run into the worktree at any folder
    mine = tuple(each.lower() for each in ours)
    return any(_can_lists_overlap(mine[start:], (*theirs, SEGMENTS), hidden) for start in starts)


def _can_lists_overlap(ours: Sequence[str], theirs: Sequence[str], hidden: bool) -> bool:
    return _can_align(ours, theirs, SEGMENTS, lambda mine, yours: _can_names_overlap(mine, yours, hidden))


def _can_align(ours: Sequence[str], theirs: Sequence[str], many: str, same: Callable[[str, str], bool]) -> bool:
    """Return whether the two can be the same where `many` stands for any number of items."""
    reached = {(0, 0)}
    todo = [(0, 0)]
    while todo:
        at, other = todo.pop()
        if at == len(ours) and other == len(theirs):
            return True
        mine = ours[at] if at < len(ours) else None
        yours = theirs[other] if other < len(theirs) else None
        steps = [(at + 1, other)] if mine == many else []
        steps += [(at, other + 1)] if yours == many else []
        if mine is not None and yours is not None and same(mine, yours):
            steps.append((at if mine == many else at + 1, other if yours == many else other + 1))
        todo += [step for step in steps if step not in reached]
        reached.update(steps)
    return False


def _can_names_overlap(mine: str, yours: str, hidden: bool) -> bool:
    """Return whether one name may match both. A shell pattern does not match a leading dot by itself."""
    if SEGMENTS in (mine, yours):
        return hidden or mine != SEGMENTS or not yours.startswith(".")
    if not hidden and mine[:1] in (ANY, ONE) and yours.startswith("."):
        return False
    wild = (ANY, ONE)
    return _can_align(mine, yours, ANY, lambda one, two: one == two or one in wild or two in wild)
