"""The map of a repository of 50,000 files: made for the first time, and after a commit."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter

from benchmarks import Figure, Report
from blueflame.codebase.draw import format_code_map
from blueflame.codebase.make import survey_code
from blueflame.codebase.survey import CodeSurvey
from blueflame.git.command import run_git, try_git
from blueflame.git.repository import open_repository

FILES = 50_000
COMMITS = 100
CHANGED = 20  # files in one commit
SMALL = {"FILES": 300, "COMMITS": 5}
MAX_FIRST_SECONDS, MAX_NEXT_SECONDS = 10.0, 1.0
BUDGET = 3000

PYTHON = '''\
"""Part {n} of the sample."""

from dataclasses import dataclass

LIMIT_{n} = {n}


@dataclass
class Order{n}:
    number: int
    customer: str = "none"

    def compute_total(self, prices: list[int]) -> int:
        """Sum what was ordered, within the limit."""
        return min(sum(price * self.number for price in prices), LIMIT_{n})

    def describe(self) -> str:
        return f"order {{self.number}} of {{self.customer}}"


def load_order_{n}(path: str) -> Order{n}:
    with open(path) as file:
        number, customer = file.read().split(",")
    return Order{n}(int(number), customer)


def save_order_{n}(order: Order{n}, path: str) -> None:
    with open(path, "w") as file:
        file.write(f"{{order.number}},{{order.customer}}")
'''
TYPESCRIPT = """\
import {{ request }} from "../request";

export interface Item{n} {{
  id: number;
  name: string;
}}

export class Store{n} {{
  private items: Item{n}[] = [];

  add(item: Item{n}): void {{
    this.items.push(item);
  }}

  find(id: number): Item{n} | undefined {{
    return this.items.find((item) => item.id === id);
  }}
}}

export async function fetchItems{n}(url: string): Promise<Item{n}[]> {{
  const answer = await request(url, {{ method: "GET", retries: {n} }});
  return answer.items.filter((item: Item{n}) => item.name !== "");
}}
"""
GO = """\
package part{n}

import "fmt"

type Job{n} struct {{
	ID   int
	Name string
}}

func NewJob{n}(id int, name string) *Job{n} {{
	return &Job{n}{{ID: id, Name: name}}
}}

func (job *Job{n}) Run() error {{
	if job.ID > {n} {{
		return fmt.Errorf("job %d is not known", job.ID)
	}}
	return nil
}}
"""
TEMPLATES = ((".py", PYTHON), (".ts", TYPESCRIPT), (".go", GO), (".md", "# Part {n}\n\nWhat it is for.\n"))


def run() -> Report:
    with tempfile.TemporaryDirectory() as folder:
        root, cache = _make_repository(Path(folder) / "large"), Path(folder) / "code_map.db"
        first, survey = _measure(root, cache)
        _import(root, [("One more", {"src/area00/part00/file00000.py": PYTHON.format(n=FILES)})])
        following, _ = _measure(root, cache)
    figures = (
        Figure(name="the first map", value=first, unit="s", aim=MAX_FIRST_SECONDS),
        Figure(name="after a commit", value=following, unit="s", aim=MAX_NEXT_SECONDS),
        Figure(name="source files parsed", value=survey.coverage.parsed, unit="files"),
    )
    parser = survey.coverage.parser or "no parser: no symbols"
    return Report(name="code_map", about=f"{FILES:,} files, {COMMITS} commits, {parser}", figures=figures)


def _make_repository(root: Path) -> Path:
    root.mkdir()
    run_git(root, "init", "-q", "-b", "main")
    files = {}
    for n in range(FILES):
        suffix, template = TEMPLATES[n % len(TEMPLATES)]
        files[f"src/area{n % 50:02d}/part{n // 50 % 40:02d}/file{n:05d}{suffix}"] = template.format(n=n)
    _import(root, [("Begin", files), *(_change(files, n) for n in range(COMMITS))])
    return root


def _change(files: dict[str, str], n: int) -> tuple[str, dict[str, str]]:
    """Change files here and there, as a commit does."""
    names = [name for name in files if name.endswith(".py")][n :: FILES // CHANGED]
    changed = {name: f"{files[name]}\n\ndef added_{n}() -> int:\n    return {n}\n" for name in names}
    return f"Change {len(names)} files", changed


def _import(root: Path, commits: Iterable[tuple[str, dict[str, str]]]) -> None:
    """Write commits without a work tree: 50,000 files in seconds."""
    stream = bytearray()
    for n, (message, files) in enumerate(commits):
        begins = b"from refs/heads/main^0\n" if n == 0 and _has_commits(root) else b""
        head = (
            f"commit refs/heads/main\ncommitter Sample <sample@localhost> {n} +0000\ndata {len(message)}\n{message}\n"
        )
        stream += head.encode() + begins
        for name, text in files.items():
            stream += f"M 100644 inline {name}\ndata {len(text.encode())}\n{text}\n".encode()
    run_git(root, "fast-import", "--quiet", stdin=bytes(stream), timeout=None)


def _has_commits(root: Path) -> bool:
    return try_git(root, "rev-parse", "-q", "--verify", "refs/heads/main").code == 0


def _measure(root: Path, cache: Path) -> tuple[float, CodeSurvey]:
    repo = open_repository(root, base_branch="main")
    began = perf_counter()
    survey = survey_code(repo, repo.base_sha, cache, seconds=None)
    format_code_map(survey, BUDGET)
    return perf_counter() - began, survey
