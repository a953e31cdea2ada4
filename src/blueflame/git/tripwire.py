"""A tripwire: what no agent may change in our own repository, compared before and after.

Inside the sandbox none of this exists, so nothing here should ever fire. Should it, then only what would make git run
something, or take objects from elsewhere, is a violation. The person works on meanwhile: that branches move, or that a
remote is added, is their business and told as a note.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from blueflame.git.command import fields, git
from blueflame.git.repository import Repository
from blueflame.model.errors import GitFailed
from blueflame.model.verdict import Violation

REPOSITORY_TOUCHED: Final = "repository_touched"
OURS: Final = "refs/blueflame/"
NOT_THERE: Final = "-"

# Settings by which git starts a program, reads another file of settings, or talks to another place than it says.
RUNS_CODE = re.compile(
    r"(?i)core\.(fsmonitor|hookspath|sshcommand|editor|pager|askpass|gitproxy|alternaterefscommand|worktree|"
    r"attributesfile|alternaterefsprefixes)|alias\..*|filter\..*|diff\..*\.(command|textconv)|diff\.external|"
    r"merge\..*\.driver|(diff|merge)tool\..*|credential\..*|gpg\..*program|include\.path|includeif\..*|"
    r"url\..*|remote\..*\.(uploadpack|receivepack|proxy|vcs)|protocol\..*|uploadpack\..*|sequence\.editor|"
    r"browser\..*|interactive\.difffilter|extensions\..*|pager\..*|trailer\..*|submodule\..*\.update|hook\..*|"
    r"sendemail\..*|gui\..*|guitool\..*|man\..*|web\..*|instaweb\..*|gc\..*hook|receive\..*|safe\..*"
)
RISKY_FILES = ("info/grafts", "objects/info/alternates", "objects/info/http-alternates")
OTHER_FILES = ("info/attributes", "info/exclude", "shallow")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """Names of things and digests of what they are."""

    guarded: Mapping[str, str]
    noted: Mapping[str, str]


def fingerprint(repo: Repository) -> Fingerprint:
    """Some milliseconds; OSError and git's errors come out as GitFailed."""
    settings = {**_settings(repo.common_dir / "config"), **_settings(repo.git_dir / "config.worktree")}
    try:
        guarded = {
            **dict(_hooks(repo.common_dir / "hooks")),
            **{name: _digest(repo.common_dir / name) for name in RISKY_FILES},
            **{name: value for name, value in settings.items() if RUNS_CODE.fullmatch(name.partition(": ")[2])},
        }
        noted = {
            **{name: value for name, value in settings.items() if name not in guarded},
            **{name: _digest(repo.common_dir / name) for name in OTHER_FILES},
            "HEAD": _digest(repo.git_dir / "HEAD"),
            **_refs(repo),
        }
    except OSError as e:
        raise GitFailed(f"cannot read {e.filename} to see whether it was changed: {e.strerror}") from e
    return Fingerprint(guarded=guarded, noted=noted)


def differences(before: Fingerprint, after: Fingerprint) -> tuple[Violation, ...]:
    """By name; `notes` has the rest."""
    return tuple(
        Violation(rule=REPOSITORY_TOUCHED, path=name, detail=f"{what} while the agent ran; if this was you, try again")
        for name, what in _compared(before.guarded, after.guarded)
    )


def notes(before: Fingerprint, after: Fingerprint) -> tuple[str, ...]:
    """What else is not as it was: most likely the person's own work, or what we landed."""
    return tuple(f"{name} was {what}" for name, what in _compared(before.noted, after.noted))


def _compared(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in sorted({*before, *after}):
        old, new = before.get(name, NOT_THERE), after.get(name, NOT_THERE)
        if old != new:
            yield name, "added" if old == NOT_THERE else "removed" if new == NOT_THERE else "changed"


def _hooks(folder: Path) -> Iterator[tuple[str, str]]:
    """The folder itself counts: put a link in its place, and other hooks run."""
    yield "hooks", f"link {folder.readlink()}" if folder.is_symlink() else "folder" if folder.is_dir() else NOT_THERE
    if folder.is_dir():
        for hook in sorted(folder.iterdir()):
            yield f"hooks/{hook.name}", _digest(hook)


def _digest(path: Path) -> str:
    try:
        about = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return NOT_THERE
    if stat.S_ISLNK(about.st_mode):
        return f"link {path.readlink()}"
    if not stat.S_ISREG(about.st_mode):
        return f"mode {about.st_mode:o}"
    return f"{about.st_mode:o} {about.st_size} {sha256(path.read_bytes()).hexdigest()}"


def _settings(path: Path) -> dict[str, str]:
    """Every setting of one file, by digest: some hold passwords. A setting may have several values; order counts."""
    if not path.exists():
        return {}
    listed = fields(git(path.parent, "config", "--file", str(path), "--no-includes", "-z", "--list"))
    values: dict[str, list[str]] = {}
    for entry in listed:
        name, _, value = entry.partition("\n")
        values.setdefault(f"{path.name}: {name}", []).append(value)
    return {
        name: sha256(repr(all_of).encode("utf-8", "surrogateescape")).hexdigest() for name, all_of in values.items()
    }


def _refs(repo: Repository) -> dict[str, str]:
    form = "--format=%(refname) %(objectname) %(symref)"
    rows = (line.partition(" ") for line in git(repo.root, "for-each-ref", form).splitlines())
    return {name: value for name, _, value in rows if not name.startswith(OURS)}
