from __future__ import annotations

from pathlib import Path

import pytest

from blueflame.documents.manual import find_manual, find_pages, list_pages

PAGES = {
    "tutorial": "Tutorial: a first request",
    "how-to/answer-gates": "Answer gates from another terminal or from a file",
    "explanation/cost": "Cost and budgets",
    "reference/gates": "Gates",
}


@pytest.mark.parametrize(
    ("topic", "found"),
    [
        ("reference/gates", ["reference/gates"]),
        ("docs/reference/gates.md", ["reference/gates"]),
        ("gates", ["reference/gates"]),
        ("Budgets", ["explanation/cost"]),
        ("answer gates", ["how-to/answer-gates"]),
        ("gate", ["how-to/answer-gates", "reference/gates"]),
        ("nothing like it", []),
    ],
)
def test_a_page_is_found_by_its_name_or_a_word(topic: str, found: list[str]) -> None:
    assert list(find_pages(PAGES, topic)) == found


def test_every_page_of_the_documentation_has_a_title() -> None:
    manual = find_manual()
    assert manual is not None
    pages = list_pages(manual)
    assert set(PAGES) <= set(pages)
    assert all(pages.values())


def test_a_folder_without_pages_has_none(tmp_path: Path) -> None:
    assert list_pages(tmp_path) == {}
