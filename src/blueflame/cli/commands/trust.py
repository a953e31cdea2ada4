"""`blueflame trust`: agree to what a configuration runs, opens or sends outside of the sandbox."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from blueflame.cli.agent_shell import refuse_agent_shell
from blueflame.cli.options import config_option, json_option
from blueflame.cli.output import print_result
from blueflame.cli.trust import confirm_settings
from blueflame.model.errors import UsageError
from blueflame.model.exit_codes import ExitCode
from blueflame.orchestrator.project import open_project
from blueflame.orchestrator.trust import (
    describe_settings,
    list_needed,
    list_untrusted,
    require_trust,
    revoke_trust,
    trust_settings,
)
from blueflame.policy.trust import OutsideSetting


@click.command()
@click.option("--yes", "-y", is_flag=True, help="Trust it without a question.")
@click.option("--show", is_flag=True, help="Only show what needs trust; exit 3 if something is not trusted.")
@click.option("--revoke", is_flag=True, help="Trust nothing of this file any more.")
@config_option
@json_option
def trust(yes: bool, show: bool, revoke: bool, config: Path | None, as_json: bool) -> int:
    """Trust what the configuration runs, opens or sends outside of the sandbox, on this machine.

    What is new or changed is shown with its value. It is asked for once; a changed value is asked for again.
    """
    if yes + show + revoke > 1:
        raise UsageError("--yes, --show and --revoke cannot be combined: give one of them")
    if yes:
        refuse_agent_shell("trusting a configuration")
    project = open_project(config)
    if revoke:
        revoke_trust(project)
    needed, untrusted = list_needed(project), list_untrusted(project)
    if untrusted and not (show or revoke):
        if yes or (not as_json and confirm_settings(project, untrusted)):
            trust_settings(project, untrusted)
        require_trust(project)
        untrusted = ()
    print_result(_build_json(project.config, needed, untrusted) if as_json else _format_state(needed, untrusted))
    return ExitCode.REFUSED if show and untrusted else ExitCode.OK


def _format_state(needed: Sequence[OutsideSetting], untrusted: Sequence[OutsideSetting]) -> str:
    states = {"trusted": [each for each in needed if each not in untrusted], "not trusted": untrusted}
    lines = [f"{state}: {line}" for state, settings in states.items() for line in describe_settings(settings)]
    return "\n".join(lines) if needed else "nothing needs trust: no setting reaches beyond the sandbox"


def _build_json(
    config: Path, needed: Sequence[OutsideSetting], untrusted: Sequence[OutsideSetting]
) -> dict[str, object]:
    rows = [
        {"key": each.key, "value": each.value, "reach": each.reach.value, "trusted": each not in untrusted}
        for each in needed
    ]
    return {"config": str(config), "trusted": not untrusted, "settings": rows}
