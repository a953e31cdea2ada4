"""The client at the other end: its name, whether it can ask a person, and what it learns of errors."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.session import ServerSession

from blueflame.model.errors import BlueFlameError
from blueflame.text.sanitize import clean_text, shorten_line

MAX_NAME_CHARS = 60
MAX_ERROR_CHARS = 4_000


def name_client(session: ServerSession) -> str:
    """The name that the client gives itself: a claim, never a proof."""
    known = session.client_params
    return shorten_line(f"{known.client_info.name} {known.client_info.version}", MAX_NAME_CHARS) if known else "unknown"


def format_person(ctx: Context[Any, Any]) -> str:
    """Who answers, and from where."""
    return f"{getpass.getuser()} in a dialog of {name_client(ctx.request_context.session)} (MCP)"


def can_ask(ctx: Context[Any, Any]) -> bool:
    """Whether the client shows forms to a person."""
    found = ctx.client_capabilities.elicitation if ctx.client_capabilities else None
    return found is not None and (found.form is not None or found.url is None)


@contextmanager
def explain_errors() -> Iterator[None]:
    """Pass our errors on with their words; the text of any other stays in the server."""
    try:
        yield
    except BlueFlameError as error:
        text = clean_text(str(error))  # it may quote what the client sent
        raise ToolError(text if len(text) <= MAX_ERROR_CHARS else f"{text[:MAX_ERROR_CHARS]}…") from error
