"""Send a message to the running orchestrator and print its reply."""

from __future__ import annotations

import json
from collections.abc import Mapping

from blueflame.cli.output import print_text
from blueflame.journal.journal import REFUSED
from blueflame.model.errors import UsageError
from blueflame.orchestrator.project import Project
from blueflame.orchestrator.sessions import send_and_wait

KEPT = "kept: applied when the session is resumed ('blueflame resume')"


def send_message(project: Project, session: str, kind: str, body: Mapping[str, object], *, as_json: bool) -> int:
    """Send a message and wait for the reply; without a running orchestrator it is kept for the next one."""
    reply = send_and_wait(project, session, kind, body)
    if reply.state == REFUSED:
        raise UsageError(reply.reply)
    words = reply.reply or KEPT
    print_text(json.dumps({"state": reply.state, "reply": words}) if as_json else words)
    return 0
