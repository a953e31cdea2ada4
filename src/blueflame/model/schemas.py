"""JSON schemas of what agents that size, plan, judge or curate must answer.

Only keywords that every provider's structured output supports; stricter rules are checked when the answer is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from blueflame.model.attempt import Duty
from blueflame.model.hand_off import WORDS

_TEXT: Mapping[str, Any] = {"type": "string"}
_TEXTS: Mapping[str, Any] = {"type": "array", "items": _TEXT}

PLAN_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "tasks": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "string", "pattern": r"^task-\d+$", "description": "task-001, task-002, ..."},
                    "title": {"type": "string", "description": "what is done, in a few words"},
                    "description": {"type": "string", "description": "what the worker must know; it sees nothing else"},
                    "priority": {"type": "integer", "description": "1 is the highest"},
                    "cohesion_group": {
                        "type": "string",
                        "description": "tasks of one group land together; left out: it lands alone",
                    },
                    "dependencies": {**_TEXTS, "description": "ids of the tasks whose results this one needs"},
                    "file_locks": {**_TEXTS, "description": "files and folders that only this task may change"},
                    "workflow": {"type": "string", "description": "another workflow for this task"},
                    "model": {"type": "string", "description": "another model for this task's worker"},
                    "validator_model": {"type": "string", "description": "another model for this task's validator"},
                    "estimate_minutes": {"type": "number", "description": "how long a worker will need"},
                },
                "required": ["id", "title", "description", "priority", "file_locks"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["tasks"],
    "additionalProperties": False,
}


def build_plan_schema(models: Sequence[str] | None, workflows: Sequence[str]) -> Mapping[str, Any]:
    """Build the schema of a plan that may choose only these models (None: any) and workflows for its tasks."""
    choices = {"workflow": workflows, **({} if models is None else {"model": models, "validator_model": models})}
    items = PLAN_SCHEMA["properties"]["tasks"]["items"]
    fields = {name: field for name, field in items["properties"].items() if choices.get(name, True)}
    fields |= {name: {**fields[name], "enum": list(known)} for name, known in choices.items() if known}
    tasks = {**PLAN_SCHEMA["properties"]["tasks"], "items": {**items, "properties": fields}}
    return {**PLAN_SCHEMA, "properties": {"tasks": tasks}}


_CONFIDENCE: Mapping[str, Any] = {"type": "number", "description": "0 (a guess) to 1 (certain)"}
_WORDS: Mapping[str, Any] = {name: {**_TEXTS, "description": meaning} for name, meaning in WORDS.items()}

HAND_OFF_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {**_WORDS, "confidence": _CONFIDENCE},
    "required": ["summary"],
    "additionalProperties": False,
}
"""What an agent that makes should end with. Its program does not enforce it: the commits count, not the words."""

RESOLUTION_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "status": {"type": "string", "enum": ["pass", "fail"]},
        "notes": {"type": "string", "description": "why, in a few sentences"},
        "issues": {**_TEXTS, "description": "each problem that must be fixed"},
        "confidence": _CONFIDENCE,
    },
    "required": ["status", "notes"],
    "additionalProperties": False,
}

SIZE_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "tier": {
            "type": "integer",
            "description": "1: an obvious change in one place; 2: work for one agent; 3: work for several agents",
        },
        "reason": {"type": "string", "description": "why, in one sentence"},
    },
    "required": ["tier", "reason"],
    "additionalProperties": False,
}

CURATION_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "changes": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "ids": {**_TEXTS, "description": "the entries that it replaces or drops, of one file"},
                    "text": {
                        "type": "string",
                        "description": "the words that replace them; left out: they are dropped",
                    },
                    "reason": {"type": "string", "description": "why, in one sentence"},
                },
                "required": ["ids", "reason"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["changes"],
    "additionalProperties": False,
}

VERDICT_SCHEMA: Mapping[str, Any] = {
    **RESOLUTION_SCHEMA,
    "properties": {
        **RESOLUTION_SCHEMA["properties"],
        "learnings": _WORDS["learnings"],
        "recommendations": _WORDS["recommendations"],
    },
}

OUTPUT_SCHEMAS: Mapping[Duty, Mapping[str, Any]] = {
    Duty.SIZE: SIZE_SCHEMA,
    Duty.PLAN: PLAN_SCHEMA,
    Duty.JUDGE: VERDICT_SCHEMA,
    Duty.MERGE: RESOLUTION_SCHEMA,
    Duty.CURATE: CURATION_SCHEMA,
}
"""The form of the final answer, by duty. A merger also commits."""
