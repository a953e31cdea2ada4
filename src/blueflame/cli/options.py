"""Flags that several verbs share, worded once."""

from __future__ import annotations

import typer

CONFIG = typer.Option(None, "--config", "-c", help="The configuration; left out, blueflame.yaml here or above.")
JSON = typer.Option(False, "--json", help="One JSON object on standard output, for machines.")
QUIET = typer.Option(False, "--quiet", "-q", help="No progress while it runs.")
SCRIPT = typer.Option(None, "--script", help="What scripted agents do: see docs/how-to/write-scripted-agents.md.")
RECORD = typer.Option(
    None, "--record", help="Keep the model's answers in this cassette: see docs/how-to/record-and-replay.md."
)
REPLAY = typer.Option(None, "--replay", help="Take the model's answers from this cassette; no model is called.")
DECISIONS = typer.Option(None, "--decisions-file", help="Answers to gates: see docs/how-to/answer-without-a-person.md.")
SESSION = typer.Argument(None, help="The session, or how its id begins; left out, the newest.", show_default=False)
