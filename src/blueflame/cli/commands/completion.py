"""`blueflame completion`: the script with which a shell completes commands, options and names."""

from __future__ import annotations

import os
from pathlib import Path

import click

from blueflame.cli.output import print_text
from blueflame.model.errors import UsageError

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS), required=False, help="bash, zsh or fish [default: your shell].")
@click.pass_context
def completion(context: click.Context, shell: str | None) -> int:
    """Print the completion script of a shell.

    bash: add eval "$(blueflame completion bash)" to ~/.bashrc; zsh: the same with zsh, to ~/.zshrc; fish: write the
    script to ~/.config/fish/completions/blueflame.fish.
    """
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell or _find_shell())
    assert script is not None, "click knows these shells"
    print_text(script(context.find_root().command, {}, "blueflame", "_BLUEFLAME_COMPLETE").source(), end=False)
    return 0


def _find_shell() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise UsageError(f"no completion for the shell {name!r}: name one of {', '.join(SHELLS)}")
    return name
