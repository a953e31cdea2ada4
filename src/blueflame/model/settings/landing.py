"""How changesets are merged, and how they reach the base branch."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import field_validator

from blueflame.model.settings.fields import Duration, InvalidValue, Section, Text

AUTHOR = re.compile(r"(?P<name>[^<>\n]*[^<>\s]) <(?P<address>[^<>\s]+@[^<>\s]+)>")
INVALID_BRANCH_PREFIX = re.compile(r"^[-/]|[\s~^:?*\[\\\x7f]|\.\.|@\{|//|(^|/)\.|\.lock/")


class MergingSettings(Section):
    on_conflict: Literal["merger", "requeue"] = "merger"
    """What happens when git cannot merge a changeset: a merger agent resolves the conflict, and its result passes the
    same walls and checks; or the task is requeued at once, as it also is when the merger fails."""
    retry_red_checks: bool = True
    """true: a check that fails on a result or on the combined tree is run once more; if it then passes, it is reported
    as flaky and counts as passed. false: a failed check fails."""


class LandingSettings(Section):
    mode: Literal["merge", "squash", "fast-forward", "pull-request"] = "merge"
    """How an approved changeset reaches the base branch: as a merge commit, as one commit, as its tasks' commits in a
    row, or not by us: its branch is pushed and a pull request opened."""
    remote: Text = "origin"
    """For pull-request: the remote that branches are pushed to."""
    branch_prefix: Text = "blueflame/"
    """For pull-request: how the names of pushed branches begin; the session and the changeset follow."""
    forge: Literal["auto", "gh", "glab", "none"] = "auto"
    """For pull-request: the program that opens it, on our side of the walls; auto: by the remote's address, else
    whichever is installed. none: only push."""
    push_timeout: Duration = 300.0
    """For pull-request: how long a push may take. Then it is tried again later, as all that fails outside of us."""
    draft: bool = True
    """For pull-request: open it as a draft."""

    @field_validator("branch_prefix")
    @classmethod
    def _begins_a_branch_name(cls, prefix: str) -> str:
        if INVALID_BRANCH_PREFIX.search(prefix):
            raise InvalidValue("cannot begin the name of a branch", "write a prefix such as blueflame/")
        return prefix

    @field_validator("remote")
    @classmethod
    def _is_a_name(cls, remote: str) -> str:
        if remote.startswith("-") or any(c.isspace() for c in remote):
            raise InvalidValue("is not the name of a remote", "write a name that `git remote` shows, such as origin")
        return remote


class CommitSettings(Section):
    style: Literal["auto", "conventional", "plain"] = "auto"
    """How the first line of what lands is worded: as in the last commits of the base branch; as a conventional commit
    (fix: ...); as a plain sentence. Where validation.commit_format.pattern is set, it must fit that as well."""
    author: Text = "person"
    """The author of what lands: person, you, by git's user.name and user.email; agent; or `Name <address>`.
    The committer of an agent's own commits is the agent in any case."""
    agent: Literal["trailer", "co-author", "none"] = "trailer"
    """How agents are named at the end of the message: as Blue-Flame-Agent, as Co-authored-by, or not at all."""

    @field_validator("author")
    @classmethod
    def _is_a_person(cls, author: str) -> str:
        if author not in ("person", "agent") and not AUTHOR.fullmatch(author):
            raise InvalidValue(
                "is not an author", "write person, agent, or a name with an address: Ada <ada@example.org>"
            )
        return author
