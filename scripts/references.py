"""The generated pages of docs/reference: without arguments write them, with --check list those that are stale."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from difflib import unified_diff
from functools import cache
from pathlib import Path

from reference_cli import build_cli_reference
from reference_config import build_config_reference, build_house_reference
from reference_events import build_events_reference
from reference_man import build_man_page
from reference_tables import build_exit_codes_reference, build_gates_reference, build_plan_reference

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"

PAGES: Mapping[str, Callable[[], str]] = {
    "blueflame.1": build_man_page,
    "cli.md": build_cli_reference,
    "config.md": build_config_reference,
    "events.md": build_events_reference,
    "exit-codes.md": build_exit_codes_reference,
    "gates.md": build_gates_reference,
    "house.md": build_house_reference,
    "plan.md": build_plan_reference,
}


def write_pages(folder: Path = FOLDER) -> tuple[str, ...]:
    """The pages that changed."""
    folder.mkdir(parents=True, exist_ok=True)
    changed = tuple(name for name in PAGES if _read_page(folder / name) != make_page(name))
    for name in changed:
        (folder / name).write_text(make_page(name), encoding="utf-8")
    return changed


@cache
def make_page(name: str) -> str:
    return PAGES[name]()


def find_differences(folder: Path = FOLDER) -> Iterator[str]:
    """What writing would change, line by line; nothing when every page is what the code says."""
    for name in PAGES:
        before, after = _read_page(folder / name), make_page(name)
        yield from unified_diff(before.splitlines(), after.splitlines(), name, f"{name} (as the code is)", lineterm="")


def _read_page(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 with a diff when a page is stale")
    if not parser.parse_args(arguments).check:
        print(f"written: {', '.join(write_pages()) or 'nothing, every page is fresh'}")
        return 0
    stale = list(find_differences())
    if stale:
        print("\n".join([*stale, "", "docs/reference is stale: run `make docs-write`"]))
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
