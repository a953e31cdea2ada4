"""`blueflame config`: check, show, schema, migrate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from blueflame.cli.options import JSON, build_group
from blueflame.cli.output import print_json, print_text
from blueflame.model.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from blueflame.config.migrate import Migration

config_app = build_group("Check, show and migrate the configuration.")

CONFIG = typer.Option(
    None, "--config", "-c", envvar="BLUEFLAME_CONFIG", help="Configuration file [default: the nearest blueflame.yaml]."
)


@config_app.command()
def check(config: Path | None = CONFIG, as_json: bool = JSON) -> None:
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
        raise typer.Exit(error.exit_code) from None
    if as_json:
        found = {"path": str(path), "ok": True, "schema_version": loaded.version, "problems": []}
        print_json({**found, "warnings": loaded.warnings})
        return
    for warning in loaded.warnings:
        print_text(f"warning: {warning}", err=True)
    print_text(f"{shorten_path(path)}: ok (schema {loaded.version})")


@config_app.command()
def show(config: Path | None = CONFIG, as_json: bool = JSON) -> None:
    """Show the configuration with all defaults filled in."""
    from blueflame.config.load import load_config
    from blueflame.config.locate import find_config
    from blueflame.config.show import format_config, format_resolved_json

    loaded = load_config(find_config(Path.cwd(), config))
    print_text((format_resolved_json if as_json else format_config)(loaded.settings), end=False)


@config_app.command()
def schema(as_json: bool = typer.Option(True, "--json", help="Always JSON.", hidden=True)) -> None:  # noqa: ARG001 (every read takes --json)
    """Print the JSON schema, for editors that complete and check YAML."""
    from blueflame.config.show import format_json_schema

    print_text(format_json_schema(), end=False)


@config_app.command()
def migrate(
    config: Path | None = CONFIG,
    write: bool = typer.Option(False, "--write", "-w", help="Change the file instead of showing the difference."),
    as_json: bool = JSON,
) -> None:
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
