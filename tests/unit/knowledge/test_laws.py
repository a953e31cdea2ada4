"""Laws of a knowledge file through any sequence of sessions, edits by a person, and curation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from blueflame.knowledge.curate import CurationRules, count_tokens, curate_lessons, keep_curation
from blueflame.knowledge.edits import Recorded, assign_keys, digest_entries, find_edits
from blueflame.knowledge.page import KnowledgePage, build_page, parse_page, render_page, update_page
from blueflame.model.memory import KnowledgeFile, Lesson
from support.lessons import in_file, lessons

FILE = KnowledgeFile(name="mistakes", tokens=60)
RULES = CurationRules(max_entries=4, stale_commits=2, budgets={"mistakes": 60})


@dataclass
class Desk:
    """A file, what the memory knows, and what a person has written and not deleted."""

    text: str = render_page(build_page(FILE))
    known: dict[str, Lesson] = field(default_factory=dict)
    recorded: dict[str, Recorded] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)

    @property
    def page(self) -> KnowledgePage:
        page = parse_page(self.text, FILE)
        assert isinstance(page, KnowledgePage)
        return assign_keys([page])[0]

    def pick_up(self) -> None:
        edits = find_edits([self.page], self.known, self.recorded, readable=True, at=1.0)
        self.known |= {each.key: each for each in edits.lessons}
        for key in edits.forgotten:
            del self.known[key]
        self.recorded["mistakes"] = Recorded(entries=digest_entries(self.page))

    def run_session(self, new: Sequence[Lesson], changed: int) -> None:
        self.pick_up()
        self.known |= {each.key: keep_curation(self.known.get(each.key), each) for each in new}
        changes = {each.key: changed for each in new}
        curated = curate_lessons(tuple(self.known.values()), RULES, changes)
        self.known = {each.key: each for each in curated.lessons}
        active = [each for each in curated.lessons if each.is_active]
        self.text = render_page(update_page(self.page, active, curated.contradicts))
        self.recorded["mistakes"] = Recorded(entries=digest_entries(self.page))

    def write(self, words: str) -> None:
        if words in {each.text for each in self.page.lessons}:  # the same words twice are one entry
            return
        bullet = "\n".join(("- " if n == 0 else "  ") + line for n, line in enumerate(words.split("\n")))
        self.text = self.text.replace("<!-- end of", f"{bullet}\n\n<!-- end of")
        self.own.add(words)

    def rewrite(self, at: int, words: str) -> None:
        page = self.page
        if page.lessons and words not in {each.text for each in page.lessons}:
            entry = page.lessons[at % len(page.lessons)]
            changed = [replace_text(each, words) if each.key == entry.key else each for each in page.lessons]
            self.text = render_page(update_page(page, changed))
            self.own.discard(entry.text)
            self.own.add(words)

    def delete(self, at: int) -> str:
        page = self.page
        if not page.lessons:
            return ""
        entry = page.lessons[at % len(page.lessons)]
        self.text = render_page(update_page(page, [each for each in page.lessons if each.key != entry.key]))
        self.own.discard(entry.text)
        return entry.key


def replace_text(lesson: Lesson, words: str) -> Lesson:
    return replace(lesson, text=words)


plain = st.text("abcdefgh ", min_size=1, max_size=20).map(str.strip).filter(bool)
agents = lessons.map(lambda each: in_file(each, FILE)).filter(lambda each: not each.confirmed)
steps = st.one_of(
    st.tuples(st.just("session"), st.lists(agents, max_size=4, unique_by=lambda each: each.key), st.integers(0, 9)),
    st.tuples(st.just("write"), plain),
    st.tuples(st.just("rewrite"), st.integers(0, 9), plain),
    st.tuples(st.just("delete"), st.integers(0, 9)),
)


@given(st.lists(steps, max_size=8))
def test_a_persons_words_stay_budgets_hold_and_deleted_entries_stay_away(given_: Sequence[tuple[object, ...]]) -> None:
    desk, deleted = Desk(), set[str]()
    for name, *values in given_:
        if name == "session":
            new = [each for each in values[0] if each.key not in deleted]  # type: ignore[attr-defined]  # as the store
            desk.run_session(new, values[1])  # type: ignore[arg-type]
            entries = desk.page.lessons
            if any(not each.confirmed for each in entries):
                assert sum(map(count_tokens, entries)) <= FILE.tokens
                assert len(entries) <= RULES.max_entries
            assert not deleted & {each.key for each in entries}
        elif name == "write":
            desk.write(str(values[0]))
        elif name == "rewrite":
            desk.rewrite(*values)  # type: ignore[arg-type]
        else:
            gone = desk.delete(values[0])  # type: ignore[arg-type]
            deleted |= {gone} if not gone.startswith("person:") else set()  # a person may write the same again
        assert desk.own <= {each.text for each in desk.page.lessons}
