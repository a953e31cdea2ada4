"""Save and load policy.json of an attempt, and find the shell parser."""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Any

from blueflame.model.errors import Refused, WorldError
from blueflame.model.policy import Patterns, Policy
from blueflame.paths.locks import BadLock
from blueflame.policy.access import prepare_policy
from blueflame.system.files import write_atomically

VERSION = 1
ADDED_LATER = frozenset({"skills", "may_ask"})
"""Fields that earlier versions did not write: their attempts are judged by the defaults, which is what they obeyed."""
SHFMT = "shfmt"


def save_policy(policy: Policy, path: Path) -> None:
    write_atomically(path, format_policy(policy))


def load_policy(path: Path) -> Policy:
    """Load exactly what was saved. Anything else, also a rule unknown to this version, is refused."""
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WorldError(f"the policy {path} cannot be read: {error}. Start the attempt again") from None
    return parse_policy(text, str(path))


def format_policy(policy: Policy) -> str:
    given = {field.name: _format_value(getattr(policy, field.name)) for field in fields(Policy)}
    return json.dumps({"version": VERSION, **given}, ensure_ascii=True, indent=1) + "\n"


def parse_policy(text: str, where: str) -> Policy:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _build_error(where, f"it is not JSON ({error})") from None
    if not isinstance(given, dict):
        raise _build_error(where, "it is not an object")
    version = given.pop("version", None)
    if version != VERSION:
        raise _build_error(where, f"it has version {version!r}, but only version {VERSION} is supported")
    policy = Policy(**_read_fields(given, where))
    _check_rules(policy, where)
    return policy


def _read_fields(given: dict[str, Any], where: str) -> dict[str, Any]:
    known = {field.name: str(field.type) for field in fields(Policy)}
    if odd := sorted((given.keys() ^ known.keys()) - (ADDED_LATER - given.keys())):
        raise _build_error(where, f"{odd[0]} is {'unknown' if odd[0] in given else 'missing'}")
    found: dict[str, Any] = {}
    for name, kind in ((name, kind) for name, kind in known.items() if name in given):
        try:
            found[name] = _read_value(kind, given[name])
        except TypeError:
            raise _build_error(where, f"{name} has the wrong type") from None
    return found


def _check_rules(policy: Policy, where: str) -> None:
    if not policy.worktree.startswith("/"):
        raise _build_error(where, "worktree is not an absolute path")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            prepare_policy(policy)
            for pattern in (*policy.blocked_patterns, policy.commit_pattern):
                re.compile(pattern)
    except (re.error, BadLock, ValueError, OverflowError, RecursionError) as error:
        raise _build_error(where, f"one of its rules cannot be used ({error})") from None


def _build_error(where: str, why: str) -> WorldError:
    return WorldError(f"the policy {where} cannot be used: {why}. Nothing is allowed; start the attempt again")


# --- values and JSON ---------------------------------------------------------------------------------------------


def _format_value(value: object) -> object:
    if isinstance(value, Patterns):
        return {"written": list(value.written), "regexes": list(value.regexes)}
    return list(value) if isinstance(value, tuple) else value


def _read_value(kind: str, value: Any) -> Any:  # noqa: ANN401 (a field of any type)
    """Read a field of this type; TypeError for what JSON does not have in its place."""
    match kind, value:
        case ("str", str()) | ("bool", bool()) | ("tuple[str, ...] | None", None):
            return value
        case "tuple[str, ...]" | "tuple[str, ...] | None", list() if all(isinstance(each, str) for each in value):
            return tuple(value)
        case "Patterns", {"written": written, "regexes": regexes} if len(value) == 2:
            both = [_read_value("tuple[str, ...]", each) for each in (written, regexes)]
            if len(both[0]) == len(both[1]):
                return Patterns(written=both[0], regexes=both[1])
    raise TypeError


# --- the shell parser --------------------------------------------------------------------------------------------


def find_shfmt() -> str:
    """Return the shfmt of the shfmt-py wheel next to this Python, or the one on the PATH."""
    for folder in _list_folders():
        found = os.path.join(folder, SHFMT)  # noqa: PTH118 - pathlib would normalise what PATH says
        if os.path.isfile(found) and os.access(found, os.X_OK):  # noqa: PTH113 - as above
            return os.path.abspath(found)  # noqa: PTH100 - as above
    raise Refused("shfmt not found: shell commands cannot be judged. Run `pip install shfmt-py`")


def _list_folders() -> tuple[str, ...]:
    import sysconfig  # late: the warden gets the path and does not search

    beside = os.path.dirname(sys.executable)  # noqa: PTH120 - the link in the venv, not what it leads to
    own = (sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user"))
    return tuple(folder for folder in (beside, *own, *os.get_exec_path()) if folder)
