"""`blueflame worktrees` and `locks`: checkouts and locks of a person's own, beside those of agents."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command_line import YES, configure, here, task, write
from support.repositories import run_git


@pytest.fixture
def project(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    configure(repo)
    monkeypatch.chdir(repo)
    return repo


def test_a_checkout_is_made_listed_kept_by_cleanup_and_removed_with_its_work_kept(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = here(capsys, "worktrees", "create", "mine", "--json")
    made = Path(said.json["worktree"]["path"])
    assert (made / ".git").is_dir()
    assert run_git(made, "branch", "--show-current").strip() == "worktree/mine"
    assert here(capsys, "worktrees", "create", "mine").code != 0, "it exists"
    assert [each["name"] for each in here(capsys, "worktrees", "list", "--json").json["worktrees"]] == ["mine"]
    write(project / "decisions.yaml", YES)
    script = write(project.parent / "script.yaml", {"planner": [{"plan": [task(1)]}], "defaults": {"worker": []}})
    here(capsys, "run", "--tier", "2", "--script", script, "--allow-dirty", "--decisions-file", "decisions.yaml", "x")
    assert here(capsys, "cleanup").code == 0
    assert made.is_dir(), "a person made it, and removes it"
    (made / "new.txt").write_text("committed\n")
    run_git(made, "add", "-A")
    run_git(made, "commit", "-qm", "mine")
    (made / "later.txt").write_text("not committed\n")
    kept = here(capsys, "worktrees", "remove", "mine", "--json").json["kept"]
    assert not made.exists()
    assert run_git(project, "show", f"{kept}:later.txt") == "not committed\n"
    assert run_git(project, "show", f"{kept}~1:new.txt") == "committed\n"
    assert here(capsys, "worktrees", "cleanup").code == 0
    assert run_git(project, "rev-parse", kept), "commits on no branch stay"


@pytest.mark.parametrize(
    "words", [("create", "../x"), ("create", ".x"), ("create", "x", "no-such-branch"), ("remove", "x"), ("create", "")]
)
def test_bad_names_change_nothing(project: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    said = here(capsys, "worktrees", *words)
    assert said.code != 0
    assert said.err
    assert here(capsys, "worktrees", "list", "--json").json == {"worktrees": []}


def test_locks_are_held_by_one_name_all_or_none(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert here(capsys, "locks", "check", "src").code == 0
    assert here(capsys, "locks", "acquire", "ada", "src/api", "docs").code == 0
    refused = here(capsys, "locks", "acquire", "bob", "tests", "src")
    assert (refused.code != 0, "src/api by ada" in refused.err) == (True, True)
    held = here(capsys, "locks", "check", "SRC/API/x.py", "--json")
    assert (held.code, held.json["held"]) == (1, [{"name": "ada", "path": "src/api"}])
    assert here(capsys, "locks", "check", "tests").code == 0, "nothing of bob's was locked"
    assert here(capsys, "locks", "release", "ada", "--json").json["released"] == ["src/api", "docs"]
    assert here(capsys, "locks", "check").code == 0


@pytest.mark.parametrize("paths", [["/etc"], ["../x"], ["a\\b"]])
def test_a_lock_outside_of_the_repository_is_refused(
    project: Path, capsys: pytest.CaptureFixture[str], paths: list[str]
) -> None:
    assert here(capsys, "locks", "acquire", "ada", *paths).code != 0
    assert here(capsys, "locks", "check", *paths).code != 0
    assert not (project / ".blueflame" / "locks.json").exists()


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"ada": "src"}', '{"ada": [1]}', '{"ada": ["/etc"]}'])
def test_a_damaged_file_of_locks_is_an_error_and_stays(
    project: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    here(capsys, "locks", "acquire", "ada", "src")
    path = write(project / ".blueflame" / "locks.json", text)
    for words in (("check", "docs"), ("acquire", "bob", "docs"), ("release", "ada")):
        said = here(capsys, "locks", *words)
        assert (said.code, f"{path} is damaged" in said.err) == (4, True), said
    assert path.read_text() == text
