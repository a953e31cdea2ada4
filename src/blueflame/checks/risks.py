"""What a person should look at before approving a changeset, told from what it changes. Nothing is refused by it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from blueflame.checks.code_tests import is_test
from blueflame.model.changes import Change
from blueflame.model.review import Risk

LARGE_FILES, LARGE_LINES = 40, 800
SHOWN = 8
EXECUTABLE, REGULAR = "100755", "100644"

KINDS: Mapping[str, str] = {
    "ci": "changes what runs on a build server",
    "build": "changes how the project is built",
    "config": "changes configuration",
    "dependency": "asks for a new dependency",
    "lockfile": "changes locked versions without asking for a new dependency",
    "unread": "could not be looked at",
    "tests": "deletes tests",
    "migration": "changes a database migration",
    "secrets": "changes what the search for secrets lets pass",
    "mode": "makes a file executable, or no longer so",
    "link": "adds or changes a link or a submodule",
    "binary": "adds or changes a file that is no text",
    "generated": "changes files that look generated",
    "snapshot": "rewrites recorded expectations of tests",
    "large": "is large",
}
"""In the order in which they are told."""

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
_LOCKS = (
    r"(^|/)(package-lock\.json|yarn\.lock|pnpm-lock\.yaml|poetry\.lock|uv\.lock|Pipfile\.lock|Cargo\.lock|go\.sum|"
    r"Gemfile\.lock|composer\.lock)$"
)
_MIGRATION = r"(^|/)(migrations?|migrate|alembic/versions)/|(^|/)schema\.(rb|sql|prisma)$"
_GENERATED = (
    r"(^|/)(dist|build|generated|__generated__|vendor|node_modules)/|\.(min\.js|min\.css|pb\.go|g\.dart|map)$|"
    r"_pb2(_grpc)?\.py$"
)
_SNAPSHOT = r"(^|/)__snapshots__/|\.snap$|\.approved\.\w+$|(^|/)(cassettes|golden)/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What is known of a changeset when hints are worked out."""

    changes: Sequence[Change]
    dependencies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # manifest -> packages that are new
    unread: Sequence[str] = ()  # paths that were too large or broken to be looked at
    allow_file: str = ""  # validation.secrets.allow_file


def risks(changed: Changed) -> tuple[Risk, ...]:
    found = {risk.kind: risk for risk in _found(changed)}
    return tuple(found[kind] for kind in KINDS if kind in found)


def _found(changed: Changed) -> Iterator[Risk]:
    changes = changed.changes
    yield from _named(changes)
    yield from _dependencies(changed)
    yield from _listed("unread", changed.unread)
    yield from _listed("tests", _deleted_tests(changes))
    yield from _listed("secrets", [c.path for c in changes if changed.allow_file in c.paths and changed.allow_file])
    yield from _listed("mode", [_mode(c) for c in changes if _mode(c)])
    yield from _listed("link", [c.path for c in changes if c.symlink or c.submodule])
    yield from _listed("binary", [c.path for c in changes if c.binary and c.status != "D"])
    yield from _large(changes)


def _named(changes: Iterable[Change]) -> Iterator[Risk]:
    """By their names; each path counts once, for the first that fits."""
    kinds: dict[str, list[str]] = {}
    for change in changes:
        kind = next((kind for kind, pattern in NAMES if any(pattern.search(path) for path in change.paths)), None)
        if kind is not None:
            kinds.setdefault(kind, []).append(change.path)
    for kind, paths in kinds.items():
        yield from _listed(kind, paths)


def _dependencies(changed: Changed) -> Iterator[Risk]:
    fresh = {path: names for path, names in changed.dependencies.items() if names}
    if fresh:
        words = "; ".join(f"{_some(names)} ({path})" for path, names in sorted(fresh.items()))
        yield Risk(kind="dependency", words=f"{KINDS['dependency']}: {words}", paths=tuple(sorted(fresh))[:SHOWN])
    else:
        yield from _listed("lockfile", [c.path for c in changed.changes if LOCKFILE.search(c.path)])


def _deleted_tests(changes: Iterable[Change]) -> list[str]:
    gone = [change.path for change in changes if change.status == "D" and is_test(change.path)]
    moved = [
        change.old_path
        for change in changes
        if change.old_path and is_test(change.old_path) and not is_test(change.path)
    ]
    return [*gone, *moved]


def _mode(change: Change) -> str:
    if change.old_mode == REGULAR and change.mode == EXECUTABLE:
        return f"{change.path} (executable now)"
    if change.old_mode == EXECUTABLE and change.mode == REGULAR:
        return f"{change.path} (no longer executable)"
    return f"{change.path} (new, executable)" if change.created and change.mode == EXECUTABLE else ""


def _large(changes: Sequence[Change]) -> Iterator[Risk]:
    lines = sum(change.added + change.deleted for change in changes)
    if len(changes) > LARGE_FILES or lines > LARGE_LINES:
        yield Risk(kind="large", words=f"{KINDS['large']}: {len(changes):,} files, {lines:,} changed lines")


def _listed(kind: str, paths: Iterable[str]) -> Iterator[Risk]:
    names = tuple(sorted(paths))
    if names:
        yield Risk(kind=kind, words=f"{KINDS[kind]}: {_some(names)}", paths=names[:SHOWN])


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


LOCKFILE = re.compile(_LOCKS)
NAMES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("ci", re.compile(_CI)),
    ("snapshot", re.compile(_SNAPSHOT)),
    ("generated", re.compile(_GENERATED)),
    ("migration", re.compile(_MIGRATION)),
    ("build", re.compile(_BUILD)),
    ("config", re.compile(_CONFIG)),
)
