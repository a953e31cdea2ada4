"""What a chat shows of sessions: gates with their evidence, diffs, how a gate was settled, where a session stands.

Everything is read from the journals when it is shown; blocking, so that it runs in threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from blueflame.chat.gate_message import GateMessage, build_gate_message, describe_answer
from blueflame.chat.outbox import NOT_NEEDED
from blueflame.journal.house import HouseJournal
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import BlueFlameError, UsageError
from blueflame.model.event import GateAnswered
from blueflame.model.gate import Answer, Gate, GateKind
from blueflame.model.house.arrival import Trust
from blueflame.model.house.event import FINAL, OpenGate
from blueflame.orchestrator.project import Project
from blueflame.orchestrator.sessions import find_running_pid, load_session, open_journal
from blueflame.session.state import Session
from blueflame.text.format import format_count, format_dollars
from blueflame.text.sanitize import shorten_line
from blueflame.views.sessions import build_session_row

MAX_FILE_BYTES = 20 * 1024 * 1024
DIFF, EVIDENCE = "diff", "evidence"
WHOSE = {Trust.OWNER: "owner", Trust.MEMBER: "member", Trust.FEED: "text from outside"}

GateDrawer = Callable[[Session, Gate], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReader:
    configs: Mapping[str, Path]  # the configuration of each repository, by its name
    journal: HouseJournal
    draw_gate: GateDrawer

    def load(self, repository: str, session: str) -> tuple[Project, Session]:
        if repository not in self.configs:
            raise UsageError(f"unknown repository {repository!r}")
        project = Project(self.configs[repository])
        with open_journal(project) as journal:
            return project, load_session(journal, session)

    def draw(self, found: OpenGate) -> str:
        """The whole evidence of a gate; of a gate of the house what was asked for."""
        if not found.repository:
            return draw_request(found.gate.evidence)
        return self.draw_gate(self.load(found.repository, found.session)[1], found.gate)

    def build_message(self, found: OpenGate, *, until: str) -> GateMessage:
        where = f"{found.repository} · {found.session}" if found.repository else f"Request {found.request}"
        try:
            evidence = self.draw(found)
        except BlueFlameError as error:
            evidence = f"The evidence cannot be read: {error}"
        return build_gate_message(where, found.gate, evidence, until=until)

    def describe_settled(self, repository: str, session: str, gate: str) -> str:
        """Who answered what, or that no answer is needed any more; empty if it is open, or that cannot be read."""
        try:
            return self._describe_of_session(repository, session, gate) if repository else self._describe_of_house(gate)
        except BlueFlameError:
            return ""

    def _describe_of_session(self, repository: str, session: str, gate: str) -> str:
        found = self.load(repository, session)[1]
        if gate in found.open_gates and not found.ended:
            return ""
        return _describe_answer(found.answers.get(gate))

    def _describe_of_house(self, gate: str) -> str:
        events = [entry.event for entry in self.journal.read_stream(gate.removeprefix("request-"))]
        given = [event.answer for event in events if isinstance(event, GateAnswered) and event.gate == gate]
        if not given and not any(isinstance(event, FINAL) for event in events):
            return ""
        return _describe_answer(given[-1] if given else None)

    def read_file(self, found: OpenGate, what: str) -> bytes:
        if what == EVIDENCE:
            return self.draw(found).encode("utf-8", "replace")
        from blueflame.views.item_diff import read_item_diff
        from blueflame.views.items import find_item, find_item_diff

        project, session = self.load(found.repository, found.session)
        text = read_item_diff(project.repo, find_item_diff(session, find_item(session, found.gate.subject)))
        return text.encode("utf-8", "replace")[:MAX_FILE_BYTES]

    def describe_session(self, repository: str, session: str) -> str:
        """A few lines on where a session stands."""
        project, found = self.load(repository, session)
        row = build_session_row(found, running=find_running_pid(project) is not None)
        done = (
            f"{row.work.landed} of {format_count(row.work.tasks, 'task')} landed" if row.work.tasks else "no task yet"
        )
        lines = [
            f"{repository}: {row.state}",
            shorten_line(row.request, 120),
            f"{done}, {format_dollars(row.cost_micro_usd)}, {row.session}",
        ]
        return "\n".join(lines)


def draw_request(given: Mapping[str, Any]) -> str:
    """What is asked for, and whose word it is; the question has the name and the repository."""
    text, origin, matched = str(given["request"]).strip(), given.get("origin", ""), given.get("matched", ())
    where = f", {origin}" if origin and origin not in text else ""
    words = f"\nKeywords: {', '.join(matched)}" if matched else ""
    return f"{text}\n\nFrom: {given['address']} ({WHOSE[Trust(given['trust'])]}){where}{words}"


def _describe_answer(answer: Answer | None) -> str:
    return describe_answer(answer.choice, answer.by, answer.note) if answer is not None else NOT_NEEDED


def list_files(gate: Gate, message: GateMessage) -> list[tuple[str, str]]:
    """What is sent after the message of a gate: the name of each file, and what it is."""
    files = [(f"{gate.subject}.diff", DIFF)] if gate.kind is GateKind.CHANGESET else []
    return files + ([(f"{gate.id}.txt", EVIDENCE)] if message.is_cut else [])
