"""Run git in an environment that only Blue Flame controls."""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from pathlib import Path
from types import MappingProxyType
from typing import ParamSpec, TypeVar

from blueflame.model.errors import GitFailed
from blueflame.system.process import ProcessResult, ProcessResultBytes, run, run_capped

# git exports GIT_DIR and GIT_INDEX_FILE to hooks; inherited, they point us at the wrong repository.
KEPT_VARIABLES = re.compile(r"GIT_(AUTHOR|COMMITTER)_(NAME|EMAIL)|GIT_CONFIG_(GLOBAL|SYSTEM|NOSYSTEM)|GIT_SSH(_\w+)?")

FIXED_VARIABLES = MappingProxyType(
    {
        "LC_ALL": "C",
        "LANGUAGE": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",  # reading must not write the person's index
        "GIT_EDITOR": "false",
        "GIT_PAGER": "cat",
        "GIT_NO_REPLACE_OBJECTS": "1",  # what is checked must be what lands, not what a replace ref shows
    }
)

GIT_SETTINGS = MappingProxyType(
    {
        "core.fsync": "committed,reference",  # the journal, which survives a power cut, refers to what we wrote
        "core.filesRefLockTimeout": "10000",  # milliseconds: another git of the person's may hold a lock for a moment
        "core.packedRefsTimeout": "10000",
        "reftable.lockTimeout": "10000",
        "core.hooksPath": "/dev/null",
        "core.fsmonitor": "false",
        "core.quotePath": "false",
        "core.pager": "cat",
        "gc.auto": "0",
        "maintenance.auto": "false",
        "commit.gpgSign": "false",
        "tag.gpgSign": "false",
        "log.showSignature": "false",
        "submodule.recurse": "false",
        "fetch.recurseSubmodules": "false",
        "protocol.ext.allow": "never",
        "advice.detachedHead": "false",
        "color.ui": "false",
    }
)
# Not as arguments, which messages and `ps` show.
SETTING_VARIABLES = MappingProxyType(
    {"GIT_CONFIG_COUNT": str(len(GIT_SETTINGS))}
    | {f"GIT_CONFIG_KEY_{n}": name for n, name in enumerate(GIT_SETTINGS)}
    | {f"GIT_CONFIG_VALUE_{n}": value for n, value in enumerate(GIT_SETTINGS.values())}
)

OBJECT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")

REPAIR_GIT = "run 'git version' yourself, and repair or reinstall git"
WRAPPED = "may be a wrapper; let it print nothing of its own, or put the real git before it in PATH"
RESTORE_OBJECTS = "run 'git fsck', and fetch or restore the objects that it names"
FIXES = (
    (r"bad (config line|numeric config|boolean config)", "correct that setting or remove it"),
    (r"dubious ownership|unsafe repository", "if you trust it, run 'git config --global --add safe.directory {repo}'"),
    (r"loading shared libraries|cannot execute|not found in .*libexec|is not a git command", REPAIR_GIT),
    (
        r"cannot run .*: No such file|: (command )?not found(\n|$)",
        "install that program, or correct the setting of git that names it",
    ),
    (r"not a git repository", "put its .git back, or restore the HEAD in it, such as 'ref: refs/heads/main'"),
    (r"(unterminated|unexpected) line in .*packed-refs", "that file is damaged: remove what is not a line of a ref"),
    (r"alternate object path", "put the folder back whose objects this clone borrows, or correct info/alternates"),
    (
        r"does not appear to be a git repository",
        "correct the remote's address with 'git remote set-url', or put it back",
    ),
    (r"hook declined|[Pp]rotected branch", "allow that push there, or choose another landing.branch_prefix"),
    (r"non-fast-forward|\(fetch first\)", "the branch is there with other commits: rename or delete it there"),
    (r"Expected git repo version|unknown repository extension", "upgrade git to the one that made the repository"),
    (
        r"index file (smaller|corrupt|open failed)|bad index file|bad signature 0x|index uses .* extension",
        "the index is damaged: remove it and run 'git reset', which keeps your files",
    ),
    (
        r"not uptodate\. Cannot",
        "git ignores changes of that file, and it has some: commit or stash it after 'git update-index "
        "--no-assume-unchanged --no-skip-worktree' for it",
    ),
    (r"from promisor remote", "make that remote reachable: it has what this partial clone has not"),
    (r"No space left|Disk quota exceeded", "free some space"),
    (r"File too large", "raise 'ulimit -f'"),
    (r"Read-only file system|Permission denied|insufficient permission", "make it writable for yourself"),
    (
        r"Resource temporarily unavailable|cannot fork|unable to create thread",
        "end other processes, or raise 'ulimit -u'",
    ),
    (r"Too many open files", "close other programs, or raise 'ulimit -n'"),
    (r"Cannot allocate memory|[Oo]ut of memory", "free some memory"),
    (r"Input/output error|Structure needs cleaning|Stale file handle", "check the disk"),
    (r"Not a valid (commit|object) name [0-9a-f]{40}", "get that commit back with 'git fetch', or restore it"),
    (r"object file .* is empty", f"remove that file, in which nothing is left; then {RESTORE_OBJECTS}"),
    (
        r"loose object .* is corrupt|bad (tree )?object|missing (blob|tree|commit)|inflate:|"
        r"unable to read (tree|sha1 file|[0-9a-f]{40})|packfile .* (cannot be|does not match)|[Cc]ould not read \w{40}",
        RESTORE_OBJECTS,
    ),
)
"""By git's own words, the first that fits. The words of a fix must not look like a cause (session/environment)."""

AGENT_DOMAIN = "@agents.invalid"
FALLBACK_NAME, FALLBACK_EMAIL = "Blue Flame", "blueflame@localhost"

_Asked = ParamSpec("_Asked")
_Answer = TypeVar("_Answer")


def try_git(
    repo: Path,
    *args: str,
    stdin: str | bytes | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = 60,
) -> ProcessResult:
    """Run git and return its output, whatever its exit code."""
    return run("git", *args, cwd=repo, env=build_environment(env), stdin=stdin, timeout=timeout)


def run_git(
    repo: Path,
    *args: str,
    stdin: str | bytes | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = 60,
) -> str:
    """Run git and return its output; raise GitFailed for an exit code other than 0."""
    done = try_git(repo, *args, stdin=stdin, env=env, timeout=timeout)
    if done.code:
        raise build_git_error(repo, args, done)
    return done.out


MAX_GIT_MEMORY = 1_000_000_000  # a few tree objects can stand for millions of names, which git diff-tree collects first


def run_git_capped(
    repo: Path, *args: str, max_bytes: int, stdin: bytes = b"", timeout: float = 60
) -> ProcessResultBytes:
    """Return at most `max_bytes` of an output of unknown size, made with limited memory."""
    done = run_capped(
        "git",
        *args,
        cwd=repo,
        env=build_environment(),
        max_bytes=max_bytes,
        stdin=stdin,
        timeout=timeout,
        max_memory=MAX_GIT_MEMORY,
    )
    if done.code and not done.truncated:
        raise build_git_error(repo, args, ProcessResult(done.code, "", done.err.decode("utf-8", "replace")))
    return done


def remember_answers(size: int) -> Callable[[Callable[_Asked, _Answer]], Callable[_Asked, _Answer]]:
    """Keep the last answers of a function that reads objects by their full ids: these answers cannot change.

    A question by name (a branch, HEAD) is asked every time, and so is one that failed.
    """

    def decorate(ask: Callable[_Asked, _Answer]) -> Callable[_Asked, _Answer]:
        remembered = lru_cache(maxsize=size)(ask)

        @wraps(ask)
        def answer(*args: _Asked.args, **kwargs: _Asked.kwargs) -> _Answer:
            names = [arg for arg in args if isinstance(arg, str)]
            by_id = all(map(OBJECT_ID.fullmatch, names)) and not kwargs
            return remembered(*args) if by_id else ask(*args, **kwargs)

        return answer

    return decorate


def build_git_error(repo: Path, args: tuple[str, ...], done: ProcessResult) -> GitFailed:
    said = done.err.strip() or done.out.strip()[-2000:]
    reason = said if said and done.code >= 0 else explain_exit(done.code, REPAIR_GIT)
    fix = find_fix(said, repo)
    return GitFailed(f"git {' '.join(args)} in {repo}: {reason}{f'; {fix}' if fix else ''}")


def find_fix(message: str, repo: object) -> str:
    """Return what to do about a failure that git describes; "" if git's own words must do."""
    return next((fix.format(repo=repo) for words, fix in FIXES if re.search(words, message)), "")


def explain_exit(code: int, repair: str) -> str:
    """Explain a program that ended without a word, and name the fix; `repair` is that of the program."""
    if -code == signal.SIGKILL:
        return "it was killed by signal 9; see whether memory is short (journalctl -k), then try again"
    if -code == signal.SIGXFSZ:
        return "it met the limit on file sizes; raise 'ulimit -f'"
    if code < 0:
        return f"it was killed by signal {-code}; {repair}"
    return f"exit code {code} without a message; {repair}"


def split_nul(out: str) -> tuple[str, ...]:
    """Split a NUL-terminated list."""
    return tuple(out.split("\0")[:-1])


def build_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return our environment without what would point git to another repository."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or KEPT_VARIABLES.fullmatch(name)
    }
    return {**kept, **FIXED_VARIABLES, **SETTING_VARIABLES, **(extra or {})}


def find_identity(repo: Path) -> tuple[str, str]:
    """Return the name and e-mail for commits in this repository: the person's, or ours if none is configured."""
    name, email = os.environ.get("GIT_AUTHOR_NAME", ""), os.environ.get("GIT_AUTHOR_EMAIL", "")
    if not (name and email):
        configured = read_settings(repo)
        name = name or configured.get("user.name", FALLBACK_NAME)
        email = email or configured.get("user.email", FALLBACK_EMAIL)
    return name, email


def build_identity_environment(repo: Path) -> dict[str, str]:
    """Return the complete identity for commands that commit, so that git neither guesses it nor refuses."""
    name, email = find_identity(repo)
    return {
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": email,
        "GIT_COMMITTER_NAME": os.environ.get("GIT_COMMITTER_NAME") or name,
        "GIT_COMMITTER_EMAIL": os.environ.get("GIT_COMMITTER_EMAIL") or email,
    }


def read_settings(repo: Path) -> Mapping[str, str]:
    """Return the identity, filters, and what git found out about the file system; asked once until a file changes."""
    return _read_settings(repo, tuple(map(read_file_stamp, _list_settings_files(repo))))


def _list_settings_files(repo: Path) -> tuple[Path, ...]:
    """Return the files that usually hold them; `.git` is a file in a linked work tree."""
    home = Path(os.environ.get("HOME") or "/")
    chosen = os.environ.get("GIT_CONFIG_GLOBAL")
    configured = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git" / "config"
    own = (repo / ".git" / "config", repo / ".git")
    return (*own, Path(chosen) if chosen else home / ".gitconfig", configured, Path("/etc/gitconfig"))


def read_file_stamp(place: Path) -> tuple[str, int, int]:
    try:
        found = place.stat()
    except OSError:
        return str(place), 0, 0
    if stat.S_ISDIR(found.st_mode):  # changes with every lock file
        return str(place), found.st_ino, 0
    return str(place), found.st_mtime_ns, found.st_size


@lru_cache(maxsize=64)
def _read_settings(repo: Path, _stamps: tuple[tuple[str, int, int], ...]) -> Mapping[str, str]:
    file_system = r"core\.(filemode|symlinks|ignorecase|precomposeunicode)"
    wanted = rf"^(user\.(name|email)|{file_system}|filter\..*\.(clean|smudge|process))$"
    entries = split_nul(try_git(repo, "config", "-z", "--get-regexp", wanted).out)
    pairs = (entry.partition("\n") for entry in entries)
    return {key: value for key, _, value in pairs if value.strip()}


@lru_cache(maxsize=1)
def read_git_version() -> tuple[int, ...]:
    """Return (2, 39, 5) for `git version 2.39.5 (Apple Git-154)`."""
    text = run_git(Path("/"), "version")
    found = re.fullmatch(r"git version (\d+)\.(\d+)(?:\.(\d+))?\b[^\n]*\n", text)
    if found is None:
        raise _build_answer_error("version", text)
    return tuple(int(part or 0) for part in found.groups())


def read_number(repo: Path, *args: str, timeout: float | None = 60) -> int:
    """Run git for an answer that is a number."""
    text = run_git(repo, *args, timeout=timeout)
    if not text.strip().isdecimal():
        raise _build_answer_error(args[0], text)
    return int(text)


def _build_answer_error(command: str, text: str) -> GitFailed:
    program = shutil.which("git")
    return GitFailed(
        f"git {command} printed {text.strip()[:200]!r}, which is not its answer alone: {program} {WRAPPED}"
    )


def build_agent_identity(agent_id: str) -> dict[str, str]:
    mail = f"{agent_id}{AGENT_DOMAIN}"
    return {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", agent_id), ("EMAIL", mail))
    }
