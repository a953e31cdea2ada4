"""The only way to print text and JSON: nothing an agent wrote reaches the terminal raw."""

from __future__ import annotations

import json
import re

import click

from blueflame.text.sanitize import DANGEROUS, clean_text


def print_text(text: str = "", *, err: bool = False, end: bool = True) -> None:
    click.echo(clean_text(text), err=err, nl=end)


def print_json(data: object, *, indent: int | None = 2) -> None:
    """JSON for programs; dangerous characters are escaped, because people read it in terminals too."""
    text = json.dumps(data, ensure_ascii=False, indent=indent)
    click.echo(DANGEROUS.sub(_escape, text))


def _escape(match: re.Match[str]) -> str:
    """Return a JSON escape, so that a reader gets the same string."""
    return f"\\u{ord(match[0]):04x}" if match[0] <= "\uffff" else json.dumps(match[0])[1:-1]
