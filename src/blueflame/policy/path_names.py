"""Check and compare paths as agents write them: faults, normal form, spellings."""

from __future__ import annotations

import re

from blueflame.policy.path_patterns import fold_text

MAX_PATH_LENGTH, MAX_NAME_BYTES, MAX_DEPTH = 2000, 255, 100
"""Below the limits of file systems: matching several `**` takes minutes on the longest names."""
CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
URL_START = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
# Code points that HFS+ leaves out when it compares names: git refuses `.g<U+200C>it` for the same reason
IGNORED_CHARACTERS = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\u00ad]")
GIT_FOLDERS = frozenset({".git", "git~1"})
MAX_SHOWN = 200


def find_path_fault(path: str) -> tuple[str, str] | None:
    """Return the rule and the reason for which a path is refused without resolving it."""
    if not path:
        return "malformed_call", "the path is empty"
    if CONTROL_CHARACTERS.search(path):
        return "control_characters", "the path holds a control character"
    if path != path.strip():
        return "malformed_call", "the path begins or ends with a blank"
    if "\\" in path:
        return "malformed_call", 'the path holds a backslash; separate folders with "/"'
    if path.startswith("~"):
        return "outside_worktree", '"~" is not followed; write the path from the top of the worktree'
    if URL_START.match(path):
        return "outside_worktree", "this is a URL, not a path"
    if is_too_long(path):
        return "malformed_call", "the path is too long or too deep"
    return None


def is_too_long(path: str) -> bool:
    if len(path) > MAX_PATH_LENGTH or path.count("/") > MAX_DEPTH:
        return True
    return any(len(part.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES for part in path.split("/"))


def normalise_path(path: str) -> str:
    """Remove `//`, `.` and `..` from an absolute path, without resolving links."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def join_path(folder: str, path: str) -> str:
    return path if path.startswith("/") else f"{folder}/{path}"


def make_relative(path: str, folder: str) -> str | None:
    """Return the path relative to the folder, "" for the folder itself; None if it is not inside."""
    if path == folder:
        return ""
    top = folder if folder.endswith("/") else f"{folder}/"
    return path[len(top) :] if path.startswith(top) else None


def list_spellings(path: str) -> tuple[str, ...]:
    """Return a relative path as it is compared, and as more tolerant file systems see it."""
    once = fold_text(path)
    forgiven = "/".join(IGNORED_CHARACTERS.sub("", part).rstrip(". ") or part for part in once.split("/"))
    return (once,) if forgiven == once else (once, forgiven)


def is_in_git_folder(path: str) -> bool:
    """Return whether a relative path is a .git folder or in one, on any file system."""
    return any(not GIT_FOLDERS.isdisjoint(form.split("/")) for form in list_spellings(path))


def sanitize_text(text: str, limit: int = MAX_SHOWN) -> str:
    """Shorten text from an agent to one line and escape control characters."""
    line = CONTROL_CHARACTERS.sub(lambda found: f"\\u{ord(found[0]):04x}", text[: limit + 1])
    return line if len(text) <= limit else f"{line[:limit]}…"


def format_list(names: tuple[str, ...], most: int = 8) -> str:
    """Format names for a message, at most `most` of them."""
    if not names:
        return "nothing"
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(sanitize_text(name, 80) for name in names[:most]) + more
