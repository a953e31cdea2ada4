"""A gate: a durable question to a person, with options and a safe default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


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
    BASE = "base"  # the base branch is gone or was replaced: look again, use what is there, stop
    RESUME = "resume"  # an unfinished session was found: resume or fresh
    STALE = "stale"  # checkouts of earlier sessions were found: clean or keep


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


def build_gate_id(kind: GateKind, subject: str, times: int) -> str:
    """`stall-task-001`, and `stall-task-001-2` for the second of its kind about the same subject."""
    stem = kind.value if subject == kind.value else f"{kind.value}-{subject}"
    return stem if times == 1 else f"{stem}-{times}"


OPTIONS: Mapping[GateKind, tuple[Option, ...]] = {
    GateKind.PLAN: (
        Option("approve", "start the work"),
        Option("edit", "change the plan in your editor"),
        Option("replan", "ask the planner again, with your notes", needs_note=True),
        Option("single", "have one agent do all of it, without this plan"),
        Option("quit", "end the session without starting this work"),
    ),
    GateKind.CHANGESET: (
        Option("approve", "land it on the base branch"),
        Option("reject", "send its tasks back with your reason", needs_note=True),
        Option("skip", "keep it for the next cycle"),
    ),
    GateKind.SESSION: (
        Option("continue", "start the next cycle"),
        Option("replan", "plan the rest again", needs_note=True),
        Option("stop", "end the session here"),
    ),
    GateKind.VALIDATION: (
        Option("requeue", "send it back with the reviewer's notes"),
        Option("scratch", "send it back with the notes, but start again from the base"),
        Option("edit", "change the task, then send it back"),
        Option("drop", "take the task out of this session"),
    ),
    GateKind.VALIDATOR: (
        Option("accept", "you have reviewed it yourself: it passes"),
        Option("retry", "have the task done again"),
        Option("skip", "fail the task"),
    ),
    GateKind.ESCALATION: (
        Option("retry", "have it tried once more, with your note", needs_note=True),
        Option("reassign", "have another try it: role=NAME, model=NAME or runtime=NAME", needs_note=True, letter=1),
        Option("abort", "give it up: the task has failed"),
    ),
    GateKind.BUDGET: (
        Option("raise", "raise the limit and continue", needs_note=True),
        Option("stop", "stop here; the session can be resumed"),
    ),
    GateKind.RATE_LIMIT: (
        Option("wait", "keep waiting; work continues when the model is available again"),
        Option("retry", "try again now"),
        Option("stop", "stop here; the session can be resumed"),
    ),
    GateKind.ENVIRONMENT: (
        Option("retry", "try again now"),
        Option("stop", "stop here; the session can be resumed"),
    ),
    GateKind.DRIFT: (
        Option("use", "continue with the changed configuration"),
        Option("keep", "continue with the configuration the session began with"),
        Option("stop", "stop here; the session can be resumed"),
    ),
    GateKind.STALL: (
        Option("wait", "let it work; asked again after another limits.stall_timeout of silence"),
        Option("kill", "end it; its task is tried again"),
    ),
    GateKind.CLARIFICATION: (
        Option("answer", "tell the agent; a number chooses one of its options", needs_note=True),
        Option("guess", "let it continue with its best guess; the changeset says so"),
    ),
    GateKind.OVERLAP: (
        Option("wait", "end the later one; it starts again from the other's result"),
        Option("split", "change the two tasks in your editor; a changed task starts again"),
        Option("reorder", "end the earlier one instead; it builds on the later"),
        Option("ignore", "let both continue; not asked again for these two"),
    ),
    GateKind.TASKS: (
        Option("read", "read the changed file again, after you have fixed it"),
        Option("keep", "continue with the unchanged tasks"),
        Option("stop", "stop here; the session can be resumed"),
    ),
    GateKind.BASE: (
        Option("retry", "look again, after you have restored the branch"),
        Option("use", "go on from what is there; commits that the work was built on land with it"),
        Option("stop", "stop here; the session can be resumed"),
    ),
    GateKind.RESUME: (
        Option("resume", "continue the unfinished session"),
        Option("fresh", "end it and start a new session"),
        Option("quit", "do nothing"),
    ),
    GateKind.STALE: (
        Option("clean", "remove them; commits are kept"),
        Option("keep", "leave them where they are"),
    ),
}
"""All gates with their options. Keys are the first letters, or others of the name: they differ within a gate."""

WHEN_OPENED: Mapping[GateKind, str] = {
    GateKind.PLAN: "A plan waits for approval, or the planner could not give one.",
    GateKind.CHANGESET: "A changeset is built on the newest base and each of its checks passes or was red before.",
    GateKind.SESSION: "A cycle is over and work is left.",
    GateKind.VALIDATION: "A check or a reviewer said that a result does not pass.",
    GateKind.VALIDATOR: "The reviewer itself failed, and its retries are used up.",
    GateKind.ESCALATION: "A task failed, and its retries, its ladder or `limits.max_attempts` are used up.",
    GateKind.BUDGET: "The session's limit is reached, or the day's, and more would have to be spent.",
    GateKind.RATE_LIMIT: "A model is unavailable, and `gates.on_rate_limit` is `ask` or waiting takes too long.",
    GateKind.ENVIRONMENT: "Something that Blue Flame has to do itself (git, disk, sandbox) failed five times in a row.",
    GateKind.DRIFT: "The configuration on disk is no longer the one that the session runs with.",
    GateKind.STALL: "An agent has been silent for `limits.stall_timeout`, and `limits.on_stall` is `ask`.",
    GateKind.CLARIFICATION: "An agent asks a question, and `gates.max_questions` allows it.",
    GateKind.OVERLAP: "Two running agents change the same file, and `gates.on_overlap` is `ask`.",
    GateKind.TASKS: "You changed the exported tasks file, a new cycle begins, and the file cannot be used.",
    GateKind.BASE: "The base branch was deleted, renamed or replaced by history without what the session has built on.",
    GateKind.RESUME: "A session that has not ended was found when a new one was asked for.",
    GateKind.STALE: "Checkouts of earlier sessions were found, and `cleanup.stale_worktrees` is `ask`.",
}
"""When each gate is opened. Its question is in session/gates/questions, its evidence in views/gates."""
