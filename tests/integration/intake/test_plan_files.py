"""Plan files: looked at on the disk, with a clock that the test advances, and once with the real watcher."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blueflame.documents.plans import read_plan
from blueflame.intake import plan_files
from blueflame.intake.plan_files import PlanFileSource
from blueflame.intake.registry import build_sources
from blueflame.intake.source import MAX_WAIT_SECONDS
from blueflame.model.house.arrival import Trust
from blueflame.model.settings.sources import SourceSettings
from blueflame.system.clock import SystemClock
from blueflame.testing.clock import FakeClock
from support.intakes import Killed, KilledDesk, build_source_context, open_intake


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "app" / "docs" / "plans").mkdir(parents=True)
    return tmp_path / "app"


def build_plans(root: Path, **changes: object) -> PlanFileSource:
    (source,) = build_sources(
        SourceSettings.model_validate({"plans": changes}), build_source_context(FakeClock(), root.parent)
    )
    assert isinstance(source, PlanFileSource)
    return source


def look(source: PlanFileSource, intake: KilledDesk, times: int = 2) -> float:
    """Look so many times; a file that rests is taken at the second look."""
    seconds = 0.0
    for _ in range(times):
        seconds = asyncio.run(source.step(intake))
    return seconds


def write_plan(root: Path, text: str, name: str = "docs/plans/a.md") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_prose_becomes_a_request_that_an_owner_is_asked_about(root: Path) -> None:
    path = write_plan(root, "# Faster tests\n\nMake the tests faster.\n")
    intake = open_intake()
    look(build_plans(root), intake)
    (request,) = intake.requests
    assert (request.title, request.plan, request.repository) == ("Faster tests", "", "app")
    assert request.sender.trust is Trust.MEMBER  # agents and pull requests can write there
    assert request.origin == str(path)
    assert path.read_text() == "# Faster tests\n\nMake the tests faster.\n"


def test_a_checklist_becomes_a_plan_with_what_agents_may_write(root: Path, tmp_path: Path) -> None:
    (root / "blueflame.yaml").write_text(
        'schema_version: 2\nproject: {name: app}\npermissions: {allowed_paths: ["lib/**", "/*.toml"]}\n'
    )
    write_plan(root, "# Sign-in\n- [ ] Add a form\n- [x] Choose\n- [ ] Log out\n", "registry/tasks/sign-in.md")
    intake = open_intake()
    look(build_plans(root, trust="owner"), intake)
    (request,) = intake.requests
    assert request.sender.trust is Trust.OWNER
    (tmp_path / "plan.yaml").write_text(request.plan)
    tasks = read_plan(tmp_path / "plan.yaml")
    assert [task.title for task in tasks] == ["Add a form", "Log out"]
    assert tasks[0].file_locks == ("lib/**", "*.toml")


def test_a_file_that_is_being_written_waits_until_it_rests(root: Path) -> None:
    source, intake = build_plans(root), open_intake()
    path = write_plan(root, "# Half\n")
    assert look(source, intake, 1) == plan_files.REST_SECONDS
    with path.open("a") as file:
        file.write("- [ ] One\n")
    assert look(source, intake, 1) == plan_files.REST_SECONDS
    assert intake.requests == []
    assert look(source, intake, 1) == MAX_WAIT_SECONDS
    assert [request.text for request in intake.requests] == ["# Half\n- [ ] One\n"]


def test_the_same_content_is_taken_once_whatever_an_editor_does(root: Path) -> None:
    source, intake = build_plans(root), open_intake()
    path = write_plan(root, "Do it.\n")
    look(source, intake)
    path.rename(path.with_suffix(".bak"))
    look(source, intake)
    path.with_suffix(".tmp").write_text("Do it.   \n\n")
    path.with_suffix(".tmp").rename(path)
    look(source, intake)
    look(build_plans(root), intake)  # another house on the same cursor
    assert len(intake.requests) == 1


def test_an_edit_of_a_plan_that_was_taken_is_asked_about_and_starts_nothing(root: Path) -> None:
    source, intake = build_plans(root, trust="owner"), open_intake()
    path = write_plan(root, "- [ ] One\n")
    look(source, intake)
    path.write_text("- [ ] One\n- [ ] Two\n")
    look(source, intake)
    first, second = intake.requests
    assert (first.sender.trust, second.sender.trust) == (Trust.OWNER, Trust.MEMBER)
    assert second.title.startswith("New version of docs/plans/a.md")
    assert first.key != second.key


def test_ticking_an_item_off_asks_nothing(root: Path) -> None:
    source, intake = build_plans(root), open_intake()
    path = write_plan(root, "- [ ] One\n- [ ] Two\n")
    look(source, intake)
    path.write_text("- [x] One\n- [ ] Two\n")
    look(source, intake)
    path.write_text("- [x] One\n- [x] Two\n")
    look(source, intake)
    assert len(intake.requests) == 1


def test_plans_that_were_committed_before_the_first_look_are_left_alone_until_edited(
    repo: Path, git: Callable[..., str]
) -> None:
    root = repo.rename(repo.with_name("app"))
    old = write_plan(root, "Old.\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "Add plan")
    write_plan(root, "New.\n", "docs/plans/new.md")
    source, intake = build_plans(root), open_intake()
    look(source, intake)
    assert [request.text for request in intake.requests] == ["New.\n"]
    assert intake.warnings[0][1].startswith("1 plan files were committed before the house first looked")
    old.write_text("Old, and again.\n")
    look(source, intake)
    assert intake.requests[1].title == "Old, and again."


def test_the_probe_names_what_is_not_read(root: Path) -> None:
    os.mkfifo(root / "docs" / "plans" / "x.md")
    probe = asyncio.run(build_plans(root).probe())
    assert (probe.works, probe.text) == (False, "docs/plans/x.md: it is not a plain file. Remove it")


def test_a_name_with_escape_sequences_is_reported_cleaned(root: Path) -> None:
    (root / "docs/plans/\x1b[2J.md").write_bytes(b"\0")
    intake = open_intake()
    look(build_plans(root), intake)
    assert "\x1b" not in intake.warnings[0][1]


def test_a_name_that_is_not_text_is_reported_and_the_others_are_read(root: Path) -> None:
    Path(os.fsdecode(os.fsencode(root / "docs" / "plans") + b"/\xff.md")).write_text("Odd.\n")
    write_plan(root, "Fine.\n", "docs/plans/план.md")
    intake = open_intake()
    look(build_plans(root), intake)
    assert [request.text for request in intake.requests] == ["Fine.\n"]
    assert "its name has characters that are not text" in intake.warnings[0][1]


def test_what_could_not_be_stored_is_taken_at_the_next_look(root: Path) -> None:
    source, intake = build_plans(root), open_intake()
    look(source, intake)
    write_plan(root, "Do it.\n")
    intake.dies_in = 0
    with suppress(Killed):
        look(source, intake)
    intake.dies_in = None
    look(source, intake)  # the house starts the same source again
    assert len(intake.requests) == 1


def test_hidden_files_and_other_names_are_not_plans(root: Path) -> None:
    for name in (".draft.md", "notes.txt", "b.md~", "sub/c.md"):
        write_plan(root, "x", f"docs/plans/{name}")
    intake = open_intake()
    assert look(build_plans(root), intake) == MAX_WAIT_SECONDS
    assert (intake.requests, intake.warnings) == ([], [])


def test_a_repository_that_is_gone_is_reported_and_read_again_when_it_is_back(root: Path) -> None:
    source, intake = build_plans(root), open_intake()
    look(source, intake)
    root.rename(root.with_name("away"))
    look(source, intake)
    assert "is not a folder" in intake.warnings[0][1]
    assert not asyncio.run(source.probe()).works
    root.with_name("away").rename(root)
    write_plan(root, "Do it.\n")
    look(source, intake)
    assert len(intake.requests) == 1


def test_plan_files_can_be_switched_off() -> None:
    disabled = SourceSettings.model_validate({"plans": {"enabled": False}})
    assert build_sources(disabled, build_source_context(FakeClock())) == ()


def test_the_real_watcher_gives_a_hint_also_after_the_folder_was_made_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rescan is a minute away: only the watcher can be this fast."""
    monkeypatch.setattr(plan_files, "REST_SECONDS", 0.05)

    async def play() -> list[str]:
        intake = open_intake()
        source = PlanFileSource("app", root, root / "blueflame.yaml", SourceSettings().plans, SystemClock())
        task = asyncio.create_task(source.run(intake))
        await wait_until(lambda: bool(intake.read_cursor(source.name)))
        for number in range(2):
            write_plan(root, f"Plan {number}.\n", f"docs/plans/{number}.md")
            await wait_until(lambda: len(intake.requests) > number)  # noqa: B023 (awaited within the round)
            shutil.rmtree(root / "docs" / "plans")
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return [request.text for request in intake.requests]

    async def wait_until(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                await asyncio.sleep(0.02)

    assert asyncio.run(play()) == ["Plan 0.\n", "Plan 1.\n"]


@settings(max_examples=25)  # each is slow
@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from(["One", "Two", "- [ ] A"]), st.integers(0, 2)), max_size=8
    )
)
def test_killed_at_any_moment_each_version_is_requested_once(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[str, str, int]]
) -> None:
    root = tmp_path_factory.mktemp("house") / "app"
    (root / "docs" / "plans").mkdir(parents=True)
    intake = open_intake()
    look(build_plans(root), intake)
    for name, text, transactions in edits:
        write_plan(root, text, f"docs/plans/{name}.md")
        intake.dies_in = transactions
        with suppress(Killed):
            look(build_plans(root), intake)
    intake.dies_in = None
    look(build_plans(root), intake)
    last = {name: text for name, text, _ in edits}
    taken = [(request.origin[-4], request.text) for request in intake.requests]
    assert len(set(taken)) == len(taken)
    assert set(last.items()) <= set(taken)
    assert set(taken) <= {(name, text) for name, text, _ in edits}


def test_stopping_it_while_it_fails_stops_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its watcher is cancelled when it fails: that the house is stopped at this moment must not be taken for it."""

    async def fail(_source: PlanFileSource, _intake: object) -> float:
        await asyncio.sleep(0)
        raise PermissionError

    async def play() -> None:
        ending = asyncio.Event()

        async def watch(_source: PlanFileSource, _hint: object) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ending.set()
                await asyncio.sleep(0)

        monkeypatch.setattr(PlanFileSource, "step", fail)
        monkeypatch.setattr(PlanFileSource, "_watch", watch)
        task = asyncio.create_task(build_plans(root).run(open_intake()))
        await ending.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(play())


def test_a_folder_that_cannot_be_listed_is_reported_with_its_fix(root: Path) -> None:
    source, intake = build_plans(root, paths=["x" * 300 + "/*.md"]), open_intake()  # refused to root, too
    look(source, intake)
    assert "File name too long" in intake.warnings[0][1]
    assert not asyncio.run(source.probe()).works
