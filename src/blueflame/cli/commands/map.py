"""`blueflame map`: what the code base consists of; planners and triagers get the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import click

from blueflame.cli.options import config_option, json_option
from blueflame.cli.output import print_json, print_result, print_text
from blueflame.cli.render.code_map import render_code_map
from blueflame.codebase.make import find_definitions, read_outlines, select_files, survey_code
from blueflame.codebase.survey import CodeSurvey, Symbol
from blueflame.model.errors import UsageError
from blueflame.model.suggestions import suggest
from blueflame.orchestrator.project import open_project
from blueflame.views.code_map import (
    build_code_map_json,
    build_code_map_view,
    build_definitions_json,
    list_definition_lines,
)


@click.command("map")
@click.argument("path", required=False, default="", help="Folder or file, from the top [default: all].")
@click.option("--symbol", "-s", multiple=True, metavar="NAME", help="Only say where this is defined; repeatable.")
@config_option
@json_option
def map_(path: str, symbol: tuple[str, ...], config: Path | None, as_json: bool) -> int:
    """Show the map of the code base at the base commit: languages, folders, symbols, what changes together, by whom."""
    from blueflame.orchestrator.lifecycle import prepare_folders

    project = open_project(config)
    prepare_folders(project)
    cache, place = project.paths.code_map, _normalize(path)
    survey = survey_code(project.repo, project.repo.base_sha, cache, seconds=None)
    files = select_files(survey.files, place)
    _check_place(survey, place, bool(files))
    if symbol:
        return _show_definitions(find_definitions(replace(survey, files=files), cache, symbol), as_json=as_json)
    view = build_code_map_view(survey, files, read_outlines(cache, files), place)
    data = {"commit": project.repo.base_sha} | build_code_map_json(view)
    return print_result(data if as_json else render_code_map(view))


def _show_definitions(found: Mapping[str, Mapping[str, tuple[Symbol, ...]]], *, as_json: bool) -> int:
    """Say where each is defined; a name that is not found is an error, so that scripts notice."""
    if as_json:
        print_json({"definitions": build_definitions_json(found)})
    elif lines := list_definition_lines(found):
        print_text("\n".join(lines))
    if missing := [name for name, files in found.items() if not files]:
        raise UsageError(f"no definition of {', '.join(map(repr, missing))} in the files that could be parsed")
    return 0


def _normalize(path: str) -> str:
    return path.removeprefix("./").strip("/").removesuffix("/.") if path not in (".", "./") else ""


def _check_place(survey: CodeSurvey, place: str, is_found: bool) -> None:
    if not is_found and place:
        folders = {folder for file in survey.files for folder in _list_parents(file.path)}
        hint = suggest(place, sorted(folders | {file.path for file in survey.files}), before="; ")
        raise UsageError(f"{place!r} is neither a file nor a folder of the base commit{hint}")


def _list_parents(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]
