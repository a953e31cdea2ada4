"""The smaller references as Markdown: exit codes, gates, and what planners and validators answer with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from blueflame.model.exit_codes import EXIT_CODE_MEANINGS, EXIT_CODES_BY_OUTCOME
from blueflame.model.gate import FORMS, GateKind, Option
from blueflame.model.schemas import PLAN_SCHEMA, VERDICT_SCHEMA

MADE = "made from the code by `make docs-write`; do not edit by hand."


def build_exit_codes_reference() -> str:
    codes = [f"| {code.value} | `{code.name}` | {meaning} |" for code, meaning in EXIT_CODE_MEANINGS.items()]
    outcomes = [f"| `{outcome}` | {code.value} |" for outcome, code in EXIT_CODES_BY_OUTCOME.items()]
    return _join_page(
        "# Exit codes",
        "",
        f"How every command ends, {MADE}",
        "A number keeps its meaning; new meanings get new numbers.",
        "",
        "| code | name | meaning |",
        "|---|---|---|",
        *codes,
        "",
        "## How a session's outcome becomes an exit code",
        "",
        "| outcome | exit code |",
        "|---|---|",
        *outcomes,
        "| not ended (stopped cleanly) | 6 |",
        "| not ended, and git, the disk or the sandbox still fails | 4 |",
        "",
        "Whatever the outcome, it is 0 only if every task that was not dropped has landed.",
        "A session that was ended by a person after everything had landed is 0 as well.",
    )


def build_gates_reference() -> str:
    return _join_page(
        "# Gates",
        "",
        f"Every question that a session can ask, {MADE}",
        "A gate stays open until it is answered: at the terminal, with `blueflame answer` from another one,",
        "or by the entry of a [decisions file](../how-to/answer-without-a-person.md) under the kind's name.",
        "The first valid answer wins.",
        "The safe answer is what the prompt proposes; it is never taken without a person.",
        *(line for kind in GateKind for line in _format_gate(kind)),
    )


def _format_gate(kind: GateKind) -> Iterator[str]:
    yield from ("", f"## {kind.value}", "", FORMS[kind].when, "")
    yield from ("| choice | key | meaning | needs a note | in a decisions file |", "|---|---|---|---|---|")
    yield from (_format_choice(kind, option) for option in FORMS[kind].options)
    alone = "" if FORMS[kind].is_foreseen else " It is taken where a decisions file has no entry."
    yield from ("", f"Safe answer: `{FORMS[kind].safe}`.{alone}")


def _format_choice(kind: GateKind, option: Option) -> str:
    note = "yes" if option.needs_note else ""
    return f"| `{option.name}` | `{option.key}` | {option.label} | {note} | {_format_entry(kind, option)} |"


def _format_entry(kind: GateKind, option: Option) -> str:
    if option.name in ("edit", "split"):
        more = ", edit: FILE"
    elif kind is GateKind.BUDGET and option.name == "raise":
        more = ", limit: NUMBER"
    else:
        more = ", note: TEXT" if option.needs_note else ""
    return f"`{kind.value}: [{{choose: {option.name}{more}}}]`" if more else f"`{kind.value}: [{option.name}]`"


def build_plan_reference() -> str:
    task = PLAN_SCHEMA["properties"]["tasks"]["items"]
    return _join_page(
        "# Plans and verdicts",
        "",
        f"What planners and validators answer with, {MADE}",
        "A plan that a person writes has the same fields; see [write a plan by hand](../how-to/write-a-plan.md).",
        "",
        "## Plan",
        "",
        "One key, `tasks`: a list of",
        "",
        *_format_fields(task),
        "",
        "## Verdict",
        "",
        *_format_fields(VERDICT_SCHEMA),
        "",
        "Other keys are not part of either schema.",
    )


def _format_fields(schema: Mapping[str, Any]) -> Iterator[str]:
    yield from ("| field | type | needed | meaning |", "|---|---|---|---|")
    for name, field in schema["properties"].items():
        needed = "yes" if name in schema["required"] else ""
        yield f"| `{name}` | {_format_type(field)} | {needed} | {field.get('description', '')} |"


def _format_type(field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    if field["type"] == "array":
        return f"list of {field['items']['type']}s"
    return f"{field['type']} `{field['pattern']}`" if "pattern" in field else str(field["type"])


def _join_page(*lines: str) -> str:
    return "\n".join(lines) + "\n"
