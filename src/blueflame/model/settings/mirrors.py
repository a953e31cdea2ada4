"""Addresses of servers that mirror the memory."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from blueflame.model.settings.fields import InvalidValue

ENVIRONMENT = "env:"
VARIABLE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")
ADDRESS = re.compile(
    r"rediss?://(?P<user>[^@/?#\s]*@)?([A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\])(:\d{1,5})?(/\d{1,3})?"
    r"|unix://(?P<unix_user>[^@/?#\s]*@)?/[^?#\s]+(\?db=\d{1,3})?"
)
HINT = "write redis://host:6379/0, rediss:// (encrypted), unix:///path, or env:NAME for one in an environment variable"


def is_address(text: str) -> bool:
    """Whether it means a server, rather than a file."""
    return text.startswith(("redis://", "rediss://", "unix://", ENVIRONMENT))


def find_address_problem(text: str, *, secret: bool = False) -> str:
    """What is wrong with an address; "" when it is valid. `secret`: it is where a password may be."""
    found = ADDRESS.fullmatch(text)
    if found is None:
        return "is not the address of a server"
    if not secret and (found["user"] or found["unix_user"]):
        return "has a user or a password, and this place is read by others"
    return ""


def _check_mirror(text: str) -> str:
    problem = "" if VARIABLE.fullmatch(text) else find_address_problem(text)
    if problem:
        raise InvalidValue(problem, HINT, got="an address that is not shown")
    return text


MirrorUrl = Annotated[str, AfterValidator(_check_mirror)]
