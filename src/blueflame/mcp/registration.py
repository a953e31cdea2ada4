"""Register with the clients: our own entry in their settings, and nothing else."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from blueflame.documents.jsonc import drop_member, put_member
from blueflame.documents.toml_tables import drop_table, put_table
from blueflame.mcp.prompts import PLUGIN
from blueflame.model.errors import Refused, UsageError
from blueflame.system.files import read_text, write_atomically
from blueflame.system.layout import make_folder
from blueflame.system.process import run

NAME = "blueflame"
NO_SDK = "the package mcp is not installed: pip install 'blueflame[mcp]'"
SUBAGENTS = "blueflame-subagents"
NOTHING_TO_REMOVE = re.compile(r"No MCP server named|not found in installed plugins|Marketplace '\w+' not found")
CLIENT_SECONDS = 60.0
CODEX_START_SECONDS = 60  # it gives up after 10 otherwise, which is little on a busy machine


class ClientSettings(NamedTuple):
    """A file of a client, and how our entry is put into its text and taken out again."""

    path: Path
    put: Callable[[str, Sequence[str]], str]
    drop: Callable[[str], str]


def find_client_settings(client: str, environ: Mapping[str, str]) -> ClientSettings:
    home = Path(environ.get("HOME") or Path.home())
    match client:
        case "codex":
            folder = Path(environ.get("CODEX_HOME") or home / ".codex")
            return ClientSettings(folder / "config.toml", _put_codex, lambda text: drop_table(text, CODEX))
        case "gemini":
            return ClientSettings(
                home / ".gemini" / "settings.json", _put_gemini, lambda text: drop_member(text, GEMINI)
            )
    folder = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "opencode"
    names = ("opencode.jsonc", "opencode.json")
    path = next((folder / name for name in names if (folder / name).exists()), folder / names[1])
    return ClientSettings(path, _put_opencode, lambda text: drop_member(text, OPENCODE))


CODEX, GEMINI, OPENCODE = ("mcp_servers", NAME), ("mcpServers", NAME), ("mcp", NAME)


def _put_codex(text: str, command: Sequence[str]) -> str:
    words: dict[str, str | int | Sequence[str]] = {"command": command[0], "args": list(command[1:])}
    return put_table(text, CODEX, words | {"startup_timeout_sec": CODEX_START_SECONDS})


def _put_gemini(text: str, command: Sequence[str]) -> str:
    return put_member(text, GEMINI, {"command": command[0], "args": list(command[1:])})


def _put_opencode(text: str, command: Sequence[str]) -> str:
    return put_member(text, OPENCODE, {"type": "local", "command": list(command), "enabled": True})


def find_own_command() -> tuple[str, ...]:
    """The command that a client starts: by its name where that is on PATH, so that an update keeps it right."""
    program = (NAME,) if shutil.which(NAME) else (sys.executable, "-m", NAME)
    return (*program, "mcp")


def check_sdk() -> None:
    """Refuse to register a server that could not start."""
    if find_spec("mcp") is None:
        raise Refused(NO_SDK)


def install_server(client: str, environ: Mapping[str, str]) -> str:
    """Register, and return what was changed."""
    check_sdk()
    command = find_own_command()
    if client == "claude":
        _run_claude("mcp", "remove", "--scope", "user", NAME)
        return _run_claude("mcp", "add", "--scope", "user", NAME, "--", *command)
    settings = find_client_settings(client, environ)
    return _change(settings.path, lambda text: settings.put(text, command), "registered in")


def uninstall_server(client: str, environ: Mapping[str, str]) -> str:
    if client == "claude":
        return _run_claude("mcp", "remove", "--scope", "user", NAME)
    settings = find_client_settings(client, environ)
    if not settings.path.exists():
        return f"not registered: there is no {settings.path}"
    return _change(settings.path, settings.drop, "removed from")


def _change(path: Path, change: Callable[[str], str], done: str) -> str:
    place = path.resolve()  # people keep such files elsewhere, behind a link
    before = read_text(place, "the settings") if place.exists() else ""
    try:
        after = change(before)
    except UsageError as error:
        raise UsageError(f"{path} is not changed: {error}") from error
    if after == before:
        return f"nothing to do: {path} is as it should be"
    if place.exists() and not place.stat().st_mode & 0o222:
        raise Refused(f"{path} is not changed: {place} is read-only. Change it where it is made, or make it writable")
    make_folder(place.parent)
    write_atomically(place, after, mode=place.stat().st_mode & 0o777 if place.exists() else None)
    return f"{done} {path}"


def install_plugin(*, subagents: bool = False) -> str:
    """Install the plugin: Claude Code reads it from the folder that it is in, and starts `blueflame` from its PATH."""
    check_sdk()
    if not shutil.which(NAME):
        raise Refused(
            f"{NAME} is not on PATH, where Claude Code looks for it: add {Path(sys.executable).parent} to PATH"
        )
    names = (NAME, SUBAGENTS) if subagents else (NAME,)
    added = _run_claude("plugin", "marketplace", "add", str(PLUGIN))
    return "\n".join([added, *(_run_claude("plugin", "install", f"{name}@{NAME}") for name in names)])


def uninstall_plugin() -> str:
    gone = [_run_claude("plugin", "uninstall", f"{name}@{NAME}") for name in (SUBAGENTS, NAME)]
    return "\n".join([*gone, _run_claude("plugin", "marketplace", "remove", NAME)])


def _run_claude(*words: str) -> str:
    """Return what it says. Nothing to remove is no failure, as with the other clients."""
    program = shutil.which("claude")
    if program is None:
        raise Refused("claude is not on PATH: install Claude Code, or add its folder to PATH")
    done = run(program, *words, cwd=Path.cwd(), timeout=CLIENT_SECONDS)
    said = (done.out if not done.code else done.err or done.out).strip()
    if done.code and not NOTHING_TO_REMOVE.search(said):
        raise Refused(f"claude {' '.join(words[:2])} failed: {said}")
    return said
