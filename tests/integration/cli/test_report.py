"""The report: true, whole where it can be, and harmless whatever people, agents and files have written."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from itertools import groupby
from pathlib import Path

import pytest

from blueflame.journal.journal import Journal
from blueflame.model.attempt import Attempt
from blueflame.model.event import JournalEntry, LandingUndone
from blueflame.model.spend import Spend
from blueflame.testing.simulated_outcomes import hash_to_fraction
from support import hostile_session as hostile_story
from support.command_line import configure, here
from support.hostile_session import HOSTILE, RAN
from support.json_page import keys_in, section, table_keys
from support.recorded_session import ID, Story
from support.session_examples import Outcomes, reported, task
from support.sessions import git

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
NEUTRAL = {"role", "name", "subject", "kind", "counts"}


@pytest.fixture
def project(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    configure(repo)
    monkeypatch.chdir(repo)
    return repo


def keep(root: Path, recorded: list[JournalEntry]) -> None:
    (root / ".blueflame").mkdir(exist_ok=True)
    first = recorded[0].event
    with Journal.open(root / ".blueflame" / "journal.db") as book:
        for at, together in groupby(recorded, key=lambda each: each.at):
            batch = list(together)
            book.append(getattr(first, "session", ""), batch[0].seq - 1, [each.event for each in batch], at)


def commit(root: Path, files: dict[str, str], words: str) -> str:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
        git(root, "add", "--", name)
    git(root, "-c", "user.name=Ада", "-c", "user.email=ada@example.org", "commit", "-qm", words)
    return git(root, "rev-parse", "HEAD").strip()


@pytest.fixture
def hostile(project: Path) -> Path:
    """A session of hostile words with real commits of a hostile file."""
    name = "a\"><script>x<\\script>'& 文.txt"
    words = HOSTILE.replace("\ud800", "").replace("\0", "")  # else it is no text
    before = commit(project, {name: f"same\n{words[:200]} old\n"}, "begin")
    lines = f"same\n{words} new\nmore <b>\n--- a/not a heading\n"
    after = commit(project, {name: lines}, "change")
    keep(project, hostile_story.story(project, before, after, name))
    return project


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def page_of(capsys: pytest.CaptureFixture[str], file: Path, *more: str) -> tuple[str, Reader]:
    said = here(capsys, "report", *more, "--html", file)
    assert (said.code, said.err) == (0, "")
    text = file.read_text(encoding="utf-8")
    reader = Reader()
    reader.feed(text)
    return text, reader


def test_the_short_report_tells_what_came_of_it(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(project, Story().reviewing().lands("cs-1-auth").recorded)
    said = here(capsys, "report")
    assert said.code == 0
    for words in ("not ended", "2 of 3 landed", "4, 1 did not pass", "task-003 #1", "timeout", "waits for an answer"):
        assert words in said.out, words


def test_every_key_of_the_json_is_on_its_page(hostile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reported = here(capsys, "report", "--json").json
    assert set(reported) == table_keys("report")
    reported["audit"]["refused"] = sorted(reported["audit"]["refused"])
    reported["costs"] = list(reported["costs"].values())
    assert reported.pop("changesets")[0]["id"] == "cs-001"  # they are as in status
    assert set(keys_in(reported)) | {"changesets"} == section("report") & (set(keys_in(reported)) | {"changesets"})
    assert reported["outcome"] is None
    assert [each["choice"] for each in reported["decisions"]] == ["approve", None]
    assert reported["audit"]["calls"] == 16
    assert [each["kind"] for each in reported["incidents"]] == ["silence", "silence", "crash", "model"]


def test_the_page_needs_nothing_from_elsewhere(
    hostile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, page = page_of(capsys, tmp_path / "отчёт.html")
    fetching = {"src", "srcset", "action", "formaction", "poster", "background", "data", "xlink:href"}
    assert [tag for tag, given in page.tags if fetching & set(given)] == []
    assert {str(given["href"])[0] for tag, given in page.tags if "href" in given} == {"#"}
    assert not re.search(r"url\((?!#)|@import", text.partition("</style>")[0])
    policy = next(str(given["content"]) for tag, given in page.tags if given.get("http-equiv"))
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_nothing_that_anybody_wrote_becomes_markup(
    hostile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, page = page_of(capsys, tmp_path / "r.html")
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert "img" not in {tag for tag, _ in page.tags}
    assert [name for _, given in page.tags for name in given if name.startswith("on")] == []
    assert "style" not in {name for _, given in page.tags for name in given}
    assert "{{ 7 * 7 }}" in text, "what looks like a template is text"
    assert not set(text) & {"\u202e", "\x1b", "\x00"}
    shown = "".join(page.texts)
    for words in ("<script>document", "more <b>", "--- a/not a heading"):
        assert words in shown, words


def test_nothing_of_it_runs_in_a_browser(hostile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the page's own policy, so that escaping alone has to hold. Our own script shows that scripts do run."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("no Chromium here to open the page with")
    text, _ = page_of(capsys, tmp_path / "r.html")
    bare = re.sub(r'<meta http-equiv="Content-Security-Policy".*?>', "", text)
    assert bare != text
    opened = re.sub(r"<details", "<details open", bare)
    (tmp_path / "bare.html").write_text(opened, encoding="utf-8")
    argv = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--dump-dom",
    ]
    done = subprocess.run([*argv, (tmp_path / "bare.html").as_uri()], capture_output=True, timeout=100, check=True)
    dom = done.stdout.decode()
    assert 'id="tip"' in dom
    assert '<html lang="en">' in dom
    assert f"{RAN}=" not in dom.partition("<body>")[0]


def test_a_session_without_a_plan_has_a_page(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(project, Story().recorded)
    _, page = page_of(capsys, tmp_path / "r.html")
    shown = "".join(page.texts)
    assert "No plan yet." in shown
    assert "No agent has been started." in shown


def test_what_was_cleaned_away_is_said(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither folders nor logs nor commits of that session are there any more."""
    keep(project, Story().reviewing().recorded)
    _, page = page_of(capsys, tmp_path / "r.html", ID)
    shown = "".join(page.texts)
    assert "The folders of 4 attempts were cleaned up" in shown
    assert "No log for 4 agents" in shown
    assert "git no longer has the commits" in shown


def test_the_page_says_that_a_landed_task_was_undone(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story = Story().reviewing().lands("cs-1-auth")
    story.tell(LandingUndone(changeset="cs-1-auth", before="b", after="c" * 40, by="ann"))
    keep(project, story.recorded)

    text, _ = page_of(capsys, tmp_path / "r.html")

    row = text.partition('<tr id="task-1">')[2].partition("</tr>")[0]
    assert ">undone<" in row
    assert "undone by ann with cccccccccccc" in row
    assert ">landed<" not in row


class Busy(Outcomes):
    """Every third attempt fails."""

    def pick_spend(self, attempt: Attempt) -> Spend:
        return Spend(micro_usd=int(1_000_000 * hash_to_fraction(attempt.id)), input_tokens=5_000, output_tokens=100)


def test_two_hundred_tasks_make_a_page_that_can_be_used(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = [task(n, *([n - 3] if n > 3 else []), group=f"g{n % 9}") for n in range(1, 201)]
    world = reported(Busy(*tasks))
    keep(project, world.journal)
    text, page = page_of(capsys, tmp_path / "r.html")
    assert len(world.session.attempts) > 400
    assert len(text) < 3_000_000
    assert sum((given.get("class") or "").startswith("card") for _tag, given in page.tags) == 200


def test_a_page_that_cannot_be_written_is_reported(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(project, Story().recorded)
    said = here(capsys, "report", "--html", project / "README.md" / "r.html")
    assert said.code not in (0, 70)
    assert "README.md" in said.err


def test_a_session_that_does_not_exist_is_reported(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(project, Story().recorded)
    said = here(capsys, "report", "ses-1999")
    assert (said.code, "ses-1999" in said.err) == (2, True)
