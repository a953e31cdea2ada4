from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blueflame.codebase.draw import describe_gap, format_code_map
from blueflame.codebase.survey import CodeFile, CodeSurvey, Coverage, PastCommit, Symbol
from blueflame.text.tokens import estimate_tokens

MAIN = "src/app/main.py"
SMALL = CodeSurvey(
    files=(
        CodeFile("README.md", 100),
        CodeFile(MAIN, 9_000, "python"),
        CodeFile("src/app/deep/er/x.py", 20_000, "python"),
        CodeFile("tests/test_x.py", 10, "python", is_test=True),
    ),
    history=(
        *(PastCommit(str(n), "Ada", (MAIN, "tests/test_x.py")) for n in range(3)),
        PastCommit("3", "Bob", (MAIN, "README.md", "gone.py")),
    ),
    outlines={MAIN: (Symbol("class", "App", 3), Symbol("method", "run", 4, "App"), Symbol("function", "_hide", 9))},
)


def test_a_map_says_where_to_begin_and_what_is_where() -> None:
    assert format_code_map(SMALL, 3000).splitlines() == [
        "4 files, 29 kB",
        "languages: python (3)",
        "begin to read at: README.md, src/app/main.py",
        "tests are in: tests/ (1)",
        "changed most often in the last 4 commits: src/app/main.py (4), tests/test_x.py (3), README.md (1)",
        "changed together: src/app/main.py and tests/test_x.py (3 times)",
        "changed mostly by: src/app/ Ada, tests/ Ada, ./ Bob",
        "folders:",
        "./: 1 files, 100 bytes",
        "src/app/: 1 files, 9000 bytes",
        "src/app/deep/: 1 files, 20 kB",
        "tests/: 1 files, 10 bytes",
        "symbols:",
        "src/app/main.py: App",
    ]


def test_with_less_room_it_is_less_deep_and_then_nothing() -> None:
    assert "src/app/deep" not in format_code_map(SMALL, 200).partition("folders:")[2]
    assert format_code_map(SMALL, 5) == ""
    assert format_code_map(CodeSurvey(files=()), 3000) == ""


def test_a_map_says_what_its_symbols_leave_out() -> None:
    missing = Coverage(wanted=10, parsed=4, failed=1, unknown={"dart": 3})
    assert describe_gap(missing) == (
        "5 of 10 files are not read yet; 1 files could not be parsed; no parser for dart (3)"
    )
    assert describe_gap(Coverage(problem="there is no ctags")) == "not known: there is no ctags"
    assert describe_gap(Coverage(wanted=2, parsed=2)) == ""


words = st.text(min_size=1, max_size=40)
symbols = st.lists(st.builds(Symbol, st.just("function"), words, st.integers(1, 9)), max_size=5).map(tuple)


@given(
    st.lists(st.builds(CodeFile, words, st.integers(0, 10**9)), max_size=60),
    st.dictionaries(words, symbols, max_size=20),
    st.lists(st.builds(PastCommit, words, words, st.lists(words, max_size=5).map(tuple)), max_size=10),
    st.integers(0, 500),
)
def test_a_map_never_takes_more_than_its_budget(
    files: list[CodeFile], outlines: dict[str, tuple[Symbol, ...]], history: list[PastCommit], budget: int
) -> None:
    drawn = format_code_map(CodeSurvey(files=tuple(files), outlines=outlines, history=tuple(history)), budget)
    assert estimate_tokens(drawn) <= budget or drawn == ""
