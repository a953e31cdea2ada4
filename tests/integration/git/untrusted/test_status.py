"""git status as it really speaks. (Here it runs in a folder of the test's own; of an agent's, only in a box.)"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.checks.leftovers import Leftovers
from blueflame.git.untrusted.status import build_status_argv, parse_status
from blueflame.model.errors import GitFailed

Git = Callable[..., str]


def left_in(repo: Path) -> Leftovers:
    return parse_status(subprocess.run(build_status_argv(), cwd=repo, check=True, capture_output=True).stdout)


def test_a_clean_checkout_has_no_leftovers(repo: Path) -> None:
    assert left_in(repo) == Leftovers()


def test_every_kind_of_leftover_is_seen(repo: Path, git: Git) -> None:
    for name in ("staged", "moved", "gone", "typed"):
        (repo / name).write_text(f"{name}\n" * 20)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "feat: more")
    (repo / "src" / "app.py").write_text("changed\n")
    (repo / "staged").write_text("changed\n")
    git(repo, "add", "staged")
    git(repo, "mv", "moved", "moved to\nхранилище")
    (repo / "gone").unlink()
    (repo / "typed").unlink()
    (repo / "typed").symlink_to("src")
    (repo / "new file").write_text("x")
    (repo / "folder").mkdir()
    (repo / "folder" / "deep").write_text("x")
    assert left_in(repo) == Leftovers(
        changed=("gone", "moved", "moved to\nхранилище", "src/app.py", "staged", "typed"),
        untracked=("folder/", "new file"),
    )


def test_an_unfinished_merge_is_a_leftover(repo: Path, git: Git) -> None:
    git(repo, "checkout", "-q", "-b", "side")
    (repo / "README.md").write_text("side\n")
    git(repo, "commit", "-q", "-am", "feat: side")
    git(repo, "checkout", "-q", "main")
    (repo / "README.md").write_text("main\n")
    git(repo, "commit", "-q", "-am", "feat: main")
    subprocess.run(["git", "merge", "-q", "side"], cwd=repo, check=False, capture_output=True)
    assert left_in(repo) == Leftovers(changed=("README.md",))


def test_ignored_files_do_not_count(repo: Path) -> None:
    (repo / ".git" / "info" / "exclude").write_text("build/\n*.log\n")
    (repo / "build").mkdir()
    (repo / "build" / "x").write_text("x")
    (repo / "a.log").write_text("x")
    assert not left_in(repo)


def test_names_that_are_not_utf8_survive(repo: Path) -> None:
    (repo / os.fsdecode(b"caf\xe9")).write_text("x")
    assert [os.fsencode(path) for path in left_in(repo).untracked] == [b"caf\xe9"]


def test_a_configured_monitor_and_hooks_are_not_asked(repo: Path, git: Git, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch '{tmp_path}/sprung'\n")
    trap.chmod(0o755)
    git(repo, "config", "core.fsmonitor", str(trap))
    git(repo, "config", "core.pager", str(trap))
    git(repo, "config", "diff.external", str(trap))
    (repo / "src" / "app.py").write_text("changed\n")
    assert left_in(repo).changed == ("src/app.py",)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    "said", [b"? a", b"1 .M\0", b"x y\0", b"fatal: no\n", b"2 R. N... 1 2 3 a b R100 new\0", b"? \0", b"\0"]
)
def test_half_an_answer_is_a_failure(said: bytes) -> None:
    with pytest.raises(GitFailed, match="uncommitted files are unknown"):
        parse_status(said)


@given(st.binary(max_size=100))
def test_any_bytes_are_a_status_or_a_clear_failure(said: bytes) -> None:
    with suppress(GitFailed):
        assert isinstance(parse_status(said), Leftovers)
