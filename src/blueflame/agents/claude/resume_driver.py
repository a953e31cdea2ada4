"""Runs Claude Code with an earlier conversation, inside the sandbox; without it, if claude refuses it.

    python resume_driver.py PROGRAM.json

Standard input is the prompt, a file. A refusal is a result as the first line of output, before any call of the model.
Standard library only and few imports, like the scripted player.
"""

# ruff: noqa: PTH123, S606 (pathlib would cost every start some 10 ms; no shell on purpose)
from __future__ import annotations

import json
import os
import signal
import socket

READ_SIZE = 65536
MAX_FIRST_LINE = 1 << 20


def main(arguments: list[str]) -> int:
    with open(arguments[0], encoding="utf-8") as file:
        program = json.load(file)
    ours, theirs = socket.socketpair()  # not a pipe: the agent's own programs could open that by name and write to it
    pid = os.fork()
    if pid == 0:
        os.dup2(theirs.fileno(), 1)
        ours.close()
        theirs.close()
        os.execv(program["resume"][0], program["resume"])
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # claude gets it as well, and ends in its own way
    theirs.close()
    start = _read_first_line(ours)
    if is_refusal(start):
        os.waitpid(pid, 0)
        os.lseek(0, 0, os.SEEK_SET)
        os.execv(program["fresh"][0], program["fresh"])
    while start:
        _write_all(start)
        start = ours.recv(READ_SIZE)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def is_refusal(output: bytes) -> bool:
    """Whether output begins with the result of a run that never began."""
    try:
        first = json.loads(output.partition(b"\n")[0])
    except ValueError:
        return False
    return isinstance(first, dict) and first.get("type") == "result" and first.get("is_error") is True


def _read_first_line(output: socket.socket) -> bytes:
    """Read at least the first line, if there is one."""
    data = b""
    while b"\n" not in data and len(data) < MAX_FIRST_LINE:
        more = output.recv(READ_SIZE)
        if not more:
            break
        data += more
    return data


def _write_all(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]
