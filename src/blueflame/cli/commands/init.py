"""`blueflame init`: write a configuration for the repository."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blueflame.cli.options import PATH, json_option
from blueflame.cli.output import print_json, print_text
from blueflame.model.errors import UsageError

if TYPE_CHECKING:
    from blueflame.config.detect.repository import Survey


@click.command()
@click.option("--config", "-c", type=PATH, help="File to write [default: blueflame.yaml at the top of the repository].")
@click.option("--force", "-f", is_flag=True, help="Overwrite an existing file.")
@click.option("--dry-run", "--print", is_flag=True, help="Print the file instead of writing it.")
@json_option
def init(config: Path | None, force: bool, dry_run: bool, as_json: bool) -> None:
    """Write a blueflame.yaml for this repository. An existing file is kept without --force."""
    from blueflame.config.detect.repository import survey_repository
    from blueflame.config.scaffold import build_config_text
    from blueflame.system.files import write_atomically

    found = survey_repository(Path.cwd())
    path = (config or found.repo / "blueflame.yaml").absolute()
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file with --config, such as {path / 'blueflame.yaml'}")
    text = build_config_text(found, repo=os.path.relpath(found.repo, path.parent.resolve()))
    kept = path.exists() and not force and not dry_run
    if not kept and not dry_run:
        write_atomically(path.resolve(), text)
    if as_json:
        print_json(_build_json(path, found, text, written=not (kept or dry_run)))
    elif dry_run:
        print_text(text, end=False)
    else:
        print_text("\n".join(_format_lines(path, found, kept=kept)))


def _build_json(path: Path, found: Survey, text: str, *, written: bool) -> dict[str, object]:
    from blueflame.config.detect.projects import describe_missing_programs

    return {
        "path": str(path),
        "written": written,
        "languages": found.languages,
        "base_branch": found.base_branch,
        "tests": found.commands.tests,
        "lints": found.commands.lints,
        "setup": found.commands.setup,
        "notes": (*found.notes, *describe_missing_programs(found.commands)),
        "config": text,
    }


def _format_lines(path: Path, found: Survey, *, kept: bool) -> list[str]:
    from blueflame.config.detect.projects import describe_missing_programs
    from blueflame.config.locate import shorten_path

    if kept:
        return [f"{shorten_path(path)} exists: not changed. Pass --force to overwrite it"]
    checks = (*found.commands.tests, *found.commands.lints)
    return [
        f"wrote {shorten_path(path)}",
        f"  languages    {', '.join(found.languages) or 'none recognised'}",
        f"  base branch  {found.base_branch}",
        f"  checks       {'; '.join(checks) or 'none found: name your test command in the file'}",
        *(f"  note: {note}" for note in (*found.notes, *describe_missing_programs(found.commands))),
        "Review it, then run: blueflame config check",
    ]
