"""Who a person gives a task to at its escalation gate: `role=backend`, `model=opus`, `runtime=codex`, then a note."""

from __future__ import annotations

from itertools import chain

from blueflame.model.gate import Answer
from blueflame.model.limits import Limits
from blueflame.model.suggestions import suggest
from blueflame.model.task import Assignment

KEYS = ("role", "model", "runtime")


def split_answer(answer: Answer) -> tuple[dict[str, str], str]:
    """Split an answer into whom it names and the note for the agent; a face can send the names as data."""
    named = {key: str(answer.payload[key]).strip() for key in KEYS if answer.payload.get(key)}
    words = answer.note.split()
    while words and (key := words[0].partition("=")[0]) in KEYS and "=" in words[0]:
        named[key] = words.pop(0).partition("=")[2].rstrip(",;")
    return named, " ".join(words) if len(words) < len(answer.note.split()) else answer.note


def list_known_runtimes(limits: Limits) -> tuple[str, ...]:
    """Return the runtimes that the session was started with: of its roles and of its ladder."""
    on_ladder = (rung.runtime for rung in limits.ladders if rung.runtime)
    return tuple(dict.fromkeys((*sorted(limits.role_runtimes.values()), *on_ladder)))


def find_assignment_problem(limits: Limits, answer: Answer) -> str:
    """Say why a task cannot be given to whom the answer names; empty when it can."""
    named, _note = split_answer(answer)
    if not any(named.values()):
        return "reassign needs whom: role=NAME, model=NAME or runtime=NAME, for instance --note 'model=opus'"
    runtimes = list_known_runtimes(limits)
    for key, known in (("role", limits.makers), ("runtime", runtimes)):
        if (name := named.get(key, "")) and name not in known:
            near = f"{suggest(name, known)} Use one of {', '.join(known)}".lstrip()
            return f"there is no {key} {name!r} in this session: {near}"
    return ""


def read_assignment(limits: Limits, answer: Answer) -> Assignment:
    """Read whom an answer names; a runtime without a model gets one that the session knows for it."""
    named, _note = split_answer(answer)
    runtime, model = named.get("runtime", ""), named.get("model", "")
    if runtime and not model and not named.get("role"):
        model = _find_model(limits, runtime)
    return Assignment(role=named.get("role", ""), model=model, runtime=runtime)


def _find_model(limits: Limits, runtime: str) -> str:
    on_ladder = (rung.model for rung in limits.ladders if rung.runtime == runtime and rung.model)
    of_roles = (limits.get_model(role) for role, name in limits.role_runtimes.items() if name == runtime)
    return next(chain(on_ladder, of_roles), "")
