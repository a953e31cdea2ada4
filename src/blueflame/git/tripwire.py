"""Compare our own repository before and after an attempt: no agent may change it.

In the sandbox the repository does not exist, so this should never find a change. Only what makes git run a program or
read objects from elsewhere is compared: the person may work meanwhile, move a branch or add a remote.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from blueflame.git.command import run_git, split_nul
from blueflame.git.repository import Repository
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import GitFailed
from blueflame.model.verdict import Violation

REPOSITORY_TOUCHED: Final = "repository_touched"
ABSENT: Final = "-"

# Settings that make git start a program, read another file of settings, or connect to another address.
CODE_SETTINGS = re.compile(
    r"(?i)core\.(fsmonitor|hookspath|sshcommand|editor|pager|askpass|gitproxy|alternaterefscommand|worktree|"
    r"attributesfile|alternaterefsprefixes)|alias\..*|filter\..*|diff\..*\.(command|textconv)|diff\.external|"
    r"merge\..*\.driver|(diff|merge)tool\..*|credential\..*|gpg\..*program|include\.path|includeif\..*|"
    r"url\..*|remote\..*\.(uploadpack|receivepack|proxy|vcs)|protocol\..*|uploadpack\..*|sequence\.editor|"
    r"browser\..*|interactive\.difffilter|extensions\..*|pager\..*|trailer\..*|submodule\..*\.update|hook\..*|"
    r"sendemail\..*|gui\..*|guitool\..*|man\..*|web\..*|instaweb\..*|gc\..*hook|receive\..*|safe\..*"
)
GUARDED_FILES = ("info/grafts", "objects/info/alternates", "objects/info/http-alternates")


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryFingerprint:
    """Names of files and settings, with digests of their content."""

    guarded: Mapping[str, str]


def take_fingerprint(repo: Repository) -> RepositoryFingerprint:
    """Take the fingerprint, in some milliseconds; raise GitFailed if something cannot be read."""
    files = (repo.common_dir / "config", repo.git_dir / "config.worktree")
    try:
        settings = {name: value for file in files for name, value in _digest_settings(file).items()}
        guarded = {
            **dict(_digest_hooks(repo.common_dir / "hooks")),
            **{name: _digest_file(repo.common_dir / name) for name in GUARDED_FILES},
            **{name: value for name, value in settings.items() if CODE_SETTINGS.fullmatch(name.partition(": ")[2])},
        }
    except OSError as e:
        raise GitFailed(f"cannot read {e.filename} to see whether it was changed: {e.strerror}") from e
    return RepositoryFingerprint(guarded=guarded)


def find_tampering(before: RepositoryFingerprint, after: RepositoryFingerprint) -> tuple[Violation, ...]:
    """Return the violations by name."""
    return tuple(
        Violation(rule=REPOSITORY_TOUCHED, path=name, detail=f"{what} while an agent ran")
        for name, what in _compare_digests(before.guarded, after.guarded)
    )


def _compare_digests(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in sorted({*before, *after}):
        old, new = before.get(name, ABSENT), after.get(name, ABSENT)
        if old != new:
            yield name, "added" if old == ABSENT else "removed" if new == ABSENT else "changed"


def _digest_hooks(folder: Path) -> Iterator[tuple[str, str]]:
    """Digest the hooks and their folder: a link in its place would run other hooks."""
    yield "hooks", f"link {folder.readlink()}" if folder.is_symlink() else "folder" if folder.is_dir() else ABSENT
    if folder.is_dir():
        for hook in sorted(folder.iterdir()):
            yield f"hooks/{hook.name}", _digest_file(hook)


def _digest_file(path: Path) -> str:
    try:
        about = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT
    if stat.S_ISLNK(about.st_mode):
        return f"link {path.readlink()}"
    if not stat.S_ISREG(about.st_mode):
        return f"mode {about.st_mode:o}"
    return f"{about.st_mode:o} {about.st_size} {sha256(path.read_bytes()).hexdigest()}"


def _digest_settings(path: Path) -> dict[str, str]:
    """Digest every setting of a file, since some are passwords. A setting may have several values; order counts."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return {}
    values: dict[str, list[str]] = {}
    for entry in _list_settings(path.parent, text):
        name, _, value = entry.partition("\n")
        values.setdefault(f"{path.name}: {name}", []).append(value)
    return {
        name: sha256(repr(all_of).encode("utf-8", "surrogateescape")).hexdigest() for name, all_of in values.items()
    }


@lru_cache(maxsize=4)
def _list_settings(folder: Path, text: bytes) -> tuple[str, ...]:
    return split_nul(run_git(folder, "config", "--file", "-", "--no-includes", "-z", "--list", stdin=text))
