"""`blueflame mcp` and `blueflame plugin`: Blue Flame inside Claude Code and other clients."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blueflame.cli.options import CommandGroup, config_option, json_option, refuse_idle
from blueflame.cli.output import print_result
from blueflame.model.errors import Refused

if TYPE_CHECKING:
    from blueflame.model.gate import Gate
    from blueflame.session.state import Session

CLIENTS = ("claude", "codex", "gemini", "opencode")


@click.group("mcp", cls=CommandGroup, invoke_without_command=True)
@config_option
@click.pass_context
def mcp_app(context: click.Context, config: Path | None) -> int:
    """Serve MCP clients on standard input and output, or register with them."""
    if context.invoked_subcommand:
        refuse_idle(f"with {context.invoked_subcommand}", "config")
        return 0
    return serve(config)


def serve(config: Path | None) -> int:
    from blueflame.system.environment import take_model_keys

    keys = take_model_keys(os.environ)  # before anything is started
    try:
        from blueflame.mcp.server import build_server
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        from blueflame.mcp.registration import NO_SDK

        raise Refused(NO_SDK) from error
    from blueflame.house.background import build_session_environment
    from blueflame.mcp.call_log import find_call_log
    from blueflame.mcp.served import Served

    environ = build_session_environment(os.environ, keys)
    served = Served(config=config, environ=environ, draw_gate=draw_gate)
    build_server(served, find_call_log(os.environ)).run("stdio")
    return 0


def draw_gate(session: Session, gate: Gate) -> str:
    from blueflame.cli.gates.view import draw_gate as draw  # late: a client waits for the server to start

    return draw(session, gate)


client_argument = click.argument(
    "client", type=click.Choice(CLIENTS), metavar="CLIENT", help="claude, codex, gemini or opencode."
)


@mcp_app.command()
@client_argument
@json_option
def install(client: str, as_json: bool) -> int:
    """Register the server with a client: its settings get one entry, the rest stays as it is."""
    from blueflame.mcp.registration import install_server

    return _report(install_server(client, os.environ), as_json=as_json)


@mcp_app.command()
@client_argument
@json_option
def uninstall(client: str, as_json: bool) -> int:
    """Remove the server's entry from the settings of a client."""
    from blueflame.mcp.registration import uninstall_server

    return _report(uninstall_server(client, os.environ), as_json=as_json)


@click.group("plugin", cls=CommandGroup)
def plugin_app() -> None:
    """Install the plugin of Claude Code: skills and the MCP server."""


@plugin_app.command("install")
@click.option("--subagents", is_flag=True, help="Also the plugin for work by subagents, which is a lower level.")
@json_option
def install_plugin_(subagents: bool, as_json: bool) -> int:
    """Install the plugin in Claude Code, for you."""
    from blueflame.mcp.registration import install_plugin

    return _report(install_plugin(subagents=subagents), as_json=as_json)


@plugin_app.command("uninstall")
@json_option
def uninstall_plugin_(as_json: bool) -> int:
    """Remove the plugin from Claude Code."""
    from blueflame.mcp.registration import uninstall_plugin

    return _report(uninstall_plugin(), as_json=as_json)


@plugin_app.command("path")
@json_option
def path_(as_json: bool) -> int:
    """Print the folder of the plugin, for 'claude --plugin-dir'."""
    from blueflame.mcp.prompts import PLUGIN

    return print_result({"path": str(PLUGIN)} if as_json else str(PLUGIN))


def _report(words: str, *, as_json: bool) -> int:
    return print_result({"done": words} if as_json else words)
