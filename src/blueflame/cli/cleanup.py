"""`blueflame cleanup`: take away what sessions left behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from blueflame.cli.options import CONFIG, JSON

if TYPE_CHECKING:
    from blueflame.engine.housekeeping import Leftover


def cleanup(
    dry_run: bool = typer.Option(False, "--dry-run", help="List what would be removed; remove nothing."),
    drop_unmerged: bool = typer.Option(
        False, "--drop-unmerged", help="Also drop attempts' commits that are on no branch. They are gone then."
    ),
    config: Path | None = CONFIG,
    as_json: bool = JSON,
) -> int:
    """Remove checkouts, old logs and refs of ended sessions; unmerged commits are kept unless you say otherwise."""
    from blueflame import app
    from blueflame.engine.housekeeping import Kind, leftovers, remove
    from blueflame.tools.clock import SystemClock

    ground = app.grounds(config)
    with app.reading(ground) as journal:
        age = ground.settings.cleanup.log_max_age
        found = leftovers(ground.repo, ground.places, journal, now=SystemClock().now(), max_age=age)
    goes = tuple(each for each in found if drop_unmerged or each.kind is not Kind.UNMERGED)
    stays = tuple(each for each in found if each not in goes)
    if not dry_run:
        remove(ground.repo, goes)
    if as_json:
        told = {"removed": [_as_json(each) for each in goes], "kept": [_as_json(each) for each in stays]}
        typer.echo(json.dumps(told | {"dry_run": dry_run}, ensure_ascii=False, indent=2))
    else:
        _tell(goes, stays, dry_run=dry_run)
    return 0


def _as_json(leftover: Leftover) -> dict[str, object]:
    return {"kind": leftover.kind.value, "name": leftover.name, "bytes": leftover.bytes}


def _tell(goes: tuple[Leftover, ...], stays: tuple[Leftover, ...], *, dry_run: bool) -> None:
    verb = "would remove" if dry_run else "removed"
    for each in goes:
        typer.echo(f"{verb}  {each.kind.value:<14}  {each.name}" + (f"  {each.bytes >> 10:,} KB" if each.bytes else ""))
    for each in stays:
        typer.echo(f"kept  {each.kind.value:<14}  {each.name}  (--drop-unmerged removes it)")
    size = sum(each.bytes for each in goes)
    typer.echo(f"{verb} {len(goes)} things, {size / 2**20:,.1f} MB; kept {len(stays)} with unmerged commits")
