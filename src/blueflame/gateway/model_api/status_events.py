"""Lines to the warden over the control socket: why a call waits, that it continues, that a budget is used up."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from contextlib import suppress

from blueflame.gateway.model_api.failures import ACCOUNT_KINDS


class StatusReporter:
    """Reports each refusal and each exceeded wait once, however often the agent retries."""

    def __init__(self, control: socket.socket | None) -> None:
        self._control = control
        self._sent: set[tuple[str, object]] = set()
        self._unanswered = False
        self._quiet: dict[int, float] = {}  # since when, by call

    def report_refused(self, why: Mapping[str, object]) -> None:
        self._report_once("refused", why["budget"], why)

    def report_near(self, why: Mapping[str, object]) -> None:
        self._report_once("near", why["budget"], why)

    def report_gave_up(self, why: Mapping[str, object]) -> None:
        self._report_once("gave_up", why["kind"], why)

    def report_unanswered(self, why: Mapping[str, object]) -> None:
        """Report that the last call got no whole answer, which is not the agent's doing."""
        self._unanswered = True
        self.report("unanswered", why)

    def report_quiet(self, call: int, since: float, limit: float) -> None:
        """Report, once for each silence, since when the provider sends nothing, and how long that is usual."""
        if self._quiet.get(call) != since:
            self._quiet[call] = since
            self.report("quiet", {"since": since, "limit": limit})

    def report_heard(self, call: int) -> None:
        """The provider has sent something, or the call has ended."""
        if self._quiet.pop(call, None) is not None and not self._quiet:
            self.report("heard")

    def report_answered(self) -> None:
        """A call was answered, so the account is in order: another model that it lacks was a side matter."""
        account = {("gave_up", kind) for kind in ACCOUNT_KINDS} & self._sent
        if account or self._unanswered:
            self._sent -= account
            self._unanswered = False
            self.report("answered")

    def _report_once(self, event: str, about: object, why: Mapping[str, object]) -> None:
        if (event, about) not in self._sent:
            self._sent.add((event, about))
            self.report(event, why)

    def report(self, event: str, why: Mapping[str, object] | None = None) -> None:
        """Send one line: `resumed`, or `parked` and the others with their reason."""
        if self._control is not None:
            with suppress(OSError):  # the warden has ended
                self._control.sendall(f"{event} {json.dumps(why)}\n".encode() if why else f"{event}\n".encode())
