"""Comments, where shfmt and bash do not agree: what one takes for a note, the other may run."""

from __future__ import annotations

from blueflame.policy.shell.syntax import UnreadableSyntax, find_offset, read_text

_COMMENT_STARTS = b" \t\n;&|("


def check_comments(tree: object, source: bytes) -> None:
    """Raises Strange for a comment that bash would not see as one, or not up to where shfmt does.

    shfmt takes a backslash at the end of a comment for a continued line, and inside of $(…) a # right behind a quote
    for a comment; bash does neither.
    """
    todo = [tree]
    while todo:
        found = todo.pop()
        if isinstance(found, dict):
            if "Hash" in found:
                _check_comment(found, source)
            todo.extend(found.values())
        elif isinstance(found, list):
            todo.extend(found)


def _check_comment(comment: dict[str, object], source: bytes) -> None:
    written = read_text(comment, "Text")
    start = find_offset(comment, "Hash")
    if "\n" in written or written.endswith("\\"):
        raise UnreadableSyntax("a comment that ends with a backslash; leave it out")
    before = source[:start]
    while before.endswith(b"\\\n"):
        before = before[:-2]
    if (before and before[-1:] not in _COMMENT_STARTS) or source[start : start + 1] != b"#":
        raise UnreadableSyntax("a # that may be a comment or not; put a blank before it or quote it")
