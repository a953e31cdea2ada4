"""Notify people that the orchestrator of a session is gone: a small process that outlives it and waits for its lock.

It imports little before that, since it is there for as long as the session.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from blueflame.system.flock import wait_until_free
from blueflame.system.layout import StatePaths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from blueflame.orchestrator.context import SessionContext
    from blueflame.session.state import Session


def start_death_notice(context: SessionContext, session: Session) -> None:
    """Start the process where a notifier is to report how sessions end; without one it is not needed."""
    from blueflame.model.errors import WorldError
    from blueflame.system.process import start_detached
    from blueflame.text.notifications import ENDED

    if any(ENDED in each.on for each in context.settings.notifications.values()):
        root = context.paths.root
        argv = (sys.executable, "-m", "blueflame.orchestrator.observers.death_notice", str(root), session.id)
        with suppress(WorldError):  # a message is best effort
            start_detached(argv, cwd=root, env=context.environ, log=Path(os.devnull))


def send_death_notice(state: StatePaths, name: str, environ: Mapping[str, str]) -> None:
    """Send it to every notifier that reports how sessions end, if no orchestrator runs and none said that it stops."""
    from blueflame.journal.journal import Journal
    from blueflame.model.errors import WorldError
    from blueflame.orchestrator.session_settings import load_settings
    from blueflame.session.replay import replay
    from blueflame.system.flock import read_lock_holder
    from blueflame.system.notifiers import build_notifier
    from blueflame.text.notifications import ENDED, build_death_notification

    with Journal.open_read_only(state.journal) as journal:
        recorded = journal.read_events(name)
    session = replay(recorded)
    notification = build_death_notification(session, recorded)
    settings = load_settings(state, name, session.config_digest)
    if notification is None or settings is None or read_lock_holder(state.lock) is not None:
        return
    for each in settings.notifications.values():
        if ENDED in each.on:
            with suppress(WorldError):
                build_notifier(each, state.root, environ)(notification, 0)


def main(argv: Sequence[str]) -> None:
    state = StatePaths(Path(argv[0]))
    wait_until_free(state.lock)
    send_death_notice(state, argv[1], os.environ)


if __name__ == "__main__":
    main(sys.argv[1:])
