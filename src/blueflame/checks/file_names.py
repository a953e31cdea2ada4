"""Find file names that are not safe on Windows, on a Mac or in a terminal."""

from __future__ import annotations

import re
import unicodedata

RESERVED_ON_WINDOWS = re.compile(r"(?i)(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(\..*)?")
GIT_ON_NTFS = re.compile(r"(?i)(\.git|git~[0-9]+)([ .]*|::.*|:\$.*)")
FORMAT_CATEGORY = "Cf"  # joiners, marks of direction, soft hyphens: invisible, and ignored by HFS+


MAX_NAME_BYTES = 255  # on all common file systems
MAX_PATH_BYTES = 3000  # Linux takes 4096 together with the folder of the checkout


def find_unsafe_part(path: str) -> str:
    """Return why a name is not allowed, or ""."""
    if len(path.encode("utf-8", "surrogateescape")) > MAX_PATH_BYTES:
        return f"the path is longer than {MAX_PATH_BYTES} bytes"
    return next((why for part in path.split("/") if (why := _explain_unsafe(part))), "")


def _explain_unsafe(name: str) -> str:
    if not name.isprintable() and (why := _find_invisible(name)):
        return why
    if len(name.encode("utf-8", "surrogateescape")) > MAX_NAME_BYTES:
        return f"it is longer than {MAX_NAME_BYTES} bytes"
    if _is_git_alias(name):
        return "some systems treat it as .git"
    if "\\" in name:
        return "a backslash separates folders on Windows"
    if name.endswith((" ", ".")):
        return "Windows drops a dot or space at the end"
    if RESERVED_ON_WINDOWS.fullmatch(name):
        return "it is a device on Windows"
    return ""


def _find_invisible(name: str) -> str:
    for letter in name:
        kind = unicodedata.category(letter)
        if kind == "Cs":
            return "it is not UTF-8"
        if kind == "Cc":
            return f"it has the control character U+{ord(letter):04X}"
        if kind == FORMAT_CATEGORY:
            return f"it has the invisible character U+{ord(letter):04X}"
    return ""


def _is_git_alias(name: str) -> bool:
    """Whether a file system may treat the name as .git; .git itself is a blocked path everywhere."""
    if name.casefold() == ".git":
        return False
    seen = "".join(
        letter for letter in unicodedata.normalize("NFKC", name) if unicodedata.category(letter) != FORMAT_CATEGORY
    )
    return GIT_ON_NTFS.fullmatch(seen.casefold()) is not None
