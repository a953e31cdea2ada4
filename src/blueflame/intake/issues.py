"""Issues with a label, asked for with the person's own gh or glab every few minutes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from blueflame.dispatch.forge_issues import KIND, ForgeIssue, Identify, build_issue_request
from blueflame.git.forges import ForgeFailed, choose_forge, run_forge
from blueflame.intake.source import Clock, Intake, SourceContext, SourceProbe, parse_cursor, repeat_steps
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import WorldError
from blueflame.model.settings.sources import IssueSettings, SourceSettings
from blueflame.text.sanitize import shorten_line

MAX_PAGE = 100
ISSUE_PATHS = ("/issues/", "/work_items/")


class IssueListing(NamedTuple):
    """How a forge's program is asked, and how its answer is read."""

    forge: str
    build_arguments: Callable[[str, str], Sequence[str]]  # of the label, and the time of the newest issue that was read
    number: str  # and what else the forges name differently
    body: str
    url: str
    account: str
    updated: str

    def read_issue(self, found: Mapping[str, Any]) -> tuple[ForgeIssue, str]:
        """With the time of its last change."""
        issue = ForgeIssue(
            forge=self.forge,
            project=_find_project(found[self.url]),
            number=int(found[self.number]),
            title=str(found["title"]),
            body=str(found.get(self.body) or ""),
            url=str(found[self.url]),
            author=str((found.get("author") or {}).get(self.account, "")),
        )
        return issue, str(found[self.updated])


def _build_gh_arguments(label: str, since: str) -> Sequence[str]:
    search = "sort:updated-asc" + (f" updated:>={since}" if since else "")
    fields = "number,title,body,author,url,updatedAt"
    filters = ("--state", "open", "--label", label, "--search", search, "--limit", str(MAX_PAGE))
    return ("issue", "list", *filters, "--json", fields)


def _build_glab_arguments(label: str, since: str) -> Sequence[str]:
    query = f"state=opened&labels={quote(label, safe='')}&order_by=updated_at&sort=asc&per_page={MAX_PAGE}"
    since = f"&updated_after={quote(since, safe='')}" if since else ""
    return ("api", f"projects/:id/issues?{query}{since}")


def _find_project(url: str) -> str:
    """acme/app of https://github.com/acme/app/issues/12"""
    path = urlsplit(url).path
    project = next((path.partition(part)[0] for part in ISSUE_PATHS if part in path), path)
    return project.strip("/").removesuffix("/-")


LISTINGS: Mapping[str, IssueListing] = {
    "gh": IssueListing("github", _build_gh_arguments, "number", "body", "url", "login", "updatedAt"),
    "glab": IssueListing("gitlab", _build_glab_arguments, "iid", "description", "web_url", "username", "updated_at"),
}


@dataclass(frozen=True, slots=True)
class IssueSource:
    settings: IssueSettings
    repository: str
    root: Path
    identify: Identify
    clock: Clock

    @property
    def name(self) -> str:
        return f"{KIND}/{self.repository}/{self.settings.label}"

    async def run(self, intake: Intake) -> None:
        await repeat_steps(self.step, intake, self.clock)

    async def step(self, intake: Intake) -> float:
        """Ask for the issues that changed since the last time; one that was received before is dropped by its key."""
        state = parse_cursor(intake.read_cursor(self.name))
        due_in = float(state.get("next_at", 0.0)) - self.clock.now()
        if 0 < due_in <= self.settings.every:
            return due_in
        since = str(state.get("since", ""))
        try:
            issues = await asyncio.to_thread(self._list_issues, since)
        except WorldError as error:
            intake.warn(self.name, shorten_line(str(error), 500))
            return self.settings.every
        now = self.clock.now()
        arrivals = [
            build_issue_request(issue, self.identify, labelled_by="", repository=self.repository, now=now)
            for issue, _ in issues
        ]
        newest = max([since, *(at for _, at in issues)])
        wait = 0.0 if len(issues) >= MAX_PAGE and newest != since else self.settings.every  # there may be more
        state = {"since": newest, "next_at": now + wait}
        intake.receive(self.name, arrivals, cursor=json.dumps(state))
        return wait

    def _list_issues(self, since: str) -> list[tuple[ForgeIssue, str]]:
        forge = choose_forge(self.root, self.settings.remote, self.settings.forge)
        if not forge:
            raise ForgeFailed("neither gh nor glab is installed: install one of them and log in")
        listing = LISTINGS[forge]
        out = run_forge(self.root, forge, listing.build_arguments(self.settings.label, since))
        try:
            found = json.loads(out or "[]")
            if not isinstance(found, list):
                raise TypeError(found.get("message", "no list"))
            return [listing.read_issue(entry) for entry in found]
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise ForgeFailed(f"{forge} gave an answer that is not a list of issues: {error!s:.200}") from error

    async def probe(self) -> SourceProbe:
        try:
            issues = await asyncio.to_thread(self._list_issues, "")
        except WorldError as error:
            return SourceProbe(False, shorten_line(str(error), 500))
        return SourceProbe(True, f"{len(issues)} open issues with the label {self.settings.label}")


def build_issue_sources(settings: SourceSettings, context: SourceContext) -> tuple[IssueSource, ...]:
    sources = []
    for each in settings.issues:
        name = context.find_repository(each.repository, "sources.issues")
        sources.append(IssueSource(each, name, context.repositories[name].root, context.identify, context.clock))
    return tuple(sources)
