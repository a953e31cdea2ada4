"""Names of files as agents write them: what makes one unfit to be judged, and in which forms it is compared."""

from __future__ import annotations

import re

from blueflame.policy.path_patterns import fold_text

MAX_PATH_LENGTH, MAX_NAME_BYTES, MAX_DEPTH = 2000, 255, 100
"""Less than file systems take: a pattern with several `**` would think about the longest of names for minutes."""
CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
URL_START = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
# Code points that HFS+ leaves out when it compares names: git refuses `.g<U+200C>it` for the same reason
IGNORED_CHARACTERS = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\u00ad]")
GIT_FOLDERS = frozenset({".git", "git~1"})
MAX_SHOWN = 200


def find_path_fault(path: str) -> tuple[str, str] | None:
    """The rule and the reason for which a path is refused before anybody asks where it leads."""
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
        return "outside_worktree", "this is an address, not a path"
    if is_too_long(path):
        return "malformed_call", "the path is longer or deeper than anybody's files are"
    return None


def is_too_long(path: str) -> bool:
    if len(path) > MAX_PATH_LENGTH or path.count("/") > MAX_DEPTH:
        return True
    return any(len(part.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES for part in path.split("/"))


def normalise_path(path: str) -> str:
    """An absolute path without `//`, `.` and `..`, by its letters alone: links are not looked at."""
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
    """The path as seen from the folder, "" for the folder itself; None when it is not in there."""
    if path == folder:
        return ""
    top = folder if folder.endswith("/") else f"{folder}/"
    return path[len(top) :] if path.startswith(top) else None


def list_spellings(path: str) -> tuple[str, ...]:
    """A relative path as it is compared, and as file systems that forgive more would see it."""
    once = fold_text(path)
    forgiven = "/".join(IGNORED_CHARACTERS.sub("", part).rstrip(". ") or part for part in once.split("/"))
    return (once,) if forgiven == once else (once, forgiven)


def is_in_git_folder(path: str) -> bool:
    """Whether a relative path is in a .git folder, or is one, on any file system."""
    return any(not GIT_FOLDERS.isdisjoint(form.split("/")) for form in list_spellings(path))


def sanitize_text(text: str, limit: int = MAX_SHOWN) -> str:
    """Text from an agent, short and on one line, with nothing in it that a terminal obeys."""
    line = CONTROL_CHARACTERS.sub(lambda found: f"\\u{ord(found[0]):04x}", text[: limit + 1])
    return line if len(text) <= limit else f"{line[:limit]}…"


def format_list(names: tuple[str, ...], most: int = 8) -> str:
    """A list for a sentence, cut short where it would be a page."""
    if not names:
        return "nothing"
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(sanitize_text(name, 80) for name in names[:most]) + more
