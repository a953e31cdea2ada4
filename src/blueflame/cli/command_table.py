"""The commands as a table: a command's module is imported only when the command is run."""

from __future__ import annotations

from importlib import import_module
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import click

from blueflame.model.suggestions import suggest

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class CommandEntry(NamedTuple):
    name: str
    panel: str
    target: str  # module:command
    summary: str


START, WATCH, KEEP = "Start work", "Watch and answer", "Set up and maintain"

COMMANDS: tuple[CommandEntry, ...] = tuple(
    CommandEntry(name, panel, f"blueflame.cli.commands.{target}", summary)
    for name, panel, target, summary in (
        ("run", START, "run:run", "Plan a request, work on it, and land what you approve."),
        ("plan", START, "run:plan", "Plan a request and ask for approval, without the work."),
        ("resume", START, "run:resume", "Continue an unfinished session."),
        ("serve", START, "house.serve:serve", "Serve several repositories, with requests from every source."),
        ("guard", START, "sandbox:guard", "Run an agent command behind the walls, and land what you approve."),
        ("demo", START, "demo:demo", "Run a whole session on a throw-away repository."),
        ("watch", WATCH, "watch:watch", "Show what each agent does now, and its cost."),
        ("sessions", WATCH, "sessions:sessions", "List the sessions of this repository."),
        ("requests", WATCH, "house.requests:requests_app", "List, show, answer and cancel the requests of the house."),
        ("wait", WATCH, "house.wait:wait", "Wait for the end of a session, or for a gate."),
        ("team", WATCH, "sessions:team", "List the seats of the team: their domains and their work."),
        ("status", WATCH, "status:status", "Show the gates, agents and tasks of a session."),
        ("gates", WATCH, "answer:gates", "List the open gates."),
        ("answer", WATCH, "answer:answer", "Answer a gate from any terminal."),
        ("show", WATCH, "show:show", "Show a plan, task, attempt, changeset or gate in full."),
        ("diff", WATCH, "show:diff", "Show the diff of a changeset, task, attempt or edited plan."),
        ("log", WATCH, "log:log", "Show what happened, event by event."),
        ("cost", WATCH, "cost:cost", "Show what agents cost, against the estimate."),
        ("report", WATCH, "report:report", "Show the report of a session, or write it as a page."),
        ("attach", WATCH, "attach:attach", "Connect this terminal to a running agent."),
        ("open", WATCH, "open:open_", "Open a shell or an editor where an agent works."),
        ("proceed", WATCH, "control:proceed", "Continue with what is done, without the rest."),
        ("say", WATCH, "control:say", "Send a message to a running agent."),
        ("kill", WATCH, "control:kill", "End one agent and re-queue its task."),
        ("retry", WATCH, "control:retry", "Start a failed task again now."),
        ("add", WATCH, "control:add", "Add a task to the running session."),
        ("fix", WATCH, "control:fix", "Fix running or landed work with an urgent task."),
        ("stop", WATCH, "control:stop", "Stop the running session; resume continues it."),
        ("undo", WATCH, "undo:undo", "Revert one landing with a new commit."),
        ("init", KEEP, "init:init", "Write a blueflame.yaml for this repository."),
        ("telegram", KEEP, "house.telegram:telegram_app", "Find the numbers of people for the bot of the house."),
        ("trust", KEEP, "trust:trust", "Trust what a configuration does outside of the sandbox."),
        ("config", KEEP, "config:config_app", "Check, show and migrate the configuration."),
        ("policy", KEEP, "policy:policy_app", "Show what agents may do, and judge tool calls."),
        ("sandbox", KEEP, "sandbox:sandbox_app", "Run a command in the sandbox, and show its limits."),
        ("map", KEEP, "map:map_", "Show what the code base consists of, and what changes together."),
        ("memory", KEEP, "memory:memory_app", "List, show, explain, add, curate, forget, mirror lessons."),
        ("doctor", KEEP, "doctor:doctor", "Check the machine, the project and the guards."),
        ("mcp", KEEP, "mcp:mcp_app", "Serve Claude Code and other MCP clients."),
        ("plugin", KEEP, "mcp:plugin_app", "Install the plugin of Claude Code."),
        ("help", KEEP, "help:help_", "Show a page of the documentation."),
        ("completion", KEEP, "help:completion", "Print the completion script of your shell."),
        ("worktrees", KEEP, "cleanup:worktrees_app", "Make, list and remove checkouts of your own."),
        ("locks", KEEP, "cleanup:locks_app", "Lock paths that agents keep out of."),
        ("cleanup", KEEP, "cleanup:cleanup", "Remove what ended sessions left behind."),
    )
)
"""The help prints them in this order; commands of one panel must be adjacent."""


def load_command(entry: CommandEntry) -> click.Command:
    module, _, attribute = entry.target.partition(":")
    command: click.Command = getattr(import_module(module), attribute)
    return command


class LazyCommandGroup(click.Group):
    """A group that lists its commands from the table, so that --help imports none of them."""

    verbs: tuple[CommandEntry, ...] = COMMANDS

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the table is the same in every context
        return [verb.name for verb in self.verbs]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as above
        verb = next((verb for verb in self.verbs if verb.name == cmd_name), None)
        return load_command(verb) if verb is not None else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in names:
            ctx.fail(f"unknown command {args[0]!r}{suggest(args[0], names, before='; ')}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        for panel, verbs in groupby(self.verbs, key=lambda verb: verb.panel):
            with formatter.section(panel):
                formatter.write_dl([(verb.name, verb.summary) for verb in verbs])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)  # commands come before options
        options = [row for row in (param.get_help_record(ctx) for param in self.get_params(ctx)) if row]
        with formatter.section("Options"):
            formatter.write_dl(options)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names from the table, without importing a command."""
        from click.shell_completion import CompletionItem

        verbs = [verb for verb in self.verbs if verb.name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(verb.name, help=verb.summary) for verb in verbs), *options]
