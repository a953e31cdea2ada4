"""Ask whether a person trusts a configuration, before anything of it is used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blueflame.cli.output import print_text

if TYPE_CHECKING:
    from blueflame.model.settings import Settings
    from blueflame.orchestrator.project import Project
    from blueflame.policy.trust import OutsideSetting

QUESTION = "Trust them on this machine?"


def open_trusted_project(config: Path | None, *, can_ask: bool = True, base: str | None = None) -> Project:
    """Open the project for a command that acts: on trusted settings, and on no state that the repository brings.

    `base`: the branch to use, if it is another than that of the configuration, which need not exist then.
    """
    from blueflame.orchestrator.preflight import refuse_foreign_state
    from blueflame.orchestrator.project import open_project

    project = open_project(config)
    project = project if base is None else project.override({"project.base_branch": base})
    ensure_trust(project, can_ask=can_ask)
    refuse_foreign_state(project.repo, project.paths)
    return project


def ensure_trust(project: Project, settings: Settings | None = None, *, can_ask: bool = True) -> None:
    """Ask about what is new or changed; without a person at a terminal, or with another answer than yes, refuse."""
    from blueflame.orchestrator.trust import list_untrusted, require_trust, trust_settings

    untrusted = list_untrusted(project, settings)
    if untrusted and can_ask and confirm_settings(project, untrusted):
        trust_settings(project, untrusted)
    require_trust(project, settings)


def confirm_settings(project: Project, settings: Sequence[OutsideSetting]) -> bool:
    """Show them and ask; False without a terminal."""
    from blueflame.config.locate import shorten_path
    from blueflame.orchestrator.trust import describe_settings
    from blueflame.system.terminal import Keyboard, is_interactive

    if not is_interactive():
        return False
    print_text(f"{shorten_path(project.config)} asks for what is new on this machine:", err=True)
    print_text("\n".join(f"  {line}" for line in describe_settings(settings)), err=True)
    Keyboard().discard_typed()
    return click.confirm(QUESTION, default=False, err=True)
