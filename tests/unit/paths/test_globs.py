from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.paths.globs import BadPattern, Globs


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (".env*", ".env"),
        (".env*", "src/.env"),
        (".env*", "deep/er/.env.local"),
        ("src/**", "src/a.py"),
        ("src/**", "src/a/b/c.py"),
        ("src/**/*.go", "src/main.go"),
        ("src/**/*.go", "src/a/b/main.go"),
        ("docs/", "docs/index.md"),
        ("docs/", "sub/docs/index.md"),
        ("/top", "top"),
        ("go.mod", "tools/go.mod"),
        ("*.key", "a\nb/secret.key"),
        ("*.key", "line\nbreak.key"),
        ("secrets/**", "secrets/a\nb"),
        ("каталог/**", "каталог/с пробелом.txt"),
        ("**", "anything"),
    ],
)
def test_a_pattern_matches(pattern: str, path: str) -> None:
    assert Globs((pattern,)).matches(path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("src/**", "tests/src/a.py"),
        ("src/**", "src"),
        ("src/**/*.go", "src/main.py"),
        ("docs/", "docs"),
        ("/top", "below/top"),
        ("*.py", "a.py\n"),
        ("src/*.py", "src/deep/a.py"),
        (".env", ".environment"),
    ],
)
def test_a_pattern_does_not_match(pattern: str, path: str) -> None:
    assert not Globs((pattern,)).matches(path)


def test_no_patterns_match_nothing() -> None:
    assert not Globs(()).matches("a")
    assert not Globs(())


def test_a_link_in_the_place_of_a_blocked_directory_is_touched() -> None:
    assert Globs(("docs/",)).touches("docs")
    assert Globs(("secrets/**",)).touches("secrets")
    assert not Globs(("docs/",)).touches("docs.md")


@pytest.mark.parametrize(
    "pattern", ["!keep", "# a comment", "", "  ", "[unfinished", "trailing\\", "/", "a\nb", "a\x00"]
)
def test_a_pattern_that_would_mean_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern, match="pattern"):
        Globs(("src/**", pattern))


@pytest.mark.parametrize(
    ("patterns", "lock"),
    [
        (("src/**",), "src"),
        (("src/**",), "src/"),
        (("src/**",), "./src/a/b.py"),
        (("src/**",), "src/**"),
        (("src/**",), "src/*.py"),
        (("src/*",), "src"),
        (("src/**/*.py",), "src/app.py"),
        (("src/**/*.py",), "src/**/*.py"),
        (("**",), "."),
        (("**",), ""),
        (("*",), "."),
        (("docs/",), "docs"),
        (("docs/",), "docs/a.md"),
        ((".env*",), "deep/.env.local"),
    ],
)
def test_a_lock_is_inside(patterns: tuple[str, ...], lock: str) -> None:
    assert Globs(patterns).covers_lock(lock)


@pytest.mark.parametrize(
    ("patterns", "lock"),
    [
        (("src/**",), "."),
        (("src/**",), "**"),
        (("src/**",), "*"),
        (("src/**", "tests/**"), "."),
        (("src/**",), "srcs"),
        (("src/a/**",), "src"),
        (("src/**/*.py",), "src"),
        (("src/**/*.py",), "src/**"),
        (("src/*.py",), "src/**/*.py"),
        ((), "src"),
    ],
)
def test_a_lock_that_is_broader_is_outside(patterns: tuple[str, ...], lock: str) -> None:
    assert not Globs(patterns).covers_lock(lock)


def _spellings(parts: list[str]) -> st.SearchStrategy[str]:
    plain = "/".join(parts)
    # pathspec reads `a/**/` as `a/`, git as the directories below a: that is rare, and matches more, not less
    return st.sampled_from([plain, f"/{plain}", plain if parts[-1] == "**" else f"{plain}/"])


PARTS = st.sampled_from(["a", "b", "*", "**", "a*", "?", "[ab]", ".x"])
PATTERNS = st.lists(PARTS, min_size=1, max_size=3).flatmap(_spellings)
FILES = ("a", "b", ".x", "ab", "c/a", "c/.x", "a/b", "a/b/c", "a/c/b", "b/a/b/c", "c/d/e/ab", "b/b")


@given(patterns=st.lists(PATTERNS, min_size=1, max_size=2))
def test_patterns_mean_what_git_means(patterns: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    root = _ignoring(tmp_path_factory, patterns)
    asked = "\0".join(FILES)
    command = ["git", "check-ignore", "--no-index", "-z", "--stdin"]
    done = subprocess.run(command, cwd=root, input=asked, capture_output=True, text=True, check=False)
    assert {file for file in FILES if Globs(tuple(patterns)).matches(file)} == set(done.stdout.split("\0")[:-1])


def _ignoring(tmp_path_factory: pytest.TempPathFactory, patterns: list[str]) -> Path:
    root = tmp_path_factory.getbasetemp() / "ignoring"
    if not root.exists():
        subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / ".gitignore").write_text("".join(f"{pattern}\n" for pattern in patterns))
    return root
