"""Hold the knowledge files small and true, by rules: duplicates, budgets, age by commits, contradictions.

What a person wrote or confirmed never leaves its file and is never changed. What leaves a file stays in the memory and
goes to the archive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, groupby

from blueflame.knowledge.claims import contradicts, is_negative_claim, normalize_words, says_nearly_the_same
from blueflame.knowledge.edits import ESSENTIAL
from blueflame.lazy_dataclass import dataclass
from blueflame.model.event import KnowledgeCurated
from blueflame.model.memory import Lesson, Source, get_knowledge_file
from blueflame.text.tokens import estimate_tokens

MAX_SUBJECT = 40
MAX_ENTRIES = 20  # in a file
MAX_RECORDED = 20  # steps
STALE_COMMITS = 20  # that changed the subject of an entry since
DUPLICATE, SUPERSEDED, STALE, BUDGET, CURATED = "duplicate", "superseded", "stale", "budget", "curated"


@dataclass(frozen=True, slots=True, kw_only=True)
class CurationRules:
    stale_commits: int = STALE_COMMITS  # 0: entries are never stale
    max_entries: int = MAX_ENTRIES
    budgets: Mapping[str, int] | None = None  # tokens of a file where a person set them


@dataclass(frozen=True, slots=True, kw_only=True)
class Curated:
    """Every lesson that was given, in the same order, and which of them contradict each other."""

    lessons: tuple[Lesson, ...]
    contradicts: Mapping[str, tuple[str, ...]]
    over_budget: Mapping[str, int]  # tokens of a person's own words, where they alone are more than the file may have


def curate_lessons(
    lessons: Sequence[Lesson], rules: CurationRules, changes: Mapping[str, int] | None = None
) -> Curated:
    """`changes`: in how many commits the subject of an entry changed since it was learned; unknown if left out."""
    seen = {each.key: _judge_age(each, rules, changes or {}) for each in lessons}
    active = [each for each in seen.values() if each.is_active]
    pairs: dict[str, list[str]] = {}
    over: dict[str, int] = {}
    for name, group in groupby(sorted(active, key=_sort_by_file), key=_get_file_name):
        entries = list(group)
        budget = (rules.budgets or {}).get(name, get_knowledge_file(entries[0]).tokens)
        filled = list(_fill_file(entries, budget, rules.max_entries))
        seen |= {each.key: each for each in filled}
        kept = [each for each in filled if each.is_active]
        own = sum(count_tokens(each) for each in kept if is_kept(each))
        if own > budget:
            over[name] = own
        for one, other in combinations((each for each in kept if not each.key.startswith(ESSENTIAL)), 2):
            if contradicts(one, other):
                pairs.setdefault(one.key, []).append(other.key)
                pairs.setdefault(other.key, []).append(one.key)
    marks = {key: tuple(sorted(others)) for key, others in sorted(pairs.items())}
    return Curated(lessons=tuple(seen[each.key] for each in lessons), contradicts=marks, over_budget=over)


def is_kept(lesson: Lesson) -> bool:
    """Whether it stays in its file no matter what: a person wrote it there, or agreed to it."""
    return lesson.confirmed


def count_tokens(lesson: Lesson) -> int:
    return estimate_tokens(lesson.text)


def _judge_age(lesson: Lesson, rules: CurationRules, changes: Mapping[str, int]) -> Lesson:
    """Mark what has changed often since; drop it at twice that. Claims that something fails are halfway there."""
    count = changes.get(lesson.key)
    if count is None or not lesson.is_active or not rules.stale_commits:
        return lesson
    limit = rules.stale_commits // 2 if is_negative_claim(lesson.text) else rules.stale_commits
    stale = count > limit
    dropped = count > 2 * limit and not is_kept(lesson) and lesson.origin.source is not Source.PERSON
    return replace(lesson, stale=stale, archived=STALE if dropped else "")


def _fill_file(entries: Sequence[Lesson], budget: int, most: int) -> Iterator[Lesson]:
    """Yield each entry, archived if it is a duplicate or if better ones use up the budget."""
    chosen: dict[str, Lesson] = {}
    left_out: list[Lesson] = []
    words: dict[str, str] = {}
    keys = {each.key for each in entries}
    used = 0
    for entry in sorted(entries, key=_rank):
        if is_kept(entry) and not _is_said_again(entry, chosen, words):
            chosen[entry.key] = entry
        elif entry.superseded_by in keys:
            left_out.append(replace(entry, archived=SUPERSEDED))
            continue
        elif (twin := _find_twin(entry, chosen, words)) is not None:
            left_out.append(replace(entry, archived=DUPLICATE, superseded_by=twin))
            chosen[twin] = join_subjects(chosen[twin], entry)
            continue
        elif used + count_tokens(entry) > budget or _count_entries(chosen) >= most:
            left_out.append(replace(entry, archived=BUDGET))
            continue
        else:
            chosen[entry.key] = entry
        used += count_tokens(entry)
        words.setdefault(normalize_words(entry.text), entry.key)
    yield from chosen.values()
    yield from left_out


def _is_said_again(entry: Lesson, chosen: Mapping[str, Lesson], words: Mapping[str, str]) -> bool:
    """Whether a person said the very same in an earlier session: their words stay, once."""
    twin = chosen.get(words.get(normalize_words(entry.text), ""))
    return twin is not None and entry.about == "wish" and twin.text == entry.text and _is_said(entry) and _is_said(twin)


def _is_said(lesson: Lesson) -> bool:
    """At a gate, not written into a file."""
    return lesson.key.startswith(("wish:", "answer:"))


def _count_entries(chosen: Mapping[str, Lesson]) -> int:
    return sum(not key.startswith(ESSENTIAL) for key in chosen)


def _find_twin(entry: Lesson, chosen: Mapping[str, Lesson], words: Mapping[str, str]) -> str | None:
    same = words.get(normalize_words(entry.text))
    if same is not None:
        return same
    return next((key for key, each in chosen.items() if says_nearly_the_same(entry, each)), None)


def join_subjects(kept: Lesson, twin: Lesson) -> Lesson:
    files = tuple(dict.fromkeys((*kept.origin.files, *twin.origin.files)))[:MAX_SUBJECT]
    symbols = tuple(dict.fromkeys((*kept.symbols, *twin.symbols)))[:MAX_SUBJECT]
    return replace(kept, origin=replace(kept.origin, files=files), symbols=symbols)


def _rank(lesson: Lesson) -> tuple[int, bool, float, float, str]:
    """Best first: a person's words, what is not stale, what helped, the newest."""
    origin = lesson.origin
    whose = 0 if is_kept(lesson) else 1 if origin.source is Source.PERSON else 2
    useful = (origin.helped + 1) / (origin.used + 2)  # 0.5 while it was never given
    return whose, lesson.stale, -useful, -origin.at, lesson.key


def _get_file_name(lesson: Lesson) -> str:
    return get_knowledge_file(lesson).name


def _sort_by_file(lesson: Lesson) -> tuple[str, str]:
    return _get_file_name(lesson), lesson.key


def keep_curation(known: Lesson | None, new: Lesson) -> Lesson:
    """A lesson that is built from its session again: a person's words stay, and what curation has decided."""
    if known is None or known.confirmed:
        return known or new
    files = known.origin.files if set(known.origin.files) >= set(new.origin.files) else new.origin.files
    return replace(
        new,
        origin=replace(new.origin, files=files),
        about=known.about,
        domain=known.domain,
        symbols=known.symbols if set(known.symbols) >= set(new.symbols) else new.symbols,
        superseded_by=new.superseded_by or known.superseded_by,
        stale=known.stale,
        archived=known.archived,
    )


# --- what happened, for people


@dataclass(frozen=True, slots=True, kw_only=True)
class CurationStep:
    key: str
    file: str
    what: str  # archived, added, stale, current, joined or contradicts
    why: str = ""


def describe_edited(lesson: Lesson) -> CurationStep:
    """What a person has approved: an entry that is gone, or one that replaces others."""
    what, why = ("archived", lesson.archived) if lesson.archived else ("added", "in the place of others")
    return CurationStep(key=lesson.key, file=_get_file_name(lesson), what=what, why=why)


def describe_step(step: CurationStep) -> str:
    return f"{step.file}: {step.what} {step.key}" + (f" ({step.why})" if step.why else "")


def sum_up_steps(steps: Sequence[CurationStep]) -> KnowledgeCurated | None:
    """What is recorded of it, if anything was done. That entries contradict each other stays so, and was not done."""
    done = [describe_step(each) for each in steps if each.what != "contradicts"]
    return KnowledgeCurated(steps=tuple(done[:MAX_RECORDED]), count=len(done)) if done else None


def list_steps(before: Sequence[Lesson], after: Curated) -> tuple[CurationStep, ...]:
    old = {each.key: each for each in before}
    return tuple(
        CurationStep(key=each.key, file=_get_file_name(each), what=what, why=why)
        for each in after.lessons
        for what, why in _describe_change(old[each.key], each, after.contradicts.get(each.key, ()))
    )


def _describe_change(old: Lesson, new: Lesson, others: Sequence[str]) -> Iterator[tuple[str, str]]:
    if new.archived and not old.archived:
        yield "archived", f"{new.archived} of {new.superseded_by}" if new.archived == DUPLICATE else new.archived
    elif new.stale != old.stale:
        yield ("stale", "its subject has changed often since") if new.stale else ("current", "")
    if (new.origin.files, new.symbols) != (old.origin.files, old.symbols):
        yield "joined", "with the subject of a duplicate"
    if others:
        yield "contradicts", ", ".join(others)
