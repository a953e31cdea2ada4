"""Whole files or none: what we write is complete and on the disk, or the old file is still there."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from blueflame.model.errors import WorldError

ADVICE_BY_ERRNO = {
    errno.ENOSPC: "free some disk space and try again",
    errno.EDQUOT: "your disk quota is used up: free some space and try again",
    errno.EROFS: "the file system is read-only: use another place",
    errno.EACCES: "mend its permissions",
    errno.EPERM: "mend its permissions",
    errno.EISDIR: "a folder is in the way: move it elsewhere",
    errno.ENOTDIR: "a file stands where a folder should be: move it elsewhere",
    errno.EEXIST: "a file stands where a folder should be: move it elsewhere",
    errno.EMFILE: "too many open files: raise `ulimit -n`",
}
DRAFT_SUFFIX = re.compile(r"[0-9a-f]{16}\.draft")


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replace `path` in one step that survives a power cut: draft beside it, fsync, rename, fsync of the folder."""
    data = _encode_text(content)
    draft: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name[:50]}.{secrets.token_hex(8)}.draft")
        with draft.open("xb") as file:
            _copy_mode(path, file.fileno())
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        draft = None
        _sync_folder(path.parent)
    except OSError as e:
        raise build_file_error("write", path, e) from e
    finally:
        if draft is not None:
            with suppress(OSError):
                draft.unlink()


def remove_drafts(*paths: Path) -> None:
    """What writers of these files left of them when they were killed. Only for somebody who knows that none writes."""
    for path in paths:
        beginning = f".{path.name[:50]}."
        for found in path.parent.glob(".*.draft"):
            if found.name.startswith(beginning) and DRAFT_SUFFIX.fullmatch(found.name.removeprefix(beginning)):
                with suppress(OSError):
                    found.unlink()


def read_text(path: Path, what: str) -> str:
    """A file a person wrote; `what` is how to call it when it cannot be read ("the decisions file")."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as e:
        raise WorldError(f"{what} {path} does not exist; check the path") from e
    except OSError as e:
        raise build_file_error(f"read {what}", path, e) from e
    except UnicodeDecodeError as e:
        raise WorldError(f"{what} {path} is not UTF-8 text (byte {e.start}); save it as UTF-8") from e


def read_modified_at(path: Path) -> float:
    """0 for a file that is not there or cannot be looked at."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def build_file_error(doing: str, path: Path, error: OSError) -> WorldError:
    advice = ADVICE_BY_ERRNO.get(error.errno or 0, "see that the place can be used, then try again")
    return WorldError(f"cannot {doing} {path}: {error.strerror or error}; {advice}")


def _encode_text(content: str | bytes) -> bytes:
    return content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content


def _copy_mode(path: Path, handle: int) -> None:
    """The old file's; a new one has what the umask gave it."""
    with suppress(FileNotFoundError):
        os.fchmod(handle, stat.S_IMODE(path.stat().st_mode))


def _sync_folder(folder: Path) -> None:
    """The rename itself is durable only when the folder is."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as e:
        if e.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems cannot; nothing more can be done
            raise
    finally:
        os.close(handle)
