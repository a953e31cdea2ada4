"""The tools that start, continue and stop sessions. None of them decides anything that a gate asks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from blueflame.lazy_dataclass import dataclass
from blueflame.mcp.read_tools import Request, SessionName
from blueflame.mcp.served import CALLER, Served, start_and_wait
from blueflame.model.errors import JournalError, Refused, UsageError

if TYPE_CHECKING:
    from blueflame.orchestrator.project import Project

STARTING = "it is still starting: look at sessions in a moment"
FOLLOW = "it runs: follow it with status"


@dataclass(frozen=True, kw_only=True)  # no slots: the SDK takes them for default values
class Started:
    session: str
    state: str


@dataclass(frozen=True, kw_only=True)  # no slots: the SDK takes them for default values
class Reply:
    session: str
    reply: str


@dataclass(frozen=True, slots=True)
class ActTools:
    served: Served

    def start(
        self,
        request: Request,
        tier: Annotated[
            int | None, Field(ge=1, le=3, description="1 obvious change, 2 one agent, 3 plan; left out: it is sized.")
        ] = None,
        plan_only: Annotated[bool, Field(description="Only plan it; resume starts the work.")] = False,
    ) -> Started:
        """Start a session for a request, in the background; a person approves what lands."""
        if request.strip() == "-":  # the command line reads it as standard input
            raise UsageError("no request: say what is to be done")
        if plan_only and tier is not None:
            raise UsageError("plan_only and tier contradict each other: a plan is tier 3; give one of them")
        project = self.served.open_trusted()
        size = () if tier is None else (f"--tier={tier}",)
        verb = "plan" if plan_only else "run"
        return self._start(project, verb, f"--task={request}", *size, "--quiet", find=_watch_for_new(project))

    def resume(self, session: SessionName = None) -> Started:
        """Continue an unfinished session in the background: running agents are adopted, nothing is done twice."""
        from blueflame.orchestrator.sessions import find_running_pid, find_session, open_journal

        project = self.served.open_trusted()
        with open_journal(project) as journal:
            left = journal.find_unfinished()
            name = find_session(journal, session) if session is not None or left is None else left.id
        if (pid := find_running_pid(project)) is not None:
            raise Refused(f"a session is running already (pid {pid}): follow it with status")
        return self._start(project, "resume", name, "--quiet", find=_watch_lock(project, name))

    def fix(
        self,
        work: Annotated[
            str, Field(pattern=r"^[\w][\w./-]*$", max_length=200, description="Task, changeset or landed commit.")
        ],
        wrong: Annotated[str, Field(min_length=1, max_length=20_000, description="What is wrong with it.")],
    ) -> Started:
        """Propose a fix of running or landed work: an urgent task in the running session, or a session of its own."""
        if wrong.strip() == "-":
            raise UsageError("what is wrong is not said: describe the fault")
        project = self.served.open_trusted()
        return self._start(project, "fix", "--quiet", "--", work, wrong, find=_watch_for_new(project))

    def stop(self) -> Reply:
        """Stop the running session; resume continues it."""
        from blueflame.journal.journal import REFUSED
        from blueflame.orchestrator.sessions import find_running_pid, find_session, open_journal, send_and_wait

        project = self.served.open()
        with open_journal(project) as journal:
            session = find_session(journal, None)
        if find_running_pid(project) is None:
            raise Refused(f"no session is running in {project.state.root}: nothing to stop")
        reply = send_and_wait(project, session, "stop", {"by": CALLER.get()})
        if reply.state == REFUSED:
            raise Refused(reply.reply)
        return Reply(session=session, reply=reply.reply or "it is stopping")

    def _start(self, project: Project, verb: str, *words: str, find: Callable[[int], str]) -> Started:
        found = start_and_wait(self.served, project, verb, *words, find_started=find)
        is_session = found.startswith("ses-") and " " not in found
        return Started(session=found if is_session else "", state=FOLLOW if is_session else found or STARTING)


def _watch_for_new(project: Project) -> Callable[[int], str]:
    """Build what finds the session that is opened from now on."""
    before = _list_ids(project)

    def find_new(_pid: int) -> str:
        with suppress(JournalError):  # it is just being made
            return next((each for each in _list_ids(project) if each not in before), "")
        return ""

    return find_new


def _watch_lock(project: Project, session: str) -> Callable[[int], str]:
    from blueflame.orchestrator.sessions import find_running_pid

    return lambda pid: session if find_running_pid(project) == pid else ""


def _list_ids(project: Project) -> tuple[str, ...]:
    from blueflame.orchestrator.sessions import open_journal

    if not project.state.journal.exists():
        return ()
    with open_journal(project) as journal:
        return journal.list_ids()
