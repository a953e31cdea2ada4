"""The tools of subagents of the client: take a task that waits for one, and hand in what was made (decision 0089)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from blueflame.lazy_dataclass import dataclass
from blueflame.mcp.act_tools import Reply
from blueflame.mcp.served import Served, list_live_folders
from blueflame.model.errors import Refused, UsageError

CHECKED_NEXT = "handed in: it is checked and reviewed now, and lands when a person approves it"
AttemptName = Annotated[str, Field(max_length=200, description="`attempt` of the task that was taken.")]


@dataclass(frozen=True, kw_only=True)  # no slots: the SDK takes them for default values
class Taken:
    attempt: str
    checkout: str
    prompt: str


@dataclass(frozen=True, slots=True)
class SubagentTools:
    served: Served

    def take(self) -> Taken:
        """For a subagent: take a task that waits for one. Returns its checkout, and what to do there."""
        from blueflame.agents.subagent import take_work
        from blueflame.orchestrator.sessions import find_running_pid

        project, found = self.served.load(None)
        if find_running_pid(project) is None:
            raise Refused("no session is running: start or resume one first")
        for name, folder in list_live_folders(project, found).items():
            work = take_work(folder, str(found.attempts[name].worktree))
            if work is not None:
                return Taken(attempt=name, checkout=work.checkout, prompt=work.prompt)
        raise Refused("no task waits for a subagent")

    def hand_in(
        self,
        attempt: AttemptName,
        summary: Annotated[str, Field(min_length=1, max_length=4_000, description="What was done, in a few lines.")],
    ) -> Reply:
        """For a subagent: hand in the commits of a task that it took. They are checked like those of any agent."""
        from blueflame.agents.subagent import hand_in_work

        project, found = self.served.load(None)
        folder = list_live_folders(project, found).get(attempt)
        if folder is None:
            raise UsageError(f"no attempt {attempt!r} is running in {found.id}: it has ended, or was never taken")
        hand_in_work(folder, summary)
        return Reply(session=found.id, reply=CHECKED_NEXT)
