"""The commands as a table: a command's module is imported only when the command is run."""

from __future__ import annotations

from importlib import import_module
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from blueflame.model.suggestions import suggest

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter
    from typer._click.shell_completion import CompletionItem

CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"]}


class CommandEntry(NamedTuple):
    name: str
    panel: str
    target: str  # module:function, or module:Typer for a command group
    summary: str


START, WATCH, KEEP = "Start work", "Watch and answer", "Set up and maintain"

COMMANDS: tuple[CommandEntry, ...] = tuple(
    CommandEntry(name, panel, f"blueflame.cli.commands.{target}", summary)
    for name, panel, target, summary in (
        ("run", START, "run:run", "Plan a request, work on it, and land what you approve."),
        ("plan", START, "run:plan", "Plan a request and ask for approval, without the work."),
        ("resume", START, "run:resume", "Continue an unfinished session."),
        ("demo", START, "demo:demo", "Run a whole session on a throw-away repository."),
        ("watch", WATCH, "watch:watch", "Show what each agent does now, and its cost."),
        ("status", WATCH, "status:status", "Show the gates, agents and tasks of a session."),
        ("gates", WATCH, "gates:gates", "List the open gates."),
        ("answer", WATCH, "answer:answer", "Answer a gate from any terminal."),
        ("log", WATCH, "log:log", "Show what happened, event by event."),
        ("cost", WATCH, "cost:cost", "Show what agents cost, against the estimate."),
        ("report", WATCH, "report:report", "Show the report of a session, or write it as a page."),
        ("attach", WATCH, "attach:attach", "Connect this terminal to a running agent."),
        ("proceed", WATCH, "control:proceed", "Continue with what is done, without the rest."),
        ("kill", WATCH, "control:kill", "End one agent and re-queue its task."),
        ("stop", WATCH, "control:stop", "Stop the running session; resume continues it."),
        ("undo", WATCH, "undo:undo", "Revert one landing with a new commit."),
        ("init", KEEP, "init:init", "Write a blueflame.yaml for this repository."),
        ("config", KEEP, "config:config_app", "Check, show and migrate the configuration."),
        ("policy", KEEP, "policy:policy_app", "Show what agents may do, and judge tool calls."),
        ("sandbox", KEEP, "sandbox:sandbox_app", "Run a command in the sandbox, and show its limits."),
        ("memory", KEEP, "memory:memory_app", "List, show, forget, export and import lessons."),
        ("doctor", KEEP, "doctor:doctor", "Check the machine, the project and the guards."),
        ("cleanup", KEEP, "cleanup:cleanup", "Remove what ended sessions left behind."),
    )
)
"""The help prints them in this order; commands of one panel must be adjacent."""


def load_command(entry: CommandEntry) -> Command:
    """Build the click command from its function or its Typer app."""
    module, _, attribute = entry.target.partition(":")
    target = getattr(import_module(module), attribute)
    if isinstance(target, typer.Typer):
        app = target
    else:
        app = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=CONTEXT_SETTINGS)
        app.command(entry.name)(target)
    command = typer.main.get_command(app)
    command.name = entry.name
    return command


class LazyCommandGroup(TyperGroup):
    """A group that lists its commands from the table, so that --help imports none of them."""

    verbs: tuple[CommandEntry, ...] = COMMANDS
    listing = False

    def list_commands(self, ctx: Context) -> list[str]:  # noqa: ARG002 - the table is the same in every context
        return [verb.name for verb in self.verbs]

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:  # noqa: ARG002 - as above
        verb = next((verb for verb in self.verbs if verb.name == cmd_name), None)
        if verb is None:
            return None
        return TyperCommand(name=verb.name, help=verb.summary) if self.listing else load_command(verb)

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        names = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in names:
            ctx.fail(f"unknown command {args[0]!r}{suggest(args[0], names, before='; ')}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:  # noqa: ARG002 - as above
        for panel, verbs in groupby(self.verbs, key=lambda verb: verb.panel):
            with formatter.section(panel):
                formatter.write_dl([(verb.name, verb.summary) for verb in verbs])

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        self.format_commands(ctx, formatter)  # commands come before options
        options = [row for row in (param.get_help_record(ctx) for param in self.get_params(ctx)) if row]
        with formatter.section("Options"):
            formatter.write_dl(options)

    def shell_complete(self, ctx: Context, incomplete: str) -> list[CompletionItem]:
        """Complete names from the table, without importing a command."""
        self.listing = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self.listing = False
