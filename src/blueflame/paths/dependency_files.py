"""Files that name dependencies or say how a project is built, and the lock files beside them, by their names."""

from __future__ import annotations

import re

_LOCK_NAMES = (
    "go.sum package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb deno.lock poetry.lock "
    "uv.lock pdm.lock Pipfile.lock Cargo.lock Gemfile.lock composer.lock mix.lock pubspec.lock Package.resolved "
    "packages.lock.json gradle.lockfile flake.lock"
)
_LOCK_FILES = frozenset(_LOCK_NAMES.split())
_MANIFEST = re.compile(
    r"package\.json|pnpm-workspace\.yaml|deno\.jsonc?|pyproject\.toml|setup\.(py|cfg)|requirements.*\.(txt|in)|Pipfile"
    r"|Cargo\.toml|go\.(mod|work)|pom\.xml|(build|settings)\.gradle(\.kts)?|libs\.versions\.toml|build\.sbt|Gemfile"
    r"|.+\.gemspec|composer\.json|mix\.exs|pubspec\.yaml|Package\.swift|.+\.(cs|fs|vb)proj|Directory\.Packages\.props"
    r"|CMakeLists\.txt|meson\.build|Makefile"
)


def is_lock_file(path: str) -> bool:
    return path.rpartition("/")[2] in _LOCK_FILES


def is_dependency_file(path: str) -> bool:
    """Return whether the file is a manifest, a build file or a lock file."""
    return is_lock_file(path) or _MANIFEST.fullmatch(path.rpartition("/")[2]) is not None
