"""The tool that brings a gate to the person: the client asks in its own dialog, the model cannot answer.

No `from __future__ import annotations`: the SDK reads the annotations of the functions inside.
"""

from typing import TYPE_CHECKING, Annotated, Any

from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context, Elicit, Resolve
from pydantic import BaseModel, Field, create_model

from blueflame.lazy_dataclass import dataclass
from blueflame.mcp.clients import can_ask, explain_errors, format_person
from blueflame.mcp.read_tools import SessionName, format_answer_command
from blueflame.mcp.served import Served
from blueflame.model.errors import UsageError

if TYPE_CHECKING:
    from blueflame.model.gate import Gate
    from blueflame.session.state import Session

MAX_EVIDENCE_CHARS = 4_000
GateName = Annotated[str, Field(max_length=200, description="Id of an open gate: see gates.")]


@dataclass(frozen=True, kw_only=True)  # no slots: the SDK takes them for default values
class GateReply:
    answered: bool
    reply: str


class NoDialog(BaseModel):
    """The client has no dialog."""


class AnswerTools:
    def __init__(self, served: Served) -> None:
        def ask_person(gate: str, session: str | None, ctx: Context[Any, Any]) -> Elicit[Any] | NoDialog:
            with explain_errors():
                _project, found = served.load(session)
                asked = find_gate(found, gate)
            if not can_ask(ctx):
                return NoDialog()
            return Elicit(format_question(found, asked, served.draw_gate(found, asked)), build_form(asked))

        def answer(
            gate: GateName,
            given: Annotated[ElicitationResult[Any], Resolve(ask_person)],
            ctx: Context[Any, Any],
            session: SessionName = None,
        ) -> GateReply:
            """Ask the person to answer an open gate, in a dialog of the client. You cannot answer it yourself."""
            with explain_errors():
                if not isinstance(given, AcceptedElicitation):
                    reply = f"no answer ({given.action}): the gate stays open"
                    return GateReply(answered=False, reply=reply)
                if isinstance(given.data, NoDialog):
                    return _name_command(served, session, gate)
                return _send_answer(served, session, gate, given.data, by=format_person(ctx))

        self.answer = answer


def find_gate(session: "Session", name: str) -> "Gate":
    found = None if session.ended else session.open_gates.get(name)
    if found is None:
        waiting = ", ".join(session.open_gates) if not session.ended else ""
        raise UsageError(f"no gate {name!r} is open in {session.id}; open: {waiting or 'none'}")
    return found


def list_offered(gate: "Gate") -> tuple[str, ...]:
    """What a dialog can answer: tasks are edited in a file."""
    from blueflame.session.gates.edits import EDIT_CHOICES

    return tuple(option.name for option in gate.options if option.name not in EDIT_CHOICES)


def build_form(gate: "Gate") -> type[BaseModel]:
    choice = Field(description="Your decision", json_schema_extra={"enum": list(list_offered(gate))})
    note = Field(default="", max_length=4_000, description="Reason, or text of the answer; some choices need it.")
    return create_model("GateAnswer", choice=(str, choice), note=(str, note))


def format_question(session: "Session", gate: "Gate", evidence: str) -> str:
    """What the person reads before they decide. Dialogs may show two lines of it: first what matters most, and where
    the rest is; then the evidence, cut where it is long, and what each choice does."""
    from blueflame.model.gate import GateKind
    from blueflame.views.gates import summarize_gate

    summary = "; ".join(filter(None, (summarize_gate(session, gate), f"all of it: blueflame show {gate.id}")))
    does = [f"  {option.name}: {option.label}" for option in gate.options if option.name in list_offered(gate)]
    shown = evidence[:MAX_EVIDENCE_CHARS].rstrip()
    more = ["…"] if len(evidence) > MAX_EVIDENCE_CHARS else []
    title = f"Land {gate.title}?" if gate.kind is GateKind.CHANGESET else gate.title
    return "\n".join((title, summary, *does, "", shown, *more))


def _name_command(served: Served, session: str | None, gate: str) -> GateReply:
    _project, found = served.load(session)
    options = ", ".join(option.name for option in find_gate(found, gate).options)
    command = format_answer_command(found.id, gate)
    reply = f"this client cannot ask a person: they run `{command}` in a terminal, with one of {options}"
    return GateReply(answered=False, reply=reply)


def _send_answer(served: Served, session: str | None, gate: str, form: BaseModel, *, by: str) -> GateReply:
    from blueflame.journal.journal import REFUSED, WAITING
    from blueflame.model.gate import Answer
    from blueflame.orchestrator.sessions import send_and_wait
    from blueflame.session.gates.questions import answer_error

    project, found = served.load(session)
    given = form.model_dump()
    answer = Answer(choice=given["choice"], note=given["note"], by=by)
    if wrong := answer_error(found, gate, answer):
        return GateReply(answered=False, reply=wrong)
    body = {"gate": gate, "choice": answer.choice, "note": answer.note, "by": by}
    reply = send_and_wait(project, found.id, "answer", body)
    words = "kept: applied when the session is resumed" if reply.state == WAITING else reply.reply
    return GateReply(answered=reply.state != REFUSED, reply=words)
