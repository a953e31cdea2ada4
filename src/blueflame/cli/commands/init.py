"""`blueflame init`: write a configuration for the repository, with what was seen to work."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from blueflame.cli.options import PATH, json_option
from blueflame.cli.output import print_json, print_text
from blueflame.cli.render.check_progress import CheckProgress
from blueflame.cli.trust import ensure_trust
from blueflame.config.detect.choose_commands import CommandChoice
from blueflame.config.detect.projects import describe_missing_programs
from blueflame.config.detect.repository import Survey, survey_repository
from blueflame.config.locate import shorten_path
from blueflame.model.errors import Refused, UsageError
from blueflame.orchestrator.project import Project
from blueflame.system.files import write_atomically
from blueflame.views.parts import pick


@click.command()
@click.option("--config", "-c", type=PATH, help="File to write [default: blueflame.yaml at the top of the repository].")
@click.option("--force", "-f", is_flag=True, help="Overwrite an existing file.")
@click.option("--dry-run", "--print", is_flag=True, help="Print the file instead of writing it; nothing is tried.")
@click.option(
    "--try/--no-try", "is_tried", default=True, help="Run setup and checks once in the sandbox, on the base commit."
)
@json_option
def init(config: Path | None, force: bool, dry_run: bool, is_tried: bool, as_json: bool) -> None:
    """Write a blueflame.yaml for this repository, with the setup and checks that work.

    They are run once in the sandbox, on the base commit; what did not work is written as a comment with the reason. An
    existing file is kept without --force.
    """
    from blueflame.config.load import parse_config
    from blueflame.config.scaffold import build_config_text

    found = survey_repository(Path.cwd())
    path = (config or found.repo / "blueflame.yaml").absolute()
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file with --config, such as {path / 'blueflame.yaml'}")
    if config is None and path.is_symlink() and not path.resolve().is_relative_to(found.repo.resolve()):
        raise UsageError(f"{path} is a link to {path.resolve()}; remove it, or name that file with --config")
    kept = path.exists() and not force and not dry_run
    repo = os.path.relpath(found.repo, path.parent.resolve())
    text = build_config_text(found, repo=repo)
    choice: CommandChoice | str = "not tried"
    if is_tried and not kept and not dry_run and found.projects:
        choice = _try_commands(Project.from_loaded(parse_config(text, path=path.resolve())), found, quiet=as_json)
        text = text if isinstance(choice, str) else build_config_text(found, repo=repo, choice=choice)
    if not kept and not dry_run:
        write_atomically(path.resolve(), text)
        _trust_written(Project(path))
        if not isinstance(choice, str):
            from blueflame.orchestrator.try_commands import save_baseline

            written = Project(path.resolve())
            save_baseline(written, written.settings, choice.checks)
    if as_json:
        print_json(_build_json(path, found, choice, text, written=not (kept or dry_run)))
    elif dry_run:
        print_text(text, end=False)
    else:
        print_text("\n".join(_format_lines(path, found, choice, kept=kept)))


def _trust_written(project: Project) -> None:
    """What is written here is the person's own. Nothing else is: a file that is kept, or .worktreeinclude."""
    from blueflame.orchestrator.trust import trust_settings
    from blueflame.policy.trust import list_outside_settings

    trust_settings(project, list_outside_settings(project.settings))


def _try_commands(project: Project, found: Survey, *, quiet: bool) -> CommandChoice | str:
    """Return what worked, or why nothing could be tried."""
    from blueflame.orchestrator.try_commands import try_projects

    _trust_written(project)
    try:
        ensure_trust(project, can_ask=not quiet)
        return try_projects(project, found.projects, CheckProgress(quiet=quiet).report)
    except Refused as error:
        return f"not tried: {error}"


def _build_json(
    path: Path, found: Survey, choice: CommandChoice | str, text: str, *, written: bool
) -> dict[str, object]:
    commands = found.commands if isinstance(choice, str) else choice.commands
    return {
        "path": str(path),
        "written": written,
        "languages": found.languages,
        "base_branch": found.base_branch,
        **pick(commands, "tests lints setup registries"),
        "tried": not isinstance(choice, str),
        "left_out": []
        if isinstance(choice, str)
        else [{"command": left.command, "reason": left.reason, "setup": left.setup} for left in choice.left_out],
        "notes": (*found.notes, *describe_missing_programs(found.commands)),
        "config": text,
    }


def _format_lines(path: Path, found: Survey, choice: CommandChoice | str, *, kept: bool) -> list[str]:
    if kept:
        return [f"{shorten_path(path)} exists: not changed. Pass --force to overwrite it"]
    commands = found.commands if isinstance(choice, str) else choice.commands
    return [
        f"wrote {shorten_path(path)}",
        f"  languages    {', '.join(found.languages) or 'none recognised'}",
        f"  base branch  {found.base_branch}",
        *_format_commands("setup", commands.setup, "none"),
        *_format_commands("checks", _count_tests(commands.checks, choice), "none: name your test command in the file"),
        *_format_choice(found, choice),
        *(f"  note: {note}" for note in found.notes),
        'Review it, then start: blueflame run "what you want done"',
    ]


def _format_commands(name: str, lines: Sequence[str], otherwise: str) -> Iterator[str]:
    for at, line in enumerate(lines or [otherwise]):
        yield f"  {name if at == 0 else '':<12} {line}"


def _count_tests(commands: Sequence[str], choice: CommandChoice | str) -> tuple[str, ...]:
    """The commands, with the number of tests where it is known."""
    counts = {} if isinstance(choice, str) else {check.name: check.tests_beside_base for check in choice.checks}
    return tuple(f"{line}  ({count})" if (count := counts.get(line)) else line for line in commands)


def _format_choice(found: Survey, choice: CommandChoice | str) -> Iterator[str]:
    if isinstance(choice, str):
        if found.projects:
            yield f"  {choice}; `blueflame doctor --try` runs setup and checks once"
        yield from (f"  note: {note}" for note in describe_missing_programs(found.commands))
        return
    for command in choice.commands.checks:
        if red := choice.describe_red(command):
            yield f"  red          {command}: {red}. It stays: a task is blamed only for what it adds"
    if changed := choice.describe_left_behind():
        yield f"  note: {changed}. Add them to .gitignore, or agents may commit them and fail"
    for left in choice.left_out:
        if left.reason:
            yield f"  left out     {left.command}: {left.reason}"
    if choice.left_out:
        yield "  The file has it as a comment: fix its cause, remove the #, then run `blueflame doctor --try`"
