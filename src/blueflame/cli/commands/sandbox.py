"""`blueflame sandbox` and `guard`: a person's command in the sandbox, or as an agent behind all walls."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from blueflame.cli.options import PATH, CommandGroup, config_option, foreground_options, json_option, refuse_idle
from blueflame.cli.output import print_text
from blueflame.cli.overrides import Overrides, list_overrides, override_options
from blueflame.cli.trust import ensure_trust
from blueflame.model.errors import UsageError

if TYPE_CHECKING:
    from blueflame.cli.foreground import RunOptions
    from blueflame.config.load import LoadedConfig
    from blueflame.model.settings import Settings
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
    from blueflame.cli.output import print_result
    from blueflame.cli.render.policy import format_sandbox
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
        return print_result(build_sandbox_json(box, held, problems))
    return print_result(format_sandbox(box, held, problems))


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
        wrong = e.errors()[0]
        raise UsageError(f"--host: {wrong['input']!r} {wrong['msg'].removeprefix('Value error, ')}") from e


PLAIN = "guard"
"""The name of the runtime of a program that we do not know."""

SUBCOMMANDS: Mapping[str, tuple[str, ...]] = {
    "claude": (),
    "codex": ("exec", "e"),
    "gemini": (),
    "opencode": ("run",),
}
"""The programs that we drive ourselves, and the words with which they take a prompt."""
PROMPT_FLAGS, MODEL_FLAGS = ("-p", "--print", "--prompt"), ("-m", "--model")


class GuardedCommand(NamedTuple):
    runtime: str
    request: str
    model: str = ""
    settings: Mapping[str, Any] = {}  # of the runtime; none: as configured

    def list_overrides(self, roles: Sequence[str]) -> dict[str, Any]:
        own = {f"runtimes.{self.runtime}": dict(self.settings)} if self.settings else {}
        by_role = {"runtime": self.runtime, **({"model": self.model} if self.model else {})}
        # a command that fails is not simply run again: a person is asked
        return own | {f"roles.{role}.{key}": value for role in roles for key, value in by_role.items()} | NO_RETRY


NO_RETRY = {"limits.max_retries": 0}


def read_command(words: Sequence[str], task: str = "") -> GuardedCommand:
    """Read which agent a command starts, and with which request; a program that we do not know is run as it is."""
    program, *rest = words
    name = PurePath(program).name
    if name not in SUBCOMMANDS:
        settings = {"kind": "command", "command": shlex.quote(program), "args": rest}
        return GuardedCommand(PLAIN, task or shlex.join(words), settings=settings)
    given, model = list(rest), ""
    if given and given[0] in SUBCOMMANDS[name]:
        given.pop(0)
    prompt: list[str] = []
    while given:
        word = given.pop(0)
        if word in MODEL_FLAGS and given:
            model = given.pop(0)
        elif word.startswith("-") and word not in PROMPT_FLAGS:
            raise UsageError(
                f"guard does not pass {word} to {name}, which Blue Flame starts with options of its own: leave it out, "
                f"or set it in the configuration (runtimes.{name}); understood are -p and --model"
            )
        elif not word.startswith("-"):
            prompt.append(word)
    request = "\n\n".join(filter(None, (task, " ".join(prompt))))
    if not request:
        raise UsageError(f'no request: say what {name} is to do, as in blueflame guard -- {name} "Fix the typo"')
    path = {"kind": name, "command": shlex.quote(program)} if "/" in program else {}
    return GuardedCommand(name, request, model, path)


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, metavar="-- CMD...", help="An agent's command, with its request.")
@click.option("--task", "-t", default="", help="What it is for [default: its request]; the title of what lands.")
@override_options
@click.option("--allow-dirty", is_flag=True, help="Start even if the checkout has changes.")
@foreground_options
def guard(*, command: tuple[str, ...], task: str, overrides: Overrides, allow_dirty: bool, options: RunOptions) -> int:
    """Run an agent command in a checkout of its own, behind the walls; what it makes lands when you approve it.

    claude, codex, gemini and opencode are watched call by call; any other program has the sandbox and the postcheck.
    """
    from blueflame.cli.commands.run import Request, start_session
    from blueflame.cli.trust import open_trusted_project
    from blueflame.model.sizing import Tier
    from blueflame.orchestrator.trust import list_untrusted, trust_settings
    from blueflame.session.from_settings import list_making_roles
    from blueflame.session.sizing.choose import find_tier_workflow

    refuse_idle("with a command", "script")
    found = read_command(command, task)
    project = open_trusted_project(options.config, can_ask=options.can_ask_for_trust)
    workflow = find_tier_workflow(project.settings, Tier.DIRECT)
    roles = list_making_roles(project.settings, workflow)
    more = list_overrides(overrides, project.settings, workflow)
    project = project.override(found.list_overrides(roles) | dict(more))
    trust_settings(project, list_untrusted(project))  # the rest is trusted: what is new, the person has just typed
    if not options.quiet and not options.as_json:
        print_text(f"{command[0]}: {describe_level(project.settings, found.runtime)}")
    request = Request(found.request, None, None)
    return start_session(project, request, options, workflow=workflow, allow_dirty=allow_dirty)


def describe_level(settings: Settings, runtime: str) -> str:
    """Which walls it has."""
    from blueflame.model.runtime_support import RUNTIMES
    from blueflame.session.from_settings import find_runtime_kind

    kind = RUNTIMES[find_runtime_kind(settings, runtime)]
    box = "no sandbox (sandbox.level: off)" if settings.sandbox.level == "off" else "sandbox"
    return kind.unguarded or f"watcher, {box}, postcheck"
