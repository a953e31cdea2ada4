"""The map of the code base, or of one place in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from blueflame.codebase.draw import describe_gap
from blueflame.codebase.facts import FOLDER_DEPTH, Folder, MapFacts, compute_facts, list_folders
from blueflame.codebase.survey import CodeFile, CodeSurvey, Coverage, Symbol
from blueflame.lazy_dataclass import dataclass
from blueflame.text.sanitize import clean_line
from blueflame.views.parts import pick


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeMapView:
    path: str  # "" for the whole code base
    files: int
    size: int
    facts: MapFacts
    folders: tuple[Folder, ...]
    outlines: Mapping[str, tuple[Symbol, ...]]
    coverage: Coverage


def build_code_map_view(
    survey: CodeSurvey, files: Sequence[CodeFile], outlines: Mapping[str, tuple[Symbol, ...]], path: str
) -> CodeMapView:
    """`files` and `outlines`: those at or below the path."""
    here = {file.path for file in files}
    whole = compute_facts(survey)
    near = tuple(pair for pair in whole.pairs if pair.first in here or pair.second in here)
    return CodeMapView(
        path=path,
        files=len(files),
        size=sum(file.size for file in files),
        facts=compute_facts(survey, files, near),
        folders=list_folders(files, FOLDER_DEPTH + path.count("/")),
        outlines=outlines,
        coverage=survey.coverage,
    )


def build_code_map_json(view: CodeMapView) -> dict[str, Any]:
    facts, coverage = view.facts, view.coverage
    return {
        "path": view.path,
        "files": view.files,
        "bytes": view.size,
        "languages": dict(facts.languages),
        "entries": list(facts.entries),
        "tests": dict(facts.tests),
        "commits": facts.commits,
        "changed": dict(facts.changed),
        "pairs": [each._asdict() for each in facts.pairs],
        "owners": [each._asdict() for each in facts.owners],
        "folders": [each._asdict() for each in view.folders],
        "symbols": {path: [each._asdict() for each in found] for path, found in view.outlines.items()},
        "parser": {
            "name": coverage.parser or None,
            **pick(coverage, "wanted parsed failed"),
            "unknown": dict(coverage.unknown),
            "missing": describe_gap(coverage) or None,
        },
    }


def build_definitions_json(found: Mapping[str, Mapping[str, tuple[Symbol, ...]]]) -> dict[str, Any]:
    return {
        name: [{"path": path, **each._asdict()} for path, symbols in files.items() for each in symbols]
        for name, files in found.items()
    }


def list_definition_lines(found: Mapping[str, Mapping[str, tuple[Symbol, ...]]]) -> list[str]:
    """As compilers print places, so that editors can jump there."""
    return [
        clean_line(f"{path}:{each.line}: {each.kind} {f'{each.scope}.{each.name}'.strip('.')}")
        for files in found.values()
        for path, symbols in files.items()
        for each in symbols
    ]
