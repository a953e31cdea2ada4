"""How commits are worded and whose they are, by the configuration and the project's own history."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from blueflame.git.command import find_identity
from blueflame.git.repository import Repository, list_subjects
from blueflame.lazy_dataclass import dataclass
from blueflame.model.attempt import Attempt
from blueflame.model.policy import Policy
from blueflame.model.settings import Settings
from blueflame.model.settings.landing import AUTHOR
from blueflame.session.state import Session
from blueflame.text.commit_style import (
    CONVENTIONAL,
    PLAIN_STYLE,
    CommitStyle,
    SubjectRule,
    detect_commit_style,
    find_ticket,
)
from blueflame.text.sanitize import clean_line

MAX_SUBJECTS = 100
AGENT = "agent"


@dataclass(frozen=True, slots=True)
class CommitRules:
    """How the commits that land are worded, and whose they are."""

    read_style: Callable[[], CommitStyle] = lambda: PLAIN_STYLE
    pattern: str = ""
    example: str = ""
    agent: str = "trailer"
    author: Mapping[str, str] = field(default_factory=dict)  # as git's variables; none: the person's


DEFAULT_RULES = CommitRules()


def read_commit_style(repo: Repository, settings: Settings) -> CommitStyle:
    """The style that is configured, or that of the history before the session: not of what it has landed itself."""
    match settings.commits.style:
        case "plain":
            return PLAIN_STYLE
        case "conventional":
            return CommitStyle(kind=CONVENTIONAL, capital=False)
    return detect_commit_style(list_subjects(repo, repo.base_sha, MAX_SUBJECTS))


def build_subject_rule(
    repo: Repository, session: Session, attempt: Attempt, settings: Settings, policy: Policy
) -> SubjectRule:
    """What the first lines of an attempt's commits look like, by the policy that it was started with."""
    changeset = session.changesets.get(attempt.subject)
    names = changeset.changeset.tasks if changeset else (attempt.subject,)
    return SubjectRule(
        style=read_commit_style(repo, settings),
        pattern=policy.commit_pattern,
        example=policy.commit_example,
        tasks=",".join(names),
        title=clean_line(changeset.changeset.title if changeset else session.tasks[attempt.subject].task.title),
        ticket=find_task_ticket(session, names),
    )


def find_task_ticket(session: Session, names: Sequence[str]) -> str:
    """The ticket that the request names, else one of the tasks."""
    tasks = [session.tasks[name].task for name in names if name in session.tasks]
    return find_ticket(session.request, *(text for task in tasks for text in (task.title, task.description)))


def find_author(repo: Repository, settings: Settings) -> dict[str, str]:
    """The author that is configured, as git's variables; empty for the agent."""
    if settings.commits.author == AGENT:
        return {}
    own = AUTHOR.fullmatch(settings.commits.author)
    name, address = (own["name"], own["address"]) if own else find_identity(repo.root)
    return {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": address}


def build_commit_rules(repo: Repository, settings: Settings) -> CommitRules:
    return CommitRules(
        read_style=lambda: read_commit_style(repo, settings),
        pattern=settings.validation.commit_format.pattern,
        example=settings.validation.commit_format.example,
        agent=settings.commits.agent,
        author=find_author(repo, settings),
    )
