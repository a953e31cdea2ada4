"""Every call of a client, as a line in the state of the person: outside of every repository, and before any exists."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from blueflame.system.clock import SystemClock
from blueflame.system.files import explain_file_errors, find_current_folder, rotate_log
from blueflame.system.layout import find_person_state
from blueflame.views.fit import fit_json

MAX_ARGUMENT_CHARS = 2_000


def find_call_log(environ: Mapping[str, str]) -> Path:
    return find_person_state(environ) / "mcp-calls.jsonl"


def record_call(path: Path, *, client: str, method: str, name: str, arguments: Mapping[str, object]) -> None:
    """Record a call before it is carried out; WorldError where that is not possible: then it is not carried out."""
    entry = {
        "at": round(SystemClock().now(), 3),
        "client": client,
        "folder": str(find_current_folder()),
        "method": method,
        "name": name,
        "arguments": fit_json(arguments, MAX_ARGUMENT_CHARS),
    }
    line = json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    with explain_file_errors("record the call in", path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        rotate_log(path)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(handle, line)
        finally:
            os.close(handle)
