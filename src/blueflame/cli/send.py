"""Send a message to the running orchestrator and wait for its reply."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

from blueflame.cli.output import print_text
from blueflame.journal.journal import REFUSED, WAITING, Journal, MessageReply
from blueflame.model.errors import UsageError
from blueflame.orchestrator.project import Project
from blueflame.orchestrator.sessions import find_running_pid, send_to_inbox

REPLY_TIMEOUT = 15.0
POLL_SECONDS = 0.05


def send_message(project: Project, session: str, kind: str, body: Mapping[str, object], *, as_json: bool) -> int:
    """Send a message and wait for the reply; without a running orchestrator it is kept for the next one."""
    running = find_running_pid(project) is not None
    message = send_to_inbox(project, session, kind, body)
    reply = _await_reply(project, message) if running else MessageReply(WAITING, "")
    if reply.state == REFUSED:
        raise UsageError(reply.reply)
    words = reply.reply or "kept: applied when the session is resumed ('blueflame resume')"
    print_text(json.dumps({"state": reply.state, "reply": words}) if as_json else words)
    return 0


def _await_reply(project: Project, message: int) -> MessageReply:
    until = time.monotonic() + REPLY_TIMEOUT
    with Journal.open_read_only(project.state.journal) as journal:
        while (reply := journal.read_reply(message)).state == WAITING and time.monotonic() < until:
            time.sleep(POLL_SECONDS)  # another process answers through the journal: polling is the only way
    return reply
