"""Sessions, changesets and reports in full, for clients that read resources."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from blueflame.lazy_dataclass import dataclass
from blueflame.mcp.read_tools import ReadTools
from blueflame.mcp.served import Served
from blueflame.model.errors import UsageError
from blueflame.system.clock import SystemClock

MAX_DIFF_CHARS = 100_000


@dataclass(frozen=True, slots=True)
class SessionResources:
    served: Served

    @property
    def addresses(self) -> Mapping[str, Callable[..., str]]:
        return {
            "blueflame://sessions": self.read_sessions,
            "blueflame://sessions/{session}": self.read_session,
            "blueflame://sessions/{session}/changesets/{changeset}": self.read_changeset,
            "blueflame://sessions/{session}/report": self.read_report,
        }

    def read_sessions(self) -> str:
        """The newest sessions of this repository."""
        return _format(ReadTools(self.served).sessions())

    def read_session(self, session: str) -> str:
        """A session: tasks, attempts, changesets, gates and costs."""
        from blueflame.views.session import build_session_json

        _project, found = self.served.load(session)
        return _format(build_session_json(found, now=SystemClock().now()))

    def read_changeset(self, session: str, changeset: str) -> str:
        """A changeset: what it contains, its checks and its diff."""
        from blueflame.views.item_diff import build_diff_json
        from blueflame.views.items import CHANGESET, build_item_json, find_item

        project, found = self.served.load(session)
        item = find_item(found, changeset)
        if item.kind != CHANGESET:
            raise UsageError(f"{changeset!r} is no changeset of {found.id}, but a {item.kind}")
        shown = build_item_json(found, item, now=SystemClock().now())
        diff = str(build_diff_json(project.repo, found, item)["diff"])
        return _format(shown | {"diff": diff[:MAX_DIFF_CHARS], "diff_cut": len(diff) > MAX_DIFF_CHARS})

    def read_report(self, session: str) -> str:
        """The report of a session: time, tasks, costs, decisions, failures."""
        from blueflame.report.as_json import build_report_json
        from blueflame.report.read import read_report

        made, evidence = read_report(self.served.open(), session, now=SystemClock().now())
        return _format(build_report_json(made, evidence))


def _format(data: object) -> str:
    return json.dumps(data, indent=1)  # in ASCII: nothing in it reaches a terminal raw
