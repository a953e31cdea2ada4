"""The exported tasks file, which a person may edit: its second line is the digest of the rest, which shows an edit.

An edited file is saved under a second name before the next export, and read between two cycles.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from threading import Lock

from blueflame.documents.plans import format_tasks_file, read_plan
from blueflame.documents.yaml import read_document
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import PlanError, WorldError
from blueflame.model.task import Task, TaskRecord
from blueflame.system.files import build_file_error, read_text, write_atomically

HEADER = "# The state of all tasks. Those that have not landed can be changed here: the next cycle applies it.\n"
SIGNED = re.compile(rb"#[^\n]*\n# sha256: ([0-9a-f]{64})\n")
MISSING_ERRORS = (FileNotFoundError, NotADirectoryError)  # writing it reports the latter
_LOCK = Lock()  # the export and the reading between two cycles run in threads of one process


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedTasksFile:
    path: Path
    digest: str
    session: str  # the session that exported it; empty if unknown
    changed_at: float
    tasks: tuple[Task, ...] = ()
    problems: tuple[str, ...] = ()  # with their lines
    lines: Mapping[str, int] = field(default_factory=dict)  # where each task begins


def export_tasks(path: Path, session_id: str, cycle: int, records: Iterable[TaskRecord]) -> Path | None:
    """Write every task with its state; return where a person's edits were saved, if there were any."""
    text = format_tasks_file(session_id, cycle, records)
    digest = _compute_digest(text.encode("utf-8", "surrogateescape"))
    with _LOCK:
        aside = _save_edits(path)
        write_atomically(path, f"{HEADER}# sha256: {digest}\n{text}")
        return aside


def read_edited_tasks(path: Path) -> EditedTasksFile | None:
    """Return a person's edit of the tasks file, if there is one, with every problem and its line."""
    with _LOCK:
        if _save_edits(path) is not None:
            path.unlink(missing_ok=True)  # the next export writes it again
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
    """Rename an edit that has been handled; a person may still want to read it."""
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
    """The session's id, and the line of each task."""
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
    """Save an edited file under a second name too: the first stays in place if the next export fails."""
    aside = build_edited_path(path)
    try:
        data = path.read_bytes()
        if _is_unchanged(data):
            return None
        if not (aside.exists() and aside.read_bytes() == data):
            with suppress(FileNotFoundError):  # keep an earlier edit that was not used
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
    """Whether the file is as it was exported. An empty one, left by a full disk or `touch`, is not an edit."""
    if not data.strip():
        return True
    signed = SIGNED.match(data)
    return signed is not None and signed[1].decode() == _compute_digest(data[signed.end() :])
