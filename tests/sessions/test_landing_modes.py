"""How an approved changeset reaches the base branch: as a merge, as one commit, as its commits in a row, by others."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from blueflame.model.changeset import ChangesetState
from blueflame.model.event import (
    ChangesetConflicted,
    ChangesetEvicted,
    EnvironmentFailed,
    Landed,
    PullRequestOpened,
)
from support.sessions import Stage, git, task, writes

FORGE = """#!/usr/bin/env python3
import json, os, sys
given = {"argv": sys.argv[1:], "stdin": "" if sys.stdin.isatty() else sys.stdin.read(), "cwd": os.getcwd()}
log = os.environ["FORGE_LOG"]
with open(log, "a") as file:
    file.write(json.dumps(given) + "\\n")
calls = [json.loads(line)["argv"] for line in open(log)]
if sys.argv[2] == "list":
    opened = any(call[1] == "create" for call in calls)
    field = "url" if sys.argv[1] == "pr" else "web_url"
    print(json.dumps([{field: "https://forge.example.org/1"}] if opened else []))
elif os.environ.get("FORGE_FAILS"):
    sys.exit("not logged in")
else:
    print("Creating draft pull request\\n\\nhttps://forge.example.org/1")
"""


@pytest.fixture
def forge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs that look like gh and glab and write down how they were called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("gh", "glab"):
        (folder / name).write_text(FORGE)
        (folder / name).chmod(stat.S_IRWXU)
    log = tmp_path / "forge.jsonl"
    monkeypatch.setenv("FORGE_LOG", str(log))
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return log


def calls(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.fixture
def remote(stage: Stage, tmp_path: Path) -> Path:
    bare = tmp_path / "remote.git"
    git(tmp_path, "init", "-q", "--bare", str(bare))
    stage.git("remote", "add", "origin", str(bare))
    return bare


def two_tasks(stage: Stage, mode: str, *, commits: object = None, **more: object) -> None:
    stage.reconfigure(landing={"mode": mode, **more}, commits=commits or {})
    stage.play(task(1), task(2), workers={1: writes("src/1.txt", "one"), 2: writes("src/2.txt", "two")})


def test_squash_lands_one_commit_with_one_parent_that_names_the_tasks(stage: Stage) -> None:
    for n in range(6):
        stage.git("commit", "-q", "--allow-empty", "-m", f"Correct figure {n}.")
    two_tasks(stage, "squash", commits={"author": "Grace <grace@example.org>", "agent": "co-author"})
    before = stage.head()
    reported = stage.run()
    assert stage.git("rev-list", f"{before}..main").split() == [reported.of(Landed)[0].after]
    assert stage.git("rev-parse", "main^@").split() == [before]
    message = stage.git("log", "-1", "--format=%B", "main")
    assert message.startswith("Task 1 (and 1 more).\n\n- Task 1\n- Task 2\n\nBlue-Flame-Task: task-001\n")
    trailers = "%(trailers:key=Co-authored-by,valueonly)"
    assert stage.git("log", "-1", f"--format=%an %ae{trailers}", "main").startswith(
        "Grace grace@example.orgscripted sonnet <worker-"
    )
    assert (stage.read("src/1.txt"), stage.read("src/2.txt")) == ("one\n", "two\n")
    assert stage.git("status", "--porcelain") == ""


def test_a_title_cannot_forge_lines_or_hide_text_in_what_lands(stage: Stage) -> None:
    stage.reconfigure(landing={"mode": "squash"})
    title = "Add a thing\n\nSigned-off-by: Linus <l@example.org>\x1b[2J\u202e"
    stage.play(task(1), task(2, title=title), workers={1: writes("src/1.txt", "one"), 2: writes("src/2.txt", "two")})
    stage.run()
    message = stage.git("log", "-1", "--format=%B", "main")
    assert "- Add a thing Signed-off-by: Linus <l@example.org>␛[2J<U+202E>\n" in message
    assert stage.git("log", "-1", "--format=%(trailers:key=Signed-off-by)", "main").strip() == ""


def test_fast_forward_lands_the_tasks_own_commits_in_a_row(stage: Stage) -> None:
    two_tasks(stage, "fast-forward")
    before = stage.head()
    reported = stage.run()
    assert reported.session.outcome == "completed"
    assert stage.git("rev-list", "--merges", f"{before}..main") == ""
    subjects = stage.git("log", "--reverse", "--format=%s", f"{before}..main").splitlines()
    assert subjects == ["one", "two"]
    tasks = "%(trailers:key=Blue-Flame-Task,valueonly,separator=)"
    assert stage.git("log", "--reverse", f"--format={tasks} %an", f"{before}..main").splitlines() == [
        "task-001 Ада Лавлейс",
        "task-002 Ада Лавлейс",
    ]
    assert stage.git("log", "-1", "--format=%cn", "main").startswith("worker-")


@pytest.mark.parametrize("mode", ["squash", "fast-forward"])
def test_what_builds_on_landed_work_lands_without_a_conflict(stage: Stage, mode: str) -> None:
    """A squash or a rebase lands other commits than those that the next task was built on."""
    stage.reconfigure(landing={"mode": mode}, validation={"file_scope": {"enforce": False}})
    lines = [[f"line {k} of {n}\n" for k in range(n, 5)] for n in (1, 2, 3)]
    stage.play(
        *(task(n, after=range(max(1, n - 1), n), cohesion_group=f"g{n}") for n in (1, 2, 3)),
        workers={
            n: [
                {"write": {"path": "src/same.txt", "text": "".join(lines[n - 1])}},
                {"commit": "feat({task}): rewrite it"},
            ]
            for n in (1, 2, 3)
        },
    )
    reported = stage.run()
    assert set(reported.states.values()) == {"merged"}
    assert len(reported.of(Landed)) == 3
    assert not reported.of(ChangesetConflicted)
    assert stage.read("src/same.txt") == "".join(lines[2])
    assert "with what has landed in it" not in stage.git("log", "--format=%s", "main")


def test_a_merge_of_what_a_task_builds_on_is_worded_without_ids(stage: Stage) -> None:
    tasks = (task(1), task(2), task(3, after=(1, 2)))
    stage.play(*tasks, workers={n: writes(f"src/{n}.txt", f"number {n}") for n in (1, 2, 3)})
    stage.run()
    landed = stage.git("log", "--merges", "--format=%B", "main")
    assert "Merge what 'Task 3' builds on\n\n- Task 1\n- Task 2\n" in landed
    assert "task-" not in stage.git("log", "--format=%s", "main")


@pytest.mark.parametrize("mode", ["merge", "squash", "fast-forward"])
def test_a_task_builds_on_landed_and_on_verified_work_at_once(stage: Stage, mode: str) -> None:
    """The second of a chain is put off, so the third starts from its commit and from a base with the first."""
    stage.reconfigure(landing={"mode": mode}, validation={"file_scope": {"enforce": False}}, limits={"max_retries": 0})
    script = {
        n: [{"write": {"path": "src/same.txt", "text": f"{n}\n" * 3}}, {"commit": "feat({task}): rewrite it"}]
        for n in (1, 2)
    }
    script[3] = [{"append": {"path": "src/same.txt", "text": "3\n"}}, {"commit": "feat({task}): one more"}]
    stage.play(
        *(task(n, after=range(max(1, n - 1), n), cohesion_group=f"g{n}") for n in (1, 2, 3)),
        workers={1: script[1], 2: script[2], 3: {"1": [{"exit": 1}], "*": script[3]}},
    )
    reported = stage.run({"changeset": ["approve", "skip"], "session": ["continue"]})
    assert set(reported.states.values()) == {"merged"}
    assert not reported.of(ChangesetConflicted)
    assert stage.read("src/same.txt") == "2\n2\n2\n3\n"


def test_a_task_that_cannot_be_rebased_goes_back_with_the_reason_and_no_merger_is_paid(stage: Stage) -> None:
    stage.commit("src/same.txt", "one\ntwo\nthree\n")
    stage.reconfigure(landing={"mode": "fast-forward"}, validation={"file_scope": {"enforce": False}})
    both = [{"write": {"path": "src/same.txt", "text": "one\na\nb\nthree\n"}}, {"commit": "fix(task-002): both"}]
    stage.play(
        task(1, cohesion_group="a"),
        task(2, cohesion_group="b"),
        workers={
            1: [{"write": {"path": "src/same.txt", "text": "one\na\nthree\n"}}, {"commit": "feat({task}): a"}],
            2: [{"write": {"path": "src/same.txt", "text": "one\nb\nthree\n"}}, {"commit": "feat({task}): b"}],
        },
        merger=both,
    )
    reported = stage.run({"session": ["continue"]})
    assert not [record for record in reported.session.attempts.values() if record.attempt.role == "merger"]
    (evicted,) = reported.of(ChangesetEvicted)
    assert "conflict in src/same.txt" in evicted.reason
    assert reported.states == {"task-001": "merged", "task-002": "merged"}
    assert stage.read("src/same.txt") == "one\nb\nthree\n", "done again, from a base that has the other"


def test_a_pull_request_is_pushed_and_opened_with_the_evidence_and_the_base_stays(
    stage: Stage, remote: Path, forge: Path
) -> None:
    two_tasks(stage, "pull-request", forge="gh")
    before = stage.head()
    reported = stage.run()
    (opened,) = reported.of(PullRequestOpened)
    branch = f"blueflame/{reported.session.id}/cs-001"
    assert (opened.branch, opened.url) == (branch, "https://forge.example.org/1")
    assert git(remote, "rev-parse", f"refs/heads/{branch}").strip() == opened.commit
    assert stage.head() == before
    looked, created = calls(forge)
    assert looked["argv"] == ["pr", "list", "--head", branch, "--state", "all", "--limit", "1", "--json", "url"]
    title = "Task 1 (and 1 more) (task-001, task-002)"
    base = ["--base", "main", "--head", branch]
    assert created["argv"] == ["pr", "create", *base, "--title", title, "--body-file", "-", "--draft"]
    for part in ("**task-001** Task 1", "## Checks on", "Cost: $", f"Blue-Flame-Session: {reported.session.id}"):
        assert part in created["stdin"]
    record = reported.session.changesets["cs-001"]
    assert (record.state, record.place) == (ChangesetState.PROPOSED, "https://forge.example.org/1")
    assert reported.states == {"task-001": "merged", "task-002": "merged"}
    assert reported.session.outcome == "completed"


def test_glab_gets_its_own_options(stage: Stage, remote: Path, forge: Path) -> None:
    two_tasks(stage, "pull-request", forge="glab", draft=False, branch_prefix="work/")
    reported = stage.run()
    branch = f"work/{reported.session.id}/cs-001"
    assert git(remote, "for-each-ref", "--format=%(refname)").split() == [f"refs/heads/{branch}"]
    created = calls(forge)[1]["argv"]
    assert created[:6] == ["mr", "create", "--target-branch", "main", "--source-branch", branch]
    assert "--draft" not in created
    assert "--yes" in created
    assert "**task-001** Task 1" in created[created.index("--description") + 1]


@pytest.mark.usefixtures("quick_retries")
@pytest.mark.parametrize("trouble", ["could not be pushed to origin", "not logged in"])
def test_what_cannot_be_proposed_is_held_and_proposed_later(
    stage: Stage, forge: Path, trouble: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A remote that cannot be reached, or a forge that fails once, costs no cycle."""
    assert not forge.exists()
    if trouble == "not logged in":
        request.getfixturevalue("remote")
        monkeypatch.setenv("FORGE_FAILS", "1")
    two_tasks(stage, "pull-request", forge="gh")
    reported = stage.run({"environment": ["stop"]})
    assert {(each.act, each.cause) for each in reported.of(EnvironmentFailed)} == {("landing of cs-001", "remote")}
    assert trouble in reported.of(EnvironmentFailed)[0].reason
    if not reported.session.ended:
        request.getfixturevalue("remote")
        reported = stage.resume()
    assert reported.session.outcome == "completed"
    assert reported.session.cycle == 1
    assert len(reported.of(PullRequestOpened)) == 1


def test_what_builds_on_a_proposed_task_starts_from_its_commit(stage: Stage, remote: Path, forge: Path) -> None:
    stage.reconfigure(landing={"mode": "pull-request", "forge": "none"})
    sees = [{"expect": {"path": "src/1.txt", "contains": "one"}}, *writes("src/2.txt", "two")]
    stage.play(
        task(1, cohesion_group="a"),
        task(2, cohesion_group="b", after=[1]),
        workers={1: writes("src/1.txt", "one"), 2: {"1": "liar", "2": "liar", "3": "liar", "*": sees}},
    )
    reported = stage.run({"session": ["continue"]})
    assert reported.session.outcome == "completed"
    assert [each.url for each in reported.of(PullRequestOpened)] == ["", ""]
    assert not forge.exists(), "no forge was called"
    assert len(git(remote, "for-each-ref").splitlines()) == 2


@pytest.mark.usefixtures("quick_retries", "remote", "forge")
def test_what_builds_on_pull_requests_that_conflict_waits_until_they_are_merged(stage: Stage) -> None:
    """Nothing that the session does can resolve that, so asking again costs no cycle."""
    stage.reconfigure(landing={"mode": "pull-request", "forge": "none"}, validation={"file_scope": {"enforce": False}})
    same = {n: [{"write": {"path": "src/same.txt", "text": f"{n}\n"}}, {"commit": f"number {n}"}] for n in (1, 2)}
    stage.play(
        *(task(n, cohesion_group=f"g{n}") for n in (1, 2)),
        task(3, cohesion_group="g3", after=[1, 2]),
        workers=same | {3: writes("src/3.txt", "three")},
    )
    reported = stage.run({"session": ["continue"] * 2, "environment": ["stop"]})
    failed = reported.of(EnvironmentFailed)
    assert {(each.act, each.cause) for each in failed} == {("begin of cycle 3", "requests")}
    assert not reported.session.ended
    for opened in reported.of(PullRequestOpened):
        stage.git("merge", "-q", "-X", "ours", "-m", "merged by a person", opened.commit)
    assert stage.resume().states == dict.fromkeys(("task-001", "task-002", "task-003"), "merged")
