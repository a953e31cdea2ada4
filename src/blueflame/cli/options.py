"""Options and arguments that several commands share, and how a group lists its commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce, wraps
from inspect import signature
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from blueflame.cli.completers import complete_session
from blueflame.model.errors import UsageError
from blueflame.model.suggestions import suggest


class CommandGroup(click.Group):
    """A group whose help lists its commands in the order of the file."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the same in every context
        return list(self.commands)


class DurationParameter(click.ParamType[float]):
    """A duration as in blueflame.yaml, in seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from blueflame.model.settings.fields import check_duration

        try:
            return check_duration(float(value) if isinstance(value, str) and value.isdecimal() else value)
        except ValueError as error:
            self.fail(f"{value!r} {error}", param, ctx)


PATH, DURATION = click.Path(path_type=Path), DurationParameter()

config_option = click.option(
    "--config",
    "-c",
    type=PATH,
    envvar="BLUEFLAME_CONFIG",
    help="Configuration file [default: blueflame.yaml here or above].",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
quiet_option = click.option("--quiet", "-q", is_flag=True, help="Do not show progress.")
session_option = click.option(
    "--session", "-s", shell_complete=complete_session, help="Session id or its beginning [default: the newest]."
)


def build_session_argument(default: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    words = f"Session id or its beginning [default: {default}]."
    return click.argument("session", required=False, shell_complete=complete_session, help=words)


session_argument = build_session_argument("the newest")


FOREGROUND_OPTIONS = (
    config_option,
    click.option(
        "--decisions-file",
        "decisions",
        type=PATH,
        help="Answers to gates: see 'blueflame help answer-without-a-person'.",
    ),
    click.option("--script", type=PATH, help="Script for scripted agents: see 'blueflame help write-scripted-agents'."),
    click.option(
        "--record",
        type=PATH,
        help="Record the model's answers in this cassette: see 'blueflame help record-and-replay'.",
    ),
    click.option("--replay", type=PATH, help="Replay the model's answers from this cassette; no model is called."),
    json_option,
    quiet_option,
)
RUN_PARAMETERS = ("decisions", "script", "record", "replay")
"""How agents run and how their questions are answered, which only a session in this terminal uses."""


def foreground_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of commands that run a session in this terminal; the command gets them as `options`."""

    @wraps(command)
    def call(**given: Any) -> int:  # noqa: ANN401 (these options and the others of the command)
        from blueflame.cli.foreground import read_options

        if given["script"] is not None:
            refuse_idle("with --script", "record", "replay")
        own = {name: given.pop(name) for name in signature(read_options).parameters}
        return command(options=read_options(**own), **given)

    return reduce(lambda function, option: option(function), reversed(FOREGROUND_OPTIONS), call)


def check_role(option: str, role: str, roles: Iterable[str]) -> str:
    if role in (known := list(roles)):
        return role
    hint = suggest(role, known) or f"the roles are {', '.join(known)}"
    raise UsageError(f"{option}: unknown role {role!r}; {hint}")


def list_given(*names: str) -> list[str]:
    """Which of these parameters of the running command were given, as a person writes them."""
    context = click.get_current_context()
    return [
        param.human_readable_name.upper() if isinstance(param, click.Argument) else max(param.opts, key=len)
        for param in context.command.params
        if param.name in names and context.get_parameter_source(param.name) is ParameterSource.COMMANDLINE
    ]


def refuse_idle(beside: str, *names: str) -> None:
    """Refuse what was given and has no effect beside something else: it would be ignored without a word."""
    if idle := list_given(*names):
        verb, them = ("has", "it") if len(idle) == 1 else ("have", "them")
        raise UsageError(f"{' and '.join(idle)} {verb} no effect {beside}: leave {them} out")
