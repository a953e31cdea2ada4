"""Who may answer which gate, who is asked when, and what happens at a gate's deadline.

All of it follows from when the gate was opened and from the configuration: after a restart the same people are due.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from blueflame.dispatch.quiet_hours import add_waking_time, find_quiet_end
from blueflame.lazy_dataclass import dataclass
from blueflame.model.gate import Gate, GateKind
from blueflame.model.house.arrival import Sender, Trust
from blueflame.model.settings.chat import AskSettings, PersonSettings, QuietHours

People = Mapping[str, PersonSettings]  # by name

NO_ONE_ASKED = AskSettings()
HARMLESS: Mapping[GateKind, Collection[str]] = {
    GateKind.CHANGESET: ("skip",),
    GateKind.BUDGET: ("stop",),
    GateKind.RATE_LIMIT: ("wait",),
    GateKind.ENVIRONMENT: ("stop",),
    GateKind.DRIFT: ("stop",),
    GateKind.TASKS: ("stop",),
    GateKind.BASE: ("stop",),
    GateKind.STALL: ("wait",),
    GateKind.OVERLAP: ("ignore",),
    GateKind.ASSIGNMENT: ("wait",),
    GateKind.RESUME: ("quit",),
    GateKind.STALE: ("keep",),
}
"""Answers that land nothing, spend nothing and lose nothing: only these are taken unless a person chose another.

`stop` leaves a session that can be resumed. Not here: a plan that is dropped, a task that is given up, tried again or
failed, a session that is ended, and a question, which has a deadline of its own.
"""
URGENT_KINDS = frozenset({GateKind.BUDGET, GateKind.BASE})
"""Money and safety: asked in quiet hours too."""


DEADLINE = Sender(name="deadline", trust=Trust.OWNER, address="house:deadline")
"""Gives the answers that the configuration has for gates that no person answered in time."""


class Ask(NamedTuple):
    """A person is due to be asked, or reminded, at this moment."""

    at: float
    person: str
    is_reminder: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AskRules:
    """What the configuration says about asking people."""

    people: People
    asks: Mapping[GateKind, AskSettings]
    quiet_hours: Sequence[QuietHours] = ()

    def find_ask(self, kind: GateKind) -> AskSettings:
        return self.asks.get(kind, NO_ONE_ASKED)

    def find_quiet_hours(self, kind: GateKind) -> Sequence[QuietHours]:
        return () if kind in URGENT_KINDS else self.quiet_hours


def can_answer(person: PersonSettings, kind: GateKind) -> bool:
    if person.answers is None:
        return person.trust_level is Trust.OWNER
    return kind in person.answers


def find_answer_problem(people: People, sender: Sender, kind: GateKind) -> str:
    """Why this sender may not answer; empty if they may. Feeds, models and MCP clients are not people."""
    if sender == DEADLINE:
        return ""
    person = people.get(sender.name)
    if person is None or sender.trust is Trust.FEED:
        return f"{sender.name} is not one of the people in house.yaml: only they answer gates"
    if not can_answer(person, kind):
        may = ", ".join(name for name, each in people.items() if can_answer(each, kind)) or "no one: see house.yaml"
        return f"{sender.name} may not answer {kind.value} gates; {may} may"
    return ""


def find_sender(people: People, address: str) -> Sender | None:
    """Return the person behind `telegram:12345`, `terminal:alice` or `github:alice`; None for a stranger."""
    for name, person in people.items():
        known = {"terminal": person.terminal or name, "telegram": person.telegram}
        known |= {"github": person.github, "gitlab": person.gitlab}
        if address in [f"{kind}:{value}" for kind, value in known.items() if value is not None]:
            return Sender(name=name, trust=person.trust_level, address=address)
    return None


def is_announced(gate: Gate) -> bool:
    """Whether people are asked by a message: about an item of a feed only if it has a keyword. All gates are listed."""
    return gate.evidence.get("source") != "feeds" or bool(gate.evidence.get("matched"))


def list_asks(rules: AskRules, kind: GateKind, opened_at: float) -> Iterator[Ask]:
    """Yield who is asked about a gate as long as it is open, in order of time."""
    hours, ask = rules.find_quiet_hours(kind), rules.find_ask(kind)
    asked_at = find_quiet_end(hours, opened_at) or opened_at
    for group in _group_by_order(rules.people, kind):
        yield from (Ask(asked_at, name, False) for name in group)
        if not ask.remind:
            return
        reminded_at = add_waking_time(hours, asked_at, ask.remind)
        yield from (Ask(reminded_at, name, True) for name in group)
        if not ask.next:
            return
        asked_at = add_waking_time(hours, reminded_at, ask.next)


def _group_by_order(people: People, kind: GateKind) -> list[list[str]]:
    able = sorted((each.order, name) for name, each in people.items() if can_answer(each, kind))
    orders = sorted({order for order, _ in able})
    return [[name for found, name in able if found == order] for order in orders]


def find_deadline(rules: AskRules, gate: Gate, opened_at: float) -> float | None:
    """Return when the default is taken; None if the gate waits for a person without limit."""
    ask = rules.find_ask(gate.kind)
    if not ask.deadline or find_default(rules, gate) is None:
        return None
    return add_waking_time(rules.find_quiet_hours(gate.kind), opened_at, ask.deadline)


def find_default(rules: AskRules, gate: Gate) -> str | None:
    """Return the answer that is taken at the deadline: one that a person chose, or a harmless safe one."""
    chosen = rules.find_ask(gate.kind).default
    if chosen is None:
        return gate.default if gate.default in HARMLESS.get(gate.kind, ()) else None
    return chosen if gate.find_option(chosen) is not None else None
