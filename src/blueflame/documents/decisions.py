"""The decisions file: answers to gates, written in advance (docs/how-to/answer-without-a-person.md).

Which entries are used is read from the journal (`GateAnswered.by`), so a crash repeats none and skips none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from blueflame.documents.plans import read_plan
from blueflame.documents.yaml import KeyPath, YamlProblem, read_document
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import NoAnswer, PlanError, UsageError
from blueflame.model.gate import FORMS, Answer, Gate, GateKind, Option
from blueflame.model.suggestions import suggest
from blueflame.session.gates.edits import EDIT_CHOICES, build_edit_payload, find_edit_problems

UsedEntries = frozenset[tuple[str, int]]

_SIGNATURE = re.compile(r"decisions:(\w+)\[(\d+)\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionEntry:
    """One entry of the file. `index` counts from 0 within its kind."""

    kind: GateKind
    index: int
    choose: str
    note: str = ""
    subject: str = ""
    repeat: bool = False
    edit: Path | None = None
    limit: float | None = None  # the new limit, in the unit of the session's budget
    payload: Mapping[str, Any] = field(default_factory=dict)

    @property
    def signature(self) -> str:
        return f"decisions:{self.kind}[{self.index}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionsFile:
    path: Path
    entries: tuple[DecisionEntry, ...]

    def find_answer(self, gate: Gate, used: UsedEntries) -> Answer:
        """Return the first unused entry that fits; one that names the gate's subject takes precedence."""
        fitting = [e for e in self.entries if e.kind is gate.kind and (e.repeat or (e.kind, e.index) not in used)]
        names = _list_gate_names(gate)
        entry = next((e for e in fitting if e.subject in names), None)
        entry = entry or next((e for e in fitting if not e.subject), None)
        if entry is None and not FORMS[gate.kind].is_foreseen:
            return Answer(choice=FORMS[gate.kind].safe, by="default")
        if entry is None:
            raise NoAnswer(_format_exhausted(gate, self.path))
        if gate.find_option(entry.choose) is None:
            raise NoAnswer(_format_not_offered(gate, self.path, entry))
        payload = _build_payload(entry, gate, self.path)
        return Answer(choice=entry.choose, note=entry.note, payload=payload, by=entry.signature)


def find_used_entries(answers: Iterable[Answer]) -> UsedEntries:
    """Return the entries that gave one of these answers."""
    found = (_SIGNATURE.fullmatch(answer.by) for answer in answers)
    return frozenset((match[1], int(match[2])) for match in found if match is not None)


def _list_gate_names(gate: Gate) -> frozenset[str]:
    """Return the names by which an entry can select this gate: its id, subject, group and tasks."""
    tasks = gate.evidence.get("tasks", ())
    ids = [task for task in tasks if isinstance(task, str)] if isinstance(tasks, Sequence) else []
    return frozenset(name for name in (gate.id, gate.subject, gate.group, *ids) if name)


def _describe_gate(gate: Gate) -> str:
    options = ", ".join(option.name for option in gate.options)
    return f"gate {gate.id} ({gate.kind}, about {gate.subject}: {gate.title}), which offers {options}"


def _format_exhausted(gate: Gate, path: Path) -> str:
    return (
        f"the decisions in {path} ran out at {_describe_gate(gate)}.\n"
        f"  Add an entry under '{gate.kind}:', or answer it with 'blueflame answer {gate.id} CHOICE'; "
        "then run 'blueflame resume'."
    )


def _format_not_offered(gate: Gate, path: Path, entry: DecisionEntry) -> str:
    return (
        f"{path}: {entry.kind}[{entry.index}] chooses '{entry.choose}', which is not offered by "
        f"{_describe_gate(gate)}.\n"
        f"  Change the entry, or answer it with 'blueflame answer {gate.id} CHOICE'; then run 'blueflame resume'."
    )


def _build_payload(entry: DecisionEntry, gate: Gate, path: Path) -> Mapping[str, Any]:
    if entry.edit is not None:
        tasks = read_plan(entry.edit)
        if problems := find_edit_problems(gate, tasks):
            raise PlanError(
                f"{path}: {entry.kind}[{entry.index}]: {entry.edit} is no valid edit of {gate.id}:", problems
            )
        return {**entry.payload, **build_edit_payload(tasks)}
    return {**entry.payload, "limit": entry.limit} if entry.limit is not None else entry.payload


def load_decisions(path: Path) -> DecisionsFile:
    """Raises UsageError with every problem, each with its line."""
    try:
        document = read_document(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise UsageError(f"cannot read the decisions file {path}: {e.strerror}") from e
    except UnicodeDecodeError as e:
        raise UsageError(f"the decisions file {path} is not UTF-8 text (byte {e.start}); save it as UTF-8") from e
    reader = _DecisionsReader(path.parent, list(document.problems))
    entries = tuple(reader.read_file(document.data)) if document.data or not document.problems else ()
    if reader.problems:
        lines = [(problem.line or document.find_line(problem.path) or 1, problem.text) for problem in reader.problems]
        listed = "\n".join(f"  - {path.name}:{line}: {text}" for line, text in sorted(lines))
        raise UsageError(f"the decisions file {path} cannot be used:\n{listed}")
    return DecisionsFile(path=path, entries=entries)


_EntryText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class _RawEntry(BaseModel):
    """One entry of the file, before its values are compared with the gate's choices."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    choose: str
    note: _EntryText = ""
    reason: _EntryText = ""
    subject: _EntryText = ""
    edit: _EntryText = ""
    limit: float | None = Field(default=None, ge=0)
    repeat: bool = False
    payload: dict[str, Any] = Field(default_factory=dict)


_EXPECTED = {
    **dict.fromkeys(("note", "reason", "subject", "edit"), "a text that is not empty"),
    "limit": "a number, such as 25.50",
    "repeat": "true or false",
    "payload": "a mapping",
}


class _DecisionsReader:
    """Reads the whole file and collects every problem."""

    def __init__(self, folder: Path, problems: list[YamlProblem]) -> None:
        self.folder = folder
        self.problems = problems

    def read_file(self, data: object) -> Iterator[DecisionEntry]:
        if not isinstance(data, Mapping) or not data:
            self._report((), "expected lists of decisions by kind of gate, for example 'plan: [approve]'")
            return
        for name, items in data.items():
            if name not in set(GateKind):
                self._report((name,), f"unknown kind of gate {name!r}{_hint(name, [kind.value for kind in GateKind])}")
            elif not isinstance(items, list):
                self._report(
                    (name,), f"'{name}' must be a list, as in '{name}: [{FORMS[GateKind(name)].options[0].name}]'"
                )
            else:
                yield from self._read_kind(GateKind(name), items)

    def _read_kind(self, kind: GateKind, items: list[Any]) -> Iterator[DecisionEntry]:
        repeated = ""
        for index, item in enumerate(items):
            entry = self._read_entry(kind, index, item)
            if entry is None:
                continue
            if repeated and not entry.subject:
                text = f"{kind}[{index}] is never reached: {repeated} repeats and answers everything before it"
                self._report((kind, index), text)
            if entry.repeat and not entry.subject:
                repeated = f"{kind}[{index}]"
            yield entry

    def _read_entry(self, kind: GateKind, index: int, item: object) -> DecisionEntry | None:
        at, choices = f"{kind}[{index}]", [option.name for option in FORMS[kind].options]
        if not isinstance(item, str | Mapping):
            self._report((kind, index), f"{at} must be a choice or a mapping with 'choose', not {item!r}")
            return None
        try:
            raw = _RawEntry.model_validate({"choose": item} if isinstance(item, str) else item)
        except ValidationError as error:
            for details in error.errors(include_url=False):
                key = str(details["loc"][0])
                if details["type"] == "extra_forbidden":
                    text = f"unknown key {key!r}{_hint(key, list(_RawEntry.model_fields))}"
                elif key == "choose":
                    text = f"{at} needs 'choose', one of {', '.join(choices)}"
                else:
                    text = f"{at}: {key!r} must be {_EXPECTED[key]}, not {details['input']!r}"
                self._report((kind, index, key), text)
            return None
        name = raw.choose.strip().lower().replace("-", "")  # the prompt says re-plan, the option is replan
        option = next((option for option in FORMS[kind].options if option.name == name), None)
        if option is None:
            text = f"{at}: there is no choice {raw.choose!r}{_hint(raw.choose, choices)}"
            self._report((kind, index, "choose"), text)
            return None
        problems = list(self._check_note(kind, raw, option)) + list(self._check_edit(raw, option))
        for key, text in problems:
            self._report((kind, index, key), f"{at}: {text}")
        return None if problems else self._build_entry(kind, index, raw, option)

    def _build_entry(self, kind: GateKind, index: int, raw: _RawEntry, option: Option) -> DecisionEntry:
        return DecisionEntry(
            kind=kind,
            index=index,
            choose=option.name,
            note=raw.note or raw.reason,
            subject=raw.subject,
            repeat=raw.repeat,
            edit=(self.folder / raw.edit).resolve() if raw.edit else None,
            limit=raw.limit,
            payload=raw.payload,
        )

    def _check_note(self, kind: GateKind, raw: _RawEntry, option: Option) -> Iterator[tuple[str, str]]:
        raises = (kind, option.name) == (GateKind.BUDGET, "raise")
        if raw.note and raw.reason:
            yield "", "'note' and 'reason' mean the same; keep one of them"
        if raises and raw.limit is None:
            yield "", "'raise' needs 'limit', the new limit in the budget's unit (0 = none)"
        if option.needs_note and not raises and not (raw.note or raw.reason):
            yield "", f"{option.name!r} needs a 'note' that says why"
        if raw.limit is not None and not raises:
            yield "limit", "'limit' goes only with 'raise' at a budget gate"

    def _check_edit(self, raw: _RawEntry, option: Option) -> Iterator[tuple[str, str]]:
        if option.name not in EDIT_CHOICES:
            if raw.edit:
                yield "edit", "'edit: PATH' goes only with 'choose: edit' or 'choose: split'"
        elif not raw.edit:
            yield "", "needs 'edit: PATH', the changed tasks file"
        elif not (self.folder / raw.edit).is_file():
            yield "edit", f"there is no file {raw.edit!r} in {self.folder}"

    def _report(self, path: KeyPath, text: str) -> None:
        self.problems.append(YamlProblem(path, text))


def _hint(wrong: str, right: Sequence[str]) -> str:
    return suggest(wrong, right, before=", ") or f" (known: {', '.join(right)})"
