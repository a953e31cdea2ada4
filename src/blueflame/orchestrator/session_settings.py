"""The configuration that a session was opened with, saved by its digest: a resume uses the same one."""

from __future__ import annotations

from functools import lru_cache

from blueflame.config.show import compute_digest, compute_resolved_digest, format_resolved_json
from blueflame.model.errors import WorldError
from blueflame.model.settings import Settings
from blueflame.orchestrator.project import Project
from blueflame.session.state import Session
from blueflame.system.files import write_atomically
from blueflame.system.layout import StatePaths, make_folder


def save_settings(state: StatePaths, session: str, settings: Settings) -> None:
    path = state.session_config(session, compute_digest(settings))
    make_folder(path.parent)
    write_atomically(path, format_resolved_json(settings))


def load_settings(state: StatePaths, session: str, digest: str) -> Settings | None:
    """Return None when they were not saved; damaged ones are an error."""
    path = state.session_config(session, digest)
    try:
        text = path.read_text(encoding="utf-8")
        if compute_resolved_digest(text) != digest:
            raise WorldError(f"{path} is not the session's configuration: it was changed; remove it to continue")
        return _parse_settings(text)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise WorldError(f"{path} is not the session's configuration ({error}); remove it to continue") from error


@lru_cache(maxsize=2)
def _parse_settings(text: str) -> Settings:
    return Settings.model_validate_json(text)


def find_settings(project: Project, session: Session) -> Settings:
    """Return the settings that the session runs with, whatever the file is now; of the file where none were saved."""
    return load_settings(project.state, session.id, session.config_digest) or project.settings
