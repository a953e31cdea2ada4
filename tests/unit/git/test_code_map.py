from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blueflame.git.code_map import CodeSurvey, TreeFile, format_code_map
from blueflame.text.tokens import estimate_tokens

SMALL = CodeSurvey(
    files=(
        TreeFile("README.md", 100),
        TreeFile("src/app/main.py", 9_000, "python"),
        TreeFile("src/app/deep/er/x.py", 20_000, "python"),
        TreeFile("tests/test_x.py", 10, "python", is_test=True),
    ),
    changed=(("src/app/main.py", 7),),
    commits=12,
)


def test_a_map_says_where_to_begin_and_what_is_where() -> None:
    assert format_code_map(SMALL, 3000).splitlines() == [
        "4 files, 29 kB",
        "languages: python (3)",
        "begin to read at: README.md, src/app/main.py",
        "tests are in: tests/ (1)",
        "changed most often in the last 12 commits: src/app/main.py (7)",
        "folders:",
        "./: 1 files, 100 bytes",
        "src/app/: 1 files, 9000 bytes",
        "src/app/deep/: 1 files, 20 kB",
        "tests/: 1 files, 10 bytes",
    ]


def test_with_less_room_it_is_less_deep_and_then_nothing() -> None:
    assert "src/app/deep" not in format_code_map(SMALL, 100).partition("folders:")[2]
    assert format_code_map(SMALL, 5) == ""
    assert format_code_map(CodeSurvey(files=()), 3000) == ""


@given(
    st.lists(st.builds(TreeFile, st.text(min_size=1, max_size=40), st.integers(0, 10**9)), max_size=60),
    st.integers(0, 500),
)
def test_a_map_never_takes_more_than_its_budget(files: list[TreeFile], budget: int) -> None:
    drawn = format_code_map(CodeSurvey(files=tuple(files)), budget)
    assert estimate_tokens(drawn) <= budget or drawn == ""
