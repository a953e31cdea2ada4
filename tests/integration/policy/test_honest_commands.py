"""The table of honest commands, each judged by the policy that `init` writes for a repository of its ecosystem."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from blueflame.config.detect.repository import survey_repository
from blueflame.config.load import parse_config
from blueflame.config.scaffold import build_config_text
from blueflame.model.policy import Decision, Policy, ToolCall
from blueflame.policy.compile import compile_policy
from blueflame.policy.decide import decide
from blueflame.watcher.policy_file import find_shfmt
from blueflame.watcher.world import LocalWorld
from support.repositories import run_git

TABLE = Path(__file__).parents[2] / "support" / "honest_commands.tsv"
MIN_ROWS = 400
CHECKOUT = "/checkouts/sample"
"""Not the repository itself: that is below /tmp, which is the agent's own in a sandbox."""

FILES: Mapping[str, str] = {
    "python": "pyproject.toml tox.ini src/app/core.py tests/test_core.py docs/usage.md",
    "node": "package.json package-lock.json tsconfig.json src/index.ts src/util.js test/util.test.js",
    "go": "go.mod go.sum cmd/app/main.go internal/core/core.go internal/core/core_test.go",
    "rust": "Cargo.toml Cargo.lock src/lib.rs src/main.rs tests/add.rs",
    "java": "pom.xml mvnw src/main/java/app/Core.java src/test/java/app/CoreTest.java",
    "ruby": "Gemfile Gemfile.lock Rakefile lib/app.rb spec/app_spec.rb",
    "c": "CMakeLists.txt Makefile src/core.c include/core.h tests/test_core.c",
    "php": "composer.json composer.lock phpunit.xml src/Core.php tests/CoreTest.php",
    "dotnet": "App.sln src/App/App.csproj src/App/Core.cs tests/App.Tests/CoreTests.cs",
    "shell": "Makefile src/run.sh src/data.json tests/run_test.sh docs/notes.md .github/workflows/ci.yml",
    "git": "Makefile src/app.py tests/test_app.py docs/notes.md",
}
"""What a repository of each ecosystem holds, besides a README and an .env that is not tracked."""

SCOPES: Mapping[str, tuple[str, ...]] = {
    "python": ("src/", "tests/", "pyproject.toml"),
    "node": ("src/", "test/", "package.json", "package-lock.json"),
    "go": ("cmd/", "internal/", "go.mod", "go.sum"),
    "rust": ("src/", "tests/", "Cargo.toml", "Cargo.lock"),
    "java": ("src/", "pom.xml"),
    "ruby": ("lib/", "spec/", "Gemfile", "Gemfile.lock"),
    "c": ("src/", "include/", "tests/", "CMakeLists.txt"),
    "php": ("src/", "tests/", "composer.json", "composer.lock"),
    "dotnet": ("src/", "tests/"),
    "shell": ("src/", "tests/", "docs/"),
    "git": ("src/", "tests/", "docs/"),
}
"""What the worker's task has locked."""


@dataclass(frozen=True)
class Row:
    ecosystem: str
    allowed: bool
    command: str
    reason: str = ""


def read_table() -> tuple[Row, ...]:
    lines = [line.split("\t") for line in TABLE.read_text().splitlines() if not line.startswith("#")]
    return tuple(Row(each[0], each[1] == "allowed", each[2].replace("⏎", "\n"), *each[3:]) for each in lines)


ROWS = read_table()


def build_init_policy(ecosystem: str, repo: Path, *, sandboxed: bool = True) -> Policy:
    for name in (*FILES[ecosystem].split(), "README.md"):
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text("{}\n" if name.endswith(".json") else "\n")
    run_git(repo, "init", "-q", "-b", "main", ".")
    run_git(repo, "add", "-A")
    (repo / ".env").write_text("KEY=1\n")
    settings = parse_config(build_config_text(survey_repository(repo)), path=repo / "blueflame.yaml").settings
    return compile_policy(
        permissions=settings.permissions,
        validation=settings.validation,
        role="worker",
        role_settings=settings.roles.get("worker"),
        worktree=CHECKOUT,
        scope=SCOPES[ecosystem],
        scratch=("/tmp", "/home/agent"),
        readable=("/usr",),
        sandboxed=sandboxed,
    )


def judge_rows(ecosystem: str, policy: Policy) -> list[tuple[Row, Decision]]:
    world = LocalWorld(policy.worktree, shfmt=find_shfmt())
    return [
        (row, decide(policy, ToolCall(tool="Bash", input={"command": row.command}, cwd=policy.worktree), world))
        for row in ROWS
        if row.ecosystem == ecosystem
    ]


def test_the_table_is_large_and_gives_a_reason_for_each_refusal() -> None:
    assert len({(row.ecosystem, row.command) for row in ROWS}) == len(ROWS) >= MIN_ROWS
    assert {row.ecosystem for row in ROWS} == set(FILES)
    assert all(bool(row.reason) != row.allowed for row in ROWS)


@pytest.mark.parametrize("ecosystem", FILES)
def test_honest_commands_are_judged_as_a_maintainer_would(ecosystem: str, tmp_path: Path) -> None:
    judged = judge_rows(ecosystem, build_init_policy(ecosystem, tmp_path))
    wrong = [f"{row.command} -> {said.rule}: {said.details}" for row, said in judged if said.allowed != row.allowed]
    assert not wrong, "\n".join(wrong)
    shown = [said.details for _, said in judged if re.search(r"\\s|\\d|\\w|\(\?", said.details)]
    assert shown == [], "a refusal says what to do instead, without regular expressions"


def test_without_a_sandbox_only_the_listed_commands_run(tmp_path: Path) -> None:
    judged = judge_rows("git", build_init_policy("git", tmp_path, sandboxed=False))
    allowed = {row.command for row, answer in judged if answer.allowed}
    assert {"git status", "git add -A", 'git commit -m "Add the sum"'} <= allowed
    assert allowed.isdisjoint({"git restore src/app.py", "git reset --hard", "git stash", "git push"})
