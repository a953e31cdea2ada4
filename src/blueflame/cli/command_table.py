"""The verbs of the command line, as a table: a verb's module is imported only when that verb is called."""

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
    target: str  # module:function, or module:Typer for a verb with verbs of its own
    summary: str


START, WATCH, KEEP = "Start work", "Watch and answer", "Set up and look after"

COMMANDS: tuple[CommandEntry, ...] = (
    CommandEntry(
        "run", START, "blueflame.cli.commands.run:run", "Plan a request, work on it, and land what you approve."
    ),
    CommandEntry(
        "plan", START, "blueflame.cli.commands.plan:plan", "Plan a request and ask for approval; work waits for resume."
    ),
    CommandEntry("resume", START, "blueflame.cli.commands.resume:resume", "Go on with an unfinished session."),
    CommandEntry("demo", START, "blueflame.cli.commands.demo:demo", "A whole session on a throw-away repository."),
    CommandEntry("watch", WATCH, "blueflame.cli.commands.watch:watch", "What each agent does now, and for how much."),
    CommandEntry(
        "status", WATCH, "blueflame.cli.commands.status:status", "How a session stands: gates, agents, tasks."
    ),
    CommandEntry("gates", WATCH, "blueflame.cli.commands.gates:gates", "What waits for an answer."),
    CommandEntry("answer", WATCH, "blueflame.cli.commands.answer:answer", "Answer a gate from any terminal."),
    CommandEntry("log", WATCH, "blueflame.cli.commands.log:log", "What happened, event by event."),
    CommandEntry("cost", WATCH, "blueflame.cli.commands.cost:cost", "What agents have cost, and what was foreseen."),
    CommandEntry(
        "report", WATCH, "blueflame.cli.commands.report:report", "What came of a session, in short or as a page."
    ),
    CommandEntry(
        "attach", WATCH, "blueflame.cli.commands.attach:attach", "Connect this terminal to a running agent's."
    ),
    CommandEntry(
        "proceed", WATCH, "blueflame.cli.commands.control:proceed", "Go on with what is done; do not wait for the rest."
    ),
    CommandEntry(
        "kill", WATCH, "blueflame.cli.commands.control:kill", "End one agent; its task goes back to the queue."
    ),
    CommandEntry(
        "stop", WATCH, "blueflame.cli.commands.control:stop", "Stop in good order; resume goes on from there."
    ),
    CommandEntry(
        "undo", WATCH, "blueflame.cli.commands.undo:undo", "Take one landing back, with a commit that reverts it."
    ),
    CommandEntry("init", KEEP, "blueflame.cli.commands.init:init", "Write a blueflame.yaml that fits this repository."),
    CommandEntry(
        "config", KEEP, "blueflame.cli.commands.config:config_app", "Check, show and migrate the configuration."
    ),
    CommandEntry(
        "policy",
        KEEP,
        "blueflame.cli.commands.policy:policy_app",
        "Judge tool calls by the policy; tell what agents may do.",
    ),
    CommandEntry(
        "sandbox",
        KEEP,
        "blueflame.cli.commands.sandbox:sandbox_app",
        "Run a command behind the walls; say what they are.",
    ),
    CommandEntry("memory", KEEP, "blueflame.cli.commands.memory:memory_app", "What is remembered of earlier sessions."),
    CommandEntry("doctor", KEEP, "blueflame.cli.commands.doctor:doctor", "Is everything here that a session needs?"),
    CommandEntry("cleanup", KEEP, "blueflame.cli.commands.cleanup:cleanup", "Remove what ended sessions left behind."),
)
"""Verbs of one panel stand together: the help is printed in this order."""


def load_command(verb: CommandEntry) -> Command:
    """The verb's command, built from its function or its own Typer app."""
    module, _, attribute = verb.target.partition(":")
    target = getattr(import_module(module), attribute)
    if isinstance(target, typer.Typer):
        app = target
    else:
        app = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=CONTEXT_SETTINGS)
        app.command(verb.name)(target)
    command = typer.main.get_command(app)
    command.name = verb.name
    return command


class LazyCommandGroup(TyperGroup):
    """A group that knows its verbs from the table and imports one only to run it: --help stays fast."""

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
            ctx.fail(f"there is no verb {args[0]!r}{suggest(args[0], names, before='; ')}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:  # noqa: ARG002 - as above
        for panel, verbs in groupby(self.verbs, key=lambda verb: verb.panel):
            with formatter.section(panel):
                formatter.write_dl([(verb.name, verb.summary) for verb in verbs])

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        self.format_commands(ctx, formatter)  # what can be done comes before how to bend it
        options = [row for row in (param.get_help_record(ctx) for param in self.get_params(ctx)) if row]
        with formatter.section("Options"):
            formatter.write_dl(options)

    def shell_complete(self, ctx: Context, incomplete: str) -> list[CompletionItem]:
        """Names and summaries are in the table: no verb is imported to complete its name."""
        self.listing = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self.listing = False
