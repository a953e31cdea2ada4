"""`blueflame config`: check, show, schema, migrate, import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from blueflame.cli.options import PATH, CommandGroup, config_option, json_option
from blueflame.cli.output import print_json, print_text
from blueflame.config.locate import find_config, read_config_text, shorten_path
from blueflame.config.problems import format_path
from blueflame.model.errors import ConfigError, Refused, UsageError
from blueflame.system.files import write_atomically
from blueflame.system.layout import HousePaths, make_folder

if TYPE_CHECKING:
    from blueflame.config.import_bots import ImportedConfig
    from blueflame.config.migrate import Migration

config_app = CommandGroup("config", help="Check, show, migrate and import the configuration.")


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
@click.option("--house", type=PATH, help="Write a house.yaml in this folder too, with people, chats and plan files.")
@click.option("--dry-run", "--print", is_flag=True, help="Print the files instead of writing them.")
@json_option
def import_bots(
    *, files: tuple[Path, ...], config: Path | None, force: bool, house: Path | None, dry_run: bool, as_json: bool
) -> None:
    """Write a blueflame.yaml with the roles and workflows of a bots.yaml and an orchestration.yml.

    What cannot be used is listed in the file as a comment, with the reason. Tokens are never copied: the comment names
    an environment variable for each.
    """
    from blueflame.config.detect.repository import survey_repository
    from blueflame.config.import_bots import add_to_config, add_to_house, build_label, format_left_out, import_files
    from blueflame.config.scaffold import build_config_text

    names = [str(shorten_path(file)) for file in files]
    survey = survey_repository(Path.cwd())
    served = (build_label(survey.name), survey.repo) if house is not None else None
    imported = import_files({name: read_config_text(file) for name, file in zip(names, files, strict=True)}, served)
    path = (config or survey.repo / "blueflame.yaml").absolute()
    before = read_config_text(path) if path.exists() else build_config_text(survey)
    texts = {path: add_to_config(before, imported, path=path, names=names)}
    if house is not None and imported.house is not None:
        house_path = HousePaths(house.absolute()).config
        begun = read_config_text(house_path) if house_path.exists() else "version: 1\n"
        texts[house_path] = add_to_house(begun, imported.house, path=house_path, names=names)
    if there := [str(shorten_path(each)) for each in texts if each.exists() and not (force or dry_run)]:
        fix = "Pass --force to add to it, or --dry-run to see how"
        raise Refused(f"{' and '.join(there)} exists: not changed. {fix}")
    for each, text in texts.items() if not dry_run else ():
        make_folder(each.parent)
        write_atomically(each.resolve(), text)
    if as_json:
        taken = [format_path(place) for each in (imported, imported.house) if each for place in each.origins]
        left_out = list(format_left_out(imported))
        shown = {"path": str(path), "written": not dry_run, "taken": taken, "left_out": left_out, "text": texts[path]}
        print_json(shown | {"house": [{"path": str(each), "text": texts[each]} for each in texts if each != path]})
    elif dry_run:
        print_text("\n".join(texts.values()), end=False)
    else:
        print_text(_format_import(tuple(texts), imported))


def _format_import(paths: Sequence[Path], imported: ImportedConfig) -> str:
    from blueflame.config.import_bots import format_left_out

    def list_keys(settings: Mapping[str, Any], *path: str) -> str:
        for key in path:
            settings = settings.get(key, {})
        return ", ".join(map(str, settings)) or "none"

    house = imported.house.settings if imported.house else {}
    named = [
        ("Roles", list_keys(imported.settings, "roles")),
        ("Workflows", list_keys(imported.settings, "workflows")),
        *([("People", list_keys(house, "people")), ("Chats", list_keys(house, "telegram", "chats"))] if house else ()),
    ]
    token = house.get("telegram", {}).get("token_from", "")
    return "\n".join(
        [
            *(f"{shorten_path(path)}: written" for path in paths),
            *(f"  {name + ':':<11} {keys}" for name, keys in named),
            *(f"  Not taken:  {note}" for note in format_left_out(imported)),
            "Check it with 'blueflame config check', then try setup and checks with 'blueflame doctor --try'.",
            *([f"Set {token} for the house, then try it with 'blueflame doctor --house'."] if token else ()),
        ]
    )
