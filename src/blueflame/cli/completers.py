"""What a shell completes for arguments that name something of a session. A problem completes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

from blueflame.model.errors import BlueFlameError
from blueflame.text.sanitize import shorten_line

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

    from blueflame.session.state import Session

MAX_WORDS = 60

Names: TypeAlias = Iterator[tuple[str, str]]
"""Names, each with what it is."""

Completer: TypeAlias = "Callable[[click.Context, click.Parameter, str], list[CompletionItem]]"


def complete_names(list_names: Callable[[click.Context], Names]) -> Completer:
    def complete(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        with suppress(BlueFlameError):
            found = [(name, words) for name, words in list_names(context) if name.startswith(incomplete)]
            return [CompletionItem(name, help=shorten_line(words, MAX_WORDS)) for name, words in found]
        return []

    return complete


def complete_from_session(list_names: Callable[[Session], Names]) -> Completer:
    return complete_names(lambda context: list_names(_load_session(context)))


def _load_session(context: click.Context) -> Session:
    """Load the session that the command would use: the named one, else the unfinished one, else the newest."""
    from blueflame.orchestrator.project import open_project
    from blueflame.orchestrator.sessions import find_session, load_session, open_journal

    named = context.params.get("session")
    with open_journal(open_project(context.params.get("config"))) as journal:
        left = journal.find_unfinished()
        return load_session(journal, left.id if named is None and left else find_session(journal, named))


def _list_sessions(context: click.Context) -> Names:
    from blueflame.orchestrator.project import open_project
    from blueflame.orchestrator.sessions import open_journal

    with open_journal(open_project(context.params.get("config"))) as journal:
        yield from ((info.id, info.request) for info in journal.list_sessions())


def _list_choices(context: click.Context) -> Names:
    gates = _load_session(context).open_gates.values()
    for gate in gates:
        if gate.id.startswith(context.params.get("gate") or ""):
            yield from ((option.name, option.label) for option in gate.options)


def _list_gates(session: Session) -> Names:
    return ((gate.id, gate.title) for gate in session.open_gates.values())


def _list_agents(session: Session) -> Names:
    for attempt in session.live.values():
        yield from ((attempt.agent_id, attempt.subject), (attempt.subject, attempt.agent_id))


def _list_tasks(session: Session) -> Names:
    return ((name, record.task.title) for name, record in session.tasks.items())


def _list_failed_tasks(session: Session) -> Names:
    from blueflame.session.requests.tasks import find_retry_problem

    return ((name, title) for name, title in _list_tasks(session) if not find_retry_problem(session, name))


def _list_work(session: Session) -> Names:
    """What can be fixed: landed or begun."""
    from blueflame.session.requests.fixes import WHY_NOT_FIXED

    for name, record in session.changesets.items():
        yield name, record.changeset.title
        if record.landed_as:
            yield record.landed_as[:12], record.changeset.title
    yield from ((name, title) for name, title in _list_tasks(session) if session.tasks[name].state not in WHY_NOT_FIXED)


def _list_items(session: Session) -> Names:
    yield "plan", session.request
    yield from _list_gates(session)
    yield from _list_tasks(session)
    yield from ((name, record.changeset.title) for name, record in session.changesets.items())
    yield from ((record.attempt.agent_id, record.attempt.subject) for record in session.attempts.values())


def _list_topics(_context: click.Context) -> Names:
    from blueflame.documents.manual import find_manual, list_pages

    manual = find_manual()
    for name, title in list_pages(manual).items() if manual is not None else ():
        yield name.rpartition("/")[2], title


complete_session = complete_names(_list_sessions)
complete_choice = complete_names(_list_choices)
complete_topic = complete_names(_list_topics)
complete_gate = complete_from_session(_list_gates)
complete_agent = complete_from_session(_list_agents)
complete_task = complete_from_session(_list_tasks)
complete_failed_task = complete_from_session(_list_failed_tasks)
complete_landing = complete_from_session(
    lambda session: ((name, session.changesets[name].changeset.title) for name in session.landings)
)
complete_work = complete_from_session(_list_work)
complete_item = complete_from_session(_list_items)
