"""Options that several commands share, and how a group of commands is made."""

from __future__ import annotations

import typer


def build_group(summary: str) -> typer.Typer:
    return typer.Typer(help=summary, no_args_is_help=True, add_completion=False, rich_markup_mode=None)


CONFIG = typer.Option(None, "--config", "-c", help="Configuration file [default: blueflame.yaml here or above].")
JSON = typer.Option(False, "--json", help="Print one JSON object.")
QUIET = typer.Option(False, "--quiet", "-q", help="Do not show progress.")
SCRIPT = typer.Option(None, "--script", help="Script for scripted agents: see docs/how-to/write-scripted-agents.md.")
RECORD = typer.Option(
    None, "--record", help="Record the model's answers in this cassette: see docs/how-to/record-and-replay.md."
)
REPLAY = typer.Option(None, "--replay", help="Replay the model's answers from this cassette; no model is called.")
DECISIONS = typer.Option(None, "--decisions-file", help="Answers to gates: see docs/how-to/answer-without-a-person.md.")
SESSION_OPTION = typer.Option(None, "--session", "-s", help="Session id or its beginning [default: the newest].")
SESSION = typer.Argument(None, help="Session id or its beginning [default: the newest].", show_default=False)
