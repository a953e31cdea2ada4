"""Comments, where shfmt and bash do not agree: what one takes for a note, the other may run."""

from __future__ import annotations

from blueflame.policy.shell.syntax import Strange, offset_of, text

_BEFORE = b" \t\n;&|("


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
                _check(found, source)
            todo.extend(found.values())
        elif isinstance(found, list):
            todo.extend(found)


def _check(comment: dict[str, object], source: bytes) -> None:
    written = text(comment, "Text")
    start = offset_of(comment, "Hash")
    if "\n" in written or written.endswith("\\"):
        raise Strange("a comment that ends with a backslash; leave it out")
    before = source[:start]
    while before.endswith(b"\\\n"):
        before = before[:-2]
    if (before and before[-1:] not in _BEFORE) or source[start : start + 1] != b"#":
        raise Strange("a # that may be a comment or not; put a blank before it or quote it")
