"""Whether a person trusts what a configuration runs, opens or sends outside of the sandbox. Decision 0035."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from blueflame.config.load import LoadedConfig
from blueflame.config.locate import CONFIG_NAME, shorten_path
from blueflame.config.trust_file import read_trusted, remove_trusted, save_trusted
from blueflame.model.errors import Refused
from blueflame.model.settings import Settings
from blueflame.orchestrator.project import Project
from blueflame.policy.trust import OutsideSetting, find_untrusted, list_included_files, list_outside_settings

MAX_PATTERN_BYTES = 100_000


def list_needed(project: Project, settings: Settings | None = None) -> tuple[OutsideSetting, ...]:
    """List all that needs trust, trusted or not; of the file's settings unless others are given."""
    settings = settings or project.settings
    include = settings.worktree.include
    return (
        *list_outside_settings(settings),
        *list_included_files(include, _read_patterns(project.state.root / include)),
    )


def list_untrusted(project: Project, settings: Settings | None = None) -> tuple[OutsideSetting, ...]:
    needed = list_needed(project, settings)
    return find_untrusted(needed, read_trusted(project.config, os.environ)) if needed else ()


def require_trust(project: Project, settings: Settings | None = None) -> None:
    """Refuse what no person has trusted yet, with the command that does."""
    untrusted = list_untrusted(project, settings)
    if untrusted:
        raise Refused(
            "\n".join(
                [
                    f"{shorten_path(project.config)} is not trusted on this machine: it asks for",
                    *(f"  - {line}" for line in describe_settings(untrusted)),
                    f"Read it, then run `{_format_command(project)}`; or remove these settings",
                ]
            )
        )


def read_trusted_config(project: Project) -> LoadedConfig:
    """Read the configuration as it is now; raise Refused when a person must look at it first."""
    loaded = project.read_config()
    require_trust(project, loaded.settings)
    return loaded


def trust_settings(project: Project, settings: Sequence[OutsideSetting]) -> None:
    if settings:
        save_trusted(project.config, os.environ, [setting.digest for setting in settings])


def revoke_trust(project: Project) -> None:
    remove_trusted(project.config, os.environ)


def describe_settings(settings: Sequence[OutsideSetting]) -> tuple[str, ...]:
    return tuple(f"{setting.key} {setting.value}: {setting.reach}" for setting in settings)


def _read_patterns(path: Path) -> str:
    """A file that cannot be read lists nothing: git cannot read it either."""
    try:
        content = path.read_bytes() if path.is_file() else b""
    except OSError:
        return ""
    if len(content) > MAX_PATTERN_BYTES:
        raise Refused(
            f"{path} is too large to be shown: it lists files to copy, and stays below {MAX_PATTERN_BYTES} bytes"
        )
    return content.decode("utf-8", "backslashreplace")


def _format_command(project: Project) -> str:
    is_found = project.config.name == CONFIG_NAME and Path.cwd().is_relative_to(project.config.parent)
    return shlex.join(["blueflame", "trust", *(() if is_found else ("--config", str(shorten_path(project.config))))])
