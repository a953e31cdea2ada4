"""Options and arguments that several commands share, and how a group lists its commands."""

from __future__ import annotations

from pathlib import Path

import click


class CommandGroup(click.Group):
    """A group whose help lists its commands in the order of the file."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the same in every context
        return list(self.commands)


PATH = click.Path(path_type=Path)

config_option = click.option(
    "--config", "-c", type=PATH, help="Configuration file [default: blueflame.yaml here or above]."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
quiet_option = click.option("--quiet", "-q", is_flag=True, help="Do not show progress.")
script_option = click.option(
    "--script", type=PATH, help="Script for scripted agents: see docs/how-to/write-scripted-agents.md."
)
record_option = click.option(
    "--record",
    type=PATH,
    help="Record the model's answers in this cassette: see docs/how-to/record-and-replay.md.",
)
replay_option = click.option(
    "--replay", type=PATH, help="Replay the model's answers from this cassette; no model is called."
)
decisions_option = click.option(
    "--decisions-file",
    "decisions",
    type=PATH,
    help="Answers to gates: see docs/how-to/answer-without-a-person.md.",
)
session_option = click.option("--session", "-s", help="Session id or its beginning [default: the newest].")
session_argument = click.argument("session", required=False, help="Session id or its beginning [default: the newest].")
