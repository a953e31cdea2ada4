"""Report, ask about or remove checkouts of earlier sessions, by cleanup.stale_worktrees."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from blueflame.cli.output import print_text
from blueflame.model.errors import NoAnswer
from blueflame.text.format import format_count

if TYPE_CHECKING:
    from blueflame.cli.foreground import RunOptions
    from blueflame.journal.journal import Journal
    from blueflame.orchestrator.project import Project


def handle_stale_checkouts(project: Project, journal: Journal, options: RunOptions) -> None:
    """Handle them before a session begins; they are never a reason to refuse it."""
    from blueflame.orchestrator.cleanup import find_stale_checkouts, remove_leftovers

    found = find_stale_checkouts(project.paths, journal)
    if not found:
        return
    size = sum(each.bytes for each in found) / 2**20
    words = f"{format_count(len(found), 'checkout')} of earlier sessions in {project.paths.worktrees} ({size:,.1f} MB)"
    policy = project.settings.cleanup.stale_worktrees
    if policy == "clean" or (policy == "ask" and _ask_to_remove(f"Remove {words}?", options) == "clean"):
        remove_leftovers(project.repo, found)
        print_text(f"blueflame: removed {words}", err=True)
    else:
        print_text(f"blueflame: {words}; 'blueflame cleanup' removes them", err=True)


def _ask_to_remove(title: str, options: RunOptions) -> str:
    from blueflame.cli.console import make_console
    from blueflame.cli.gates.prompt import GateContext, GatePrompt
    from blueflame.session.gates.questions import build_stale_gate
    from blueflame.system.terminal import is_interactive

    gate = build_stale_gate(title)
    if options.decisions is not None:
        try:
            return options.decisions.find_answer(gate, frozenset()).choice
        except NoAnswer:  # not worth stopping for: the default keeps them
            return gate.default
    if not is_interactive() or options.as_json:
        return gate.default
    return asyncio.run(GatePrompt(make_console()).ask(gate, GateContext())).choice
