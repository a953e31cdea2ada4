"""`python -m benchmarks [--small] [NAME ...]`: run the benchmarks, print a table, keep it in benchmarks/results/.

With `--small` they are over in seconds and nothing is kept: the figures mean nothing then. One that hangs shows where.
"""

from __future__ import annotations

import faulthandler
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from benchmarks import Figure, Report

BENCHMARKS = (
    "deciding",
    "makespan",
    "overhead",
    "policy",
    "watcher",
    "sandbox",
    "secrets",
    "recall",
    "gateway",
    "review",
    "landing",
    "large_repository",
    "code_map",
    "mcp_server",
    "house",
)
RESULTS = Path(__file__).parent / "results"
MAX_SMALL_SECONDS = 240


def main(arguments: Sequence[str]) -> int:
    small = "--small" in arguments
    wanted = [each for each in arguments if each != "--small"] or BENCHMARKS
    unknown = [name for name in wanted if name not in BENCHMARKS]
    if unknown:
        print(f"benchmarks: no benchmark is called {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
        return 2
    if small:
        faulthandler.dump_traceback_later(MAX_SMALL_SECONDS, exit=True)
    for name in wanted:
        module = import_module(f"benchmarks.{name}")
        if small:
            vars(module).update(module.SMALL)
        report: Report = module.run()
        if not small:
            save_report(report)
        print(format_table(report))
    return 0


def save_report(report: Report) -> None:
    RESULTS.mkdir(exist_ok=True)
    figures = [asdict(figure) | {"met": figure.met} for figure in report.figures]
    text = json.dumps({"name": report.name, "about": report.about, "figures": figures}, indent=2)
    (RESULTS / f"{report.name}.json").write_text(text + "\n", encoding="utf-8")


def format_table(report: Report) -> str:
    width = max(len(figure.name) for figure in report.figures)
    return "\n".join([f"{report.name}: {report.about}", *(format_row(figure, width) for figure in report.figures), ""])


def format_row(figure: Figure, width: int) -> str:
    aim = "" if figure.aim is None else f"   aim <= {figure.aim:g}: {'met' if figure.met else 'NOT MET'}"
    return f"  {figure.name:<{width}}  {figure.value:10.3f} {figure.unit:<6}{aim}".rstrip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
