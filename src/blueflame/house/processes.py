"""Start the process of a session: the same `blueflame run` and `resume` that a person starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from blueflame.dispatch.state import RequestRecord
from blueflame.house.background import BackgroundCommand, start_command
from blueflame.model.house.arrival import IncomingRequest
from blueflame.model.settings.house import HouseSettings, list_values
from blueflame.orchestrator.project import Project
from blueflame.system.files import write_atomically
from blueflame.system.layout import HousePaths


class RequestFiles(NamedTuple):
    text: Path
    plan: Path | None


def write_request_files(paths: HousePaths, name: str, request: IncomingRequest) -> RequestFiles:
    """Write the request where its process reads it: a text may be longer than an argument can be."""
    text, plan = _list_request_files(paths, name)
    text.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(text, request.text)
    if request.plan:
        write_atomically(plan, request.plan)
    return RequestFiles(text, plan if request.plan else None)


def remove_request_files(paths: HousePaths, name: str) -> None:
    """Remove what the process has read: its session has it."""
    for path in _list_request_files(paths, name):
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _list_request_files(paths: HousePaths, name: str) -> tuple[Path, Path]:
    return paths.requests / f"{name}.txt", paths.requests / f"{name}.plan.yaml"


def start_session(
    project: Project, record: RequestRecord, files: RequestFiles | None, *, environ: Mapping[str, str], fresh: bool
) -> BackgroundCommand:
    """Open the session of a request; without files continue it. `fresh`: an unfinished one there is abandoned."""
    assert project.settings is not None  # a configuration that cannot be read is not the request's fault: raise it here
    if files is None:
        return start_command(project, "resume", record.session, "--quiet", environ=environ)
    words = [
        f"--request-id={record.id}",
        *(("--task=-",) if record.request.text.strip() else ()),
        *((f"--plan={files.plan}",) if files.plan else ()),
        *((f"--tier={record.request.tier}",) if record.request.tier and not files.plan else ()),
        *((f"--workflow={record.request.workflow}",) if record.request.workflow else ()),
        *(("--fresh",) if fresh else ()),
        "--quiet",
    ]
    return start_command(project, "run", *words, environ=environ, stdin=files.text)


def list_secret_variables(settings: HouseSettings) -> Iterator[str]:
    """The environment variables that hold the secrets of sources and chats: no session needs them."""
    return (str(value) for at, value in list_values(settings) if str(at[-1]).endswith("_from") and value is not None)
