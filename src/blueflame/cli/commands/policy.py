"""`blueflame policy`: judge tool calls for programs, and explain the rules to people."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import click

from blueflame.cli.options import PATH, CommandGroup, check_role, config_option, json_option
from blueflame.cli.output import print_json, print_result
from blueflame.config.load import load_config
from blueflame.config.locate import find_config
from blueflame.model.attempt import COMMITTING
from blueflame.model.errors import UsageError
from blueflame.model.policy import Decision, Policy, ToolCall
from blueflame.paths.locks import BadLock
from blueflame.policy.access import prepare_policy
from blueflame.policy.compile import compile_policy
from blueflame.policy.decide import decide
from blueflame.policy.tool_calls import MAX_CALL_BYTES, MalformedCall, read_calls
from blueflame.policy.tool_inputs import INPUT_SHAPES
from blueflame.session.from_settings import find_role_duty, list_role_skills
from blueflame.views.policy import build_decision_json, build_policy_json, suggest_setting
from blueflame.watcher.policy_file import find_shfmt
from blueflame.watcher.world import LocalWorld

policy_app = CommandGroup("policy", help="Show what agents may read, write and run, and judge tool calls.")

role_option = click.option(
    "--role",
    "-r",
    default="worker",
    show_default=True,
    help="Role of the agent: worker, validator, planner, or your own.",
)
scope_option = click.option(
    "--scope",
    "-s",
    multiple=True,
    metavar="PATH",
    help="Path that the task locks; repeatable [default: scope is not enforced].",
)
worktree_option = click.option(
    "--worktree", "-w", type=PATH, help="The agent's checkout [default: the repository of the configuration]."
)
scratch_option = click.option(
    "--scratch",
    type=PATH,
    multiple=True,
    metavar="DIR",
    help="Folder outside the checkout that belongs to the agent, such as the sandbox's /tmp; repeatable.",
)
SYSTEM_FOLDERS = ("/usr",)
"""In every sandbox, and without secrets: agents may read it."""


@policy_app.command()
@config_option
@role_option
@scope_option
@worktree_option
@scratch_option
def check(
    config: Path | None, role: str, scope: tuple[str, ...], worktree: Path | None, scratch: tuple[Path, ...]
) -> int:
    """Judge tool calls: hook JSON on standard input, one call per line; one decision per line on standard output."""
    policy, world = _load_policy(config, role, scope, worktree, scratch)
    try:
        for line in _read_lines(sys.stdin.buffer):
            print_json(build_decision_json(_judge_line(line, policy, world)), indent=None)
    except BrokenPipeError:  # the reader closed the pipe; drop what Python still buffers
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


@policy_app.command()
@click.argument("tool", required=False, help="Tool to judge, such as Bash or Write.")
@click.argument("argument", required=False, help="Its command, path or pattern.")
@config_option
@role_option
@scope_option
@worktree_option
@scratch_option
@json_option
def explain(
    *,
    tool: str | None,
    argument: str | None,
    config: Path | None,
    role: str,
    scope: tuple[str, ...],
    worktree: Path | None,
    scratch: tuple[Path, ...],
    as_json: bool,
) -> int:
    """Show what a role may read, write, run and use; or whether one call is allowed, and how to allow it."""
    from blueflame.cli.render.policy import render_decision, render_policy

    policy, world = _load_policy(config, role, scope, worktree, scratch)
    if tool is None:
        return print_result(build_policy_json(policy) if as_json else render_policy(policy))
    decision = _judge_call(tool, argument, policy, world)
    data = build_decision_json(decision) | {"how_to_allow": suggest_setting(decision)}
    return print_result(data if as_json else render_decision(tool, argument or "", decision))


def _load_policy(
    config: Path | None, role: str, scope: Sequence[str], worktree: Path | None, scratch: Sequence[Path]
) -> tuple[Policy, LocalWorld]:
    loaded = load_config(find_config(Path.cwd(), config))
    settings = loaded.settings
    root = _find_worktree(worktree, loaded.repo)
    try:
        policy = compile_policy(
            permissions=settings.permissions,
            validation=settings.validation,
            role=check_role("--role", role, settings.roles),
            role_settings=settings.roles.get(role),
            worktree=root,
            scope=[_relative_to_root(path, root) for path in scope] or None,
            schema=find_role_duty(settings, role) not in COMMITTING,
            scratch=_resolve_folders((*map(str, scratch), *settings.sandbox.writable)),
            readable=(*SYSTEM_FOLDERS, *_resolve_folders(settings.sandbox.read_only)),
            skills=list_role_skills(settings, role),
            sandboxed=settings.sandbox.level != "off",
        )
    except BadLock as error:
        raise UsageError(f"--scope: {error}") from None
    prepare_policy(policy)
    return policy, LocalWorld(root, shfmt=find_shfmt())


def _find_worktree(given: Path | None, repo: Path) -> str:
    """Return the top of the repository, which may be above the folder that the configuration names."""
    start = given.resolve() if given else repo
    if not start.is_dir():
        raise UsageError(f"the worktree {start} is not a folder: pass the agent's checkout with --worktree DIR")
    tops = [] if given else [folder for folder in (start, *start.parents) if (folder / ".git").exists()]
    return str(tops[0] if tops else start)


def _relative_to_root(path: str, root: str) -> str:
    if not path.strip():
        raise UsageError('--scope: empty path. Use "." for the whole repository')
    return os.path.relpath(path, root) if path.startswith("/") else path


def _resolve_folders(given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(Path(folder).expanduser().resolve()) for folder in given)


def _read_lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield lines that are not blank. A line over the limit is cut, but stays over it, so it is refused."""
    limit = MAX_CALL_BYTES + 2  # with its line break
    while line := stream.readline(limit):
        rest = line
        while len(rest) == limit and not rest.endswith(b"\n"):
            rest = stream.readline(limit)
        if line.strip():
            yield line.rstrip(b"\r\n")


def _judge_line(line: bytes, policy: Policy, world: LocalWorld) -> Decision:
    try:
        (call,) = read_calls(line, cwd=policy.worktree)
        return decide(policy, call, world)
    except MalformedCall as error:
        return Decision(False, "malformed_call", str(error))
    except Exception as error:  # noqa: BLE001 - a bug in a rule refuses one call; it must not leave the rest unjudged
        return Decision(False, "malformed_call", f"internal error: {type(error).__name__}: {error!s:.200}")


def _judge_call(tool: str, argument: str | None, policy: Policy, world: LocalWorld) -> Decision:
    shape = INPUT_SHAPES.get(tool)
    given: dict[str, Any] = {}
    if shape is not None:
        if argument is None:
            raise UsageError(f"{tool} needs an argument: blueflame policy explain {tool} ARGUMENT")
        given[shape.needs[0]] = argument
    if tool == "Grep":  # the path is judged, not the pattern
        given = {"pattern": ".", "path": argument}
    return decide(policy, ToolCall(tool=tool, input=given, cwd=policy.worktree), world)
