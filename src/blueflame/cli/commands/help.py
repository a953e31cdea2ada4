"""`blueflame help` and `blueflame completion`: the documentation, the help of commands, and what a shell completes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path

import click
from click.shell_completion import get_completion_class
from rich.markdown import Markdown

from blueflame.cli.completers import complete_topic
from blueflame.cli.console import make_console
from blueflame.cli.options import json_option
from blueflame.cli.output import print_result, print_text
from blueflame.documents.manual import find_manual, find_pages, list_pages
from blueflame.model.errors import Refused, UsageError
from blueflame.model.suggestions import suggest

SHELLS = ("bash", "zsh", "fish")


@click.command("help")
@click.argument(
    "topic",
    required=False,
    shell_complete=complete_topic,
    help="Page, word of its title, or command [default: list the pages].",
)
@json_option
@click.pass_context
def help_(context: click.Context, topic: str | None, as_json: bool) -> int:
    """Show a page of the documentation, or the help of a command."""
    manual = find_manual()
    if manual is None:
        raise Refused("the documentation is not installed: reinstall Blue Flame")
    pages = list_pages(manual)
    if topic is None:
        return _print_list(pages, as_json=as_json)
    command = _find_command(context, topic)
    found = find_pages(pages, topic)
    if command is not None and topic not in pages:
        return _print_command(context, command, topic, found, as_json=as_json)
    if not found:
        known = [*pages, *(name.rpartition("/")[2] for name in pages)]
        hint = suggest(topic, known) or "'blueflame help' lists them"
        raise UsageError(f"no page about {topic!r}: {hint}")
    if len(found) > 1:
        return _print_list({name: pages[name] for name in found}, as_json=as_json)
    return _print_page(manual, found[0], pages[found[0]], as_json=as_json)


def _find_command(context: click.Context, topic: str) -> click.Command | None:
    root = context.find_root()
    assert isinstance(root.command, click.Group), "the root has commands"
    return root.command.get_command(root, topic)


def _print_list(pages: Mapping[str, str], *, as_json: bool) -> int:
    if as_json:
        return print_result({"pages": [{"name": name, "title": title} for name, title in pages.items()]})
    for room, names in groupby(pages, key=lambda name: name.rpartition("/")[0]):
        print_text(f"{room.capitalize().replace('-', ' ') or 'Start here'}:")
        for name in names:
            print_text(f"  {name.rpartition('/')[2]:<26} {pages[name]}")
    print_text("\nRun 'blueflame help PAGE', or 'blueflame COMMAND --help' for a command.")
    return 0


def _print_command(
    context: click.Context, command: click.Command, name: str, pages: tuple[str, ...], *, as_json: bool
) -> int:
    text = command.get_help(click.Context(command, info_name=name, parent=context.find_root()))
    if as_json:
        return print_result({"command": name, "text": text, "pages": list(pages)})
    print_text(text)
    if pages:
        print_text(f"\nPages: {', '.join(f'blueflame help {page}' for page in pages[:4])}")
    return 0


def _print_page(manual: Path, name: str, title: str, *, as_json: bool) -> int:
    text = (manual / f"{name}.md").read_text(encoding="utf-8")
    if as_json:
        return print_result({"name": name, "title": title, "text": text})

    console = make_console()
    if not console.is_terminal:
        print_text(text, end=False)
        return 0

    with console.pager(styles=True):
        console.print(Markdown(text, hyperlinks=False))
    return 0


@click.command()
@click.argument("shell", type=click.Choice(SHELLS), required=False, help="bash, zsh or fish [default: your shell].")
@click.pass_context
def completion(context: click.Context, shell: str | None) -> int:
    """Print the completion script of a shell.

    bash: add eval "$(blueflame completion bash)" to ~/.bashrc; zsh: the same with zsh, to ~/.zshrc; fish: write the
    script to ~/.config/fish/completions/blueflame.fish.
    """
    script = get_completion_class(shell or _find_shell())
    assert script is not None, "click knows these shells"
    print_text(script(context.find_root().command, {}, "blueflame", "_BLUEFLAME_COMPLETE").source(), end=False)
    return 0


def _find_shell() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise UsageError(f"no completion for the shell {name!r}: name one of {', '.join(SHELLS)}")
    return name
