"""The tools that read: where sessions stand, in short and in pages."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from blueflame.lazy_dataclass import dataclass
from blueflame.mcp.served import Served, count_waiting_for_subagents
from blueflame.model.errors import Refused, UsageError
from blueflame.system.clock import SystemClock
from blueflame.text.sanitize import clean_text
from blueflame.views.fit import drop_empty, fit_json
from blueflame.views.parts import Brief

PAGE_CHARS = 6_000
PAGE_LINES, PAGE_ENTRIES = 40, 20

SessionName = Annotated[str | None, Field(description="Id or its beginning; left out: the newest.")]
Offset = Annotated[int, Field(ge=0, description="Where the page begins: `next` of the page before.")]
Request = Annotated[str, Field(min_length=1, max_length=20_000, description="What is to be done, in full.")]


@dataclass(frozen=True, kw_only=True)  # no slots: the SDK takes them for default values
class TextPage:
    session: str
    of: str
    text: str
    next: int | None  # offset of the next page


@dataclass(frozen=True, kw_only=True)  # no slots: the SDK takes them for default values
class Sized:
    size: str
    why: str
    forecast: tuple[str, ...]  # of each tier
    basis: str


@dataclass(frozen=True, slots=True)
class ReadTools:
    served: Served

    def size(self, request: Request) -> Sized:
        """Size a request: its tier, workflow and cost. Starts nothing, asks no model."""
        from blueflame.orchestrator.triage import triage_request
        from blueflame.session.sizing.choose import SUGGEST
        from blueflame.views.triage import list_triage_facts

        sized = triage_request(self.served.open_trusted(), request, mode=SUGGEST)
        if sized is None:
            raise Refused("its size is not known: triage is off in the configuration")
        size, forecast = list_triage_facts(sized.triage)
        lines = tuple(forecast.text.splitlines())
        return Sized(size=size.text, why=clean_text(size.note), forecast=lines, basis=forecast.note)

    def sessions(self, offset: Offset = 0) -> dict[str, Any]:
        """List the sessions of this repository, newest first: state, tasks that landed, cost, request."""
        from blueflame.orchestrator.sessions import find_running_pid, load_session, open_journal
        from blueflame.views.sessions import build_session_row, build_sessions_json

        project = self.served.open()
        with open_journal(project) as journal:
            names, left = journal.list_ids(), journal.find_unfinished()
            at_work = left.id if left is not None and find_running_pid(project) is not None else ""
            shown = names[offset : offset + PAGE_ENTRIES]
            rows = [build_session_row(load_session(journal, each), running=each == at_work) for each in shown]
        return fit_json(build_sessions_json(rows)) | _find_next(offset, len(shown), len(names))

    def status(
        self,
        session: SessionName = None,
        since: Annotated[int | None, Field(ge=0, description="`cursor` of the status before.")] = None,
    ) -> Brief:
        """Where a session stands: state, tasks, cost, open gates, and what happened since the cursor."""
        from blueflame.orchestrator.sessions import find_running_pid, find_session, open_journal
        from blueflame.session.replay import replay
        from blueflame.views.brief import build_brief

        project = self.served.open()
        with open_journal(project) as journal:
            events = journal.read_events(find_session(journal, session))
        found = replay(events)
        new = [each for each in events if each.seq > (since or 0)]
        running = not found.ended and find_running_pid(project) is not None
        waiting = count_waiting_for_subagents(project, found) if running else 0
        return build_brief(found, new, since=since, running=running, for_subagents=waiting)

    def gates(self, session: SessionName = None) -> dict[str, Any]:
        """List the open gates: questions that only a person answers, with the command that answers each."""
        from blueflame.views.session import build_gates_json

        _project, found = self.served.load(session)
        waiting = [] if found.ended else list(found.open_gates.values())
        commands = {gate.id: format_answer_command(found.id, gate.id) for gate in waiting}
        return fit_json({"session": found.id, "gates": build_gates_json(waiting), "commands": commands})

    def show(
        self,
        item: Annotated[
            str | None, Field(description="plan, or a task, attempt, changeset or gate; left out: what waits.")
        ] = None,
        session: SessionName = None,
    ) -> dict[str, Any]:
        """Show a plan, task, attempt, changeset or gate: its contents, checks, verdicts and history."""
        from blueflame.views.items import build_item_json, find_item

        _project, found = self.served.load(session)
        return fit_json(drop_empty(build_item_json(found, find_item(found, item), now=SystemClock().now())))

    def diff(
        self,
        item: Annotated[str | None, Field(description="Changeset, task or attempt; left out: what waits.")] = None,
        session: SessionName = None,
        offset: Offset = 0,
    ) -> TextPage:
        """Show the diff of a changeset, task or attempt, page by page."""
        from blueflame.views.item_diff import build_diff_json
        from blueflame.views.items import find_item

        project, found = self.served.load(session)
        read = build_diff_json(project.repo, found, find_item(found, item))
        return _cut_page(found.id, str(read["id"]), clean_text(str(read["diff"])), offset)

    def cost(self, session: SessionName = None) -> dict[str, Any]:
        """Show what the agents of a session cost by role, task and model, against the estimate."""
        from blueflame.orchestrator.costs import read_costs
        from blueflame.orchestrator.sessions import find_session, open_journal
        from blueflame.session.accounts import forecast_cost
        from blueflame.views.cost import CostView, build_cost_json

        project = self.served.open()
        with open_journal(project) as journal:
            name = find_session(journal, session)
            events = journal.read_events(name)
        entries = read_costs(project, events, now=SystemClock().now())
        made = build_cost_json(CostView(entries=entries, session=name, foreseen=forecast_cost(events)))
        return fit_json({key: value for key, value in made.items() if key != "attempts"})

    def log(self, session: SessionName = None, offset: Offset = 0) -> TextPage:
        """Show every event of a session, one per line, page by page."""
        from blueflame.orchestrator.sessions import find_session, open_journal
        from blueflame.text.event_lines import format_log_lines

        with open_journal(self.served.open()) as journal:
            name = find_session(journal, session)
            events = journal.read_events(name)
        lines = format_log_lines(events[offset : offset + PAGE_LINES])
        following = _find_next(offset, len(lines), len(events))["next"]
        return TextPage(session=name, of="log", text="\n".join(lines), next=following)

    def knowledge(
        self,
        kind: Annotated[str | None, Field(description="Such as lesson or failure; left out: all.")] = None,
        offset: Offset = 0,
    ) -> dict[str, Any]:
        """List what earlier sessions taught: lessons, failures, results, summaries; newest first."""
        from blueflame.model.memory import RECORD_KIND_NAMES, RECORD_TYPES
        from blueflame.orchestrator.wiring import open_memory
        from blueflame.views.memory import build_records_json

        if kind is not None and kind not in RECORD_TYPES:
            raise UsageError(f"unknown kind {kind!r}: use one of {', '.join(RECORD_TYPES)}")
        project = self.served.open()
        memory = open_memory(project)
        records = [each for each in memory.list_records() if kind in (None, RECORD_KIND_NAMES[type(each)])]
        newest = sorted(records, key=lambda record: (record.origin.at, record.key), reverse=True)
        shown = newest[offset : offset + PAGE_ENTRIES]
        made = build_records_json(shown, memory.store.list_effects(), project.settings)
        return fit_json(made) | _find_next(offset, len(shown), len(newest))


def format_answer_command(session: str, gate: str) -> str:
    return f"blueflame answer {gate} CHOICE --session {session}"


def _find_next(offset: int, shown: int, known: int) -> dict[str, int | None]:
    return {"next": offset + shown if offset + shown < known else None}


def _cut_page(session: str, of: str, text: str, offset: int) -> TextPage:
    """Cut a page that ends with a whole line, where one ends."""
    end = min(offset + PAGE_CHARS, len(text))
    if end < len(text) and (line_end := text.rfind("\n", offset, end)) > offset:
        end = line_end + 1
    return TextPage(session=session, of=of, text=text[offset:end], next=end if end < len(text) else None)
