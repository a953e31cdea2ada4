"""Landing by pull request: others bring the changeset onto the base; we push it and say what there is to know."""

from __future__ import annotations

from collections.abc import Sequence

from blueflame.git.forges import PullRequest, choose_forge, create_pull_request, push_branch
from blueflame.model.changeset import Build, ChangesetRecord
from blueflame.model.errors import WorldError
from blueflame.model.event import Event, PullRequestOpened
from blueflame.orchestrator.context import SessionContext
from blueflame.session.gates.answers import skip_changeset
from blueflame.session.state import Session
from blueflame.text.pull_request import format_pull_request_body, format_pull_request_title


def open_pull_request(
    context: SessionContext, session: Session, record: ChangesetRecord, build: Build
) -> Sequence[Event]:
    """Again is the same as once. What cannot be pushed is put off, with the reason: its work is kept."""
    landing, changeset = context.settings.landing, record.changeset
    branch = f"{landing.branch_prefix}{session.id}/{changeset.id}"
    try:
        push_branch(context.repo, landing.remote, build.commit, branch)
        forge = choose_forge(context.repo, landing.remote, landing.forge)
        request = PullRequest(
            branch=branch,
            base=session.base_branch,
            title=format_pull_request_title(record),
            text=format_pull_request_body(session, record, build),
            draft=landing.draft,
        )
        url = create_pull_request(context.repo, forge, request) if forge else ""
    except WorldError as error:
        return list(skip_changeset(session, changeset.id, f"no pull request could be opened: {error}"))
    return [PullRequestOpened(changeset=changeset.id, commit=build.commit, branch=branch, url=url)]
