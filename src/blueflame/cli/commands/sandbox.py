"""`blueflame sandbox`: run a command in the sandbox, and show what is in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blueflame.cli.options import PATH, CommandGroup, config_option, json_option
from blueflame.cli.output import print_text
from blueflame.cli.trust import ensure_trust
from blueflame.model.errors import UsageError

if TYPE_CHECKING:
    from blueflame.config.load import LoadedConfig
    from blueflame.orchestrator.foreground_sandbox import CommandSite
    from blueflame.orchestrator.project import Project
    from blueflame.sandbox.person_checkout import PersonCheckout

sandbox_app = CommandGroup("sandbox", help="Run a command in the agents' sandbox, or show its limits.")

worktree_option = click.option(
    "--worktree", "-w", type=PATH, help="Folder that may be written [default: the current repository]."
)
host_option = click.option(
    "--host", multiple=True, metavar="NAME", help="Host to allow besides sandbox.allowed_hosts; repeatable."
)
command_argument = click.argument(
    "command", nargs=-1, required=True, metavar="-- CMD...", help="The command and its arguments."
)


@sandbox_app.command(context_settings={"allow_interspersed_args": False})
@command_argument
@config_option
@worktree_option
@host_option
def run(command: tuple[str, ...], config: Path | None, worktree: Path | None, host: tuple[str, ...]) -> int:
    """Run a command as agents run: only its folder is writable, your files are hidden, there is no network.

    In your own repository, .git is read-only. The exit code is the command's.
    """
    from blueflame.orchestrator.foreground_sandbox import run_in_sandbox

    site = find_site(config, worktree, check=ensure_trust)
    if site.sandbox.level == "off":
        print_text("blueflame: sandbox.level is off: the command runs without a sandbox", err=True)
    return run_in_sandbox(site, command, hosts=_check_hosts(host))


@sandbox_app.command()
@config_option
@worktree_option
@host_option
@json_option
def show(config: Path | None, worktree: Path | None, host: tuple[str, ...], as_json: bool) -> int:
    """Show what exists inside, what can be written and reached, and which limits hold."""
    from blueflame.cli.output import print_json
    from blueflame.cli.render.policy import print_sandbox
    from blueflame.orchestrator.foreground_sandbox import (
        build_command_sandbox,
        find_highest_level,
        find_sandbox_problems,
    )
    from blueflame.views.policy import build_sandbox_json

    site = find_site(config, worktree)
    box = build_command_sandbox(site, Path("/private"), hosts=_check_hosts(host))
    held, problems = find_highest_level(), find_sandbox_problems(site.sandbox.level)
    if as_json:
        print_json(build_sandbox_json(box, held, problems))
    else:
        print_sandbox(box, held, problems)
    return 0


def find_site(
    config: Path | None, worktree: Path | None, *, check: Callable[[Project], None] = lambda _project: None
) -> CommandSite:
    """`check` is called with the project before its settings are used."""
    from blueflame.orchestrator.foreground_sandbox import build_site
    from blueflame.orchestrator.project import Project
    from blueflame.sandbox.person_checkout import find_checkout, read_checkout

    here = Path(os.path.realpath(Path.cwd()))
    if worktree is not None and not worktree.is_dir():
        raise UsageError(f"--worktree {worktree} is not a folder: pass the folder that the command may write to")
    checkout = read_checkout(Path(os.path.realpath(worktree))) if worktree is not None else find_checkout(here)
    loaded = _find_settings(config, checkout)
    if loaded is None:
        return build_site(checkout, here, None, None)
    check(Project.from_loaded(loaded))
    return build_site(checkout, here, loaded.settings, read_checkout(Path(os.path.realpath(loaded.repo))))


def _find_settings(config: Path | None, checkout: PersonCheckout) -> LoadedConfig | None:
    """Find the settings. For an agent's checkout they are those of its repository: the agent can write its own copy."""
    from blueflame.config.load import load_config
    from blueflame.config.locate import CONFIG_NAME

    here = (checkout.root, Path.cwd(), *Path.cwd().parents)
    near = next((folder / CONFIG_NAME for folder in here if (folder / CONFIG_NAME).is_file()), None)
    above = [folder / CONFIG_NAME for folder in checkout.root.parents if (folder / CONFIG_NAME).is_file()]
    for path in [config] if config else [*above, *([near] if near else [])]:
        loaded = load_config(path)
        repo = Path(os.path.realpath(loaded.repo))
        worktrees = Path(os.path.normpath(repo / Path(loaded.settings.project.worktree_dir).expanduser()))
        if path in (config, near) or checkout.root.is_relative_to(worktrees):
            return loaded
    return None


def _check_hosts(names: Sequence[str]) -> list[str]:
    """Validate the hosts as strictly as those of the configuration."""
    from pydantic import ValidationError

    from blueflame.model.settings.permissions import SandboxSettings

    try:
        return list(SandboxSettings(allowed_hosts=tuple(names)).allowed_hosts)
    except ValidationError as e:
        raise UsageError(f"--host: {e.errors()[0]['msg']}; write example.org or *.example.net:443") from e
