"""Write files atomically: the new content is complete and on disk, or the old file is still there."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import IO, Any

from blueflame.model.errors import WorldError
from blueflame.system.fd import sync_path, write_to_end
from blueflame.text.sanitize import encode_text

ADVICE_BY_ERRNO = {
    errno.ENOSPC: "free some disk space and try again",
    errno.EDQUOT: "your disk quota is used up: free some space and try again",
    errno.EROFS: "the file system is read-only: make it writable, or use another path",
    errno.EACCES: "fix its permissions",
    errno.EPERM: "fix its permissions, or its attributes (lsattr)",
    errno.EISDIR: "a folder is in the way: move it away",
    errno.ENOTDIR: "a file is where a folder must be: move it away",
    errno.EEXIST: "a file is where a folder must be: move it away",
    errno.EMFILE: "too many open files: raise `ulimit -n`",
    errno.EFBIG: "the limit on file sizes is reached: raise `ulimit -f`",
    errno.ENOLCK: "this disk has no locks: keep the repository on another one",
}
DRAFT_SUFFIX = re.compile(r"[0-9a-f]{16}\.draft")
DRAFT_NAME = re.compile(r"\..+\.([0-9a-f]{16}|[0-9]+(-[0-9]+)?)\.draft")
MAX_DRAFT_SECONDS, MAX_IDLE_DRAFT_SECONDS = 3600.0, 60.0  # a draft exists for moments


def write_atomically(path: Path, content: str | bytes, *, mode: int | None = None, durable: bool = True) -> None:
    """Replace `path` in a way that survives a power cut: write a draft, fsync, rename, fsync the folder.

    Without `mode` the file keeps the mode of the old one; a new one has that of the umask. What is not `durable` is not
    synced: a power cut may leave it empty.
    """
    data = encode_text(content) if isinstance(content, str) else content
    with explain_file_errors("write", path), write_draft(path, data, mode=mode, durable=durable) as draft:
        draft.replace(path)
        if durable:
            sync_path(str(path.parent))


@contextmanager
def write_draft(path: Path, data: bytes, *, mode: int | None = None, durable: bool = True) -> Iterator[Path]:
    """Write what is to be at `path` into a file beside it; it is removed after the block if it is still there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name[:50]}.{os.urandom(8).hex()}.draft")
    try:
        with draft.open("xb") as file:
            with suppress(FileNotFoundError):
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode) if mode is None else mode)
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        yield draft
    finally:
        with suppress(OSError):
            draft.unlink()


def remove_drafts(*paths: Path) -> None:
    """Remove drafts of these files that killed writers left. The caller must know that there is no writer."""
    for path in paths:
        beginning = f".{path.name[:50]}."
        for found in path.parent.glob(".*.draft"):
            if found.name.startswith(beginning) and DRAFT_SUFFIX.fullmatch(found.name.removeprefix(beginning)):
                with suppress(OSError):
                    found.unlink()


def find_old_drafts(folder: Path, now: float, *, at_work: bool) -> list[Path]:
    """Drafts in this folder and those below that are so old that their writers must have been killed.

    `at_work`: a session runs, which may be suspended while it writes.
    """
    most = MAX_DRAFT_SECONDS if at_work else MAX_IDLE_DRAFT_SECONDS
    drafts = (each for each in list_files_below(folder) if DRAFT_NAME.fullmatch(each.name))
    return sorted(each for each in drafts if 0 < read_modified_at(each) < now - most)


MAX_LOG_BYTES = 10_000_000


def list_files_below(folder: Path) -> Iterator[Path]:
    """Files in all folders below; what others remove meanwhile is left out, where `rglob` would fail."""
    for place, _folders, names in os.walk(folder):
        yield from (Path(place, name) for name in names)


def rotate_log(path: Path, most: int = MAX_LOG_BYTES) -> None:
    """Rename a log that has grown large, in the place of the one before: two of them are kept. Best effort."""
    with suppress(OSError):
        if path.stat().st_size > most:
            path.replace(path.with_name(f"{path.name}.1"))


def find_current_folder() -> Path:
    """Every path is relative to it, and git cannot run in a folder that is gone."""
    try:
        return Path.cwd()
    except OSError as error:
        raise WorldError(f"the current folder cannot be used: {error.strerror}; change to another one (cd)") from error


def read_text(path: Path, what: str) -> str:
    """Read a text file written by a person; `what` names it in errors ("the decisions file")."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as e:
        raise WorldError(f"{what} {path} does not exist; check the path") from e
    except OSError as e:
        raise build_file_error(f"read {what}", path, e) from e
    except UnicodeDecodeError as e:
        raise WorldError(f"{what} {path} is not UTF-8 text (byte {e.start}); save it as UTF-8") from e


def read_plain_file(path: str | Path, max_bytes: int) -> bytes:
    """Read the beginning of a file that an agent may have made; empty if it is a link, a pipe or cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            return file.read(max_bytes)
    except OSError:
        return b""


def read_json_object(path: Path) -> dict[str, Any]:
    """Read a JSON object that another process writes; empty if the file is missing or holds anything else."""
    try:
        return parse_json_object(path.read_bytes()) or {}
    except OSError:
        return {}


def parse_json_object(text: str | bytes) -> dict[str, Any] | None:
    """Parse what others wrote; None if it is anything but a JSON object."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def read_modified_at(path: Path) -> float:
    """Return 0 if the file is missing or unreadable."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


@contextmanager
def explain_file_errors(doing: str, path: Path) -> Iterator[None]:
    """Raise an error of the system in the block as one that names the file and what to do."""
    try:
        yield
    except OSError as e:
        raise build_file_error(doing, path, e) from e


def open_temporary_file(content: bytes = b"") -> IO[bytes]:
    """Open a file without a name, at the beginning of its content. Its folder may be deleted or full while we run: the
    error names it, and stays one of the system, for no agent can cause it."""
    folder = gettempdir()
    try:
        with ExitStack() as undo:
            file = undo.enter_context(TemporaryFile(dir=folder))
            write_to_end(file.fileno(), content)
            file.seek(0)
            undo.pop_all()
        return file
    except OSError as e:
        words = f"cannot write temporary files in {folder}: {e.strerror}; repair it, or set TMPDIR to another folder"
        raise OSError(e.errno, words) from e


MACHINE_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EPERM})
PROBE_BYTES = 1 << 20


def find_write_error(folder: Path) -> str:
    """Try to write in a folder of an agent. Say why the machine does not let us; "" if it does, or the folder is gone
    or its mode forbids it, which the agent can bring about itself."""
    try:
        with TemporaryFile(dir=folder) as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as e:
        return str(build_file_error("write in", folder, e)) if e.errno in MACHINE_ERRNOS else ""
    return ""


def build_file_error(doing: str, path: Path, error: OSError) -> WorldError:
    advice = ADVICE_BY_ERRNO.get(error.errno or 0, "check the path and try again")
    return WorldError(f"cannot {doing} {path}: {error.strerror or error}; {advice}")
