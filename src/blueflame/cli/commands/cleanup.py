"""`blueflame cleanup`, `worktrees` and `locks`: checkouts, and who may work where."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import click

from blueflame.cli.options import DURATION, CommandGroup, config_option, json_option
from blueflame.cli.output import print_result
from blueflame.cli.trust import open_trusted_project
from blueflame.orchestrator.cleanup import (
    Leftover,
    choose_leftovers,
    create_checkout,
    find_leftovers,
    forget_sessions,
    list_all_checkouts,
    remove_leftovers,
    remove_own_checkout,
)
from blueflame.orchestrator.monitors.person_locks import acquire_locks, find_holders, read_locks, release_locks
from blueflame.orchestrator.project import Project, open_project
from blueflame.orchestrator.sessions import load_session, open_journal
from blueflame.session.state import Session
from blueflame.system.clock import SystemClock
from blueflame.system.flock import read_lock_holder
from blueflame.text.format import format_count
from blueflame.views.parts import pick


@click.command()
@click.option("--dry-run", is_flag=True, help="List what would be removed; remove nothing.")
@click.option("--drop-unmerged", is_flag=True, help="Also delete attempts' commits that are on no branch.")
@click.option(
    "--older-than",
    "age",
    type=DURATION,
    help="Also delete sessions that ended longer ago than this (90d, 12h) from the journal, with their logs.",
)
@click.option("--verbose", "-v", is_flag=True, help="List every item instead of counts.")
@config_option
@json_option
def cleanup(  # noqa: PLR0917 (its options)
    dry_run: bool, drop_unmerged: bool, age: float | None, verbose: bool, config: Path | None, as_json: bool
) -> int:
    """Remove checkouts, old logs and refs of ended sessions. Unmerged commits are kept without --drop-unmerged."""
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
        removed, kept = ([pick(each, "kind name session bytes") for each in part] for part in (goes, stays))
        return print_result({"removed": removed, "kept": kept, "dry_run": dry_run})
    verb = "would remove" if dry_run else "removed"
    return print_result("\n".join(_format_lines(goes, stays, verb=verb, verbose=verbose)))


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


worktrees_app = CommandGroup("worktrees", help="Make, list and remove checkouts: of your own, beside those of agents.")
worktrees_app.add_command(cleanup)  # also here, where the first design had it
name_argument = click.argument("name", help="Name of the checkout.")


@worktrees_app.command("create")
@name_argument
@click.argument("base", required=False, help="Branch or commit to begin from [default: the base branch].")
@config_option
@json_option
def create(name: str, base: str | None, config: Path | None, as_json: bool) -> int:
    """Make a checkout with a branch of its own, which borrows the repository's objects and cannot change it."""
    from blueflame.orchestrator.lifecycle import prepare_folders

    project = open_trusted_project(config, can_ask=not as_json)
    prepare_folders(project)
    made = create_checkout(project, name, base, owner=getpass.getuser())
    return print_result({"worktree": made._asdict()} if as_json else f"{made.path}\n  on the new branch {made.branch}")


@worktrees_app.command("list")
@config_option
@json_option
def list_worktrees(config: Path | None, as_json: bool) -> int:
    """List the checkouts: your own, and those of agents."""
    found = list_all_checkouts(open_project(config))
    lines = [f"{each.name}  {each.branch or each.base[:12]}  {each.owner or 'of an agent'}" for each in found]
    data = {"worktrees": [each._asdict() for each in found]}
    return print_result(data if as_json else "\n".join(lines) or "no checkouts")


@worktrees_app.command("remove")
@name_argument
@config_option
@json_option
def remove(name: str, config: Path | None, as_json: bool) -> int:
    """Remove a checkout of your own; what it has that is on no branch is kept under refs/blueflame/."""
    ref = remove_own_checkout(open_trusted_project(config, can_ask=not as_json), name)
    kept = f"; its work is kept as {ref}" if ref else ""
    return print_result({"removed": name, "kept": ref or None} if as_json else f"removed {name}{kept}")


locks_app = CommandGroup("locks", help="Lock paths for yourself: sessions start no task there until you release them.")
holder_argument = click.argument("name", help="Who holds the lock: your name, or that of a job of yours.")
paths_argument = click.argument("paths", nargs=-1, required=True, metavar="PATH...", help="Files or folders.")


@locks_app.command("acquire")
@holder_argument
@paths_argument
@config_option
@json_option
def acquire(name: str, paths: tuple[str, ...], config: Path | None, as_json: bool) -> int:
    """Lock paths, all or none; refused where another holds one of them."""
    from blueflame.orchestrator.lifecycle import prepare_folders

    project = open_trusted_project(config, can_ask=not as_json)
    prepare_folders(project)
    acquire_locks(project, _load_newest(project), name, paths)
    return print_result({"name": name, "locked": list(paths)} if as_json else f"locked for {name}: {', '.join(paths)}")


@locks_app.command("release")
@holder_argument
@config_option
@json_option
def release(name: str, config: Path | None, as_json: bool) -> int:
    """Release all that a name holds."""
    from blueflame.orchestrator.lifecycle import prepare_folders

    project = open_trusted_project(config, can_ask=not as_json)
    prepare_folders(project)
    gone = release_locks(project, name)
    words = f"released: {', '.join(gone)}" if gone else f"{name} holds no lock"
    return print_result({"name": name, "released": list(gone)} if as_json else words)


@locks_app.command("check")
@click.argument("paths", nargs=-1, metavar="[PATH]...", help="Files or folders [default: the whole repository].")
@config_option
@json_option
def check(paths: tuple[str, ...], config: Path | None, as_json: bool) -> int:
    """Show who holds a lock on these paths: people, and tasks in work. Exit code 1 if one is held."""
    project = open_project(config)
    found = find_holders(read_locks(project.state.state), _load_newest(project), paths or (".",))
    lines = [f"{each.path}  {each.name}" for each in found]
    print_result({"held": [each._asdict() for each in found]} if as_json else "\n".join(lines) or "free")
    return 1 if found else 0


def _load_newest(project: Project) -> Session | None:
    """The session that may hold locks; None before the first one."""
    if not project.state.journal.exists():
        return None
    with open_journal(project) as journal:
        left = journal.find_unfinished()
        return load_session(journal, left.id) if left is not None else None
