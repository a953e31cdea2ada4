"""Lessons for tests of the knowledge files: by hand, and by hypothesis."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from blueflame.knowledge.entry import canonicalize_text
from blueflame.model.memory import DOMAIN_FOLDER, FILE_KINDS, KnowledgeFile, Lesson, Origin, Source, get_knowledge_file

DAY = 86_400
MISTAKES = KnowledgeFile(name="mistakes", tokens=1_000)


def learned(
    key: str,
    text: str,
    *,
    day: int = 1,
    about: str = "mistake",
    files: tuple[str, ...] = (),
    source: Source = Source.AGENT,
    used: int = 0,
    helped: int = 0,
    **more: object,
) -> Lesson:
    origin = Origin(
        session=f"ses-{day}", at=float(day * DAY), files=files, source=source, commit="c0ffee", used=used, helped=helped
    )
    return replace(Lesson(key=key, origin=origin, text=text, about=about), **more)  # type: ignore[arg-type]  # its fields


marks = st.sampled_from(list("-*+#<!>`~:;,%|[]() \t\n\\\"'&_=."))
letters = st.one_of(st.characters(exclude_categories=["Cs"]), marks, st.sampled_from("abc"))
pieces = st.one_of(
    st.text(letters, max_size=30),
    st.sampled_from(
        ["<!-- id: x; by: person -->", "<!-- end of mistakes -->", "---", "```", "~~~", "## Essential", "- x", "# t"]
    ),
)
texts = st.lists(pieces, min_size=1, max_size=4).map("\n".join).map(canonicalize_text).filter(bool)
names = st.text(letters, min_size=1, max_size=12).filter(bool)
domains = st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True)
origins = st.builds(
    Origin,
    session=names,
    task=st.text(letters, max_size=8),
    attempt=st.text(letters, max_size=8),
    commit=st.text("0123456789abcdef", max_size=8),
    at=st.integers(0, 20_000).map(lambda day: float(day * DAY)),
    files=st.lists(names, max_size=3).map(tuple),
    source=st.sampled_from(Source),
)
lessons: st.SearchStrategy[Lesson] = st.builds(
    Lesson,
    key=names,
    origin=origins,
    text=texts,
    about=st.sampled_from([*FILE_KINDS.values(), "note", "fix"]),
    domain=st.one_of(st.just(""), domains),
    symbols=st.lists(names, max_size=2).map(tuple),
    confirmed=st.booleans(),
    stale=st.booleans(),
)


def in_file(lesson: Lesson, file: KnowledgeFile) -> Lesson:
    """The same lesson in another file."""
    if file.name.startswith(f"{DOMAIN_FOLDER}/"):
        return replace(lesson, domain=file.name.partition("/")[2])
    return replace(lesson, about=FILE_KINDS[file.name], domain="")


def file_of(lesson: Lesson) -> KnowledgeFile:
    return get_knowledge_file(lesson)
