from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.paths.globs import BadPattern, Globs
from blueflame.policy.path_patterns import PatternMatcher, compile_patterns, fold_text

NAMES = st.sampled_from(
    ["src", "a", "b.py", ".env", ".ENV", "x.key", "é", "e\u0301", "Straße", "каталог", "a b", "go.mod", "x\ny", "[a]"]
)
PATHS = st.lists(NAMES, min_size=1, max_size=5).map("/".join)
PARTS = st.sampled_from(
    ["src", "a", "*.py", ".env*", "**", "*", "?", "[ab]*", "x.KEY", "é", "e\u0301*", "a b", "a\\ b", "\\[a\\]", "b.p?"]
)
PATTERNS = st.builds(
    lambda parts, start, end: start + "/".join(parts) + end,
    st.lists(PARTS, min_size=1, max_size=4),
    st.sampled_from(["", "/"]),
    st.sampled_from(["", "/", "/**", " "]),
)


def usable(patterns: tuple[str, ...]) -> tuple[str, ...]:
    found = []
    for pattern in patterns:
        try:
            Globs((pattern,))
            found.append(pattern)
        except BadPattern:
            continue
    return tuple(found)


@given(st.lists(PATTERNS, max_size=4).map(tuple).map(usable), PATHS)
def test_compiled_patterns_match_exactly_what_globs_match(patterns: tuple[str, ...], path: str) -> None:
    matcher, globs = PatternMatcher(compile_patterns(patterns)), Globs(patterns)
    assert matcher.matches(path) == globs.matches(path)
    assert bool(matcher.find_touching(path)) == globs.touches(path)


@given(st.lists(PATTERNS, max_size=4).map(tuple).map(usable), PATHS)
def test_blocked_patterns_match_exactly_what_the_postcheck_matches(patterns: tuple[str, ...], path: str) -> None:
    matcher = PatternMatcher(compile_patterns(patterns, caseless=True), caseless=True)
    assert bool(matcher.find_touching(fold_text(path))) == Globs(tuple(map(fold_text, patterns))).touches(
        fold_text(path)
    )


@given(st.text(min_size=1, max_size=12), st.text(alphabet="ab./*e", min_size=1, max_size=12))
def test_any_pattern_that_globs_take_means_the_same_when_compiled(pattern: str, path: str) -> None:
    if not usable((pattern,)) or path.startswith(("/", "./")):
        return
    assert PatternMatcher(compile_patterns((pattern,))).matches(path) == Globs((pattern,)).matches(path)


@given(st.lists(PATTERNS, min_size=1, max_size=3).map(tuple).map(usable), PATHS)
def test_a_folder_is_covered_when_whatever_is_in_it_is_meant(patterns: tuple[str, ...], path: str) -> None:
    if PatternMatcher(compile_patterns(patterns)).covers(path):
        assert Globs(patterns).matches(f"{path}/any name at all")
        assert Globs(patterns).matches(f"{path}/any name at all/deep in there")


@pytest.mark.parametrize("pattern", ["", "!src", "# words", "src/\x07", "  "])
def test_what_could_not_be_a_rule_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        compile_patterns((pattern,))


def test_the_pattern_that_matched_is_named_as_it_was_written() -> None:
    matcher = PatternMatcher(compile_patterns(("*.Key", ".ENV*"), caseless=True), caseless=True)
    assert matcher.find_first(fold_text("conf/.env.local")) == ".ENV*"


def test_deciding_loads_no_library() -> None:
    """The warden runs as `python -I -S -E`: nothing that was installed is there."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[3] / 'src')!r})\n"
        "from blueflame.model.policy import *\n"
        "from blueflame.policy.decide import decide\n"
        "from blueflame.watcher.policy_file import load_policy\n"
        "from blueflame.watcher.world import LocalWorld\n"
        "world = LocalWorld('/nowhere', shfmt='/bin/false')\n"
        "policy = Policy(role='worker', worktree='/nowhere', allowed_tools=('Read', 'Bash'),\n"
        "                allowed_commands=('ls',), blocked_paths=Patterns(written=('x',), regexes=('^x',)))\n"
        "print(decide(policy, ToolCall(tool='Read', input={'file_path': 'a'}, cwd='/nowhere'), world).allowed)\n"
        "print(decide(policy, ToolCall(tool='Bash', input={'command': 'ls'}, cwd='/nowhere'), world).rule)\n"
        "print(sorted({'pathspec', 'pydantic', 'psutil', 'subprocess', 'click'} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-E", "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.split("\n")[:3], done.stderr) == (["True", "shell_unreadable", "[]"], "")
