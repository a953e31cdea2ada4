"""What the engine says into the warden's ear only: credentials for the gateway, as one JSON object on stdin.

A pipe that has been read is empty: nothing on a disk, in an environment or on a command line.
"""

from __future__ import annotations

import json
import os
import select
import time

MAX_BYTES = 1 << 20
READ_TIMEOUT = 10.0


def read_secrets(handle: int = 0) -> dict[str, str]:
    """Once. An engine that died before it had said all closes the pipe. Raises ValueError for what makes no sense."""
    data = _read_pipe(handle)
    if not data.strip():
        return {}
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise ValueError("what came on stdin is no object of secrets")  # never its content: this is recorded
    return found


def _read_pipe(handle: int) -> bytes:
    parts: list[bytes] = []
    try:
        if os.isatty(handle):
            return b""
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        give_up = time.monotonic() + READ_TIMEOUT
        while sum(map(len, parts)) < MAX_BYTES and poll.poll(max(0.0, give_up - time.monotonic()) * 1000):
            part = os.read(handle, 65536)
            if not part:
                break
            parts.append(part)
    except OSError:  # nobody has opened it for us
        return b""
    return b"".join(parts)
