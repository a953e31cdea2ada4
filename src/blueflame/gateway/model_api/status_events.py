"""Lines to the warden, over the control socket: why a call waits, that it goes on, that a budget is used up."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from contextlib import suppress


class StatusReporter:
    """Says each refusal and each giving up once: an agent that asks again and again has nothing new to tell."""

    def __init__(self, control: socket.socket | None) -> None:
        self._control = control
        self._said: set[str] = set()

    def parked(self, why: Mapping[str, object]) -> None:
        self._tell(f"parked {json.dumps(why)}")

    def resumed(self) -> None:
        self._tell("resumed")

    def refused(self, why: Mapping[str, object]) -> None:
        self._once(f"refused {why['budget']}", f"refused {json.dumps(why)}")

    def gave_up(self, why: Mapping[str, object]) -> None:
        self._once(f"gave up {why['kind']}", f"gave_up {json.dumps(why)}")

    def _once(self, what: str, line: str) -> None:
        if what not in self._said:
            self._said.add(what)
            self._tell(line)

    def _tell(self, line: str) -> None:
        if self._control is not None:
            with suppress(OSError):  # the warden has gone: nobody is left to be told
                self._control.sendall(line.encode() + b"\n")
