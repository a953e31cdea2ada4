"""Files that decide which tests run and when they fail: changed ones are a risk, weaker settings are listed.

By name where the whole file is about it; by the section, script or target where it is about other things, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from blueflame.lazy_pattern import compile_later
from blueflame.model.changes import Weakening

RUNNER_NAMES = compile_later(
    r"(?:^|/)(?:conftest\.py|\.?pytest\.(?:ini|toml)|tox\.ini|tox\.toml|noxfile\.py|sitecustomize\.py|usercustomize\.py|"
    r"[^/]+\.pth|\.coveragerc|runtests\.py|(?:jest|vitest|ava|karma|playwright|cypress|wtr|web-test-runner)"
    r"[\w.-]*\.(?:config|conf|setup|workspace)\.\w+|(?:jest|vitest|test)[.-]?setup\.\w+|\.mocharc[^/]*|\.nycrc[^/]*|"
    r"\.taprc|build\.rs|\.cargo/config(?:\.toml)?|\.?nextest\.toml|\.rspec|(?:spec|test|rails)_helper\.rb|"
    r"phpunit[^/]*\.xml[^/]*|junit-platform\.properties|CTestTestfile\.cmake|CTestConfig\.cmake|codecov\.ya?ml)$"
)
SHARED_NAMES = compile_later(
    r"(?:^|/)(?:pyproject\.toml|setup\.cfg|package\.json|(?:GNU)?[Mm]akefile|justfile|Cargo\.toml|pom\.xml|"
    r"build\.gradle(?:\.kts)?|CMakeLists\.txt|Rakefile|composer\.json|deno\.jsonc?|bunfig\.toml)$"
)
TEST_WORD = compile_later(r"test|spec|check|coverage|jest|mocha|vitest|ava|tap|nyc|c8|cov", re.IGNORECASE)
SECTION = compile_later(r"^\[+(?P<name>[^\]]+)\]+", re.MULTILINE)
TEST_SECTION = compile_later(
    r"(?:tool[.:])?(?:pytest|coverage|tox|nox|unittest|test|profile\.test|\[?test)\b|\.test$|^test"
)
TARGET = compile_later(r"^(?P<name>[\w.-]+)[ \t]*(?:[\w*\"' =-]*):(?!=)", re.MULTILINE)
MAX_LINE, MAX_SHOWN = 200, 5

WEAKER_LINE = compile_later(
    r"--(?:deselect|ignore(?:-glob)?|maxfail|exitfirst|exclude|skip|pass(?:WithNoTests|-with-no-tests)|no-run|"
    r"testPathIgnorePatterns|forceExit|co\b|collect-only)|(?:^|[\s\"'])-(?:k|m)[ =]|\bdeselect\b|\bnorecursedirs\b|"
    r"\bcollect_ignore|\btestpaths\b|\bpython_(?:files|classes|functions)\b|\btest(?:PathIgnore|Match|Regex)|"
    r"\bpassWithNoTests\b|\bmodulePathIgnorePatterns\b|\bexclude\b|\bspec[\"']?\s*:|\bignore[\"']?\s*:|"
    r"\bignoreFailures\b|\btestFailureIgnore\b|\bskip(?:Tests|ITs|\.test)|maven\.test\.(?:skip|failure)|"
    r"\benabled\s*=\s*false|^(?:test|harness|doctest)\s*=\s*false|\bfilter_run\b|\bxfail_strict\s*=\s*(?:false|0)|"
    r"\|\|\s*(?:true|:|exit 0)|;\s*(?:true|exit 0)\s*[\"']?,?$|\bset \+e\b|^\s*-\s*(?=\S*(?:pytest|test))|"
    r"\bbail\b|\bretr(?:y|ies)[\"']?\s*[:=]\s*[1-9]|--reruns|PYTHONOPTIMIZE|\bpython3? -O\b|--no-tests|"
    r"\bWILL_FAIL\b|\bDISABLED\b|-p no:(?!cacheprovider)|allow_?[fF]ailure|continue-on-error"
)
THRESHOLD = compile_later(
    r"\b(?P<name>fail_under|cov-fail-under|minimum_coverage|branches|functions|lines|statements|check-coverage|"
    r"threshold|target|minimum)\b[\"']?\s*[=: ]\s*(?P<number>\d+(?:\.\d+)?)"
)


def is_runner_file(path: str) -> bool:
    """Whether a file is about the running of tests, as a whole or in part."""
    return RUNNER_NAMES.search(path) is not None or SHARED_NAMES.search(path) is not None


def changes_runner(path: str, before: str | None, after: str | None) -> bool:
    """Whether the change is about the running of tests."""
    if RUNNER_NAMES.search(path):
        return True
    return _extract_parts(path, before or "") != _extract_parts(path, after or "")


def find_weaker_settings(path: str, before: str | None, after: str | None) -> Iterator[Weakening]:
    """Find new lines that take tests out of the run or let them fail, and lower thresholds."""
    was, now = (list(_extract_parts(path, text or "")) for text in (before, after))
    fresh = [line for line in now if line not in was and WEAKER_LINE.search(line) and not line.startswith(("#", "//"))]
    if fresh and not path.endswith(".py"):  # code is read as code of tests
        words = "new settings that leave tests out or let them fail"
        yield Weakening(kind="settings", path=path, words=words, lines=tuple(f"+ {line}" for line in fresh[:MAX_SHOWN]))
    lower = [line for line in now if line not in was and _is_lower(line, was)]
    if lower:
        lines = tuple(f"+ {line}" for line in lower[:MAX_SHOWN])
        yield Weakening(kind="settings", path=path, words="a threshold became lower", lines=lines)


def _is_lower(line: str, before: Iterable[str]) -> bool:
    old = {match["name"]: float(match["number"]) for text in before for match in THRESHOLD.finditer(text)}
    return any(float(match["number"]) < old.get(match["name"], 0) for match in THRESHOLD.finditer(line))


def _extract_parts(path: str, text: str) -> tuple[str, ...]:
    """The lines of a file that are about tests, stripped."""
    if RUNNER_NAMES.search(path):
        parts = [text]
    elif path.endswith(("package.json", "composer.json")):
        parts = list(_extract_scripts(text))
    elif path.endswith((".toml", ".cfg")):
        parts = list(_extract_blocks(text, SECTION, TEST_SECTION))
    elif re.search(r"(?:[Mm]akefile|justfile)$", path):
        parts = list(_extract_blocks(text, TARGET, TEST_WORD))
    else:
        parts = [line for line in text.splitlines() if TEST_WORD.search(line) or WEAKER_LINE.search(line)]
    return tuple(line.strip()[:MAX_LINE] for part in parts for line in part.splitlines() if line.strip())


def _extract_scripts(text: str) -> Iterator[str]:
    try:
        read = json.loads(text or "{}")
    except ValueError:
        yield text
        return
    if not isinstance(read, dict):
        return
    scripts = read.get("scripts")
    for name, script in sorted(scripts.items() if isinstance(scripts, dict) else ()):
        if TEST_WORD.search(name):
            yield f"{name}: {json.dumps(script)}"
    for name in ("jest", "mocha", "ava", "vitest", "nyc", "c8", "tap"):
        if name in read:
            yield f"{name}:\n{json.dumps(read[name], indent=1, sort_keys=True)}"


def _extract_blocks(text: str, head: re.Pattern[str], wanted: re.Pattern[str]) -> Iterator[str]:
    """The blocks whose head names tests; each goes to the next head."""
    heads = list(head.finditer(text))
    for n, match in enumerate(heads):
        if wanted.search(match["name"]):
            yield text[match.start() : heads[n + 1].start() if n + 1 < len(heads) else len(text)]
