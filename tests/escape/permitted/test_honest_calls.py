"""A wall that blocks honest work will be switched off: what developers do every day is allowed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from escape.ground import check
from escape.permitted.calls import CALLS, line

CONFIGS = Path(__file__).with_name("configs")
FILES = {
    "src/app.py": "def answer():\n    return 42\n",
    "tests/Makefile": "all:\n\techo fine\n",
    "Makefile": "all test lint check build clean install:\n\techo fine\n",
    "package.json": json.dumps({"scripts": {"test": "node --test", "build": "tsc", "lint": "eslint src"}}),
    **dict.fromkeys(
        (
            *("src/old.py", "src/other.py", "src/copy.py", "src/sshkeys.py", "src/old_folder/a.py", "src/index.js"),
            *("src/main.c", "src/main.o", "tests/test_app.py", "tests/expected.txt", "test/answer.test.js"),
            *("docs/заметки.md", "docs/a file with blanks.md", "docs/docker.md", "docs/list.txt"),
            *("scripts/generate.js", "build/app", "build/app.o", "run_tests.sh", "README.md", "LICENSE"),
            *("CHANGELOG.md", "pyproject.toml", "go.mod", "internal/answer/answer.go", "cmd/app/main.go"),
            *("node_modules/left-pad/index.js", "node_modules/left-pad/package.json", "node_modules/.bin/eslint"),
            ".venv/lib/python3.11/site-packages/_pytest/fixtures.py",
        ),
        "",
    ),
}


def ask_all(root: Path) -> dict[str, dict[str, Any]]:
    """One process for each language and role, as a person would try their configuration."""
    tree = root / "рабочее дерево"
    for path, text in FILES.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    subprocess.run(["git", "init", "-q", str(tree)], check=True)
    answers: dict[str, dict[str, Any]] = {}
    for project, role in sorted({(call.project, call.role) for call in CALLS}):
        rows = [call for call in CALLS if (call.project, call.role) == (project, role)]
        config = CONFIGS / f"{project}.yaml"
        argv = ["policy", "check", "--config", config, "--role", role, "--worktree", tree, "--scratch", "/tmp"]
        said = check(argv, [line(call, str(tree)) for call in rows], cwd=root)
        answers |= {call.id: answer for call, answer in zip(rows, said, strict=True)}
    return answers


def test_there_are_many_honest_calls_and_no_two_of_one_name() -> None:
    assert len(CALLS) >= 120
    assert len({call.id for call in CALLS}) == len(CALLS)


def test_honest_work_is_allowed(tmp_path: Path) -> None:
    answers = ask_all(tmp_path)
    assert set(answers) == {call.id for call in CALLS}
    assert {name: answer for name, answer in answers.items() if answer["decision"] != "allow"} == {}
