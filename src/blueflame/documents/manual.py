"""The documentation that comes with the package: its pages, and how one is found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import blueflame

ROOMS = ("how-to", "explanation", "reference")


def find_manual() -> Path | None:
    """Return the folder of the documentation: in the package, or beside the source."""
    package = Path(blueflame.__file__).parent
    places = (package / "docs", package.parents[1] / "docs")
    return next((place for place in places if (place / "index.md").is_file()), None)


def list_pages(manual: Path) -> Mapping[str, str]:
    """Return the titles by the names of pages: tutorial, how-to/answer-gates."""
    paths = [manual / "tutorial.md", *(path for room in ROOMS for path in sorted((manual / room).glob("*.md")))]
    return {path.relative_to(manual).with_suffix("").as_posix(): _read_title(path) for path in paths if path.is_file()}


def find_pages(pages: Mapping[str, str], topic: str) -> tuple[str, ...]:
    """Return the page of that name, else those of that last name, else those with the word in name or title."""
    wanted = topic.casefold().removesuffix(".md").removeprefix("docs/")
    if wanted in pages:
        return (wanted,)
    named = tuple(name for name in pages if name.rpartition("/")[2] == wanted)
    words = wanted.replace("-", " ")
    return named or tuple(
        name for name, title in pages.items() if words in f"{name} {title}".casefold().replace("-", " ")
    )


def _read_title(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.readline().lstrip("# ").strip()
