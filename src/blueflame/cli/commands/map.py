"""`blueflame map`: what the code base consists of; planners and triagers get the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from blueflame.cli.options import config_option, json_option
from blueflame.cli.output import print_json
from blueflame.model.errors import UsageError

if TYPE_CHECKING:
    from blueflame.codebase.survey import CodeSurvey


@click.command("map")
@click.argument("path", required=False, default="", help="Folder or file, from the top [default: all].")
@config_option
@json_option
def map_(path: str, config: Path | None, as_json: bool) -> int:
    """Show the map of the code base at the base commit: languages, folders, symbols, what changes together, by whom."""
    from blueflame.cli.console import make_console, print_view
    from blueflame.cli.render.code_map import render_code_map
    from blueflame.codebase.make import read_outlines, select_files, survey_code
    from blueflame.orchestrator.lifecycle import prepare_folders
    from blueflame.orchestrator.project import open_project
    from blueflame.views.code_map import build_code_map_json, build_code_map_view

    project = open_project(config)
    prepare_folders(project)
    cache, place = project.paths.code_map, _normalize(path)
    survey = survey_code(project.repo, project.repo.base_sha, cache, seconds=None)
    files = select_files(survey.files, place)
    _check_place(survey, place, bool(files))
    view = build_code_map_view(survey, files, read_outlines(cache, files), place)
    if as_json:
        print_json({"commit": project.repo.base_sha} | build_code_map_json(view))
    else:
        print_view(make_console(), render_code_map(view))
    return 0


def _normalize(path: str) -> str:
    return path.removeprefix("./").strip("/").removesuffix("/.") if path not in (".", "./") else ""


def _check_place(survey: CodeSurvey, place: str, is_found: bool) -> None:
    from blueflame.model.suggestions import suggest

    if not is_found and place:
        folders = {folder for file in survey.files for folder in _list_parents(file.path)}
        hint = suggest(place, sorted(folders | {file.path for file in survey.files}), before="; ")
        raise UsageError(f"{place!r} is neither a file nor a folder of the base commit{hint}")


def _list_parents(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]
