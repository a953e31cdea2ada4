"""Loads a configuration file: settings, or every problem with its line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from blueflame.config.locate import read_config_text, resolve_repo_folder, shorten_path
from blueflame.config.problems import format_path, format_value, list_faults, validate_settings
from blueflame.config.schema_v1 import LiftedConfig, find_old_sections, lift_config
from blueflame.config.show import compute_digest
from blueflame.documents.yaml import Document, YamlProblem, find_half_characters, read_document
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import ConfigError, UsageError
from blueflame.model.settings import SCHEMA_VERSION, Settings
from blueflame.session.from_settings import find_doubtful_settings
from blueflame.session.unsupported_settings import find_idle_settings, find_missing_skills, list_plugins


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedConfig:
    settings: Settings
    path: Path
    version: int  # of the file, before it was lifted to ours
    format_warnings: Callable[[], tuple[str, ...]]
    digest: str  # of the settings: a changed comment does not change it

    @property
    def warnings(self) -> tuple[str, ...]:
        """Each with its line. Few commands print them, and finding the lines takes longer than reading the file."""
        return self.format_warnings()

    @property
    def repo(self) -> Path:
        """The repository: relative to the configuration file."""
        return resolve_repo_folder(self.path, self.settings.project.repo)


def load_config(path: Path) -> LoadedConfig:
    """Read a configuration file of any version; the file is not changed."""
    return parse_config(read_config_text(path), path=path)


def parse_config(text: str, *, path: Path) -> LoadedConfig:
    """Raises ConfigError with every problem, each with its line."""
    document = read_document(text)
    problems = list(document.problems)
    version = _read_version(document, path, problems)
    lifted = lift_config(document, document.data, version=version)
    problems += lifted.problems
    settings, faults = validate_settings(lifted.data)
    problems += (YamlProblem(lifted.find_origin(at), text) for at, text in faults)
    problems += find_half_characters(document.data)
    if problems or settings is None:
        raise build_config_error(document, path, problems)
    found = _find_warnings(document.data, lifted, settings, version, root=path.parent)
    warn = partial(format_problems, document, path, tuple(found))
    return LoadedConfig(
        settings=settings, path=path, version=version, format_warnings=warn, digest=compute_digest(settings)
    )


def override_settings(loaded: LoadedConfig, overrides: Mapping[str, Any]) -> LoadedConfig:
    """Put other values, by their keys (limits.max_retries), in the place of those of the file."""
    if not overrides:
        return loaded
    data = loaded.settings.model_dump(mode="json", exclude_unset=True)  # a default is not taken for a wish
    whole = loaded.settings.model_dump(mode="json")
    for key, value in overrides.items():
        *sections, name = key.split(".")
        section, defaults = data, whole
        for each in sections:
            defaults = defaults[each]
            section = section.setdefault(each, defaults)
        section[name] = value
    try:
        settings = Settings.model_validate_json(json.dumps(data))
    except ValidationError as error:
        faults = [f"{format_path(path)}: {text}" for path, text in list_faults(error)]
        raise UsageError(f"an option of the command line cannot be used: {'; '.join(faults)}") from error
    return replace(loaded, settings=settings, digest=compute_digest(settings))


def _read_version(document: Document, path: Path, problems: list[YamlProblem]) -> int:
    """Raises ConfigError when the text is not a configuration, or one of a later Blue Flame."""
    if document.data is None:
        empty = YamlProblem((), "the file is empty; run `blueflame init --force` to write one", 1)
        raise build_config_error(document, path, problems or [empty])
    if not isinstance(document.data, dict):
        got = format_value(document.data)
        text = f"must be a mapping of keys (got {got}); begin with schema_version: {SCHEMA_VERSION}"
        raise build_config_error(document, path, [*problems, YamlProblem((), text, 1)])
    version = document.data.get("schema_version", 1)
    if isinstance(version, bool) or not isinstance(version, int) or version < 0:
        text = f"must be a whole number (got {format_value(version)}); write schema_version: {SCHEMA_VERSION}"
        problems.append(YamlProblem(("schema_version",), text))
        return SCHEMA_VERSION
    if version > SCHEMA_VERSION:
        text = f"unsupported schema_version {version} (max supported: {SCHEMA_VERSION}); install a newer Blue Flame"
        raise build_config_error(document, path, [YamlProblem(("schema_version",), text)])
    return version


def _find_warnings(
    data: dict[str, Any], lifted: LiftedConfig, settings: Settings, version: int, *, root: Path
) -> Iterator[YamlProblem]:
    if "schema_version" not in data:
        text = "is missing: read as version 1; run `blueflame config migrate --write` to bring the file up to date"
        yield YamlProblem(("schema_version",), text, 1)
    elif version == SCHEMA_VERSION:
        for section in find_old_sections(data):
            text = "is a section of schema 1, which is still read; `blueflame config migrate` moves it under roles"
            yield YamlProblem(section, text)
    plugins = (root / Path(folder).expanduser() for folder in list_plugins(settings))
    offered = {each.parent.name for folder in plugins for each in folder.glob("skills/*/SKILL.md")}
    missing = find_missing_skills(settings, offered)
    for at, text in (*find_doubtful_settings(settings), *find_idle_settings(settings), *missing):
        yield YamlProblem(lifted.find_origin(at), text)


def format_problems(document: Document, path: Path, problems: Iterable[YamlProblem]) -> tuple[str, ...]:
    """In the order of lines: `blueflame.yaml:12: limits.max_retries: must be a whole number (got "two"); ...`"""
    located = {
        (problem.line or document.find_line(problem.path) or 1, format_path(problem.path), problem.text)
        for problem in problems
    }
    return tuple(
        f"{shorten_path(path)}:{line}: {key}{': ' if key else ''}{text}" for line, key, text in sorted(located)
    )


def build_config_error(document: Document, path: Path, problems: Iterable[YamlProblem]) -> ConfigError:
    shown = format_problems(document, path, problems)
    count = "one problem" if len(shown) == 1 else f"{len(shown)} problems"
    return ConfigError(f"{shorten_path(path)} cannot be used: {count}", shown)
