"""The exported tasks file as a person may change it: its second line is the digest of the rest, so a change shows.

A changed file is moved aside before the next export would overwrite it, and read between two cycles.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from blueflame.documents.plans import read_plan
from blueflame.documents.yaml import read_document
from blueflame.model.errors import PlanError, WorldError
from blueflame.model.task import Task
from blueflame.system.files import build_file_error, read_text, write_atomically

HEADER = b"""\
# How the tasks stand. Those that have not landed can be changed here: the next cycle takes the changes up.
# sha256: """
MISSING_ERRORS = (FileNotFoundError, NotADirectoryError)  # whoever writes the file tells of a folder that is none
_LOCK = Lock()  # the export and the look between two cycles are made in threads of one process


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedTasksFile:
    path: Path
    digest: str
    session: str  # which one it was exported for; empty when it does not say so
    changed_at: float
    tasks: tuple[Task, ...] = ()
    problems: tuple[str, ...] = ()  # with their lines
    lines: Mapping[str, int] = field(default_factory=dict)  # where each task begins


def write_tasks_file(path: Path, text: str) -> Path | None:
    """Export the tasks. Where a person's changes are kept now, when there were some."""
    data = text.encode("utf-8", "surrogateescape")
    with _LOCK:
        aside = _save_edits(path)
        write_atomically(path, HEADER + _compute_digest(data).encode() + b"\n" + data)
        return aside


def read_edited_tasks(path: Path) -> EditedTasksFile | None:
    """A person's version of the tasks file, if there is one; read strictly, every problem with its line."""
    with _LOCK:
        if _save_edits(path) is not None:
            path.unlink(missing_ok=True)  # the next export writes it anew
        aside = build_edited_path(path)
        try:
            data, changed_at = aside.read_bytes(), aside.stat().st_mtime
        except MISSING_ERRORS:
            return None
        except OSError as error:
            raise build_file_error("read", aside, error) from error
    tasks, problems = _read_tasks(aside)
    session, lines = _read_session_and_lines(aside)
    return EditedTasksFile(
        path=aside,
        digest=_compute_digest(data),
        session=session,
        changed_at=changed_at,
        tasks=tasks,
        problems=problems,
        lines=lines,
    )


def archive_edit(edit: EditedTasksFile) -> None:
    """It has been dealt with; a person may still want to look at it."""
    with suppress(FileNotFoundError):
        edit.path.replace(edit.path.with_name(f"{edit.path.name}.old"))


def build_edited_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.edited")


def _read_tasks(path: Path) -> tuple[tuple[Task, ...], tuple[str, ...]]:
    try:
        return read_plan(path), ()
    except PlanError as error:
        return (), tuple(error.problems)


def _read_session_and_lines(path: Path) -> tuple[str, dict[str, int]]:
    """The session that it names, and where its tasks begin."""
    try:
        found = read_document(read_text(path, "the tasks file"))
    except WorldError:
        return "", {}
    data = found.data if isinstance(found.data, Mapping) else {}
    tasks = data.get("tasks")
    entries = enumerate(tasks) if isinstance(tasks, list) else ()
    named = (
        (str(entry.get("id")), found.find_line(("tasks", n))) for n, entry in entries if isinstance(entry, Mapping)
    )
    session = data.get("session_id")
    return session if isinstance(session, str) else "", {name: line for name, line in named if line}


def _save_edits(path: Path) -> Path | None:
    """Under a second name, so that the file stays where it is if what is to replace it cannot be written."""
    aside = build_edited_path(path)
    try:
        data = path.read_bytes()
        if _is_unchanged(data):
            return None
        if not (aside.exists() and aside.read_bytes() == data):
            with suppress(FileNotFoundError):  # an earlier one that nobody has taken up is not lost
                aside.replace(aside.with_name(f"{aside.name}.old"))
            aside.hardlink_to(path)
    except MISSING_ERRORS:
        return None
    except OSError as error:
        raise build_file_error("keep the changes of", path, error) from error
    return aside


def _compute_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _is_unchanged(data: bytes) -> bool:
    """As it was written. An empty one, as a full disk or a touch leaves it, is nobody's word."""
    if not data.strip():
        return True
    told, _, rest = data.removeprefix(HEADER).partition(b"\n")
    return data.startswith(HEADER) and told.decode("ascii", "replace") == _compute_digest(rest)
