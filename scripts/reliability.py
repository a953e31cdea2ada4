"""Writes docs/evidence/reliability.md from results of long torture runs: `reliability.py RESULTS.json ... PAGE.md`."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

TEMPLATE = Path(__file__).with_name("reliability.template.md")
COLUMNS = ("rounds", "kills", "wardens", "resumed", "attempts", "redone", "lost", "duplicated", "blamed")

Row = Mapping[str, Any]


def add_up(runs: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Several runs, with other dice or other cases, as one."""
    rows = [row for run in runs for row in run["rows"]]
    return {"date": max(run["date"] for run in runs), "seconds": sum(run["seconds"] for run in runs), "rows": rows}


def build_page(results: Mapping[str, Any]) -> str:
    rows = results["rows"]
    minutes = max(1, round(results["seconds"] / 60))
    wrong = [violation for row in rows for violation in row["violations"]]
    parts = {
        "run": f"Run on {results['date']}, {minutes} minutes long, {_describe_machine()}.",
        "table": "\n".join(format_table(rows)),
        "violations": "".join(["## Violations\n\n", *(f"- {each}\n" for each in wrong), "\n"]) if wrong else "",
        "cases": "\n".join(dict.fromkeys(f"- **{row['case']}**: {row['about']}." for row in rows)),
    }
    text = TEMPLATE.read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"{{{name}}}", part)
    return text


def format_table(rows: Sequence[Row]) -> Iterator[str]:
    """Rows of one case are added up, and all of them at the end."""
    yield f"| case | {' | '.join(COLUMNS)} | violations |"
    yield f"|---|{'---:|' * (len(COLUMNS) + 1)}"
    for case in dict.fromkeys(row["case"] for row in rows):
        yield _format_line(case, [row for row in rows if row["case"] == case])
    yield _format_line("**all**", rows)


def _format_line(name: str, rows: Sequence[Row]) -> str:
    sums = [sum(row[column] for row in rows) for column in COLUMNS]
    numbers = [*sums, sum(len(row["violations"]) for row in rows)]
    return f"| {name} | {' | '.join(f'{number:,}' for number in numbers)} |"


def _describe_machine() -> str:
    """In general words: what matters for the timing, and nothing that names anybody's machine."""
    git = subprocess.run(["git", "version"], capture_output=True, text=True, check=True).stdout.split()[2]
    return f"{platform.system()} with {os.cpu_count()} cores, Python {platform.python_version()}, git {git}"


def main(arguments: Sequence[str]) -> int:
    *paths, target = map(Path, arguments)
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    target.write_text(build_page(add_up(runs)), encoding="utf-8")
    print(f"written: {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
