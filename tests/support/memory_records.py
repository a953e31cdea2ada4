"""Records for tests: by hand, and by hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from blueflame.model.memory import (
    Lesson,
    MemoryRecord,
    Origin,
    RoleSpend,
    SessionSummary,
    Source,
    TaskFailure,
    TaskResult,
)

DAY = 86_400.0
NOW = 1_790_000_000.0


def session_name(n: int) -> str:
    return f"ses-20260101-{n:06d}"


def origin(n: int = 1, **more: object) -> Origin:
    return Origin(**{"session": session_name(n), "at": NOW + n * DAY, **more})  # type: ignore[arg-type]  # tests name them


def failure(n: int = 1, task: int = 1, title: str = "Parse the ledger", **more: object) -> TaskFailure:
    about = origin(n, task=f"task-{task:03d}", files=("src/ledger.py",))
    given = {
        "key": f"failure:{session_name(n)}:task-{task:03d}",
        "origin": about,
        "title": title,
        "reason": "it crashed",
    }
    return TaskFailure(**{**given, **more})  # type: ignore[arg-type]


def result(n: int = 1, task: int = 1, title: str = "Print the ledger", **more: object) -> TaskResult:
    about = origin(n, task=f"task-{task:03d}", files=("src/print.py",), commit="c0ffee" * 6)
    given = {"key": f"result:{session_name(n)}:task-{task:03d}", "origin": about, "title": title, "notes": "well done"}
    return TaskResult(**{**given, **more})  # type: ignore[arg-type]


def summary(n: int = 1, *costs: int, **more: object) -> SessionSummary:
    spent = (RoleSpend(role="worker", attempts=costs),) if costs else ()
    about = origin(n, micro_usd=sum(costs), source=Source.PERSON)
    given = {"key": f"session:{session_name(n)}", "origin": about, "request": "Do the ledger", "spent": spent}
    return SessionSummary(**{**given, "outcome": "completed", "tasks": 2, "merged": 2, **more})  # type: ignore[arg-type]


def lesson(n: int = 1, text: str = "said of a plan: begin with the parser", about: str = "wish") -> Lesson:
    return Lesson(key=f"wish:{session_name(n)}:plan-1", origin=origin(n), text=text, about=about)


words = st.text(max_size=60)
names = st.text(min_size=1, max_size=12)
origins = st.builds(
    Origin,
    session=names,
    task=words,
    commit=words,
    at=st.floats(0, 4e9, allow_nan=False),
    micro_usd=st.integers(0, 10**12),
    files=st.lists(words, max_size=3).map(tuple),
    source=st.sampled_from(Source),
)
texts = st.lists(words, max_size=3).map(tuple)
records: st.SearchStrategy[MemoryRecord] = st.one_of(
    st.builds(TaskResult, key=names, origin=origins, title=words, notes=words, group=words, attempts=st.integers(0, 9)),
    st.builds(
        TaskFailure,
        key=names,
        origin=origins,
        title=words,
        reason=words,
        history=texts,
        audit=texts,
        overcome=st.booleans(),
    ),
    st.builds(
        SessionSummary,
        key=names,
        origin=origins,
        request=words,
        outcome=words,
        seconds=st.floats(0, 1e6),
        spent=st.lists(
            st.builds(RoleSpend, role=names, attempts=st.lists(st.integers(0, 10**9), max_size=3).map(tuple)),
            max_size=2,
        ).map(tuple),
    ),
    st.builds(Lesson, key=names, origin=origins, text=words, about=st.sampled_from(["wish", "pattern", "note"])),
)
