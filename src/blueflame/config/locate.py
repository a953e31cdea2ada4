"""Find the configuration file, and the repository that it is about, without loading the settings.

Commands that only read the journal need the repository's folder and nothing else of the configuration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from blueflame.model.errors import ConfigError

CONFIG_NAME = "blueflame.yaml"
MAX_BYTES = 1_000_000
REPO_KEY = re.compile(r"\brepo[\"']?\s*:")


def find_config(start: Path, given: Path | None = None) -> Path:
    """The file that was named, or the nearest blueflame.yaml from here up to the top of the repository."""
    if given is not None:
        return given
    for folder in _iter_folders_up(start.absolute()):
        if (folder / CONFIG_NAME).is_file():
            return folder / CONFIG_NAME
    raise ConfigError(
        f"there is no {CONFIG_NAME} in {start} or above it in its repository",
        ["run `blueflame init` to write one, or name one with --config FILE"],
    )


def may_name_repo(config: Path) -> bool:
    """Whether the file may set `project.repo`; False when the word is nowhere in it. One that is not there yet may."""
    return not config.exists() or REPO_KEY.search(read_config_text(config)) is not None


def resolve_repo_folder(config: Path, repo: str) -> Path:
    """The value of `project.repo` is relative to the configuration file."""
    return (config.parent / Path(repo).expanduser()).resolve()


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


def shorten_path(path: Path) -> Path:
    """Return the path relative to the current folder, when it is below it. Background processes are in /."""
    here = Path.cwd()
    return path.relative_to(here) if here.parent != here and path.is_relative_to(here) else path


def _iter_folders_up(start: Path) -> Iterator[Path]:
    for folder in (start, *start.parents):
        yield folder
        if (folder / ".git").exists():  # folders above are not part of this repository
            return


def _build_file_error(path: Path, text: str, *, line: int | None = None) -> ConfigError:
    place = f"{shorten_path(path)}:{line}" if line else str(shorten_path(path))
    return ConfigError(f"{shorten_path(path)} cannot be used: one problem", [f"{place}: {text}"])
