from __future__ import annotations

import pytest

from blueflame.paths.globs import Globs
from blueflame.paths.locks import parse_task_locks
from blueflame.session.decide import build_single_task


@pytest.mark.parametrize(
    ("globs", "locks"),
    [
        (("src/**", "docs/**"), {("src",), ("docs",)}),
        (("/src/", "docs/*.md"), {("src",), ("docs",)}),
        (("src/**", "/*.md"), {()}),  # files at the top: nothing smaller than everything holds them
        (("*.py",), {()}),  # without a slash a glob matches at any depth
        (("docs/",), {()}),
        (("**",), {()}),
        (("!src/app.py", "src/**"), {()}),
        ((), {()}),
    ],
)
def test_the_one_task_locks_whatever_may_be_written(globs: tuple[str, ...], locks: set[tuple[str, ...]]) -> None:
    assert set(parse_task_locks(build_single_task("Добавь приветствие", globs))) == locks


def test_its_locks_are_within_what_may_be_written() -> None:
    globs = ("src/**", "README.md", "*.py", "docs/", "/*.md", "/notes/")
    refused = [glob for glob in globs if not all(map(Globs((glob,)).covers_lock, _build_locks(glob)))]
    assert refused == []  # else a fix of the task, which has its locks, would be refused


def _build_locks(*globs: str) -> tuple[str, ...]:
    return build_single_task("x", globs).file_locks


def test_the_first_line_of_the_request_is_its_title() -> None:
    task = build_single_task("\n  Добавь приветствие\nи прощание", ("src/**",))
    assert (task.title, task.description) == ("Добавь приветствие", "\n  Добавь приветствие\nи прощание")
