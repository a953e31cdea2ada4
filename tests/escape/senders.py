"""Attacks by who asks and how often: false names, floods of the queue, and what a request may not bring along."""

from __future__ import annotations

from pathlib import Path

from blueflame.dispatch.admission import admit_request
from blueflame.dispatch.checklists import build_plan, parse_plan_document
from blueflame.dispatch.feeds import FeedState, record_success
from blueflame.dispatch.people import find_answer_problem, find_sender
from blueflame.dispatch.state import House
from blueflame.dispatch.webhooks import read_call
from blueflame.documents.plans import format_plan, read_plan
from blueflame.model.event import GateOpened
from blueflame.model.gate import GateKind
from blueflame.model.house.arrival import IncomingRequest, Sender, Trust
from blueflame.model.house.event import HouseEntry, HouseEvent, RequestRefused
from blueflame.testing.clock import FakeClock
from escape.arrivals import HOUSE, RULES, deliver
from support.house_requests import ALICE, BOB, NEWS, build_request
from support.intakes import build_source_context
from support.webhook_calls import build_github_comment, build_github_issue


def _admit(house: House, text: str, sender: Sender, *, recent: int = 0) -> HouseEvent:
    name = f"req-{len(house.requests)}"
    events = admit_request(house, name, build_request(text, sender=sender, repository="app"), HOUSE, recent=recent)
    for n, event in enumerate(events):
        house.apply(HouseEntry(n=n, stream=name, at=0.0, event=event))
    return events[-1]


def _describe(last: HouseEvent) -> str:
    if isinstance(last, RequestRefused):
        return f"refused: {last.reason}"
    return "an owner is asked" if isinstance(last, GateOpened) else "the owner's request is queued"


def _fill_queue(_folder: Path) -> str:
    house = House()
    while not isinstance(_admit(house, f"item {len(house.requests)}", NEWS), RequestRefused):
        pass
    return _describe(_admit(house, "Tidy up", ALICE))


def _ask_first(_folder: Path) -> str:
    house = House()
    _admit(house, "Tidy up", BOB)
    return _describe(_admit(house, "Tidy up", ALICE))


def _flood(_folder: Path) -> str:
    return _describe(_admit(House(), "one more", NEWS, recent=30))


def _ask_by_comment(login: str, association: str = "NONE") -> IncomingRequest:
    people = build_source_context(FakeClock()).identify
    request = read_call(RULES, build_github_comment("/blueflame x", login, association), people, 0.0)
    assert request is not None
    return request


def _find_namesake(_folder: Path) -> str:
    """alice is a person of house.yaml, whose name at GitHub is not given there."""
    call = build_github_comment("/blueflame x", "alice")
    request = read_call(RULES, call, lambda address: find_sender(HOUSE.people, address), 0.0)
    assert request is not None
    return _describe(_admit(House(), request.text, request.sender))


def _label_for_owner(_folder: Path) -> str:
    call = build_github_issue("alice", sender={"login": "bob", "type": "User"})
    request = read_call(RULES, call, build_source_context(FakeClock()).identify, 0.0)
    assert request is not None
    return _describe(_admit(House(), request.text, request.sender))


def _answer_as_model(_folder: Path) -> str:
    """A model that calls itself as an owner does, from an address that is no person's."""
    client = Sender(name="alice", trust=Trust.FEED, address="mcp:alice")
    return find_answer_problem(HOUSE.people, client, GateKind.CHANGESET)


PATHS = "- [ ] x\n  files: ../../etc/passwd /etc/shadow ~/.ssh src/../../x\n"
TASKS = "- [ ] a: b\n  - id: task-666\n    file_locks: ['/']\n  ---\n  tasks: [{id: x}]\n"


def _claim_paths(_folder: Path) -> str:
    (task,) = build_plan(parse_plan_document(PATHS), "x.md", ("src/**",))
    return f"its agent may write {', '.join(task.file_locks)} only"


def _add_tasks(folder: Path) -> str:
    path = folder / "plan.yaml"
    path.write_text(format_plan(build_plan(parse_plan_document(TASKS), "x.md", ("src/**",))))
    tasks = read_plan(path)
    assert [task.file_locks for task in tasks] == [("src/**",)]
    return f"{len(tasks)} task"


def _send_headers(_folder: Path) -> str:
    """What a server calls the version of a feed is sent back to it, or to where it is moved."""
    headers = {"etag": "a\r\nAuthorization: x", "last-modified": "a\nb"}
    state = record_success(FeedState(), headers, "", 0.0)
    return f"sent back: {state.etag + state.modified or 'nothing'}"


ASKED, QUEUED = "an owner is asked", "the owner's request is queued"
SENDERS = (
    deliver("queue-feed", "a feed fills the queue of a repository", QUEUED, _fill_queue),
    deliver("queue-first", "a member asks first for what an owner is about to ask for", QUEUED, _ask_first),
    deliver("queue-flood", "a feed with more items than a person can decide about", "limits.requests_per_hour", _flood),
    deliver("name-owner", "a stranger whose name at GitHub is that of an owner here", ASKED, _find_namesake),
    deliver(
        "name-homoglyph",
        "a stranger with a name that looks like that of an owner",
        "feed",
        lambda _folder: _ask_by_comment("\u0430lice").sender.trust.value,
    ),
    deliver(
        "name-forge-owner",
        "the owner of a project at GitHub who is no person of house.yaml",
        "member",
        lambda _folder: _ask_by_comment("carol", "OWNER").sender.trust.value,
    ),
    deliver("name-label", "a member labels an issue of an owner", ASKED, _label_for_owner),
    deliver("name-model", "a model answers a gate as an owner", "only they answer gates", _answer_as_model),
    deliver("plan-paths", "an item of a plan names files outside", "may write src/** only", _claim_paths),
    deliver("plan-tasks", "an item of a plan is written as YAML with more tasks", "1 task", _add_tasks),
    deliver("feed-headers", "a server of feeds adds headers to our next request", "sent back: nothing", _send_headers),
)
