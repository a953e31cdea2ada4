"""Hints for the reviewer of a changeset, from what it changes. They block nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from blueflame.checks.code_tests import is_test_path
from blueflame.checks.runner_files import RUNNER_NAMES
from blueflame.lazy_dataclass import dataclass
from blueflame.model.changes import Change, Risk
from blueflame.model.verdict import Check
from blueflame.paths.dependency_files import is_dependency_file, is_lock_file

MAX_FILES, MAX_LINES = 40, 800
MAX_SHOWN_PATHS = 8
EXECUTABLE_MODE, REGULAR_MODE = "100755", "100644"

RISK_KINDS: Mapping[str, str] = {
    "fewer": "runs fewer tests than its base",
    "runner": "changes how tests are found, run or judged",
    "ci": "changes what runs on a build server",
    "build": "changes how the project is built",
    "config": "changes configuration",
    "dependency": "adds a dependency",
    "lockfile": "changes locked versions without adding a dependency",
    "unread": "could not be read",
    "tests": "deletes tests",
    "migration": "changes a database migration",
    "secrets": "changes which findings the search for secrets allows",
    "mode": "makes a file executable, or no longer so",
    "link": "adds or changes a link or a submodule",
    "binary": "adds or changes a binary file",
    "generated": "changes files that look generated",
    "snapshot": "rewrites recorded expectations of tests",
    "large": "is large",
}
"""In the order in which they are shown."""

_CI = (
    r"(^|/)(\.github/(workflows|actions)/|\.gitlab-ci|\.circleci/|\.buildkite/|\.travis\.yml|azure-pipelines|"
    r"Jenkinsfile)"
)
_BUILD = (
    r"(^|/)(Makefile|GNUmakefile|CMakeLists\.txt|Dockerfile[^/]*|docker-compose[^/]*|compose\.ya?ml|setup\.py|"
    r"BUILD(\.bazel)?|WORKSPACE|build\.gradle(\.kts)?|pom\.xml|Rakefile|justfile|Taskfile\.ya?ml|tox\.ini|noxfile\.py|build\.rs|"
    r"(webpack|vite|rollup|babel|esbuild)\.config\.\w+|tsconfig[^/]*\.json)$"
)
_CONFIG = (
    r"(^|/)(\.env[^/]*|\.?[\w-]+rc(\.\w+)?|\.editorconfig|\.gitattributes|\.gitignore|\.gitmodules|"
    r"\.pre-commit-config\.yaml|[^/]+\.(ini|cfg|conf|toml|properties|tf|tfvars)|blueflame\.yaml|"
    r"(config|settings)\.[\w.]+)$|(^|/)(config|\.config|k8s|helm)/"
)
_MIGRATION = r"(^|/)(migrations?|migrate|alembic/versions)/|(^|/)schema\.(rb|sql|prisma)$"
_GENERATED = (
    r"(^|/)(dist|build|generated|__generated__|vendor|node_modules)/|\.(min\.js|min\.css|pb\.go|g\.dart|map)$|"
    r"_pb2(_grpc)?\.py$"
)
_SNAPSHOT = r"(^|/)__snapshots__/|\.snap$|\.approved\.\w+$|(^|/)(cassettes|golden)/"


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskInputs:
    """What hints are based on."""

    changes: Sequence[Change]
    dependencies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # manifest -> new packages
    unread: Sequence[str] = ()  # paths that were too large or broken to be read
    allow_file: str = ""  # validation.secrets.allow_file
    runner: Sequence[str] = ()  # paths of files that are about tests in part, and were changed there
    checks: Sequence[Check] = ()  # on the commit that would land, beside the base


def find_risks(changed: RiskInputs) -> tuple[Risk, ...]:
    found = {risk.kind: risk for risk in _find_all_risks(changed)}
    return tuple(found[kind] for kind in RISK_KINDS if kind in found)


def _find_all_risks(changed: RiskInputs) -> Iterator[Risk]:
    changes = changed.changes
    fewer = [f"{check.name} ({check.tests_beside_base})" for check in changed.checks if check.ran_fewer_tests]
    if fewer:
        yield Risk(kind="fewer", words=f"{RISK_KINDS['fewer']}: {_format_names(fewer)}")
    runner = {c.path for c in changes if any(RUNNER_NAMES.search(path) for path in c.paths)} | {*changed.runner}
    yield from _build_risk("runner", runner)
    yield from _find_risky_names(change for change in changes if change.path not in runner)
    yield from _find_dependency_risks(changed)
    yield from _build_risk("unread", changed.unread)
    yield from _build_risk("tests", _list_deleted_tests(changes))
    yield from _build_risk("secrets", [c.path for c in changes if changed.allow_file in c.paths and changed.allow_file])
    yield from _build_risk("mode", [_describe_mode_change(c) for c in changes if _describe_mode_change(c)])
    yield from _build_risk("link", [c.path for c in changes if c.symlink or c.submodule])
    yield from _build_risk("binary", [c.path for c in changes if c.binary and c.status != "D"])
    lines = sum(change.added + change.deleted for change in changes)
    if len(changes) > MAX_FILES or lines > MAX_LINES:
        yield Risk(kind="large", words=f"{RISK_KINDS['large']}: {len(changes):,} files, {lines:,} changed lines")


def _find_risky_names(changes: Iterable[Change]) -> Iterator[Risk]:
    """Find risks by file name; each path counts once, for the first kind that matches."""
    kinds: dict[str, list[str]] = {}
    for change in changes:
        kind = next((kind for kind, pattern in RISKY_NAMES if any(pattern.search(path) for path in change.paths)), None)
        if kind is None and any(is_dependency_file(path) and not is_lock_file(path) for path in change.paths):
            kind = "build"
        if kind is not None:
            kinds.setdefault(kind, []).append(change.path)
    for kind, paths in kinds.items():
        yield from _build_risk(kind, paths)


def _find_dependency_risks(changed: RiskInputs) -> Iterator[Risk]:
    fresh = {path: names for path, names in changed.dependencies.items() if names}
    if fresh:
        words = "; ".join(f"{_format_names(names)} ({path})" for path, names in sorted(fresh.items()))
        yield Risk(
            kind="dependency",
            words=f"{RISK_KINDS['dependency']}: {words}",
            paths=tuple(sorted(fresh))[:MAX_SHOWN_PATHS],
        )
    else:
        yield from _build_risk("lockfile", [c.path for c in changed.changes if is_lock_file(c.path)])


def _list_deleted_tests(changes: Iterable[Change]) -> list[str]:
    gone = [change.path for change in changes if change.status == "D" and is_test_path(change.path)]
    moved = [
        change.old_path
        for change in changes
        if change.old_path and is_test_path(change.old_path) and not is_test_path(change.path)
    ]
    return [*gone, *moved]


def _describe_mode_change(change: Change) -> str:
    if change.old_mode == REGULAR_MODE and change.mode == EXECUTABLE_MODE:
        return f"{change.path} (executable now)"
    if change.old_mode == EXECUTABLE_MODE and change.mode == REGULAR_MODE:
        return f"{change.path} (no longer executable)"
    return f"{change.path} (new, executable)" if change.created and change.mode == EXECUTABLE_MODE else ""


def _build_risk(kind: str, paths: Iterable[str]) -> Iterator[Risk]:
    names = tuple(sorted(paths))
    if names:
        yield Risk(kind=kind, words=f"{RISK_KINDS[kind]}: {_format_names(names)}", paths=names[:MAX_SHOWN_PATHS])


def _format_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_SHOWN_PATHS:,} more" if len(names) > MAX_SHOWN_PATHS else ""
    return ", ".join(names[:MAX_SHOWN_PATHS]) + more


RISKY_NAMES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("ci", re.compile(_CI)),
    ("snapshot", re.compile(_SNAPSHOT)),
    ("generated", re.compile(_GENERATED)),
    ("migration", re.compile(_MIGRATION)),
    ("build", re.compile(_BUILD)),
    ("config", re.compile(_CONFIG)),
)
