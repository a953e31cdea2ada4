"""What curation did to the knowledge files, and what was refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from blueflame.knowledge.curate import describe_step
from blueflame.memory.curator import CurationReport


def build_curation_json(report: CurationReport, *, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "steps": [asdict(step) for step in report.steps],
        "over_budget": dict(report.over_budget),
        "problems": list(report.problems),
        "archives": [str(path) for path in report.archives],
    }


def list_curation_lines(report: CurationReport) -> Iterator[str]:
    """What curation did, one line each; what a person should look at comes last."""
    yield from map(describe_step, report.steps)
    yield from (f"archive written: {path}" for path in report.archives)
    for name, tokens in report.over_budget:
        yield (
            f"{name}: your own words have about {tokens:,} tokens, more than the file may have; agents get the first "
            "of them. Shorten them, or raise tokens: at its top"
        )
    yield from report.problems
