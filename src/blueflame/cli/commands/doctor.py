"""`blueflame doctor`: check what a session needs, and whether every guard holds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import RenderableType
from rich.text import Text

from blueflame.cli.console import Heading, build_columns, stack_parts
from blueflame.cli.options import config_option, json_option, refuse_idle
from blueflame.cli.output import print_result
from blueflame.cli.render.check_progress import CheckProgress
from blueflame.cli.trust import ensure_trust
from blueflame.config.detect.choose_commands import describe_check
from blueflame.model.errors import BlueFlameError
from blueflame.model.exit_codes import ExitCode
from blueflame.orchestrator.project import Project, open_project
from blueflame.system.clock import SystemClock
from blueflame.text.marks import BAD, NOTE, OK
from blueflame.text.sanitize import clean_text
from blueflame.views.parts import pick

if TYPE_CHECKING:
    from blueflame.doctor.environment import DoctorFinding
    from blueflame.doctor.guards import GuardReport


@click.command()
@config_option
@click.option("--try", "is_tried", is_flag=True, help="Also run setup and checks once, on the base commit.")
@click.option("--house", "of_house", is_flag=True, help="Check the house instead: try each repository and source.")
@json_option
def doctor(config: Path | None, is_tried: bool, of_house: bool, as_json: bool) -> int:
    """Check the machine, configuration, repository and leftovers, and try every guard."""
    from blueflame.doctor.environment import DoctorFinding, FindingState, examine_level

    if of_house:
        refuse_idle("with --house", "is_tried", "config")
        from blueflame.cli.commands.house.serve import examine_house

        return _report(examine_house(None), None, as_json=as_json)
    project: Project | BlueFlameError
    try:
        project = open_project(config)
        project.check()
        ensure_trust(project, can_ask=not as_json)
    except BlueFlameError as error:
        project = error
    found = list(_examine_project(project))
    guards: GuardReport | None = None
    try:
        guards = _examine_guards(None if isinstance(project, BlueFlameError) else project)
        found.append(examine_level(guards))
    except BlueFlameError as error:
        found.append(DoctorFinding("level", FindingState.BAD, f"guards not tried: {error}"))
    if is_tried and not isinstance(project, BlueFlameError):
        found += _try_checks(project, quiet=as_json)
    return _report(found, guards, as_json=as_json)


def _report(found: list[DoctorFinding], guards: GuardReport | None, *, as_json: bool) -> int:
    print_result(_build_json(found, guards) if as_json else _render_findings(found, guards))
    return ExitCode.REFUSED if any(each.state.value == "bad" for each in found) else ExitCode.OK


def _try_checks(project: Project, *, quiet: bool) -> list[DoctorFinding]:
    from blueflame.doctor.environment import DoctorFinding, FindingState
    from blueflame.orchestrator.try_commands import try_settings

    try:
        ended = try_settings(project, CheckProgress(quiet=quiet).report)
    except BlueFlameError as error:
        return [DoctorFinding("checks", FindingState.BAD, str(error))]
    if not ended:
        return [DoctorFinding("checks", FindingState.WARNING, "none are configured: name the command of your tests")]
    setup = project.settings.worktree.setup
    return [
        DoctorFinding(
            "setup" if check.name in setup else "checks",
            FindingState.OK if check.passed else FindingState.BAD if check.name in setup else FindingState.WARNING,
            f"{check.name}: {describe_check(check) or 'passed'}",
        )
        for check in ended
    ]


def _examine_project(project: object) -> Iterator[DoctorFinding]:
    from blueflame.doctor.environment import (
        DoctorFinding,
        FindingState,
        examine_editor,
        examine_machine,
        examine_project,
    )
    from blueflame.orchestrator.wiring import build_runtime_set, find_memory_problem
    from blueflame.views.memory import describe_memory

    yield from examine_machine()
    yield examine_editor((os.environ.get("VISUAL", ""), os.environ.get("EDITOR", ""), "nano", "vi"))
    if not isinstance(project, Project):
        yield DoctorFinding("project", FindingState.BAD, str(project))
        return
    runtime_set = build_runtime_set(project)
    try:
        yield DoctorFinding("configuration", FindingState.OK, str(project.loaded.path))
        yield from (
            DoctorFinding("configuration", FindingState.WARNING, warning) for warning in project.loaded.warnings
        )
        yield from examine_project(
            project.repo,
            project.paths,
            project.settings,
            config=project.loaded.path,
            now=SystemClock().now(),
            runtimes=(runtimes := runtime_set.build_default()),
        )
        yield from (
            DoctorFinding("credential", FindingState.WARNING, reason)
            for reason in runtime_set.find_missing_credentials(runtimes)
        )
        problem = find_memory_problem(project, servers=True)
        yield DoctorFinding(
            "memory", FindingState.WARNING if problem else FindingState.OK, problem or describe_memory(project.settings)
        )
    except BlueFlameError as error:
        yield DoctorFinding("project", FindingState.BAD, str(error))


def _examine_guards(project: Project | None) -> GuardReport:
    """Try the guards of the configuration; without one, those of the defaults."""
    from blueflame.doctor.guards import examine_guards
    from blueflame.model.settings.permissions import SandboxSettings, ValidationSettings

    if project is None:
        return examine_guards(SandboxSettings(), ValidationSettings())
    settings = project.settings
    return examine_guards(settings.sandbox, settings.validation, repo_root=project.repo.root)


def _build_json(found: list[DoctorFinding], guards: GuardReport | None) -> dict[str, object]:
    table = guards.table if guards is not None else ()
    level = {"asked": guards.asked.value, "held": guards.held.value} if guards is not None else None
    return {
        "findings": [{"name": each.name, "state": each.state.value, "details": each.words} for each in found],
        "level": level,
        "guards": [pick(each, "name holds state seen") for each in table],
    }


def _render_findings(found: list[DoctorFinding], guards: GuardReport | None) -> RenderableType:
    marks = {"ok": (OK, "good"), "warning": (NOTE, "warn"), "bad": (BAD, "bad")}
    rows = [(Text(*marks[each.state.value]), each.name, clean_text(each.words)) for each in found]
    return stack_parts(build_columns(rows), _render_guards(guards) if guards is not None else None)


def _render_guards(guards: GuardReport) -> RenderableType:
    marks = {
        "enforced": (OK, "good"),
        "detected only": (NOTE, "warn"),
        "off": (NOTE, "warn"),
        "impossible here": (BAD, "bad"),
    }
    rows: list[tuple[RenderableType, ...]] = []
    above = ""
    for each in guards.table:
        mark, colour = marks[each.state.value]
        is_shown = each.state.value != "enforced" and each.seen != above  # not repeated below the same words
        words = Text(f"{each.holds}\n").append(clean_text(each.seen), "quiet") if is_shown else Text(each.holds)
        rows.append((Text(mark, colour), Text(each.state.value, colour), each.name, words))
        above = each.seen
    return stack_parts(Heading("Guards", "each was tried just now"), build_columns(rows, whole=(0, 1)))
