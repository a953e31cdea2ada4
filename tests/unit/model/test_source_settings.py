"""What is accepted for the sources of requests."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from blueflame.model.settings.sources import FeedsFile, SourceSettings

SCHEDULE = {"name": "nightly", "cron": "0 3 * * *", "request": "Update the dependencies"}
FEED = {"name": "tech-news", "url": "https://example.com/rss/tech.xml"}
HOOK = {"name": "app", "forge": "github", "project": "acme/app", "secret_from": "HOOK_SECRET"}


def test_the_feeds_file_of_the_seed_is_read_as_it_is() -> None:
    file = FeedsFile.model_validate(
        {
            "feeds": [
                {
                    "name": "tech-news",
                    "url": "https://example.com/rss/tech.xml",
                    "poll_interval": "*/30 * * * *",
                    "processor": "summarize",
                    "notify_on_match": {"keywords": ["AI", "Claude", "LLM"]},
                },
                {
                    "name": "github-releases",
                    "url": "https://github.com/anthropics/claude-code/releases.atom",
                    "poll_interval": "0 */2 * * *",
                    "processor": "changelog",
                },
            ]
        }
    )
    assert [feed.name for feed in file.feeds] == ["tech-news", "github-releases"]
    assert file.feeds[0].notify_on_match.keywords == ("AI", "Claude", "LLM")


def test_without_settings_plan_files_are_watched_and_no_port_is_opened() -> None:
    settings = SourceSettings()
    assert settings.plans.enabled
    assert settings.plans.paths == ("docs/plans/*.md", "registry/tasks/*.md")
    assert settings.plans.trust == "member"
    assert not settings.webhooks.enabled
    assert settings.webhooks.listen.startswith("127.0.0.1:")


@pytest.mark.parametrize("name", ["@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "5 4 * * sun"])
def test_names_and_five_fields_are_cron_expressions(name: str) -> None:
    SourceSettings.model_validate({"schedules": [SCHEDULE | {"cron": name}]})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"cron": "0 0 3 * * *"}, "is not a cron expression of five fields"),  # six: two libraries disagree
        ({"cron": "0 3 * *"}, "is not a cron expression of five fields"),
        ({"cron": "@reboot"}, "is not a known name"),
        ({"cron": "61 3 * * *"}, "bad minute"),
        ({"cron": "0 0 30 2 *"}, "bad day-of-month"),
        ({"cron": ",".join(["1"] * 200) + " * * * *"}, "is not a cron expression of five fields"),
        ({"zone": "Berlin"}, "is not a time zone"),
        ({"zone": "../../etc/passwd"}, "is not a time zone"),
        ({"zone": ""}, "is not a time zone"),
        ({"name": "a/b"}, "is not a name"),
        ({"request": " "}, "is empty or too long"),
        ({"missed": "all"}, "Input should be 'once' or 'skip'"),
    ],
)
def test_what_is_wrong_with_a_schedule_is_named(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        SourceSettings.model_validate({"schedules": [SCHEDULE | change]})


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/feed",
        "http://192.168.0.1/feed",
        "file:///etc/passwd",
        "ftp://example.com/feed",
        "https://user:secret@example.com/feed",
        "https://127.0.0.1@example.com/",
        "https://example.com\\@127.0.0.1/",
        "https://example.com/a b",
        "https:///feed",
        "//example.com/feed",
        "https://example.com/\r\nHost: other",
    ],
)
def test_addresses_of_feeds_are_https_without_a_user(url: str) -> None:
    with pytest.raises(ValidationError):
        FeedsFile.model_validate({"feeds": [FEED | {"url": url}]})


@pytest.mark.parametrize(
    "path",
    ["/etc/*.md", "../plans/*.md", "docs/../../x/*.md", "**/*.md", "docs/**/*.md", "do*s/*.md", ".git/*", "a//b"],
)
def test_plan_files_are_looked_for_in_one_folder_of_the_repository(path: str) -> None:
    with pytest.raises(ValidationError, match="is not a folder and a pattern"):
        SourceSettings.model_validate({"plans": {"paths": [path]}})


def test_a_plan_file_may_lie_at_the_top() -> None:
    assert SourceSettings.model_validate({"plans": {"paths": ["PLAN*.md"]}}).plans.paths == ("PLAN*.md",)


@pytest.mark.parametrize(
    "data",
    [
        {"schedules": [SCHEDULE, SCHEDULE]},
        {"feeds": {"feeds": [FEED, FEED]}},
        {"webhooks": {"hooks": [HOOK, HOOK]}},
    ],
)
def test_a_name_is_used_once(data: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="has a name twice"):
        SourceSettings.model_validate(data)


@pytest.mark.parametrize("text", ["8787", ":8787", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:x"])
def test_webhooks_listen_at_an_address_with_a_port(text: str) -> None:
    with pytest.raises(ValidationError, match="is not an address with a port"):
        SourceSettings.model_validate({"webhooks": {"listen": text}})


def test_a_secret_cannot_be_written_into_the_file() -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        SourceSettings.model_validate({"webhooks": {"hooks": [HOOK | {"secret": "hunter2"}]}})
