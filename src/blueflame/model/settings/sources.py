"""Settings of the sources of requests in house.yaml, and the feeds file."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from ipaddress import ip_network
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from blueflame.model.settings.fields import Duration, InvalidValue, Section, Text, VariableName, ZoneName
from blueflame.model.settings.notifications import URL_HINT, find_url_problem

CRON_NAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
CRON_HINT = "write five fields (minute, hour, day, month, weekday) such as '30 6 * * 1-5', or a name such as @daily"
MAX_CRON_CHARS = 200  # thousands of list items take seconds
MAX_REQUEST_CHARS = 20_000
SOURCE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
PLAN_PATTERN = re.compile(r"(?:[^/*?\[\]\\\x00-\x1f]+/)*[^/\\\x00-\x1f]+")


def _check_cron(text: str) -> str:
    fields = CRON_NAMES.get(text.strip(), text).split()
    if text.strip().startswith("@") and text.strip() not in CRON_NAMES:
        raise InvalidValue("is not a known name", f"write one of {', '.join(CRON_NAMES)}, or five fields")
    if len(text) > MAX_CRON_CHARS or len(fields) != 5:
        raise InvalidValue("is not a cron expression of five fields", CRON_HINT)
    try:
        from cronsim import CronSim, CronSimError
    except ImportError:  # building the source reports it, with the command that installs it
        return text.strip()
    try:
        CronSim(" ".join(fields), datetime(2026, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise InvalidValue(f"is not a cron expression: {str(error).lower()}", CRON_HINT) from None
    return text.strip()


def _check_source_name(text: str) -> str:
    if not SOURCE_NAME.fullmatch(text):
        raise InvalidValue("is not a name", "use up to 64 letters, digits, '.', '-' and '_', such as tech-news")
    return text


def _check_plan_pattern(text: str) -> str:
    parts = text.split("/")
    if not PLAN_PATTERN.fullmatch(text) or "**" in text or {"", ".", "..", ".git", ".blueflame"} & set(parts):
        raise InvalidValue(
            "is not a folder and a pattern for names", "write it relative to the repository, such as docs/plans/*.md"
        )
    return text


def _check_feed_url(url: str) -> str:
    if problem := find_url_problem(url):
        raise InvalidValue(problem, URL_HINT)
    return url


def _check_network(text: str) -> str:
    try:
        ip_network(text, strict=False)
    except ValueError:
        raise InvalidValue("is not an address or a network", "write one such as 192.168.1.20 or 10.1.0.0/16") from None
    return text


def _check_request(text: str) -> str:
    if not text.strip() or "\0" in text or len(text) > MAX_REQUEST_CHARS:
        raise InvalidValue("is empty or too long", f"write what is to be done, in at most {MAX_REQUEST_CHARS} letters")
    return text


def _check_listen(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 <= int(port) < 65_536:
        raise InvalidValue("is not an address with a port", "write one such as 127.0.0.1:8787 or [::1]:8787")
    return text


CronExpression = Annotated[str, AfterValidator(_check_cron)]
SourceName = Annotated[str, AfterValidator(_check_source_name)]
PlanPattern = Annotated[str, AfterValidator(_check_plan_pattern)]
FeedUrl = Annotated[str, AfterValidator(_check_feed_url)]
Network = Annotated[str, AfterValidator(_check_network)]
RequestText = Annotated[str, AfterValidator(_check_request)]
ListenAddress = Annotated[str, AfterValidator(_check_listen)]


class PlanFileSettings(Section):
    enabled: bool = True
    """Whether plan files in the repositories become requests."""
    paths: tuple[PlanPattern, ...] = Field(default=("docs/plans/*.md", "registry/tasks/*.md"), strict=False)
    """Where plan files are in each repository: a folder, and a pattern for names."""
    trust: Literal["owner", "member"] = "member"
    """Whose word a plan file is. `member`: an owner is asked first; `owner`: it starts work."""


class NotifyOnMatch(Section):
    keywords: tuple[Text, ...] = Field(default=(), strict=False)
    """Words; people are notified of an item with one of them, in any case."""


class FeedSettings(Section):
    name: SourceName
    """The feed in messages, and what its state is stored under."""
    url: FeedUrl
    """https, or http on this machine."""
    poll_interval: CronExpression = "*/30 * * * *"
    """When it is fetched, as a cron expression in UTC."""
    processor: Literal["summarize", "changelog"] = "summarize"
    """What is asked for each item: a summary, or what a release means for the repository."""
    notify_on_match: NotifyOnMatch = NotifyOnMatch()
    """Which items people are notified of."""
    repository: Text | None = None
    """The repository of its requests; without it that of `feeds.repository`."""


class FeedsFile(Section):
    """config/rss.feeds.yml"""

    feeds: tuple[FeedSettings, ...] = Field(default=(), strict=False)


class FeedSourceSettings(Section):
    file: Text = "config/rss.feeds.yml"
    """The feeds, in a file of their own; relative to the folder of house.yaml."""
    feeds: tuple[FeedSettings, ...] = Field(default=(), strict=False)
    """More feeds."""
    repository: Text | None = None
    """The repository of requests from feeds that name none."""
    private_addresses: tuple[Network, ...] = Field(default=(), strict=False)
    """Addresses of this machine or its network from which feeds may be fetched. Public ones need no entry."""


class TimedRequestSettings(Section):
    name: SourceName
    """The schedule in messages, and what its state is stored under."""
    cron: CronExpression
    """When, as five fields of cron, or @hourly, @daily, @midnight, @weekly, @monthly, @yearly."""
    zone: ZoneName = "UTC"
    """The time zone of the times, by name."""
    request: RequestText
    """What is asked for."""
    repository: Text | None = None
    """The repository; may be left out where the house has only one."""
    missed: Literal["once", "skip"] = "once"
    """What follows when the house did not run at the time: one request for all missed times, or no request."""
    workflow: Text | None = None
    """The workflow of its sessions."""
    priority: int = Field(default=0, ge=-100, le=100)
    """Requests with a higher one go first."""


class WebhookSettings(Section):
    name: SourceName
    """The last part of its address: POST /hooks/NAME."""
    forge: Literal["github", "gitlab"]
    """Who calls."""
    project: Text
    """The project on the forge, such as acme/app. Calls about others are refused."""
    secret_from: VariableName
    """The environment variable that holds the secret: GitHub's secret, GitLab's token or signing token."""
    repository: Text | None = None
    """The repository of its requests; may be left out where the house has only one."""
    label: Text = "blueflame"
    """An issue that gets this label becomes a request."""
    command: Text = "/blueflame"
    """A comment that begins with this word becomes a request."""


class WebhookServerSettings(Section):
    enabled: bool = False
    """Whether the house listens for webhooks."""
    listen: ListenAddress = "127.0.0.1:8787"
    """Address and port. Others than this machine reach it through a proxy of yours, which adds TLS."""
    hooks: tuple[WebhookSettings, ...] = Field(default=(), strict=False)
    """Who may call, each with a secret of its own."""


class IssueSettings(Section):
    repository: Text | None = None
    """The repository whose issues are read; may be left out where the house has only one."""
    forge: Literal["auto", "gh", "glab"] = "auto"
    """The program that is asked: gh for GitHub, glab for GitLab; auto by the address of the remote."""
    remote: Text = "origin"
    """The remote by which `auto` decides."""
    label: Text = "blueflame"
    """Issues with this label become requests."""
    every: Duration = 300.0
    """How often the forge is asked."""


class SourceSettings(Section):
    plans: PlanFileSettings = PlanFileSettings()
    """Plan files in the repositories."""
    feeds: FeedSourceSettings = FeedSourceSettings()
    """RSS and Atom."""
    schedules: tuple[TimedRequestSettings, ...] = Field(default=(), strict=False)
    """Requests at set times."""
    webhooks: WebhookServerSettings = WebhookServerSettings()
    """Calls of GitHub and GitLab."""
    issues: tuple[IssueSettings, ...] = Field(default=(), strict=False)
    """Issues with a label, asked for with gh or glab."""

    @model_validator(mode="after")
    def _names_are_used_once(self) -> SourceSettings:
        for place, names in (
            (("feeds", "feeds"), [feed.name for feed in self.feeds.feeds]),
            (("schedules",), [schedule.name for schedule in self.schedules]),
            (("webhooks", "hooks"), [hook.name for hook in self.webhooks.hooks]),
        ):
            if twice := next((name for name in names if names.count(name) > 1), None):
                raise InvalidValue("has a name twice", "give each a name of its own", at=place, got=twice)
        return self
