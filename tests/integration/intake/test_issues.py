"""Issues with a label, from stand-ins for gh and glab that print recorded answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from blueflame.intake.issues import MAX_PAGE, IssueSource
from blueflame.intake.registry import build_sources
from blueflame.model.errors import ConfigError
from blueflame.model.house.arrival import Trust
from blueflame.model.settings.sources import SourceSettings
from blueflame.testing.clock import FakeClock
from support.intakes import Killed, KilledDesk, build_source_context, open_intake

STAND_IN = """\
#!/bin/sh
printf '%s\\n' "$*" >> "{folder}/asked"
cat "{folder}/errors" >&2 2>/dev/null
cat "{folder}/answer"
exit $(cat "{folder}/code" 2>/dev/null || echo 0)
"""


class Forge:
    """A program on PATH that answers as the test says."""

    def __init__(self, folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder / name
        (self.folder / "bin").mkdir(parents=True)
        program = self.folder / "bin" / name
        program.write_text(STAND_IN.format(folder=self.folder))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
        self.answer([])

    def answer(self, found: object, code: int = 0, errors: str = "") -> None:
        text = found if isinstance(found, str) else json.dumps(found)
        for name, content in (("answer", text), ("code", str(code)), ("errors", errors)):
            (self.folder / name).write_text(content)

    @property
    def asked(self) -> list[str]:
        return (self.folder / "asked").read_text().splitlines()


def build_gh_issue(number: int, author: str = "alice", at: str = "2026-02-01T10:00:00Z") -> dict[str, Any]:
    return {
        "author": {"id": "x", "is_bot": False, "login": author, "name": ""},
        "body": f"Body {number}",
        "number": number,
        "title": f"Issue {number}",
        "updatedAt": at,
        "url": f"https://github.com/Acme/app/issues/{number}",
    }


def build_glab_issue(number: int, author: str = "alice") -> dict[str, Any]:
    return {
        "iid": number,
        "title": f"Issue {number}",
        "description": f"Body {number}",
        "author": {"username": author},
        "updated_at": "2026-02-01T10:00:00.123Z",
        "web_url": f"https://gitlab.com/acme/team/app/-/issues/{number}",
    }


@pytest.fixture
def folder(repo: Path, git: Callable[..., str]) -> Path:
    """A house with the repository `app` on GitHub."""
    app = repo.rename(repo.with_name("app"))
    git(app, "remote", "add", "origin", "https://github.com/acme/app.git")
    return app.parent


def build_issues(folder: Path, clock: FakeClock, **changes: object) -> IssueSource:
    settings = SourceSettings.model_validate({"issues": [changes], "plans": {"enabled": False}})
    (source,) = build_sources(settings, build_source_context(clock, folder))
    assert isinstance(source, IssueSource)
    return source


def step(source: IssueSource, intake: KilledDesk) -> float:
    return asyncio.run(source.step(intake))


def test_labelled_issues_become_requests_of_their_authors(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gh, clock, intake = Forge(folder, "gh", monkeypatch), FakeClock(), open_intake()
    gh.answer([build_gh_issue(1), build_gh_issue(2, "mallory", "2026-02-02T10:00:00Z")])
    source = build_issues(folder, clock)
    assert step(source, intake) == 300
    one, two = intake.requests
    assert (one.key, one.sender.trust, one.text) == ("github:acme/app#1", Trust.OWNER, "Issue 1\n\nBody 1")
    assert two.sender.trust is Trust.MEMBER  # the label was set by a person with rights: an owner is asked
    assert "> Body 2" in two.text
    assert gh.asked == [
        "issue list --state open --label blueflame --search sort:updated-asc --limit 100 "
        "--json number,title,body,author,url,updatedAt"
    ]


def test_only_what_changed_is_asked_for_and_an_issue_is_received_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gh, clock, intake = Forge(folder, "gh", monkeypatch), FakeClock(), open_intake()
    gh.answer([build_gh_issue(1)])
    for _ in range(3):
        step(build_issues(folder, clock, every="10m"), intake)
        clock.advance(301)
    assert len(gh.asked) == 2  # not each time that the house starts
    assert "updated:>=2026-02-01T10:00:00Z" in gh.asked[1]
    assert len(intake.requests) == 1


def test_gitlab_is_asked_through_its_interface(
    folder: Path, git: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    git(folder / "app", "remote", "set-url", "origin", "git@gitlab.com:acme/team/app.git")
    glab, intake = Forge(folder, "glab", monkeypatch), open_intake()
    glab.answer([build_glab_issue(7)])
    clock = FakeClock()
    source = build_issues(folder, clock, label="to do & more")
    step(source, intake)
    clock.advance(300)
    step(source, intake)
    (request,) = intake.requests
    assert (request.key, request.sender.trust) == ("gitlab:acme/team/app#7", Trust.OWNER)
    assert glab.asked[0].startswith("api projects/:id/issues?state=opened&labels=to%20do%20%26%20more&")
    assert glab.asked[1].endswith("&updated_after=2026-02-01T10%3A00%3A00.123Z")


def test_a_full_page_is_followed_by_the_next_one_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gh, intake = Forge(folder, "gh", monkeypatch), open_intake()
    gh.answer([build_gh_issue(number) for number in range(MAX_PAGE)])
    source = build_issues(folder, FakeClock())
    assert step(source, intake) == 0
    assert step(source, intake) == 300
    assert len(gh.asked) == 2


@pytest.mark.parametrize(
    ("answer", "code", "errors", "reason"),
    [
        ("", 4, "To get started with GitHub CLI, please run:  gh auth login\x1b[2J", "gh auth login"),
        ("", 1, "error connecting to api.github.com", "error connecting"),
        ("<html>", 0, "", "not a list of issues"),
        ('{"message": "404 Not found"}', 0, "", "404 Not found"),
        ('[{"number": 1}]', 0, "", "not a list of issues"),
        ('[{"number": 1e999, "url": ""}]', 0, "", "not a list of issues"),
    ],
)
def test_a_program_that_fails_is_reported_once_and_asked_again_later(  # noqa: PLR0917 (parameters of the table)
    folder: Path, monkeypatch: pytest.MonkeyPatch, answer: str, code: int, errors: str, reason: str
) -> None:
    gh, clock, intake = Forge(folder, "gh", monkeypatch), FakeClock(), open_intake()
    gh.answer(answer, code, errors)
    source = build_issues(folder, clock)
    for _ in range(2):
        assert step(source, intake) == 300
        clock.advance(300)
    ((name, text),) = intake.warnings
    assert name == "issues/app/blueflame"
    assert reason in text
    assert "\x1b" not in text
    assert not asyncio.run(source.probe()).works
    gh.answer([build_gh_issue(1)])
    step(source, intake)
    assert len(intake.requests) == 1
    assert asyncio.run(source.probe()).text == "1 open issues with the label blueflame"


def test_a_program_that_is_not_installed_is_reported_with_what_to_do(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gh = Forge(folder, "gh", monkeypatch)
    (gh.folder / "bin" / "gh").unlink()
    intake = open_intake()
    step(build_issues(folder, FakeClock(), forge="gh"), intake)
    step(build_issues(folder, FakeClock()), intake)
    assert intake.warnings[0][1].startswith("gh is not installed: install it and log in")
    assert intake.warnings[1][1].startswith("neither gh nor glab is installed")


def test_killed_between_answer_and_receive_nothing_is_lost_and_nothing_comes_twice(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gh, clock, intake = Forge(folder, "gh", monkeypatch), FakeClock(), open_intake()
    gh.answer([build_gh_issue(1)])
    for dies_in in (0, 1, None):
        intake.dies_in = dies_in
        with suppress(Killed):
            step(build_issues(folder, clock), intake)
        clock.advance(300)
    assert [request.key for request in intake.requests] == ["github:acme/app#1"]
    assert "updated:" not in gh.asked[1]


def test_a_repository_that_the_house_does_not_have_is_named(folder: Path) -> None:
    with pytest.raises(ConfigError, match="unknown repository 'shop'"):
        build_issues(folder, FakeClock(), repository="shop")
