"""A gate: a durable question to a person, with options and a safe default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from blueflame.lazy_dataclass import dataclass


class GateKind(StrEnum):
    PLAN = "plan"  # approve, edit, re-plan or quit
    CHANGESET = "changeset"  # approve, reject, skip
    SESSION = "session"  # continue, re-plan or stop
    VALIDATION = "validation"  # a verdict said fail: requeue, edit, drop
    VALIDATOR = "validator"  # the validator itself failed: accept after own review, retry, skip
    ESCALATION = "escalation"  # a task has no retry left: retry, reassign, abort
    BUDGET = "budget"  # the session's limit is reached, or the day's: raise or stop
    RATE_LIMIT = "rate_limit"  # the model is unavailable: wait, retry or stop
    ENVIRONMENT = "environment"  # what we have to do ourselves fails again and again: retry or stop
    DRIFT = "drift"  # the configuration changed during the session: use the new one, keep the old one, stop
    STALL = "stall"  # an agent is silent: wait or kill
    CLARIFICATION = "clarification"  # an agent asks: answer, or let it continue with its best guess
    OVERLAP = "overlap"  # two running agents change the same file: wait, split, reorder or ignore
    TASKS = "tasks"  # the tasks file was changed and cannot be used: read it again, keep the tasks, stop
    CURATION = "curation"  # an agent proposes changes of the knowledge files: approve or reject
    BASE = "base"  # the base branch is gone or was replaced: look again, use what is there, stop
    ASSIGNMENT = "assignment"  # all agents of a role are busy, and several tasks wait: wait or spawn an ad hoc agent
    RESUME = "resume"  # an unfinished session was found: resume or fresh
    STALE = "stale"  # checkouts of earlier sessions were found: clean or keep
    REQUEST = "request"  # of the house: a member, a feed or another source asks for work: start it or refuse it


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    label: str
    needs_note: bool = False
    letter: int = 0  # which one of its name is its key

    @property
    def key(self) -> str:
        return self.name[self.letter]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    id: str
    kind: GateKind
    subject: str  # a task id, a changeset id, the session: what the question is about
    title: str
    options: tuple[Option, ...]
    default: str  # the safe answer, never taken without a person or a decisions file
    group: str = ""  # cohesion group, when the subject belongs to one
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def find_option(self, name: str) -> Option | None:
        return next((option for option in self.options if option.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    choice: str
    note: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)  # edited tasks, a raised limit
    by: str = "terminal"

    @property
    def is_written_in_advance(self) -> bool:
        """Whether it is an entry of a decisions file, which knows nothing of what happened since."""
        return self.by.startswith("decisions:")


def build_gate_id(kind: GateKind, subject: str, times: int) -> str:
    """`stall-task-001`, and `stall-task-001-2` for the second of its kind about the same subject."""
    stem = kind.value if subject == kind.value else f"{kind.value}-{subject}"
    return stem if times == 1 else f"{stem}-{times}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateForm:
    """What all gates of a kind have in common."""

    when: str  # it is opened
    options: tuple[Option, ...]  # their keys differ: the first letters, or others of the name
    safe: str  # the answer that changes least
    is_foreseen: bool = True  # by a decisions file: a missing entry is an error. Otherwise the safe answer is taken


FORMS: Mapping[GateKind, GateForm] = {
    GateKind.PLAN: GateForm(
        when="A plan waits for approval, or the planner could not give one.",
        options=(
            Option("approve", "start the work"),
            Option("edit", "change the plan in your editor"),
            Option("replan", "ask the planner again, with your notes", needs_note=True),
            Option("single", "have one agent do all of it, without this plan"),
            Option("quit", "end the session without starting this work"),
        ),
        safe="quit",
    ),
    GateKind.CHANGESET: GateForm(
        when="A changeset is built on the newest base and each of its checks passes or was red before.",
        options=(
            Option("approve", "land it on the base branch"),
            Option("reject", "send its tasks back with your reason", needs_note=True),
            Option("skip", "keep it for the next cycle"),
        ),
        safe="skip",
    ),
    GateKind.SESSION: GateForm(
        when="A cycle is over and work is left.",
        options=(
            Option("continue", "start the next cycle"),
            Option("replan", "plan the rest again", needs_note=True),
            Option("stop", "end the session here"),
        ),
        safe="stop",
    ),
    GateKind.VALIDATION: GateForm(
        when="A check or a reviewer said that a result does not pass.",
        options=(
            Option("requeue", "send it back with the reviewer's notes"),
            Option("scratch", "send it back with the notes, but start again from the base"),
            Option("edit", "change the task, then send it back"),
            Option("drop", "take the task out of this session"),
        ),
        safe="requeue",
    ),
    GateKind.VALIDATOR: GateForm(
        when="The reviewer itself failed, and its retries are used up.",
        options=(
            Option("accept", "you have reviewed it yourself: it passes"),
            Option("retry", "have the task done again"),
            Option("skip", "fail the task"),
        ),
        safe="skip",
    ),
    GateKind.ESCALATION: GateForm(
        when="A task failed, and its retries, its ladder or `limits.max_attempts` are used up.",
        options=(
            Option("retry", "have it tried once more, with your note", needs_note=True),
            Option("reassign", "have another try it: role=NAME, model=NAME or runtime=NAME", needs_note=True, letter=1),
            Option("abort", "give it up: the task has failed"),
        ),
        safe="abort",
        is_foreseen=False,
    ),
    GateKind.BUDGET: GateForm(
        when="The session's limit is reached, or the day's, and more would have to be spent.",
        options=(
            Option("raise", "raise the limit to NUMBER and continue", needs_note=True),
            Option("stop", "stop here; the session can be resumed"),
        ),
        safe="stop",
    ),
    GateKind.RATE_LIMIT: GateForm(
        when="A model is unavailable, and `gates.on_rate_limit` is `ask` or waiting takes too long.",
        options=(
            Option("wait", "keep waiting; work continues when the model is available again"),
            Option("retry", "try again now"),
            Option("stop", "stop here; the session can be resumed"),
        ),
        safe="wait",
    ),
    GateKind.ENVIRONMENT: GateForm(
        when="Something that Blue Flame has to do itself (git, disk, sandbox) failed five times in a row.",
        options=(
            Option("retry", "try again now"),
            Option("stop", "stop here; the session can be resumed"),
        ),
        safe="stop",
        is_foreseen=False,
    ),
    GateKind.DRIFT: GateForm(
        when="The configuration on disk is no longer the one that the session runs with.",
        options=(
            Option("use", "continue with the changed configuration"),
            Option("keep", "continue with the configuration the session began with"),
            Option("stop", "stop here; the session can be resumed"),
        ),
        safe="stop",
    ),
    GateKind.STALL: GateForm(
        when="An agent has been silent for `limits.stall_timeout`, and `limits.on_stall` is `ask`.",
        options=(
            Option("wait", "let it work; asked again after another limits.stall_timeout of silence"),
            Option("kill", "end it; its task is tried again"),
        ),
        safe="wait",
    ),
    GateKind.CLARIFICATION: GateForm(
        when="An agent asks a question, and `gates.max_questions` allows it.",
        options=(
            Option("answer", "tell the agent; a number chooses one of its options", needs_note=True),
            Option("guess", "let it continue with its best guess; the changeset says so"),
        ),
        safe="guess",
        is_foreseen=False,
    ),
    GateKind.OVERLAP: GateForm(
        when="Two running agents change the same file, and `gates.on_overlap` is `ask`.",
        options=(
            Option("wait", "end the later one; it starts again from the other's result"),
            Option("split", "change the two tasks in your editor; a changed task starts again"),
            Option("reorder", "end the earlier one instead; it builds on the later"),
            Option("ignore", "let both continue; not asked again for these two"),
        ),
        safe="ignore",
    ),
    GateKind.TASKS: GateForm(
        when="You changed the exported tasks file, a new cycle begins, and the file cannot be used.",
        options=(
            Option("read", "read the changed file again, after you have fixed it"),
            Option("keep", "continue with the unchanged tasks"),
            Option("stop", "stop here; the session can be resumed"),
        ),
        safe="stop",
    ),
    GateKind.BASE: GateForm(
        when="The base branch was deleted, renamed or replaced by history without what the session has built on.",
        options=(
            Option("retry", "look again, after you have restored the branch"),
            Option("use", "go on from what is there; commits that the work was built on land with it"),
            Option("stop", "stop here; the session can be resumed"),
        ),
        safe="stop",
    ),
    GateKind.CURATION: GateForm(
        when="An agent proposes changes of the knowledge files (`blueflame memory curate --agent`).",
        options=(
            Option("approve", "change the knowledge files so"),
            Option("reject", "leave them as they are"),
        ),
        safe="reject",
    ),
    GateKind.ASSIGNMENT: GateForm(
        when="All agents of a role that the house has (`pool.roles`) are busy, `pool.max_queue_length` tasks wait "
        "before this one, and an ad hoc agent is possible. After `wait` it is not asked again about the role.",
        options=(
            Option("wait", "keep its place in the queue"),
            Option("spawn", "start an ad hoc agent for this task now"),
        ),
        safe="wait",
        is_foreseen=False,
    ),
    GateKind.RESUME: GateForm(
        when="A session that has not ended was found when a new one was asked for.",
        options=(
            Option("resume", "continue the unfinished session"),
            Option("fresh", "end it and start a new session"),
            Option("quit", "do nothing"),
        ),
        safe="quit",
    ),
    GateKind.STALE: GateForm(
        when="Checkouts of earlier sessions were found, and `cleanup.stale_worktrees` is `ask`.",
        options=(
            Option("clean", "remove them; commits are kept"),
            Option("keep", "leave them where they are"),
        ),
        safe="keep",
    ),
    GateKind.REQUEST: GateForm(
        when="A request reached the house from a sender who may not start work: a member, a feed, a plan file.",
        options=(
            Option("start", "queue it: a session works on it"),
            Option("refuse", "do not do it"),
        ),
        safe="refuse",
        is_foreseen=False,
    ),
}
"""All kinds of gates. Their questions are in session/gates/questions, their evidence in views/gates."""
