"""Build docs/reference/blueflame.1, the manual page, from the declarations of the commands."""

from __future__ import annotations

from collections.abc import Iterator

import click

from blueflame.cli.command_table import COMMANDS, load_command
from blueflame.cli.main import blueflame
from blueflame.model.exit_codes import EXIT_CODE_MEANINGS

HEAD = """\
.\\" Made from the code by `make docs-write`; do not edit by hand.
.TH BLUEFLAME 1 "" "" "Blue Flame"
.SH NAME
blueflame \\- a deterministic foreman for teams of AI coding agents
.SH SYNOPSIS
.B blueflame
.I COMMAND
.RI [ OPTIONS ]
.RI [ ARGUMENTS ]
.SH DESCRIPTION
Plans a request, gives its tasks to agents in parallel, checks what they made, and lands what you approve.
.B blueflame help
lists the pages of the documentation, and shows them.
.SH COMMANDS""".splitlines()


def build_man_page() -> str:
    lines = [*HEAD, *_format_commands(), ".SH EXIT STATUS", *_format_exit_codes()]
    return "\n".join(lines) + "\n"


def _format_commands() -> Iterator[str]:
    root = click.Context(blueflame, info_name="blueflame")
    for entry in COMMANDS:
        command = load_command(entry)
        if isinstance(command, click.Group):
            for name, each in command.commands.items():
                yield from _format_command(each, f"{entry.name} {name}", root)
        else:
            yield from _format_command(command, entry.name, root)


def _format_command(command: click.Command, name: str, root: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=root)
    usage = " ".join(command.collect_usage_pieces(context))
    yield from (f".SS blueflame {_escape(name)} {_escape(usage)}", _escape(" ".join((command.help or "").split())))
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None:
            yield from (".TP", f".B {_escape(record[0])}", _escape(record[1]))


def _format_exit_codes() -> Iterator[str]:
    for code, meaning in EXIT_CODE_MEANINGS.items():
        yield from (".TP", f".B {code.value}", _escape(meaning))


def _escape(text: str) -> str:
    """A backslash and a hyphen have a meaning in troff, and so has a dot or a quote at the beginning of a line."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
