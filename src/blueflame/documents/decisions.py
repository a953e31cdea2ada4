"""The decisions file: answers that a person wrote before the questions came (docs/how-to/answer-without-a-person.md).

Which entries are used up is read from the journal (`GateAnswered.by`), so that a crash repeats none and skips none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from blueflame.documents.plans import read_plan
from blueflame.model.errors import NoAnswer, PlanError, UsageError
from blueflame.model.event import GateAnswered, JournalEntry
from blueflame.model.gate import OPTIONS, Answer, Gate, GateKind, Option
from blueflame.model.suggestions import suggest
from blueflame.session.gates.edits import EDIT_CHOICES, build_edit_payload, find_edit_problems

UsedEntries = frozenset[tuple[str, int]]

ENTRY_KEYS = ("choose", "note", "reason", "subject", "edit", "limit", "payload", "repeat")
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
        """The first unused entry that fits; one that names the gate's subject goes before one that names none."""
        fitting = [e for e in self.entries if e.kind is gate.kind and (e.repeat or (e.kind, e.index) not in used)]
        names = _list_gate_names(gate)
        entry = next((e for e in fitting if e.subject in names), None)
        entry = entry or next((e for e in fitting if not e.subject), None)
        if entry is None:
            raise NoAnswer(_format_exhausted(gate, self.path))
        if gate.find_option(entry.choose) is None:
            raise NoAnswer(_format_not_offered(gate, self.path, entry))
        payload = _build_payload(entry, gate, self.path)
        return Answer(choice=entry.choose, note=entry.note, payload=payload, by=entry.signature)


def find_used_entries(answers: Iterable[Answer | GateAnswered | JournalEntry]) -> UsedEntries:
    """The entries that the journal shows as used."""
    return frozenset(
        (match[1], int(match[2]))
        for answer in _iter_answers(answers)
        if (match := _SIGNATURE.fullmatch(answer.by)) is not None
    )


def _iter_answers(found: Iterable[Answer | GateAnswered | JournalEntry]) -> Iterator[Answer]:
    for item in found:
        fact = item.event if isinstance(item, JournalEntry) else item
        if isinstance(fact, GateAnswered):
            yield fact.answer
        elif isinstance(fact, Answer):
            yield fact


def _list_gate_names(gate: Gate) -> frozenset[str]:
    """All by which a decision may mean this gate: its id, its subject, its group, the tasks it is about."""
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
        "then 'blueflame resume' goes on."
    )


def _format_not_offered(gate: Gate, path: Path, entry: DecisionEntry) -> str:
    return (
        f"{path}: {entry.kind}[{entry.index}] says '{entry.choose}', but that is not open at {_describe_gate(gate)}.\n"
        f"  Change the entry, or answer it with 'blueflame answer {gate.id} CHOICE'; then 'blueflame resume' goes on."
    )


def _build_payload(entry: DecisionEntry, gate: Gate, path: Path) -> Mapping[str, Any]:
    if entry.edit is not None:
        tasks = read_plan(entry.edit)
        if problems := find_edit_problems(gate, tasks):
            raise PlanError(f"{path}: {entry.kind}[{entry.index}]: {entry.edit} is no edit for {gate.id}:", problems)
        return {**entry.payload, **build_edit_payload(tasks)}
    return {**entry.payload, "limit": entry.limit} if entry.limit is not None else entry.payload


def load_decisions(path: Path) -> DecisionsFile:
    """Read and check the whole file; every problem is named with its line."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        found = YAML().load(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise UsageError(f"cannot read the decisions file {path}: {e.strerror}") from e
    except UnicodeDecodeError as e:
        raise UsageError(f"the decisions file {path} is not UTF-8 text (byte {e.start}); save it as UTF-8") from e
    except YAMLError as e:
        where = f"{path}:{e.problem_mark.line + 1}" if isinstance(e, MarkedYAMLError) and e.problem_mark else str(path)
        raise UsageError(f"{where}: not YAML: {getattr(e, 'problem', None) or e}") from e
    reader = _DecisionsReader(path)
    entries = tuple(reader.read(found))
    if reader.problems:
        listed = "\n".join(f"  - {problem}" for problem in reader.problems)
        raise UsageError(f"the decisions file {path} cannot be used:\n{listed}")
    return DecisionsFile(path=path, entries=entries)


@dataclass(frozen=True, slots=True)
class _RawEntry:
    """One entry as it was found, and where."""

    kind: GateKind
    index: int
    found: Mapping[str, Any]
    line: int

    @property
    def at(self) -> str:
        return f"{self.kind}[{self.index}]"

    @property
    def choices(self) -> list[str]:
        return [option.name for option in OPTIONS[self.kind]]

    def line_of(self, key: str) -> int:
        return _line_of_key(self.found, key, self.line)


class _DecisionsReader:
    """Goes through the file once and collects every problem on the way."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[str] = []

    def wrong(self, line: int, message: str) -> None:
        self.problems.append(f"{self.path.name}:{line + 1}: {message}")

    def read(self, found: object) -> Iterator[DecisionEntry]:
        if not isinstance(found, Mapping) or not found:
            self.wrong(0, "expected lists of decisions by kind of gate, for example 'plan: [approve]'")
            return
        for name in found:
            line = _line_of_key(found, name)
            if name not in set(GateKind):
                self.wrong(line, f"unknown kind of gate {name!r}{_hint(str(name), [kind.value for kind in GateKind])}")
            elif not isinstance(found[name], list):
                self.wrong(line, f"'{name}' must be a list, as in '{name}: [{OPTIONS[GateKind(name)][0].name}]'")
            else:
                yield from self.read_kind(GateKind(name), found[name])

    def read_kind(self, kind: GateKind, items: list[Any]) -> Iterator[DecisionEntry]:
        closed = ""
        for index, item in enumerate(items):
            line = _line_of_item(items, index)
            decision = self.read_entry(kind, index, item, line)
            if decision is None:
                continue
            if closed and not decision.subject:
                self.wrong(line, f"{kind}[{index}] is never reached: {closed} repeats and answers everything before it")
            if decision.repeat and not decision.subject:
                closed = f"{kind}[{index}]"
            yield decision

    def read_entry(self, kind: GateKind, index: int, item: object, line: int) -> DecisionEntry | None:
        found = {"choose": item} if isinstance(item, str) else item
        if not isinstance(found, Mapping):
            self.wrong(line, f"{kind}[{index}] must be a choice or a mapping with 'choose', not {item!r}")
            return None
        entry, before = _RawEntry(kind, index, found, line), len(self.problems)
        for key in found:
            if key not in ENTRY_KEYS:
                self.wrong(entry.line_of(key), f"unknown key {key!r}{_hint(str(key), ENTRY_KEYS)}")
        option = self.option(entry)
        texts = {key: self.text(entry, key) for key in ("note", "reason", "subject", "edit")}
        if option is not None:
            self.check_note(entry, option, texts)
            self.check_edit(entry, option, texts)
        self.check_types(entry)
        if option is None or len(self.problems) > before:
            return None
        return DecisionEntry(
            kind=kind,
            index=index,
            choose=option.name,
            note=texts["note"] or texts["reason"],
            subject=texts["subject"],
            repeat=found.get("repeat", False),
            edit=(self.path.parent / texts["edit"]).resolve() if texts["edit"] else None,
            limit=float(found["limit"]) if "limit" in found else None,
            payload=dict(found.get("payload", {})),
        )

    def option(self, entry: _RawEntry) -> Option | None:
        chosen = entry.found.get("choose")
        if not isinstance(chosen, str):
            self.wrong(entry.line, f"{entry.at} needs 'choose', one of {', '.join(entry.choices)}")
            return None
        plain = chosen.strip().lower().replace("-", "")  # the prompt says re-plan, the option is replan
        option = next((option for option in OPTIONS[entry.kind] if option.name == plain), None)
        if option is None:
            self.wrong(
                entry.line_of("choose"), f"{entry.at}: there is no choice {chosen!r}{_hint(chosen, entry.choices)}"
            )
        return option

    def text(self, entry: _RawEntry, key: str) -> str:
        value = entry.found.get(key, "")
        if not isinstance(value, str) or (key in entry.found and not value.strip()):
            self.wrong(entry.line_of(key), f"{entry.at}: {key!r} must be a text that says something, not {value!r}")
            return ""
        return value.strip()

    def check_note(self, entry: _RawEntry, option: Option, texts: Mapping[str, str]) -> None:
        raises = (entry.kind, option.name) == (GateKind.BUDGET, "raise")
        said = texts["note"] or texts["reason"]
        if texts["note"] and texts["reason"]:
            self.wrong(entry.line, f"{entry.at}: 'note' and 'reason' are the same thing; keep one of them")
        if raises and "limit" not in entry.found:
            self.wrong(entry.line, f"{entry.at}: 'raise' needs 'limit', the new limit in the budget's unit (0 = none)")
        if option.needs_note and not raises and not said:
            self.wrong(entry.line, f"{entry.at}: {option.name!r} needs a 'note' that says why")
        if "limit" in entry.found and not raises:
            self.wrong(entry.line_of("limit"), f"{entry.at}: 'limit' goes only with 'raise' at a budget gate")

    def check_edit(self, entry: _RawEntry, option: Option, texts: Mapping[str, str]) -> None:
        edits, line = option.name in EDIT_CHOICES, entry.line_of("edit")
        if edits and not texts["edit"]:
            self.wrong(line, f"{entry.at}: needs 'edit: PATH', the changed tasks file")
        if texts["edit"] and not edits:
            self.wrong(line, f"{entry.at}: 'edit: PATH' goes only with 'choose: edit' or 'choose: split'")
        if edits and texts["edit"] and not (self.path.parent / texts["edit"]).is_file():
            self.wrong(line, f"{entry.at}: there is no file {texts['edit']!r} in {self.path.parent}")

    def check_types(self, entry: _RawEntry) -> None:
        repeat, payload = entry.found.get("repeat", False), entry.found.get("payload", {})
        limit = entry.found.get("limit", 0)
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 <= limit < inf:
            self.wrong(entry.line_of("limit"), f"{entry.at}: 'limit' is a number, 25.50 for example, not {limit!r}")
        if not isinstance(repeat, bool):
            self.wrong(entry.line_of("repeat"), f"{entry.at}: 'repeat' is true or false, not {repeat!r}")
        if not isinstance(payload, Mapping):
            self.wrong(entry.line_of("payload"), f"{entry.at}: 'payload' must be a mapping, not {payload!r}")


def _hint(wrong: str, right: Sequence[str]) -> str:
    return suggest(wrong, right, before=", ") or f" (known: {', '.join(right)})"


def _line_of_key(mapping: Mapping[str, Any], key: str, default: int = 0) -> int:
    marks = getattr(mapping, "lc", None)
    if marks is None or key not in (marks.data or {}):
        return default
    return int(marks.key(key)[0])


def _line_of_item(items: list[Any], index: int) -> int:
    marks = getattr(items, "lc", None)
    return int(marks.item(index)[0]) if marks is not None and index in (marks.data or {}) else 0
