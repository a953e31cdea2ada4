"""Build docs/reference/cli.md from the declarations of each command.

Not from the printed help: its layout changes with the library's version.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from itertools import groupby

import click

from blueflame.cli.command_table import COMMANDS, load_command
from blueflame.cli.main import blueflame

HEAD = """\
# The command line

Every command, made from the code by `make docs-write`; do not edit by hand.
`blueflame COMMAND --help` prints the same at the terminal.
[`blueflame completion`](#blueflame-completion) sets up your shell.
How commands end is in [exit-codes.md](exit-codes.md).
""".splitlines()

SENTENCE_END = re.compile(r"(?<=[.?!]) (?=[A-Z])")


def build_cli_reference() -> str:
    return "\n".join([*HEAD, *_format_overview(), *_format_common_options(), *_format_commands()]) + "\n"


def _format_overview() -> Iterator[str]:
    for panel, entries in groupby(COMMANDS, key=lambda entry: entry.panel):
        yield from ("", f"**{panel}**", "")
        yield from (f"- [`blueflame {entry.name}`](#blueflame-{entry.name}): {entry.summary}" for entry in entries)


def _format_common_options() -> Iterator[str]:
    yield from _format_command(blueflame, "blueflame", "##", more=" COMMAND")


def _format_commands() -> Iterator[str]:
    for entry in COMMANDS:
        command, path = load_command(entry), f"blueflame {entry.name}"
        if isinstance(command, click.Group):
            yield from ("", f"## {path}", "", *_split_sentences(command.help or entry.summary))
            for name, each in command.commands.items():
                yield from _format_command(each, f"{path} {name}", "###")
        else:
            yield from _format_command(command, path, "##")


def _format_command(command: click.Command, path: str, heading: str, *, more: str = "") -> Iterator[str]:
    found = [each for each in command.params if not (isinstance(each, click.Option) and each.hidden)]
    arguments = "".join(f" {_format_placeholder(each)}" for each in found if isinstance(each, click.Argument))
    yield from ("", f"{heading} {path}", "", f"`{path} [OPTIONS]{arguments}{more}`", "")
    yield from _split_sentences(command.help or "")
    if found:
        yield from ("", "| name | takes | default | meaning |", "|---|---|---|---|", *map(_format_row, found))


def _split_sentences(text: str) -> Iterator[str]:
    """Yield one sentence per line; blank lines stay."""
    for n, paragraph in enumerate(inspect.cleandoc(text).split("\n\n")):
        yield from ("",) if n else ()
        yield from SENTENCE_END.split(" ".join(paragraph.split()))


def _format_row(parameter: click.Parameter) -> str:
    env = f" Also read from `{parameter.envvar}`." if parameter.envvar else ""
    cells = (_format_names(parameter), _format_type(parameter), _format_default(parameter))
    return f"| {' | '.join(cells)} | {_escape_cell((parameter.help or '') + env)} |"


def _format_names(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Argument):
        return f"`{_format_placeholder(parameter)}`"
    return ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))


def _format_placeholder(argument: click.Argument) -> str:
    return argument.make_metavar(click.Context(blueflame))


def _format_type(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Option) and parameter.is_flag:
        return ""
    if isinstance(parameter.type, click.Choice):
        return " or ".join(f"`{getattr(choice, 'value', choice)}`" for choice in parameter.type.choices)
    several = parameter.nargs != 1 or parameter.multiple
    return parameter.type.name.removesuffix(" range") + (", several" if several else "")


def _format_default(parameter: click.Parameter) -> str:
    if parameter.required:
        return "**needed**"
    default = parameter.to_info_dict()["default"]
    shown = isinstance(default, str | int | float) and default not in (False, "")
    return f"`{default}`" if shown else ""


def _escape_cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
