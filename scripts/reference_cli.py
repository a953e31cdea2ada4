"""Build docs/reference/cli.md from the declarations of each command's function.

Not from the printed help: its layout changes with the library's version.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from itertools import groupby
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from typer import Typer
from typer.models import ArgumentInfo, OptionInfo

from blueflame.cli import main
from blueflame.cli.command_table import COMMANDS, CommandEntry

HEAD = """\
# The command line

Every command, made from the code by `make docs-write`; do not edit by hand.
`blueflame COMMAND --help` prints the same at the terminal, and `blueflame --install-completion` sets up your shell.
How commands end is in [exit-codes.md](exit-codes.md).
""".splitlines()

SENTENCE_END = re.compile(r"(?<=[.?!]) (?=[A-Z])")
WORDS: dict[type, str] = {str: "text", int: "integer", float: "number", Path: "path"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    name: str
    hint: Any
    info: ArgumentInfo | OptionInfo

    @property
    def is_argument(self) -> bool:
        return isinstance(self.info, ArgumentInfo)

    @property
    def is_flag(self) -> bool:
        return self.hint is bool

    @property
    def required(self) -> bool:
        return self.info.default is ...


def build_cli_reference() -> str:
    return "\n".join([*HEAD, *_format_overview(), *_format_common_options(), *_format_commands()]) + "\n"


def _format_overview() -> Iterator[str]:
    for panel, entries in groupby(COMMANDS, key=lambda entry: entry.panel):
        yield from ("", f"**{panel}**", "")
        yield from (f"- [`blueflame {entry.name}`](#blueflame-{entry.name}): {entry.summary}" for entry in entries)


def _format_common_options() -> Iterator[str]:
    yield from _format_command(main.blueflame, "blueflame", "##", more=" COMMAND")


def _format_commands() -> Iterator[str]:
    for entry in COMMANDS:
        target = _load_target(entry)
        if isinstance(target, Typer):
            yield from ("", f"## blueflame {entry.name}", "", *_split_sentences(str(target.info.help or entry.summary)))
            for name, function in _list_subcommands(target):
                yield from _format_command(function, f"blueflame {entry.name} {name}", "###")
        else:
            yield from _format_command(target, f"blueflame {entry.name}", "##")


def _load_target(entry: CommandEntry) -> Any:  # noqa: ANN401 (a function or a Typer)
    module, _, attribute = entry.target.partition(":")
    return getattr(import_module(module), attribute)


def _list_subcommands(app: Typer) -> Iterator[tuple[str, Callable[..., Any]]]:
    for command in app.registered_commands:
        assert command.callback is not None, "a command without a function cannot be called"
        yield command.name or command.callback.__name__.replace("_", "-"), command.callback


def _format_command(function: Callable[..., Any], path: str, heading: str, *, more: str = "") -> Iterator[str]:
    found = tuple(_list_parameters(function))
    arguments = "".join(f" {_format_placeholder(each)}" for each in found if each.is_argument)
    yield from ("", f"{heading} {path}", "", f"`{path} [OPTIONS]{arguments}{more}`", "")
    yield from _split_sentences(inspect.getdoc(function) or "")
    if found:
        yield from ("", "| name | takes | default | meaning |", "|---|---|---|---|", *map(_format_row, found))


def _split_sentences(text: str) -> Iterator[str]:
    """Yield one sentence per line; blank lines stay."""
    for n, paragraph in enumerate(inspect.cleandoc(text).split("\n\n")):
        yield from ("",) if n else ()
        yield from SENTENCE_END.split(" ".join(paragraph.split()))


def _list_parameters(function: Callable[..., Any]) -> Iterator[Parameter]:
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        whole = hints[name]
        hint, *extras = get_args(whole) if get_origin(whole) is Annotated else (whole,)
        info = next((i for i in (*extras, parameter.default) if isinstance(i, ArgumentInfo | OptionInfo)), None)
        if info is not None and not info.hidden:
            yield Parameter(name=name, hint=_strip_none(hint), info=info)


def _strip_none(hint: Any) -> Any:  # noqa: ANN401 (a type hint can be anything)
    kept = [inner for inner in get_args(hint) if inner is not NoneType]
    return kept[0] if len(kept) == 1 and NoneType in get_args(hint) else hint


def _format_placeholder(parameter: Parameter) -> str:
    name = (parameter.info.metavar or parameter.name).upper().strip("[]")
    several = "..." if get_origin(parameter.hint) in (list, tuple) else ""
    return (name if parameter.required else f"[{name}]") + several


def _format_row(parameter: Parameter) -> str:
    info = parameter.info
    env = f" Also read from `{info.envvar}`." if info.envvar else ""
    cells = (_format_names(parameter), _format_type(parameter), _format_default(parameter))
    return f"| {' | '.join(cells)} | {_escape_cell((info.help or '') + env)} |"


def _format_names(parameter: Parameter) -> str:
    if parameter.is_argument:
        return f"`{_format_placeholder(parameter)}`"
    declared = getattr(parameter.info, "param_decls", None) or ()
    names = [name for name in declared if name.startswith("-")] or [f"--{parameter.name.replace('_', '-')}"]
    return ", ".join(f"`{name}`" for name in names)


def _format_type(parameter: Parameter) -> str:
    hint = parameter.hint
    if parameter.is_flag:
        return ""
    several = get_origin(hint) in (list, tuple)
    return _format_hint(get_args(hint)[0] if several else hint, parameter) + (", several" if several else "")


def _format_hint(hint: Any, parameter: Parameter) -> str:  # noqa: ANN401 (a type hint can be anything)
    choices: tuple[object, ...] = ()
    if get_origin(hint) is Literal:
        choices = get_args(hint)
    elif isinstance(hint, type) and issubclass(hint, Enum):
        choices = tuple(member.value for member in hint)
    if choices:
        return " or ".join(f"`{choice}`" for choice in choices)
    return WORDS.get(hint, str(parameter.info.metavar or "text").lower())


def _format_default(parameter: Parameter) -> str:
    if parameter.required:
        return "**needed**"
    default = getattr(parameter.info.default, "value", parameter.info.default)
    shown = isinstance(default, str | int | float) and default not in (False, "")
    return f"`{default}`" if shown else ""


def _escape_cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
