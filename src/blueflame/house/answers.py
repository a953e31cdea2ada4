"""Answers to gates and commands about what runs: who may give them, and passing them on to sessions.

An answer to a session's gate goes into the inbox of its repository, once by its key, and the session decides: the
first valid one wins. One that comes too late is reported as such.
"""

from __future__ import annotations

from blueflame.dispatch.admission import answer_approval, find_gate_request, find_house_answer_problem
from blueflame.dispatch.people import find_answer_problem, find_sender
from blueflame.dispatch.session_watch import SessionWatch
from blueflame.dispatch.state import RequestRecord
from blueflame.house.core import HouseCore
from blueflame.house.repository import FAILURES, WatchedRepository
from blueflame.journal.house import Settlement, WaitingArrival
from blueflame.journal.journal import REFUSED, WAITING, Journal
from blueflame.model.house.arrival import IncomingAnswer, IncomingCommand, Sender, Trust
from blueflame.model.house.event import (
    HOUSE,
    AnswerSettled,
    CancelRequested,
    CommandSettled,
    HouseEvent,
    RequestCancelled,
    RequestState,
    StartIntended,
)
from blueflame.model.suggestions import suggest
from blueflame.orchestrator.sessions import send_to_inbox


class Answers:
    def __init__(self, core: HouseCore) -> None:
        self.core = core
        self._sent: dict[int, tuple[WaitingArrival, int]] = {}  # by arrival: the message in the session's inbox

    def take(self, waiting: WaitingArrival) -> None:
        arrival = waiting.arrival
        if isinstance(arrival, IncomingCommand):
            self._take_command(waiting, arrival)
        elif isinstance(arrival, IncomingAnswer) and arrival.repository:
            self._pass_on(waiting, arrival)
        elif isinstance(arrival, IncomingAnswer):
            self._take_house_answer(waiting, arrival)

    # --- gates of the house ---------------------------------------------------------------------------------------

    def _take_house_answer(self, waiting: WaitingArrival, answer: IncomingAnswer) -> None:
        record = find_gate_request(self.core.state, answer.gate)
        problem = find_house_answer_problem(record, answer)
        if not problem and record is not None and record.gate is not None:
            problem = find_answer_problem(self.core.people, answer.sender, record.gate.kind)
        if problem or record is None:
            self._settle_answer(waiting, answer, accepted=False, reply=problem)
            return
        self._settle_answer(
            waiting, answer, accepted=True, reply=f"{answer.gate}: {answer.choice}", also=answer_approval(answer)
        )

    def _settle_answer(
        self,
        waiting: WaitingArrival,
        answer: IncomingAnswer,
        *,
        accepted: bool,
        reply: str,
        also: tuple[HouseEvent, ...] = (),
    ) -> None:
        record = find_gate_request(self.core.state, answer.gate) if also else None
        settled = AnswerSettled(
            source=answer.source,
            key=answer.key,
            sender=answer.sender,
            repository=answer.repository,
            session=answer.session,
            gate=answer.gate,
            choice=answer.choice,
            accepted=accepted,
            reply=reply,
            reply_to=answer.reply_to,
        )
        stream = record.id if record is not None else HOUSE
        self.core.record(stream, *also, settled, settles=[Settlement(waiting.id, stream, reply, accepted)])

    # --- gates of sessions ----------------------------------------------------------------------------------------

    def _pass_on(self, waiting: WaitingArrival, answer: IncomingAnswer) -> None:
        repository = self.core.repositories.get(answer.repository)
        if repository is None:
            reply = f"unknown repository {answer.repository!r}{suggest(answer.repository, self.core.repositories)}"
            self._settle_answer(waiting, answer, accepted=False, reply=reply)
            return
        repository.look()  # the gate may have been opened since the last look
        watch = repository.watches.get(answer.session)
        known = watch.gates.get(answer.gate) if watch is not None else None
        if known is not None and (why := find_answer_problem(self.core.people, answer.sender, known[0].kind)):
            self._settle_answer(waiting, answer, accepted=False, reply=why)
            return
        try:
            with Journal.open_read_only(repository.project.state.journal) as journal:
                message = journal.find_message("answer", answer.key)
            if message is None and known is None:
                self._settle_answer(waiting, answer, accepted=False, reply=self._describe_late(watch, answer))
                return
            if message is None:
                body = {
                    "gate": answer.gate,
                    "choice": answer.choice,
                    "note": answer.note,
                    "by": f"{answer.sender.name} ({answer.sender.address})",
                    "key": answer.key,
                }
                message = send_to_inbox(repository.project, answer.session, "answer", body)
        except FAILURES as error:
            self._settle_answer(waiting, answer, accepted=False, reply=str(error))
            return
        self._sent[waiting.id] = (waiting, message)

    def _describe_late(self, watch: SessionWatch | None, answer: IncomingAnswer) -> str:
        earlier = watch.answers.get(answer.gate) if watch is not None else None
        if earlier is not None:
            return f"{answer.gate} was answered before by {earlier.by}: {earlier.choice}"
        return f"{answer.gate} is not open in {answer.session}: it was answered or withdrawn, or never opened"

    def settle_sent(self) -> None:
        """Record what sessions replied to the answers that were passed on."""
        for id, (waiting, message) in list(self._sent.items()):
            answer = waiting.arrival
            assert isinstance(answer, IncomingAnswer), "only answers are passed on"
            repository = self.core.repositories[answer.repository]
            try:
                with Journal.open_read_only(repository.project.state.journal) as journal:
                    reply = journal.read_reply(message)
            except FAILURES:
                continue  # the repository cannot be read now; that is shown
            watch = repository.watches.get(answer.session)
            if reply.state != WAITING:
                del self._sent[id]
                self._settle_answer(waiting, answer, accepted=reply.state != REFUSED, reply=reply.reply)
            elif watch is not None and watch.ended:
                del self._sent[id]
                reply_text = f"{answer.session} has ended ({watch.ended}): the answer came too late"
                self._settle_answer(waiting, answer, accepted=False, reply=reply_text)

    # --- commands -------------------------------------------------------------------------------------------------

    def _take_command(self, waiting: WaitingArrival, command: IncomingCommand) -> None:
        verbs = {"cancel": self._cancel, "stop": self._stop, "resume": self._resume}
        act = verbs.get(command.verb)
        if act is None:
            known = ", ".join(verbs)
            self._settle_command(waiting, command, problem=f"unknown command {command.verb!r}; known: {known}")
            return
        act(waiting, command)

    def _settle_command(
        self,
        waiting: WaitingArrival,
        command: IncomingCommand,
        *,
        problem: str = "",
        reply: str = "",
        stream: str = HOUSE,
        also: tuple[HouseEvent, ...] = (),
    ) -> None:
        settled = CommandSettled(
            source=command.source,
            key=command.key,
            sender=command.sender,
            verb=command.verb,
            subject=command.subject,
            accepted=not problem,
            reply=problem or reply,
            reply_to=command.reply_to,
        )
        self.core.record(
            stream, *also, settled, settles=[Settlement(waiting.id, stream, problem or reply, not problem)]
        )

    def _cancel(self, waiting: WaitingArrival, command: IncomingCommand) -> None:
        record = self.core.state.requests.get(command.subject)
        if record is None:
            problem = f"{command.subject or 'no request'} is not waiting or running: see 'blueflame requests'"
            self._settle_command(waiting, command, problem=problem)
        elif not self._may_cancel(command.sender, record.request.sender):
            problem = f"only an owner or the person who asked for it may cancel {record.id}"
            self._settle_command(waiting, command, problem=problem)
        else:
            by = f"{command.sender.name} ({command.sender.address})"
            event, reply = self._cancel_request(record, by)
            self._settle_command(waiting, command, reply=reply, stream=record.id, also=(event,))

    def _cancel_request(self, record: RequestRecord, by: str) -> tuple[HouseEvent, str]:
        """Where a session exists or may exist, it is stopped first."""
        repository = self.core.repositories.get(record.repository)
        if record.state in (RequestState.STARTING, RequestState.RUNNING) or (
            record.state is RequestState.QUEUED and repository is not None and repository.may_have_session_of(record.id)
        ):
            return CancelRequested(by=by), f"{record.id} is being stopped"
        return RequestCancelled(by=by), f"{record.id} is cancelled"

    def _may_cancel(self, person: Sender, asked: Sender) -> bool:
        """A member may cancel what they asked for, from whichever of their addresses."""
        if person.trust is Trust.OWNER or person.address == asked.address:
            return True
        found = find_sender(self.core.people, asked.address)
        return found is not None and found.name == person.name

    def _stop(self, waiting: WaitingArrival, command: IncomingCommand) -> None:
        """Stop the session of a repository, or of a request; it can be resumed."""
        record = self.core.state.requests.get(command.subject)
        repository = self.core.repositories.get(record.repository if record else command.subject)
        if command.sender.trust is not Trust.OWNER:
            self._settle_command(waiting, command, problem="only an owner may stop a session")
        elif repository is not None and repository.problem:
            self._settle_command(waiting, command, problem=repository.problem)
        elif repository is None or repository.pid is None or not repository.unfinished:
            problem = f"no session is running in {command.subject or 'the house'}: nothing to stop"
            self._settle_command(waiting, command, problem=problem)
        else:
            by = f"{command.sender.name} ({command.sender.address})"
            try:
                self.send_stop(repository, repository.unfinished, by, key=f"stop:{command.source}:{command.key}")
            except FAILURES as error:
                self._settle_command(waiting, command, problem=str(error))
                return
            reply = f"{repository.unfinished} is stopping; /resume or 'blueflame resume' continues it"
            self._settle_command(waiting, command, reply=reply)

    def _resume(self, waiting: WaitingArrival, command: IncomingCommand) -> None:
        """Continue the session of a repository that was stopped."""
        found = [each for each in self.core.state.list_of(command.subject) if each.state is RequestState.STOPPED]
        if command.sender.trust is not Trust.OWNER:
            self._settle_command(waiting, command, problem="only an owner may resume a session")
        elif not found:
            problem = f"no session is stopped in {command.subject or 'the house'}: nothing to resume"
            self._settle_command(waiting, command, problem=problem)
        else:
            record = found[0]
            repository = self.core.repositories.get(record.repository)
            after = repository.watch(record.session).seq if repository is not None else 0
            intended = StartIntended(resumes=record.session, after=after)
            reply = f"{record.session} goes on"
            self._settle_command(waiting, command, reply=reply, stream=record.id, also=(intended,))

    def send_stop(self, repository: WatchedRepository, session: str, by: str, *, key: str) -> None:
        """Ask a session to stop, once by the key."""
        with Journal.open_read_only(repository.project.state.journal) as journal:
            if journal.find_message("stop", key) is not None:
                return
        send_to_inbox(repository.project, session, "stop", {"by": by, "key": key})
