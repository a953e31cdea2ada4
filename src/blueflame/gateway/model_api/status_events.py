"""Lines to the warden over the control socket: why a call waits, that it continues, that a budget is used up."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from contextlib import suppress


class StatusReporter:
    """Reports each refusal and each exceeded wait once, however often the agent retries."""

    def __init__(self, control: socket.socket | None) -> None:
        self._control = control
        self._sent: set[str] = set()

    def report_parked(self, why: Mapping[str, object]) -> None:
        self._send_line(f"parked {json.dumps(why)}")

    def report_resumed(self) -> None:
        self._send_line("resumed")

    def report_refused(self, why: Mapping[str, object]) -> None:
        self._send_once(f"refused {why['budget']}", f"refused {json.dumps(why)}")

    def report_gave_up(self, why: Mapping[str, object]) -> None:
        self._send_once(f"gave up {why['kind']}", f"gave_up {json.dumps(why)}")

    def _send_once(self, what: str, line: str) -> None:
        if what not in self._sent:
            self._sent.add(what)
            self._send_line(line)

    def _send_line(self, line: str) -> None:
        if self._control is not None:
            with suppress(OSError):  # the warden has ended
                self._control.sendall(line.encode() + b"\n")
