"""`blueflame telegram pair`: find the number of a person or a group in Telegram."""

from __future__ import annotations

import json
import secrets
import time
from pathlib import Path

import click

from blueflame.cli.commands.house.serve import house_option
from blueflame.cli.options import CommandGroup, json_option
from blueflame.cli.output import print_json, print_text
from blueflame.model.errors import Refused, UsageError

POLL_SECONDS = 0.2
PAIR_SECONDS = 600.0


@click.group("telegram", cls=CommandGroup)
def telegram_app() -> None:
    """Set up the bot of the house."""


@telegram_app.command()
@house_option
@json_option
def pair(*, house: Path | None, as_json: bool) -> int:
    """Print a code; who sends it to the bot of the running house learns the numbers for house.yaml."""
    from blueflame.chat.reactions import PAIR, PAIRED, SOURCE
    from blueflame.house.client import open_house
    from blueflame.journal.house import HouseJournal

    client = open_house(house)
    if client.loaded.settings.telegram is None:
        raise UsageError(f"there is no bot in {client.paths.config}: add telegram there, then restart the house")
    if client.find_pid() is None:
        raise Refused("the house is not served, and only it talks to the bot: start 'blueflame serve' first")
    code, until = f"pair-{secrets.token_hex(5)}", time.time() + PAIR_SECONDS
    with HouseJournal.open(client.paths.journal) as journal:
        journal.write_notes(SOURCE, {f"{PAIR}{code}": json.dumps({"until": until})})
        print_text(
            f"Send this to the bot within 10 minutes, in the chat that it is to serve:\n\n  {code}\n", err=as_json
        )
        try:
            while (found := journal.read_notes(SOURCE).get(f"{PAIRED}{code}")) is None:
                if time.time() > until:
                    raise Refused("no one has sent the code: run it again")
                time.sleep(POLL_SECONDS)  # another process answers through the journal: polling is the only way
        finally:
            journal.write_notes(SOURCE, {f"{PAIR}{code}": None, f"{PAIRED}{code}": None})
    numbers = json.loads(found)
    if as_json:
        print_json(numbers)
        return 0
    print_text(f"The person has the number {numbers['user']}; add it in {client.paths.config}:\n")
    print_text(f"people:\n  NAME:\n    trust: owner\n    telegram: {numbers['user']}")
    if numbers["chat"] != numbers["user"]:
        print_text(f"telegram:\n  chats:\n    {numbers['chat']}: {{repository: REPOSITORY}}")
    return 0
