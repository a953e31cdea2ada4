"""`blueflame cleanup`: remove what ended sessions left behind."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blueflame.cli.options import config_option, json_option
from blueflame.cli.output import print_json, print_text
from blueflame.cli.trust import open_trusted_project
from blueflame.text.format import format_count

if TYPE_CHECKING:
    from blueflame.orchestrator.cleanup import Leftover


class DurationParameter(click.ParamType[float]):
    """A duration as in blueflame.yaml, in seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from blueflame.model.settings.fields import parse_duration

        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command()
@click.option("--dry-run", is_flag=True, help="List what would be removed; remove nothing.")
@click.option("--drop-unmerged", is_flag=True, help="Also delete attempts' commits that are on no branch.")
@click.option(
    "--older-than",
    "age",
    type=DurationParameter(),
    default=0.0,
    help="Also delete sessions that ended longer ago than this (90d, 12h) from the journal, with their logs.",
)
@click.option("--verbose", "-v", is_flag=True, help="List every item instead of counts.")
@config_option
@json_option
def cleanup(  # noqa: PLR0917 (its options)
    dry_run: bool, drop_unmerged: bool, age: float, verbose: bool, config: Path | None, as_json: bool
) -> int:
    """Remove checkouts, old logs and refs of ended sessions. Unmerged commits are kept without --drop-unmerged."""
    from blueflame.orchestrator.cleanup import choose_leftovers, find_leftovers, forget_sessions, remove_leftovers
    from blueflame.orchestrator.project import open_project
    from blueflame.orchestrator.sessions import open_journal
    from blueflame.system.clock import SystemClock
    from blueflame.system.flock import read_lock_holder

    project = open_project(config) if dry_run else open_trusted_project(config, can_ask=not as_json)
    with open_journal(project) as journal:
        at_work = read_lock_holder(project.state.lock) is not None
        found = find_leftovers(
            project.repo,
            project.paths,
            journal,
            now=SystemClock().now(),
            max_age=project.settings.cleanup.log_max_age,
            at_work=at_work,
            forget_after=age,
        )
    goes, stays = choose_leftovers(found, drop_unmerged=drop_unmerged)
    if not dry_run:
        remove_leftovers(project.repo, goes)
        forget_sessions(project.state.journal, goes, at_work=at_work)
    if as_json:
        removed, kept = ([_build_leftover_json(each) for each in part] for part in (goes, stays))
        print_json({"removed": removed, "kept": kept, "dry_run": dry_run})
    else:
        print_text(
            "\n".join(_format_lines(goes, stays, verb="would remove" if dry_run else "removed", verbose=verbose))
        )
    return 0


def _build_leftover_json(leftover: Leftover) -> dict[str, object]:
    return {
        "kind": leftover.kind.value,
        "name": leftover.name,
        "session": leftover.session,
        "bytes": leftover.bytes,
    }


def _format_lines(goes: Sequence[Leftover], stays: Sequence[Leftover], *, verb: str, verbose: bool) -> list[str]:
    if not goes and not stays:
        return ["nothing to clean up"]
    named = _list_each if verbose else _count_by_session
    kept = [f"{line}: commits on no branch; --drop-unmerged deletes them" for line in named("kept", stays)]
    size = sum(each.bytes for each in goes)
    return [
        *named(verb, goes),
        *kept,
        f"{verb} {format_count(len(goes), 'item')}{_format_size(size)}; kept {len(stays)}",
    ]


def _list_each(verb: str, found: Sequence[Leftover]) -> list[str]:
    return [f"{verb}  {each.kind.value:<14}  {each.name}{_format_size(each.bytes)}" for each in found]


def _count_by_session(verb: str, found: Sequence[Leftover]) -> list[str]:
    """One line per session: hundreds of refs are one number."""
    lines = []
    for session, group in groupby(sorted(found, key=lambda each: each.session), key=lambda each: each.session):
        things = tuple(group)
        kinds = [each.kind.value for each in things]
        counted = ", ".join(format_count(kinds.count(kind), kind) for kind in dict.fromkeys(kinds))
        lines.append(f"{verb}  {session or 'no session'}  {counted}{_format_size(sum(each.bytes for each in things))}")
    return lines


def _format_size(size: int) -> str:
    return f", {size / 2**20:,.1f} MB" if size else ""
