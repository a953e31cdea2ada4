"""What becomes of a request that arrives: queued, asked about, or refused with a reason that the sender can act on."""

from __future__ import annotations

from collections.abc import Iterator

from blueflame.dispatch.state import BEGUN, House, RequestRecord
from blueflame.model.event import GateAnswered, GateOpened
from blueflame.model.gate import FORMS, Answer, Gate, GateKind, build_gate_id
from blueflame.model.house.arrival import TRUST_RANKS, IncomingAnswer, IncomingRequest, Trust
from blueflame.model.house.event import (
    HouseEvent,
    Refusal,
    RequestQueued,
    RequestReceived,
    RequestRefused,
    RequestState,
)
from blueflame.model.settings.house import HouseSettings
from blueflame.model.suggestions import suggest

APPROVE = "start"


def admit_request(
    house: House, name: str, request: IncomingRequest, settings: HouseSettings, *, recent: int
) -> tuple[HouseEvent, ...]:
    """Return the first events of a request. `recent`: how many requests of the sender came within an hour."""
    repository = find_repository(request, settings)
    refusal = find_refusal(house, request, repository, settings, recent=recent)
    received = RequestReceived(request=request, repository=repository)
    if refusal is not None:
        return received, refusal
    if request.sender.trust is Trust.OWNER:
        return received, RequestQueued()
    return received, GateOpened(gate=build_approval_gate(name, request, repository))


def find_repository(request: IncomingRequest, settings: HouseSettings) -> str:
    """The one that is named, or the only one; empty if it is unknown."""
    known = settings.repositories
    if not request.repository and len(known) == 1:
        return next(iter(known))
    return request.repository if request.repository in known else ""


def find_refusal(
    house: House, request: IncomingRequest, repository: str, settings: HouseSettings, *, recent: int
) -> RequestRefused | None:
    known = settings.repositories
    if not repository:
        return RequestRefused(why=Refusal.UNKNOWN_REPOSITORY, reason=_describe_unknown(request, tuple(known)))
    if not request.text.strip() and not request.plan.strip():
        return RequestRefused(why=Refusal.EMPTY, reason="no request: write what is to be done")
    same = find_duplicate(house, request, repository)
    if same is not None:
        reason = f"the same request is {same.state.value} already as {same.id}: wait for it, or cancel it first"
        return RequestRefused(why=Refusal.DUPLICATE, reason=reason)
    if recent >= settings.limits.requests_per_hour:
        reason = (
            f"{request.sender.name} has made {recent} requests within an hour, and limits.requests_per_hour is "
            f"{settings.limits.requests_per_hour}: ask again later"
        )
        return RequestRefused(why=Refusal.RATE, reason=reason)
    waiting = sum(each.state not in BEGUN for each in _list_before(house, request, repository))
    if waiting >= settings.limits.queue_length:
        reason = f"{waiting} requests wait for {repository}, as many as limits.queue_length allows: ask again later"
        return RequestRefused(why=Refusal.QUEUE_FULL, reason=reason)
    return None


def find_duplicate(house: House, request: IncomingRequest, repository: str) -> RequestRecord | None:
    """The open request that asks the same of the same repository."""
    wanted = _normalise(request)
    return next((each for each in _list_before(house, request, repository) if _normalise(each.request) == wanted), None)


def _list_before(house: House, request: IncomingRequest, repository: str) -> Iterator[RequestRecord]:
    """The open requests that may keep it out: not those that a less trusted sender asks for and no owner approved."""
    rank = TRUST_RANKS[request.sender.trust]
    for each in house.list_of(repository):
        if each.state is not RequestState.ASKED or TRUST_RANKS[each.request.sender.trust] >= rank:
            yield each


def _normalise(request: IncomingRequest) -> tuple[str, str, str]:
    return " ".join(request.text.split()), request.plan.strip(), request.workflow


def _describe_unknown(request: IncomingRequest, known: tuple[str, ...]) -> str:
    if not known:
        return "the house has no repository: add one under repositories in house.yaml"
    names = ", ".join(known)
    if not request.repository:
        return f"no repository is named, and there are several: name one of {names}, as in '{known[0]}: TEXT'"
    return f"unknown repository {request.repository!r}{suggest(request.repository, known, before='; ')}; known: {names}"


WRITTEN = {"feeds": "The feed ", "plans": "The plan file "}  # before the names of senders that are not people


def build_approval_gate(name: str, request: IncomingRequest, repository: str) -> Gate:
    form = FORMS[GateKind.REQUEST]
    who = f"{WRITTEN.get(request.source, '')}{request.sender.name}"
    return Gate(
        id=build_gate_id(GateKind.REQUEST, name, 1),
        kind=GateKind.REQUEST,
        subject=name,
        title=f"{who} asks for work in {repository}: start it?",
        options=form.options,
        default=form.safe,
        evidence={
            "request": request.text,
            "title": request.title,
            "repository": repository,
            "sender": request.sender.name,
            "address": request.sender.address,
            "trust": request.sender.trust.value,
            "origin": request.origin,
            "source": request.source,
            "matched": list(request.matched),
        },
    )


def find_house_answer_problem(record: RequestRecord | None, answer: IncomingAnswer) -> str:
    """Why an answer to a gate of the house is not accepted; empty if it is."""
    if record is None or record.gate is None or record.gate.id != answer.gate:
        return f"{answer.gate} is not open: it was answered, or its request was cancelled"
    option = record.gate.find_option(answer.choice)
    if option is None:
        known = ", ".join(each.name for each in record.gate.options)
        return f"{answer.choice!r} is not an answer to {answer.gate}; choose one of {known}"
    if option.needs_note and not answer.note.strip():
        return f"{answer.choice} needs a reason: give it as a note"
    return ""


def answer_approval(answer: IncomingAnswer) -> tuple[HouseEvent, ...]:
    """Return what follows from an accepted answer to the approval gate."""
    by = f"{answer.sender.name} ({answer.sender.address})"
    answered = GateAnswered(gate=answer.gate, answer=Answer(choice=answer.choice, note=answer.note, by=by))
    if answer.choice == APPROVE:
        return answered, RequestQueued(by=by)
    reason = f"{answer.sender.name} refused it{f': {answer.note}' if answer.note else ''}"
    return answered, RequestRefused(why=Refusal.NOT_APPROVED, reason=reason)


def find_gate_request(house: House, gate: str) -> RequestRecord | None:
    return next((each for each in house.requests.values() if each.gate is not None and each.gate.id == gate), None)
