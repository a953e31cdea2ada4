"""Markdown files of people as tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.dispatch.checklists import build_plan, compute_digest, parse_plan_document
from blueflame.documents.plans import format_plan, read_plan
from blueflame.model.limits import Limits
from blueflame.session.plan_problems import find_plan_problems

PLAN = """\
# Sign-in

We use OAuth.

- [ ] Add the login page
  - [ ] with a form
  - [x] with a logo
  files: src/login.py, `tests/`
- [x] Choose a provider
* [ ] Store the session
  in a cookie

## Later

1. [ ] Log out
"""


def test_open_items_are_tasks_in_their_order_and_nested_ones_are_details() -> None:
    document = parse_plan_document(PLAN)
    assert document.title == "Sign-in"
    assert [item.title for item in document.open_items] == ["Add the login page", "Store the session", "Log out"]
    first, second, third = document.open_items
    assert first.details == "- [ ] with a form\n  - [x] with a logo"
    assert first.files == ("src/login.py", "tests/")
    assert second.details == "in a cookie"
    assert third.details == "Section: Later"
    assert document.introduction == "# Sign-in\n\nWe use OAuth."


def test_the_plan_is_one_that_people_can_give_themselves(tmp_path_factory: pytest.TempPathFactory) -> None:
    tasks = build_plan(parse_plan_document(PLAN), "docs/plans/sign-in.md", ("src/**", "*.toml"))
    file = tmp_path_factory.mktemp("plan") / "plan.yaml"
    file.write_text(format_plan(tasks))
    assert read_plan(file) == tasks
    assert [task.id for task in tasks] == ["task-001", "task-002", "task-003"]
    assert tasks[0].file_locks == ("src/login.py", "tests/")
    assert tasks[1].file_locks == ("src/**", "*.toml")
    assert "We use OAuth." in tasks[2].description
    limits = Limits(allowed_paths=("src/**", "tests/**", "/*.toml"))
    assert find_plan_problems(tasks, limits) == ()


def test_a_checkbox_in_a_code_block_is_text() -> None:
    text = "Do it so:\n```\n- [ ] not a task\n```\n~~~md\n- [ ] nor this\n```\n~~~\n"
    assert parse_plan_document(text).items == ()


def test_prose_has_no_items_and_its_first_line_as_title() -> None:
    document = parse_plan_document("\nMake the tests faster.\n\nThey take an hour.\n")
    assert (document.title, document.items) == ("Make the tests faster.", ())


def test_text_after_a_blank_line_does_not_belong_to_the_item_above() -> None:
    (item,) = parse_plan_document("- [ ] One\n  detail\n\n  more\n\nThat is all.").items
    assert item.details == "detail\n\n  more"


def test_a_lock_outside_of_the_repository_is_not_taken() -> None:
    (item,) = parse_plan_document("- [ ] One\n  files: ../x, /etc/passwd, ~/a, ., src").items
    assert item.files == ("src",)


def test_blanks_at_the_ends_of_lines_do_not_make_a_new_version() -> None:
    assert compute_digest("a  \nb\r\n\n") == compute_digest("a\nb")
    assert compute_digest("a\nb") != compute_digest("a\n b")


@given(st.text(alphabet=st.sampled_from("-*[] xX#`~\n\t1.abfiles:/,"), max_size=200))
def test_any_text_is_read(text: str) -> None:
    document = parse_plan_document(text)
    tasks = build_plan(document, "docs/plans/a.md", ("src/**",))
    assert len(tasks) == len(document.open_items) <= len(document.items)
    assert all(task.title for task in tasks)
