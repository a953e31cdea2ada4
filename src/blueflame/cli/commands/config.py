"""`blueflame config`: check, show, schema, migrate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from blueflame.cli.options import PATH, CommandGroup, json_option
from blueflame.cli.output import print_json, print_text
from blueflame.model.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from blueflame.config.migrate import Migration

config_app = CommandGroup("config", help="Check, show and migrate the configuration.")

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
    from blueflame.config.locate import find_config, shorten_path

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
    from blueflame.config.locate import find_config
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
    from blueflame.config.locate import find_config, read_config_text, shorten_path
    from blueflame.config.migrate import migrate_config
    from blueflame.system.files import write_atomically

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
    from difflib import unified_diff

    from blueflame.config.locate import shorten_path

    if not migrated.changes:
        return f"{shorten_path(path)} is up to date"
    if written:
        return "\n".join([f"{shorten_path(path)}: migrated", *(f"  {change}" for change in migrated.changes)])
    names = (f"{shorten_path(path)} (now)", f"{shorten_path(path)} (schema 2)")
    lines = unified_diff(before.splitlines(), migrated.text.splitlines(), *names, lineterm="")
    return "\n".join([*lines, "", "Nothing written: pass --write to change the file."])
