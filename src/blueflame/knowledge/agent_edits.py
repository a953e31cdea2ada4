"""What an agent would change in the knowledge files: read from its answer, and made after a person has agreed.

It names entries by their ids and gives other words for them, so it cannot reach what a person wrote or confirmed, nor
anything outside of the entries. Each change holds alone: one that is refused leaves the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from blueflame.knowledge.curate import CURATED, is_kept, join_subjects
from blueflame.knowledge.screen import Refusal, screen_text
from blueflame.model.memory import KnowledgeEdit, Lesson, Origin, Source, get_knowledge_file
from blueflame.session.state import Session
from blueflame.text.sanitize import shorten_line

MAX_CHANGES = 100
MAX_REASON_CHARS = 200
MAX_SHOWN_CHARS = 80


class BadAnswer(ValueError):
    """The answer breaks CURATION_SCHEMA."""


def is_open_to_agents(lesson: Lesson) -> bool:
    """Whether an agent may propose to change it: not what a person wrote, said or confirmed."""
    return lesson.is_active and not is_kept(lesson) and lesson.origin.source is not Source.PERSON


def read_edits(answer: object, lessons: Sequence[Lesson]) -> tuple[tuple[KnowledgeEdit, ...], tuple[str, ...]]:
    """Return the changes that may be made, and those that may not, each with its place. Raise BadAnswer."""
    found = answer.get("changes") if isinstance(answer, Mapping) else None
    if not isinstance(found, list):
        raise BadAnswer("the answer is not an object with changes (a list)")
    known = {each.key: each for each in lessons}
    edits: list[KnowledgeEdit] = []
    refused: list[str] = []
    for number, change in enumerate(found[:MAX_CHANGES], start=1):
        taken = {key for edit in edits for key in edit.keys}
        edit = _read_edit(change, {key: lesson for key, lesson in known.items() if key not in taken})
        if isinstance(edit, KnowledgeEdit):
            edits.append(edit)
        else:
            refused.append(f"change {number}: {edit}")
    if len(found) > MAX_CHANGES:
        refused.append(f"changes {MAX_CHANGES + 1} to {len(found)}: at most {MAX_CHANGES} are read")
    return tuple(edit for edit in edits if edit.old != (edit.text,)), tuple(refused)


def _read_edit(change: object, known: Mapping[str, Lesson]) -> KnowledgeEdit | str:
    """Return the change, or why it is refused."""
    ids = change.get("ids") if isinstance(change, Mapping) else None
    text, why = (change.get("text") or "", change.get("reason")) if isinstance(change, Mapping) else (None, None)
    if not isinstance(ids, list) or not ids or not isinstance(text, str) or not isinstance(why, str):
        return "it has no ids (a list of texts), no reason (a text), or a text of another kind"
    chosen = [known.get(key) if isinstance(key, str) else None for key in ids]
    lessons = [each for each in chosen if each is not None]
    if len(lessons) < len(chosen) or len(set(ids)) < len(ids):
        missing = next((str(key) for key, each in zip(ids, chosen, strict=True) if each is None), "one is named twice")
        return f"there is no such entry, or another change has it: {shorten_line(missing, MAX_SHOWN_CHARS)}"
    if own := next((each for each in lessons if not is_open_to_agents(each)), None):
        return f"a person wrote or confirmed {own.key}, so it stays"
    names = sorted({get_knowledge_file(each).name for each in lessons})
    if len(names) > 1:
        return f"its entries are of several files: {', '.join(names)}"
    passed = screen_text(text) if text.strip() else None
    if isinstance(passed, Refusal):
        return f"{passed.reason} ({passed.rule})"
    words = passed.text if passed else ""
    reason = shorten_line(why, MAX_REASON_CHARS)
    return KnowledgeEdit(
        file=names[0], keys=tuple(ids), old=tuple(each.text for each in lessons), text=words, why=reason
    )


def list_approved_edits(session: Session) -> tuple[KnowledgeEdit, ...]:
    return session.curation.edits if session.curation and session.outcome == "completed" else ()


def build_edit_origin(session: Session) -> Origin:
    """Of words that an agent has compared with the code."""
    attempt = session.curation.attempt if session.curation else ""
    return Origin(session=session.id, attempt=attempt, commit=session.base_sha, at=session.last_at, source=Source.AGENT)


def make_edits(lessons: Sequence[Lesson], edits: Sequence[KnowledgeEdit], origin: Origin) -> Iterator[Lesson]:
    """Yield the entries that change and those that are new. Making them again changes nothing: an entry that is gone,
    or was changed or confirmed since, keeps its change from being made."""
    known = {each.key: each for each in lessons if is_open_to_agents(each)}
    for number, edit in enumerate(edits, start=1):
        old = [known[key] for key in edit.keys if key in known]
        if tuple(each.text for each in old) != edit.old:
            continue
        key = f"curated:{origin.session}:{number}" if edit.text else ""
        yield from (replace(each, archived=CURATED, superseded_by=key) for each in old)
        if edit.text:
            joined = reduce(join_subjects, old)
            here = replace(origin, files=joined.origin.files)
            yield replace(joined, key=key, origin=here, text=edit.text, stale=False)
