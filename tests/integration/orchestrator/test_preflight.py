from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from blueflame.git.repository import Repository, open_repository
from blueflame.model.errors import Refused
from blueflame.model.settings import Settings
from blueflame.orchestrator import preflight
from blueflame.orchestrator.preflight import check_repository, find_blockers, find_foreign_state
from blueflame.system.layout import ProjectPaths
from blueflame.system.machine import FreeResources
from support.disks import mounted

SETTINGS = Settings.model_validate({"project": {"name": "x"}})


def build_settings(**sandbox: object) -> Settings:
    return Settings.model_validate({"project": {"name": "x"}, "sandbox": sandbox})


@pytest.fixture
def opened(repo: Path) -> Repository:
    return open_repository(repo, base_branch="main")


def places_in(repo: Repository, worktrees: str = ".trees") -> ProjectPaths:
    return ProjectPaths(root=repo.root, worktrees=repo.root / worktrees, tasks_file=repo.root / ".blueflame/tasks.yaml")


def test_a_clean_repository_passes_and_the_check_leaves_nothing_behind(opened: Repository) -> None:
    before = sorted(path.name for path in opened.root.iterdir())
    check_repository(opened, places_in(opened), SETTINGS, allow_dirty=False)
    assert sorted(path.name for path in opened.root.iterdir()) == before


def test_every_reason_is_reported_at_once(opened: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(12):
        (opened.root / f"новый {n:02d}.txt").write_text("x")
    (opened.root / "src/app.py").write_text("changed\n")
    monkeypatch.setattr(preflight, "CHECKOUT_GROWTH", 10**15)
    with pytest.raises(Refused) as error:
        check_repository(opened, places_in(opened, "README.md/trees"), SETTINGS, allow_dirty=False)
    text = str(error.value)
    assert "src/app.py" in text
    assert "and 3 more" in text
    assert "--allow-dirty" in text
    assert "not enough disk" in text
    assert "cannot be written" in text
    assert str(opened.root) in text


def test_a_dirty_checkout_may_be_allowed(opened: Repository) -> None:
    (opened.root / "README.md").write_text("changed\n")
    assert list(find_blockers(opened, places_in(opened), SETTINGS, allow_dirty=False))
    assert not list(find_blockers(opened, places_in(opened), SETTINGS, allow_dirty=True))


def test_our_own_folders_are_no_dirt(opened: Repository) -> None:
    for name in (".blueflame/x", "деревья/x"):
        (opened.root / name).parent.mkdir(parents=True)
        (opened.root / name).write_text("ours")
    assert not list(find_blockers(opened, places_in(opened, "деревья"), SETTINGS, allow_dirty=False))


def test_a_state_folder_that_git_tracks_is_not_trusted(opened: Repository, git: Callable[..., str]) -> None:
    state = opened.root / ".blueflame"
    state.mkdir(exist_ok=True)
    (state / "memory.db").write_text("planted")
    git(opened.root, "add", "-f", ".blueflame/memory.db")
    git(opened.root, "commit", "-q", "-m", "plant")
    (problem,) = find_blockers(opened, places_in(opened), SETTINGS, allow_dirty=False)
    assert "git rm -r .blueflame" in problem


def test_a_state_folder_of_another_letter_case_is_refused_as_well(opened: Repository, git: Callable[..., str]) -> None:
    """On many disks it is the same folder."""
    (opened.root / ".BlueFlame").mkdir()
    (opened.root / ".BlueFlame" / "prices.json").write_text("{}")
    git(opened.root, "add", "-f", ".BlueFlame")
    git(opened.root, "commit", "-q", "-m", "plant")
    assert "git tracks files in .blueflame" in next(find_foreign_state(opened, places_in(opened)))


def test_a_link_that_the_repository_brings_does_not_lead_our_files_elsewhere(
    opened: Repository, git: Callable[..., str], tmp_path: Path
) -> None:
    (opened.root / "деревья").symlink_to(tmp_path)
    places = places_in(opened, "деревья/внутри")
    assert not list(find_foreign_state(opened, places)), "a person may put the checkouts on another disk"
    git(opened.root, "add", "деревья")
    git(opened.root, "commit", "-q", "-m", "plant")
    (problem,) = find_foreign_state(opened, places)
    assert str(tmp_path) in problem


def test_a_configuration_that_is_not_tracked_yet_is_no_dirt(opened: Repository, git: Callable[..., str]) -> None:
    config = opened.root / "blueflame.yaml"
    config.write_text("project: {name: x}\n")

    def look() -> list[str]:
        return list(find_blockers(opened, places_in(opened), SETTINGS, allow_dirty=False, config=config))

    assert not look()
    git(opened.root, "add", "blueflame.yaml")
    git(opened.root, "commit", "-q", "-m", "chore(task-000): configure")
    config.write_text("project: {name: y}\n")
    assert "blueflame.yaml" in look()[0]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_worktree_folder_that_cannot_be_written_is_reported(opened: Repository) -> None:
    (opened.root / ".trees").mkdir(mode=0o500)
    (reason,) = find_blockers(opened, places_in(opened), SETTINGS, allow_dirty=False)
    assert ".trees cannot be written" in reason


def test_a_place_that_no_sandbox_can_have_is_reported_before_anything_starts(opened: Repository) -> None:
    reasons = "\n".join(find_blockers(opened, places_in(opened, "/usr/lib"), SETTINGS, allow_dirty=True))
    assert "/usr/lib cannot be writable in a sandbox: /usr is the system's there. Move the project" in reasons


def test_a_full_disk_is_named_with_the_room_that_a_small_repository_needs(
    opened: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "measure_free", lambda _path: FreeResources(memory=1 << 40, disk=0))
    places = places_in(opened)
    with pytest.raises(Refused, match=rf"about 1 MB are needed, 0 MB are free in {re.escape(str(places.worktrees))}"):
        check_repository(opened, places, SETTINGS, allow_dirty=False)


def test_a_disk_on_which_no_agent_would_be_started_is_refused_at_once(opened: Repository, tmp_path: Path) -> None:
    with mounted(tmp_path / "trees", 16):
        settings = build_settings(min_free_disk_mb=0)
        assert not list(find_blockers(opened, places_in(opened, str(tmp_path / "trees")), settings, allow_dirty=True))
        settings = build_settings(min_free_disk_mb=20)
        (reason,) = find_blockers(opened, places_in(opened, str(tmp_path / "trees")), settings, allow_dirty=True)
    assert re.search(r"1\d MB are free in .*trees, 20 MB must stay free; free space, or lower", reason)
