from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.paths.domains import find_domain, find_split_folders

PYTHON = (
    "README.md",
    *(f"src/shop/{part}/{name}.py" for part in ("billing", "cart", "api", "db") for name in "abc"),
    "src/shop/__init__.py",
    *(f"tests/unit/{part}/test_{name}.py" for part in ("billing", "cart") for name in "ab"),
)
FLAT = (*(f"shop/{part}/{name}.py" for part in ("billing", "cart") for name in "abcd"), "setup.py", "docs/index.md")
JAVA = tuple(
    f"src/{kind}/java/com/acme/{part}/{name}.java"
    for kind in ("main", "test")
    for part in ("billing", "web")
    for name in "ABC"
)
MONOREPO = tuple(f"packages/{name}/src/index.ts" for name in ("ui", "api", "jobs", "cli", "docs"))
GO = ("go.mod", "cmd/server/main.go", "internal/billing/tax.go", "internal/web/page.go", "main.go")


@pytest.mark.parametrize(
    ("tree", "path", "domain"),
    [
        (PYTHON, "src/shop/billing/tax.py", "billing"),
        (PYTHON, "tests/unit/billing/test_tax.py", "billing"),
        (PYTHON, "src/shop/billing", "billing"),
        (PYTHON, "src/shop/billing/**", "billing"),
        (PYTHON, "src/shop/payments/new.py", "payments"),  # a part that does not exist yet
        (PYTHON, "src/shop/__init__.py", "shop"),
        (PYTHON, "src/shop", "shop"),
        (PYTHON, "src/**", "src"),
        (PYTHON, "README.md", "."),
        (PYTHON, "Makefile", "."),
        (PYTHON, ".github/workflows/ci.yml", ".github"),
        (PYTHON, ".", "."),
        (PYTHON, "**", "."),
        (FLAT, "shop/billing/tax.py", "billing"),
        (FLAT, "docs/index.md", "docs"),
        (JAVA, "src/main/java/com/acme/billing/Tax.java", "billing"),
        (JAVA, "src/test/java/com/acme/billing/TaxTest.java", "billing"),
        (MONOREPO, "packages/ui/src/button.ts", "ui"),
        (MONOREPO, "packages/api/", "api"),
        (GO, "internal/billing/tax.go", "billing"),
        (GO, "cmd/server/main.go", "server"),
        ((), "src/billing/tax.py", "billing"),
        ((), "каталог/с пробелом/файл.txt", "каталог"),
    ],
)
def test_the_domain_is_the_first_folder_that_tells_parts_apart(tree: tuple[str, ...], path: str, domain: str) -> None:
    assert find_domain([path], split=find_split_folders(tree)) == domain


def test_most_paths_decide_and_tests_only_where_there_is_nothing_else() -> None:
    assert find_domain(["api/a.py", "billing/a.py", "billing/b.py"]) == "billing"
    assert find_domain(["tests/test_a.py", "tests/test_b.py", "billing/a.py"]) == "billing"
    assert find_domain(["README.md", "pyproject.toml", "billing/a.py"]) == "billing"
    assert find_domain(["tests/test_a.py", "pyproject.toml"]) == "tests"


def test_of_two_equal_domains_the_one_that_is_named_first_is_taken() -> None:
    assert find_domain(["web/a.py", "api/a.py"]) == "web"


def test_no_paths_are_the_whole_repository() -> None:
    assert find_domain([]) == "."


def test_a_configured_domain_comes_before_the_folder() -> None:
    configured = {"money": ("src/billing/**", "src/tax/"), "rest": ("src/**",)}
    assert find_domain(["src/billing/a.py"], configured=configured) == "money"
    assert find_domain(["src/tax"], configured=configured) == "money"
    assert find_domain(["src/web/a.py"], configured=configured) == "rest"
    assert find_domain(["docs/a.md"], configured=configured) == "docs"


def test_a_folder_for_each_language_is_not_a_part_each() -> None:
    locales = [
        f"src/app/locale/{name}/LC_MESSAGES/app.po"
        for name in ["ar", "bn", "ca", "da", "de", "es", "fr", "it", "ja", "lv"]
    ]
    tree = [*locales, "src/app/a.py", "src/app/b.py"]
    split = find_split_folders(tree)
    assert find_domain([locales[0]], split=split) == "locale"
    assert find_domain(["src/app/a.py"], split=split) == "app"


def test_a_folder_with_a_quarter_of_the_files_or_less_is_a_part() -> None:
    tree = [f"{folder}/deep/{name}" for folder in ("a", "b", "c", "d") for name in "xyz"]
    assert find_split_folders(tree) == ()
    assert find_split_folders([*tree, "a/deep/more"]) == ("a",)


PATHS = st.lists(st.sampled_from(["a", "src", "tests", "b.py", "Makefile", "*", ".", "мир"]), max_size=6).map("/".join)


@given(st.lists(PATHS, max_size=6))
def test_each_set_of_paths_has_one_domain_that_is_a_plain_name(paths: list[str]) -> None:
    domain = find_domain(paths, split=find_split_folders(paths))
    assert domain and "/" not in domain and "*" not in domain
