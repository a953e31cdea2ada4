"""The state of the house in a few lines: the replies to /status and /cost, and how long a request waits."""

from __future__ import annotations

from blueflame.chat.sessions import SessionReader
from blueflame.dispatch.state import replay_house
from blueflame.house.client import HouseClient
from blueflame.journal.house import HouseJournal
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import BlueFlameError
from blueflame.system.clock import SystemClock
from blueflame.text.format import format_count
from blueflame.text.sanitize import shorten_line
from blueflame.views.house import build_house_view, build_request_row, describe_state, format_day_cost

MAX_LINES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class HouseText:
    client: HouseClient
    journal: HouseJournal
    reader: SessionReader

    def describe(self, asked: str) -> str:
        return self.describe_cost() if asked == "cost" else self.describe_status()

    def describe_status(self) -> str:
        view = build_house_view(self.client, SystemClock().now())
        lines = []
        for row in view.repositories:
            queued = f", {row.queued} queued" if row.queued else ""
            lines.append(f"{row.name}: {row.state}{queued}{f'. {shorten_line(row.detail, 200)}' if row.detail else ''}")
            if row.session and row.state == "working":
                lines += [f"  {line}" for line in self._describe_session(row.name, row.session)]
        asked_for = [
            f"{row.record.repository}, {row.record.id}: {describe_state(row)}. "
            f"{shorten_line(row.record.request.text, 80)}"
            for row in view.requests
        ]
        gates = f"{format_count(len(view.gates), 'gate')} waiting: /gates" if view.gates else ""
        return "\n".join([*lines, *asked_for, *([gates] if gates else [])][:MAX_LINES]) or "No repository is served."

    def describe_cost(self) -> str:
        """What was spent today, and what the sessions cost that run."""
        view = build_house_view(self.client, SystemClock().now())
        running = [
            f"{row.name}: {line}"
            for row in view.repositories
            if row.session
            for line in self._describe_session(row.name, row.session)[-1:]
        ]
        return "\n".join([f"{format_day_cost(view.pool)}.", *(running or ["No session is running."])])

    def _describe_session(self, repository: str, session: str) -> list[str]:
        try:
            return self.reader.describe_session(repository, session).splitlines()[1:]
        except BlueFlameError as error:
            return [shorten_line(str(error), 200)]

    def describe_wait(self, request: str) -> str:
        """`1 ahead, about 15 min` of a queued request."""
        house = replay_house(self.journal.read_open_streams())
        record = house.requests.get(request)
        if record is None:
            return ""
        row = build_request_row(self.journal, house, record, SystemClock().now())
        return describe_state(row).partition(", ")[2]
