from __future__ import annotations

import pytest

from blueflame.paths.locks import locks_of
from blueflame.session.decide import the_one_task


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
    assert set(locks_of(the_one_task("Добавь приветствие", globs))) == locks


def test_the_first_line_of_the_request_is_its_title() -> None:
    task = the_one_task("\n  Добавь приветствие\nи прощание", ("src/**",))
    assert (task.title, task.description) == ("Добавь приветствие", "\n  Добавь приветствие\nи прощание")
