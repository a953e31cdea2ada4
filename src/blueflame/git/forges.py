"""Pull requests: a branch pushed to a remote, and the program of the forge asked to open one for it.

All of it happens on the person's side of the walls, with their login. No agent has a remote, a network or a credential.
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
from blueflame.model.errors import WorldError
from blueflame.system.process import ProcessResult, run

PUSH_TIMEOUT, FORGE_TIMEOUT = 600.0, 120.0
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


def push_branch(repo: Repository, remote: str, commit: str, branch: str) -> None:
    """Never over something else: a branch of that name that has other commits is left alone and told of."""
    args = ("push", "-q", "--no-follow-tags", "--no-recurse-submodules", remote, f"{commit}:refs/heads/{branch}")
    done = try_git(repo.root, *args, timeout=PUSH_TIMEOUT)
    if done.code:
        raise ForgeFailed(f"{branch} could not be pushed to {remote}: {build_git_error(repo.root, args, done)}")


def choose_forge(repo: Repository, remote: str, wanted: str) -> str:
    """gh, glab or nothing. Left to us: by the remote's address, else whichever is installed."""
    if wanted != "auto":
        return "" if wanted == "none" else wanted
    address = try_git(repo.root, "remote", "get-url", "--push", remote).out.casefold()
    likely = [name for name, host in (("glab", "gitlab"), ("gh", "github")) if host in address]
    return next((name for name in (*likely, "gh", "glab") if shutil.which(name)), "")


def create_pull_request(repo: Repository, forge: str, request: PullRequest) -> str:
    """Its address. One that is there already (opened before a crash) is found and not opened twice."""
    speak = FORGES[forge]
    return speak.found(_run_forge(repo.root, forge, speak.looking(request))) or speak.opened(
        _run_forge(repo.root, forge, speak.opening(request), request.text if speak.text_on_stdin else None)
    )


def _run_forge(root: Path, forge: str, args: Sequence[str], text: str | None = None) -> str:
    if shutil.which(forge) is None:
        raise ForgeFailed(f"{forge} is not installed: install it and log in, or set landing.forge to none")
    environment: Mapping[str, str] = {**os.environ, **PROMPT_VARIABLES}
    done: ProcessResult = run(forge, *args, cwd=root, env=environment, stdin=text, timeout=FORGE_TIMEOUT)
    if done.code:
        said = (done.err.strip() or done.out.strip())[-1000:]
        raise ForgeFailed(f"{forge} {args[0]} {args[1]} failed: {said}")
    return done.out


class _ForgeCommands(NamedTuple):
    """How one forge's program is spoken to."""

    looking: Callable[[PullRequest], Sequence[str]]
    found: Callable[[str], str]
    opening: Callable[[PullRequest], Sequence[str]]
    opened: Callable[[str], str]
    text_on_stdin: bool


def _build_gh_list(request: PullRequest) -> Sequence[str]:
    return ("pr", "list", "--head", request.branch, "--state", "all", "--limit", "1", "--json", "url")


def _build_gh_create(request: PullRequest) -> Sequence[str]:
    draft = ("--draft",) if request.draft else ()
    base = ("--base", request.base, "--head", request.branch)
    return ("pr", "create", *base, "--title", request.title, "--body-file", "-", *draft)


def _build_glab_list(request: PullRequest) -> Sequence[str]:
    return ("mr", "list", "--source-branch", request.branch, "--all", "--output", "json")


def _build_glab_create(request: PullRequest) -> Sequence[str]:
    draft = ("--draft",) if request.draft else ()
    base = ("--target-branch", request.base, "--source-branch", request.branch)
    return ("mr", "create", *base, "--title", request.title, "--description", request.text, "--yes", *draft)


def _build_list_parser(field: str) -> Callable[[str], str]:
    def first(out: str) -> str:
        try:
            found = json.loads(out or "[]")
        except ValueError:
            return ""
        entry = found[0] if isinstance(found, list) and found else {}
        return str(entry.get(field, "")) if isinstance(entry, dict) else ""

    return first


def _parse_url(out: str) -> str:
    found = URL_PATTERN.findall(out)
    return str(found[-1]) if found else ""


FORGES: Mapping[str, _ForgeCommands] = {
    "gh": _ForgeCommands(_build_gh_list, _build_list_parser("url"), _build_gh_create, _parse_url, text_on_stdin=True),
    "glab": _ForgeCommands(
        _build_glab_list, _build_list_parser("web_url"), _build_glab_create, _parse_url, text_on_stdin=False
    ),
}
