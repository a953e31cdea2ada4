"""`blueflame config`: check, show, schema, migrate, import."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blueflame.cli.options import PATH, CommandGroup, json_option
from blueflame.cli.output import print_json, print_text
from blueflame.config.locate import find_config, read_config_text, shorten_path
from blueflame.model.errors import ConfigError, Refused, UsageError
from blueflame.system.files import write_atomically

if TYPE_CHECKING:
    from blueflame.config.import_bots import ImportedConfig
    from blueflame.config.migrate import Migration

config_app = CommandGroup("config", help="Check, show, migrate and import the configuration.")

config_option = click.option(
    "--config",
    "-c",
    type=PATH,
    envvar="BLUEFLAME_CONFIG",
    help="Configuration file [default: the nearest blueflame.yaml].",
)


@config_app.command()
@config_option
@json_option
def check(config: Path | None, as_json: bool) -> int:
    """Report every problem of the configuration."""
    from blueflame.config.load import load_config

    path = find_config(Path.cwd(), config)
    try:
        loaded = load_config(path)
    except ConfigError as error:
        if not as_json:
            raise
        print_json({"path": str(path), "ok": False, "problems": error.problems})
        return error.exit_code
    if as_json:
        found = {"path": str(path), "ok": True, "schema_version": loaded.version, "problems": []}
        print_json({**found, "warnings": loaded.warnings})
        return 0
    for warning in loaded.warnings:
        print_text(f"warning: {warning}", err=True)
    print_text(f"{shorten_path(path)}: ok (schema {loaded.version})")
    return 0


@config_app.command()
@config_option
@json_option
def show(config: Path | None, as_json: bool) -> None:
    """Show the configuration with all defaults filled in."""
    from blueflame.config.load import load_config
    from blueflame.config.show import format_config, format_resolved_json

    loaded = load_config(find_config(Path.cwd(), config))
    print_text((format_resolved_json if as_json else format_config)(loaded.settings), end=False)


@config_app.command()
@click.option("--json", is_flag=True, hidden=True, expose_value=False)  # every read takes it
def schema() -> None:
    """Print the JSON schema, for editors that complete and check YAML."""
    from blueflame.config.show import format_json_schema

    print_text(format_json_schema(), end=False)


@config_app.command()
@config_option
@click.option("--write", "-w", is_flag=True, help="Change the file instead of showing the difference.")
@json_option
def migrate(config: Path | None, write: bool, as_json: bool) -> None:
    """Migrate a file from schema 1 to 2; comments and order are kept."""
    from blueflame.config.migrate import migrate_config

    path = find_config(Path.cwd(), config)
    before = read_config_text(path)
    migrated = migrate_config(before, path=path)
    if write and not migrated.changes:
        raise UsageError(f"{shorten_path(path)} is up to date: nothing to migrate, nothing written")
    if write:
        write_atomically(path.resolve(), migrated.text)
    if as_json:
        print_json({"path": str(path), "changes": migrated.changes, "written": write}, indent=None)
    else:
        print_text(_format_migration(path, before, migrated, written=write))


def _format_migration(path: Path, before: str, migrated: Migration, *, written: bool) -> str:
    if not migrated.changes:
        return f"{shorten_path(path)} is up to date"
    if written:
        return "\n".join([f"{shorten_path(path)}: migrated", *(f"  {change}" for change in migrated.changes)])
    names = (f"{shorten_path(path)} (now)", f"{shorten_path(path)} (schema 2)")
    lines = unified_diff(before.splitlines(), migrated.text.splitlines(), *names, lineterm="")
    return "\n".join([*lines, "", "Nothing written: pass --write to change the file."])


@config_app.command("import")
@click.argument("files", type=click.Path(exists=True, dir_okay=False, path_type=Path), nargs=-1, required=True)
@click.option("--config", "-c", type=PATH, help="File to write [default: blueflame.yaml at the top of the repository].")
@click.option("--force", "-f", is_flag=True, help="Add what is imported to an existing file.")
@click.option("--dry-run", "--print", is_flag=True, help="Print the file instead of writing it.")
@json_option
def import_bots(files: tuple[Path, ...], config: Path | None, force: bool, dry_run: bool, as_json: bool) -> None:
    """Write a blueflame.yaml with the roles and workflows of a bots.yaml and an orchestration.yml.

    What cannot be used is listed in the file as a comment, with the reason. Tokens are never copied: the comment names
    an environment variable for each.
    """
    from blueflame.config.detect.repository import survey_repository
    from blueflame.config.import_bots import add_to_config, format_left_out, import_files
    from blueflame.config.scaffold import build_config_text

    names = [str(shorten_path(file)) for file in files]
    imported = import_files({name: read_config_text(file) for name, file in zip(names, files, strict=True)})
    survey = survey_repository(Path.cwd())
    path = (config or survey.repo / "blueflame.yaml").absolute()
    if path.exists() and not (force or dry_run):
        raise Refused(f"{shorten_path(path)} exists: not changed. Pass --force to add to it, or --dry-run to see how")
    before = read_config_text(path) if path.exists() else build_config_text(survey)
    text = add_to_config(before, imported, path=path, names=names)
    if not dry_run:
        write_atomically(path.resolve(), text)
    if as_json:
        taken = ["".join(f".{key}" for key in place)[1:] for place in imported.origins]
        left_out = list(format_left_out(imported))
        print_json({"path": str(path), "written": not dry_run, "taken": taken, "left_out": left_out, "text": text})
    elif dry_run:
        print_text(text, end=False)
    else:
        print_text(_format_import(path, imported))


def _format_import(path: Path, imported: ImportedConfig) -> str:
    from blueflame.config.import_bots import format_left_out

    roles, workflows = (", ".join(imported.settings.get(key, {})) or "none" for key in ("roles", "workflows"))
    return "\n".join(
        [
            f"{shorten_path(path)}: written",
            f"  Roles:      {roles}",
            f"  Workflows:  {workflows}",
            *(f"  Not taken:  {note}" for note in format_left_out(imported)),
            "Check it with 'blueflame config check', then try setup and checks with 'blueflame doctor --try'.",
        ]
    )
