"""How long a person waits for the gate of a large changeset: its evidence, its view, and its diff when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from rich.console import Console

from benchmarks import Figure, Report
from blueflame.cli.console import render_text
from blueflame.cli.render.changeset import render_changeset
from blueflame.cli.render.diff import format_for_pager, render_diff
from blueflame.git.command import build_identity_environment, run_git
from blueflame.git.repository import Repository, open_repository
from blueflame.git.results import read_diff
from blueflame.model.changeset import Build, Changeset, ChangesetRecord
from blueflame.orchestrator.attempts.validator import list_file_changes
from blueflame.orchestrator.merge_queue.review_hints import find_hints
from blueflame.views.changeset import ChangesetView

FILES, LINES = 100, 200  # 20,000 lines
ROUNDS = 5
SMALL = {"FILES": 4, "ROUNDS": 1}
TARGET = 1000.0  # ms, from a built commit to the question


def run() -> Report:
    with _make_changed_repository() as (repo, tip):
        floor = _measure_least(lambda: run_git(repo.root, "diff", "--numstat", repo.base_sha, tip))
        gate = _measure_least(lambda: _build_gate_view(repo, tip))
        view = _measure_least(lambda: _build_diff_view(repo, tip))
    figures = (
        Figure(name="git diff --numstat, the floor", value=floor, unit="ms"),
        Figure(name="evidence and view of the gate", value=gate, unit="ms", aim=TARGET),
        Figure(name="the same over the floor", value=gate / floor, unit="x"),
        Figure(name="the coloured diff, when it is asked for", value=view, unit="ms"),
    )
    return Report(name="review", about="the gate of a changeset of 20,000 lines, a fifth of it tests", figures=figures)


def _build_gate_view(repo: Repository, tip: str) -> str:
    risks, weakened = find_hints(repo, repo.base_sha, tip)
    files = list_file_changes(repo, repo.base_sha, tip)
    build = Build(base=repo.base_sha, commit=tip, files=files, risks=risks, weakened=weakened)
    changeset = Changeset(id="cs-1-main", cycle=1, group="main", title="a lot", tasks=("task-001",))
    record = ChangesetRecord(changeset=changeset, build=build)
    return render_text(render_changeset(ChangesetView(session="ses-20260206-143022", record=record)))


def _build_diff_view(repo: Repository, tip: str) -> None:
    diff = render_diff(read_diff(repo, repo.base_sha, tip, max_bytes=50_000_000))
    format_for_pager(diff, Console(force_terminal=True, color_system="standard"))


@contextmanager
def _make_changed_repository() -> Iterator[tuple[Repository, str]]:
    with TemporaryDirectory() as name:
        root = Path(name) / "repository"
        root.mkdir()
        env = build_identity_environment(root)
        run_git(root, "init", "-q", "-b", "main")
        for word in ("old", "new"):
            _write_files(root, word)
            run_git(root, "add", "-A")
            run_git(root, "commit", "-q", "-m", word, env=env)
            if word == "old":
                repo = open_repository(root, base_branch="main")
        yield repo, run_git(root, "rev-parse", "HEAD").strip()


def _write_files(root: Path, word: str) -> None:
    """Half of the lines are taken out and as many put in."""
    for n in range(FILES):
        path = root / (f"tests/test_{n}.py" if n % 5 == 0 else f"src/part_{n}.py")
        path.parent.mkdir(exist_ok=True)
        tests = "".join(f"def test_{n}_{k}():\n    assert f({k}) == '{word}'\n" for k in range(LINES // 4))
        code = "".join(f"value_{k} = '{word if k % 2 else 'same'}'\n" for k in range(LINES))
        path.write_text(tests if n % 5 == 0 else code)


def _measure_least(act: Callable[[], object]) -> float:
    """Milliseconds, the least of some rounds: the others were disturbed."""
    spans = []
    for _ in range(ROUNDS):
        began = perf_counter()
        act()
        spans.append(perf_counter() - began)
    return min(spans) * 1000
