"""What it costs to choose lessons for an attempt, out of many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks import Figure, Report
from blueflame.knowledge.selection import Work
from blueflame.memory.builtin import BuiltInMemory
from blueflame.memory.provider import RecallRequest
from blueflame.model.attempt import Duty
from blueflame.model.memory import Decay, Lesson, Origin

LESSONS = 10_000
SESSIONS = 400
ROUNDS = 7
TARGET = 20.0  # ms
VOCABULARY, TEXT_WORDS, TASK_WORDS = 4_000, 60, 40
SMALL = {"LESSONS": 200, "SESSIONS": 10, "ROUNDS": 1}


def run() -> Report:
    with _make_memory() as memory:
        figures = tuple(_measure(memory))
    about = f"time to choose what an attempt is given, out of {LESSONS:,} lessons"
    return Report(name="recall", about=about, figures=figures)


def _measure(memory: BuiltInMemory) -> Iterator[Figure]:
    text = " ".join(_choose_words(Random(7), TASK_WORDS))
    works = {
        "a worker on one file": Work(duty=Duty.MAKE, text=text, files=("src/part07/file007.py",), attempt="a"),
        "a worker on a folder": Work(duty=Duty.MAKE, text=text, files=("src/part07/",), attempt="a"),
        "a planner": Work(duty=Duty.PLAN, text=text, session="ses-now"),
    }
    for name, work in works.items():
        request = RecallRequest(work=work, budget=1_500, control=10)
        assert memory.choose(request).records, "nothing was found, so nothing is measured"
        spent = _measure_least(partial(memory.choose, request))
        yield Figure(name=name, value=spent, unit="ms", aim=TARGET)
    keys = [each.key for each in memory.choose(RecallRequest(work=work, budget=1_500)).lessons]
    yield Figure(name="to load it again after a crash", value=_measure_least(lambda: memory.load(keys)), unit="ms")


def _measure_least(act: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        began = perf_counter()
        act()
        times.append((perf_counter() - began) * 1_000)
    return min(times)


@contextmanager
def _make_memory() -> Iterator[BuiltInMemory]:
    random = Random(1)
    lessons = [_make_lesson(random, n) for n in range(LESSONS)]
    with TemporaryDirectory() as folder:
        memory = BuiltInMemory(Path(folder) / "memory.db", Path(folder) / "knowledge", Decay())
        memory.store.save_records(lessons)
        yield memory


def _make_lesson(random: Random, n: int) -> Lesson:
    files = (f"src/part{n % 100:02}/file{n % 1_000:03}.py", f"tests/test_{n % 777}.py")
    origin = Origin(session=f"ses-{n * SESSIONS // LESSONS:05}", at=float(n), files=files)
    return Lesson(key=f"learned:{n}", origin=origin, text=" ".join(_choose_words(random, TEXT_WORDS)), about="insight")


def _choose_words(random: Random, count: int) -> list[str]:
    """Some words are frequent and most are rare, as in any language."""
    ranks = (int(VOCABULARY * random.random() ** 3) for _ in range(count))
    return [f"word{rank:04}" for rank in ranks]
