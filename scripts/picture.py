"""Run the demo in a terminal and write docs/images/demo.svg for the README: its busiest moment and its end."""

from __future__ import annotations

import os
import pty
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "demo.svg"
COLUMNS = 100
FRAME = "\x1b[1mBlue Flame"
REDRAW = "\x1b[2K"
AGENT = "▸"


def run_in_terminal(words: list[str]) -> str:
    """The output of a command that believes it has a terminal, colours included."""
    output = bytearray()

    def read(handle: int) -> bytes:
        chunk = os.read(handle, 65536)
        output.extend(chunk)
        return chunk

    os.environ |= {"COLUMNS": str(COLUMNS), "LINES": "50", "TERM": "xterm-256color"}
    if status := pty.spawn(words, read):
        sys.exit(f"{words}: exit status {status}")
    return output.decode()


def choose_parts(printed: str) -> str:
    frames = [FRAME + frame.partition(REDRAW)[0] for frame in printed.split(FRAME)[1:]]
    busiest = max(reversed(frames), key=lambda frame: frame.count(AGENT))
    summary = printed[printed.index("\x1b[1mSession summary") : printed.index("\x1b[1mCost by role")]
    return f"$ blueflame demo\n\n{busiest.rstrip()}\n...\n\n{summary.rstrip()}"


def main() -> None:
    printed = run_in_terminal([str(ROOT / ".venv" / "bin" / "blueflame"), "demo"]).replace("\r\n", "\n")
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere)
        console.print(Text.from_ansi(choose_parts(printed)))
    PICTURE.parent.mkdir(exist_ok=True)
    svg = re.sub(
        r"@font-face \{.*?\}\s*", "", console.export_svg(title="Blue Flame"), flags=re.DOTALL
    )  # no foreign addresses
    PICTURE.write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
