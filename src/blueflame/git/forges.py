"""Open pull requests: push a branch to a remote and run the forge's program.

This happens outside the walls, with the person's login. No agent has a remote, a network or a credential.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from blueflame.git.command import build_git_error, try_git
from blueflame.git.repository import Repository
from blueflame.model.errors import ProcessFailed, WorldError
from blueflame.system.process import ProcessResult, run

FORGE_TIMEOUT = 120.0
PROMPT_VARIABLES = {"GH_PROMPT_DISABLED": "1", "NO_PROMPT": "1", "NO_COLOR": "1", "GIT_TERMINAL_PROMPT": "0"}
URL_PATTERN = re.compile(r"(?:^|\s)(https?://\S+)")


class ForgeFailed(WorldError):
    """A branch could not be pushed, or the forge's program could not open a pull request."""


class PullRequest(NamedTuple):
    branch: str
    base: str
    title: str
    text: str
    draft: bool = True


def push_branch(repo: Repository, remote: str, commit: str, branch: str, *, timeout: float) -> None:
    """Push without force: if the remote branch has other commits, raise ForgeFailed and change nothing."""
    args = ("push", "-q", "--no-follow-tags", "--no-recurse-submodules", remote, f"{commit}:refs/heads/{branch}")
    try:
        done = try_git(repo.root, *args, timeout=timeout)
    except ProcessFailed as e:
        hint = "see whether the remote answers, or raise landing.push_timeout"
        raise ForgeFailed(f"{branch} could not be pushed to {remote}: {e}; {hint}") from e
    if done.code:
        raise ForgeFailed(f"{branch} could not be pushed to {remote}: {build_git_error(repo.root, args, done)}")


def choose_forge(root: Path, remote: str, wanted: str) -> str:
    """Return gh, glab or "". For `auto`: by the remote's address, else the one that is installed."""
    if wanted != "auto":
        return "" if wanted == "none" else wanted
    address = try_git(root, "remote", "get-url", "--push", remote).out.casefold()
    likely = [name for name, host in (("glab", "gitlab"), ("gh", "github")) if host in address]
    return next((name for name in (*likely, "gh", "glab") if shutil.which(name)), "")


def create_pull_request(repo: Repository, forge: str, request: PullRequest) -> str:
    """Return its address. An existing one (opened before a crash) is found and not opened again."""
    listing, field, opening, text = FORGES[forge](request)
    found = _parse_first_url(run_forge(repo.root, forge, listing), field)
    if found:
        return found
    draft = ("--draft",) if request.draft else ()
    urls = URL_PATTERN.findall(run_forge(repo.root, forge, (*opening, *draft), text))
    return str(urls[-1]) if urls else ""


def run_forge(root: Path, forge: str, args: Sequence[str], text: str | None = None) -> str:
    """Return what gh or glab prints, asked in the person's name. Raises ForgeFailed."""
    if shutil.which(forge) is None:
        raise ForgeFailed(f"{forge} is not installed: install it and log in, or name another forge (or none)")
    environment: Mapping[str, str] = {**os.environ, **PROMPT_VARIABLES}
    done: ProcessResult = run(forge, *args, cwd=root, env=environment, stdin=text, timeout=FORGE_TIMEOUT)
    if done.code:
        reason = (done.err.strip() or done.out.strip())[-1000:]
        raise ForgeFailed(f"{forge} {args[0]} {args[1]} failed: {reason}")
    return done.out


def _parse_first_url(out: str, field: str) -> str:
    try:
        found = json.loads(out or "[]")
    except ValueError:
        return ""
    entry = found[0] if isinstance(found, list) and found else {}
    return str(entry.get(field, "")) if isinstance(entry, dict) else ""


class _ForgeCommands(NamedTuple):
    """The arguments for one pull request."""

    listing: Sequence[str]  # prints existing ones as JSON
    field: str  # of that JSON, with the address
    opening: Sequence[str]
    stdin: str | None = None


def _build_gh_commands(request: PullRequest) -> _ForgeCommands:
    return _ForgeCommands(
        ("pr", "list", "--head", request.branch, "--state", "all", "--limit", "1", "--json", "url"),
        "url",
        (
            "pr",
            "create",
            "--base",
            request.base,
            "--head",
            request.branch,
            "--title",
            request.title,
            "--body-file",
            "-",
        ),
        request.text,
    )


def _build_glab_commands(request: PullRequest) -> _ForgeCommands:
    branches = ("--target-branch", request.base, "--source-branch", request.branch)
    return _ForgeCommands(
        ("mr", "list", "--source-branch", request.branch, "--all", "--output", "json"),
        "web_url",
        ("mr", "create", *branches, "--title", request.title, "--description", request.text, "--yes"),
    )


FORGES: Mapping[str, Callable[[PullRequest], _ForgeCommands]] = {
    "gh": _build_gh_commands,
    "glab": _build_glab_commands,
}
