"""From a file to settings, or to every problem there is with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blueflame.config.locate import read_config_text, resolve_repo_folder, shorten_path
from blueflame.config.problems import format_path, format_value, validate_settings
from blueflame.config.schema_v1 import LiftedConfig, find_old_sections, lift_config
from blueflame.config.show import compute_digest
from blueflame.documents.config_yaml import ConfigDocument, ConfigProblem, KeyPath, read_config_yaml
from blueflame.model.errors import ConfigError
from blueflame.model.settings import SCHEMA_VERSION, Settings
from blueflame.session.from_settings import find_doubtful_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedConfig:
    settings: Settings
    path: Path
    version: int  # of the file, before it was brought to ours
    warnings: tuple[str, ...]
    digest: str  # of what the settings mean, so that a changed comment is no change

    @property
    def repo(self) -> Path:
        """The repository: relative to the configuration file."""
        return resolve_repo_folder(self.path, self.settings.project.repo)


def load_config(path: Path) -> LoadedConfig:
    """Read a configuration file. Nothing is changed on disk, whatever its version."""
    return parse_config(read_config_text(path), path=path)


def parse_config(text: str, *, path: Path) -> LoadedConfig:
    document = read_config_yaml(text)
    version = _read_version(document, path)
    lifted = lift_config(document, document.data, version=version)
    settings = _validate_settings(document, lifted, path)
    warnings = tuple(
        format_problem(path, problem) for problem in _sort_problems(_find_warnings(document, lifted, settings, version))
    )
    return LoadedConfig(
        settings=settings, path=path, version=version, warnings=warnings, digest=compute_digest(settings)
    )


def format_problem(path: Path, problem: ConfigProblem) -> str:
    """blueflame.yaml:12: limits.max_retries: must be a whole number (got "two"); write digits only"""
    key = f"{format_path(problem.path)}: " if problem.path else ""
    return f"{shorten_path(path)}:{problem.line}: {key}{problem.text}"


def _read_version(document: ConfigDocument, path: Path) -> int:
    """Of the file; raises when the text is no configuration at all, or one of a later Blue Flame."""
    if document.data is None:
        problems = document.problems or [
            ConfigProblem(1, (), "the file is empty; run `blueflame init --force` to write one")
        ]
        raise _build_config_error(path, problems)
    if not isinstance(document.data, dict):
        got = format_value(document.data)
        text = f"must be a mapping of keys (got {got}); begin with schema_version: {SCHEMA_VERSION}"
        raise _build_config_error(path, [*document.problems, ConfigProblem(1, (), text)])
    version = document.data.get("schema_version", 1)
    if isinstance(version, bool) or not isinstance(version, int) or version < 0:
        text = f"must be a whole number (got {format_value(version)}); write schema_version: {SCHEMA_VERSION}"
        document.problems.append(ConfigProblem(document.find_line(("schema_version",)), ("schema_version",), text))
        return SCHEMA_VERSION
    if version > SCHEMA_VERSION:
        text = f"unsupported schema_version {version} (max supported: {SCHEMA_VERSION}); install a newer Blue Flame"
        raise _build_config_error(
            path, [ConfigProblem(document.find_line(("schema_version",)), ("schema_version",), text)]
        )
    return version


def _validate_settings(document: ConfigDocument, lifted: LiftedConfig, path: Path) -> Settings:
    settings, faults = validate_settings(lifted.data)
    problems = [*document.problems, *lifted.problems]
    for at, text in faults:
        origin = lifted.find_origin(at)
        problems.append(ConfigProblem(document.find_line(origin), origin, text))
    if problems or settings is None:
        raise _build_config_error(path, problems)
    return settings


def _find_warnings(
    document: ConfigDocument, lifted: LiftedConfig, settings: Settings, version: int
) -> Iterator[ConfigProblem]:
    data: dict[str, Any] = document.data
    if "schema_version" not in data:
        text = "is missing: read as version 1; run `blueflame config migrate --write` to bring the file up to date"
        yield ConfigProblem(1, ("schema_version",), text)
    elif version == SCHEMA_VERSION:
        for place in find_old_sections(data):
            text = "is the place of schema 1 and still read; schema 2 has it under roles (`blueflame config migrate`)"
            yield ConfigProblem(document.find_line(place), place, text)
    for at, text in find_doubtful_settings(settings):
        origin: KeyPath = lifted.find_origin(at)
        yield ConfigProblem(document.find_line(origin), origin, text)


def _sort_problems(problems: Iterator[ConfigProblem] | list[ConfigProblem]) -> list[ConfigProblem]:
    return sorted(dict.fromkeys(problems), key=lambda problem: (problem.line, format_path(problem.path), problem.text))


def _build_config_error(path: Path, problems: list[ConfigProblem]) -> ConfigError:
    shown = [format_problem(path, problem) for problem in _sort_problems(problems)]
    count = "one problem" if len(shown) == 1 else f"{len(shown)} problems"
    return ConfigError(f"{shorten_path(path)} cannot be used: {count}", shown)
