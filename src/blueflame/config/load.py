"""From a file to settings, or to every problem there is with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blueflame.config.problems import format_path, format_value, validate_settings
from blueflame.config.schema_v1 import LiftedConfig, find_old_sections, lift_config
from blueflame.config.show import compute_digest
from blueflame.documents.config_yaml import ConfigDocument, ConfigProblem, KeyPath, read_config_yaml
from blueflame.model.errors import ConfigError
from blueflame.model.settings import SCHEMA_VERSION, Settings
from blueflame.session.from_settings import doubts

CONFIG_NAME = "blueflame.yaml"
MAX_BYTES = 1_000_000


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
        return (self.path.parent / Path(self.settings.project.repo).expanduser()).resolve()


def load_config(path: Path) -> LoadedConfig:
    """Read a configuration file. Nothing is changed on disk, whatever its version."""
    return parse_config(read_config_text(path), path=path)


def find_config(start: Path, given: Path | None = None) -> Path:
    """The file that was named, or the nearest blueflame.yaml from here up to the top of the repository."""
    if given is not None:
        return given
    for folder in _iter_folders_up(start.absolute()):
        if (folder / CONFIG_NAME).is_file():
            return folder / CONFIG_NAME
    raise ConfigError(
        f"there is no {CONFIG_NAME} in {start} or above it in this repository",
        ["run `blueflame init` to write one, or name one with --config FILE"],
    )


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


def read_config_text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise _build_file_error(path, "there is no such file; run `blueflame init` to write one") from None
    except OSError as fault:
        raise _build_file_error(
            path, f"it cannot be read ({fault.strerror}); name a readable file with --config"
        ) from None
    if len(content) > MAX_BYTES:
        raise _build_file_error(
            path, f"it is too large ({len(content)} bytes); a configuration stays below {MAX_BYTES}"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = content.count(b"\n", 0, fault.start) + 1
        raise _build_file_error(path, "the text is not UTF-8; save the file as UTF-8", line=line) from None


def format_problem(path: Path, problem: ConfigProblem) -> str:
    """blueflame.yaml:12: limits.max_retries: must be a whole number (got "two"); write digits only"""
    key = f"{format_path(problem.path)}: " if problem.path else ""
    return f"{shorten_path(path)}:{problem.line}: {key}{problem.text}"


def shorten_path(path: Path) -> Path:
    """As seen from here, when it is below here."""
    return path.relative_to(Path.cwd()) if path.is_absolute() and path.is_relative_to(Path.cwd()) else path


def _iter_folders_up(start: Path) -> Iterator[Path]:
    for folder in (start, *start.parents):
        yield folder
        if (folder / ".git").exists():  # what lies above belongs to somebody else
            return


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
    for at, text in doubts(settings):
        origin: KeyPath = lifted.find_origin(at)
        yield ConfigProblem(document.find_line(origin), origin, text)


def _sort_problems(problems: Iterator[ConfigProblem] | list[ConfigProblem]) -> list[ConfigProblem]:
    return sorted(dict.fromkeys(problems), key=lambda problem: (problem.line, format_path(problem.path), problem.text))


def _build_config_error(path: Path, problems: list[ConfigProblem]) -> ConfigError:
    shown = [format_problem(path, problem) for problem in _sort_problems(problems)]
    count = "one problem" if len(shown) == 1 else f"{len(shown)} problems"
    return ConfigError(f"{shorten_path(path)} cannot be used: {count}", shown)


def _build_file_error(path: Path, text: str, *, line: int | None = None) -> ConfigError:
    place = f"{shorten_path(path)}:{line}" if line else str(shorten_path(path))
    return ConfigError(f"{shorten_path(path)} cannot be used: one problem", [f"{place}: {text}"])
