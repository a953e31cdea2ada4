"""Parse a feed: a program of its own, because some inputs take the parser seconds and hundreds of megabytes.

`python -I -m blueflame.intake.parse_feed` reads a feed and writes JSON; `parse_feed` runs it with limits.
"""

from __future__ import annotations

import json
import resource
import sys
from contextlib import suppress
from html.parser import HTMLParser
from io import BytesIO
from typing import Any

MAX_CPU_SECONDS = 2
MAX_MEMORY_BYTES = 256_000_000
MAX_FEED_ITEMS = 500
MAX_FIELD_CHARS = 2_000
MAX_TEXT_CHARS = 8_000
BLOCKS = frozenset(("p", "div", "br", "li", "h1", "h2", "h3", "h4", "h5", "h6", "tr", "pre", "blockquote", "hr"))


class _TextReader(HTMLParser):
    """Collects the text of HTML, a line for each block."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 (its signature)
        if tag in BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


def extract_text(html: str) -> str:
    reader = _TextReader()
    reader.feed(html[: 10 * MAX_TEXT_CHARS])
    reader.close()
    lines = (" ".join(line.split()) for line in "".join(reader.parts).split("\n"))
    return "\n".join(line for line in lines if line)[:MAX_TEXT_CHARS]


def read_entry(entry: Any) -> dict[str, str]:  # noqa: ANN401 (feedparser has no types)
    contents = [part.get("value", "") for part in entry.get("content", ())]
    html = max([*contents, entry.get("summary", "")], key=len)
    return {
        "guid": str(entry.get("id", ""))[:MAX_FIELD_CHARS],
        "link": str(entry.get("link", ""))[:MAX_FIELD_CHARS],
        "title": extract_text(str(entry.get("title", "")))[:MAX_FIELD_CHARS],
        "text": extract_text(str(html)),
    }


def main() -> None:
    for kind, most in ((resource.RLIMIT_CPU, MAX_CPU_SECONDS), (resource.RLIMIT_DATA, MAX_MEMORY_BYTES)):
        with suppress(ValueError, OSError):  # a lower limit holds already, or the system has none of this kind
            resource.setrlimit(kind, (most, most))
    import feedparser  # type: ignore[import-untyped] # it has no types

    # a stream: text and bytes would be taken for the name of a file or an address, and opened
    found = feedparser.parse(BytesIO(sys.stdin.buffer.read()))
    entries = [read_entry(entry) for entry in found.entries[:MAX_FEED_ITEMS]]
    json.dump({"version": found.get("version", ""), "items": entries}, sys.stdout)


if __name__ == "__main__":
    main()
