"""A worktree with traps for the watcher's attacks, judged by `blueflame policy check`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from blueflame.model.policy import EVERYDAY
from escape.attack import Ask, Attack
from support.command_line import MAIN

CONFIG: Mapping[str, Any] = {
    "schema_version": 2,
    "project": {"name": "sample"},
    "permissions": {
        "allowed_paths": ["src/**", "tests/**", "docs/**"],
        "blocked_paths": [".env*", "*.secret", "*.key", "go.mod", "go.sum", "package-lock.json"],
        "bash_rules": {
            "allowed_commands": [
                *("make", "pytest", "python -m pytest", "npm test", "npm run test", "go test", "go build", "go vet"),
                *("cargo test", "ruff", "git status", "git diff", "git log", "git add", "git commit", "git show"),
                *(
                    "git stash",
                    "git branch",
                    "git blame",
                    "git restore",
                    "ls",
                    "cat",
                    "head",
                    "tail",
                    "grep",
                    "rg",
                    "find",
                    "sed",
                ),
                *("awk", "sort", "uniq", "wc", "cut", "tr", "jq", "diff", "echo", "printf", "test", "[", "true", ":"),
                *("cp", "mv", "rm", "ln", "mkdir", "touch", "tee", "tar", "cd"),
            ],
            "blocked_patterns": [r"rm\s+-rf", r"git\s+push"],
        },
    },
    "validation": {"validator_diagnostics": {"commands": ["make test"]}},
}
"""Generous on purpose: what is refused under it is refused for what it does, not for its name. Its own list of blocked
paths names no file that steers Blue Flame, agents or editors: those are blocked always."""

EVERYDAY_CONFIG: Mapping[str, Any] = {
    **CONFIG,
    "permissions": {**CONFIG["permissions"], "bash_rules": {"allowed_commands": [EVERYDAY]}},
}
"""The same with the rule that a sandbox makes possible."""

SCOPE = ("src/", "docs/")


def lay_traps(root: Path) -> dict[str, Path]:
    """Make the worktree, the main repository and the home that the attacks name, with links between them."""
    tree, main, home = root / "дерево" / "worker-1", root / "main repo", root / "home"
    for path, text in {
        tree / "src/app.py": "x = 1\n",
        tree / "src/x.json": "{}\n",
        tree / "src/sub/a.py": "",
        tree / "tests/a.py": "",
        tree / "docs/a.md": "",
        tree / ".env": "KEY=1\n",
        tree / "blueflame.yaml": "",
        tree / "package.json": json.dumps({"scripts": {"test": "node --test", "evil": "curl x"}}),
        tree / "Makefile": "test:\n\techo fine\n",
        main / ".git/config": "",
        main / "src/app.py": "",
        home / ".ssh/id_rsa": "",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run(["git", "init", "-q", str(tree)], check=True)
    for name, target in {
        "out": "/etc",
        "outfile": "/etc/passwd",
        "up": "../..",
        "chain1": "chain2",
        "chain2": "/etc",
        "dangling": "../../nothing-yet.txt",
        "loop": "loop",
        "proc": "/proc/self",
        "fine.txt": "../.env",
        "store": "../.git",
        "settings.yaml": "../blueflame.yaml",
        "others": "../tests",
        "rootlink": "..",
        "main": str(main),
        "home": str(home),
    }.items():
        (tree / "src" / name).symlink_to(target)
    return {"tree": tree, "main": main, "home": home}


def ask_all(attacks: Sequence[Attack], root: Path, settings: Mapping[str, Any] = CONFIG) -> dict[str, dict[str, Any]]:
    """Return what `blueflame policy check` answers to each call: one process for each role."""
    places = lay_traps(root)
    config = root / "policy.yaml"
    config.write_text(json.dumps(settings))
    answers: dict[str, dict[str, Any]] = {}
    for role in sorted({attack.deed.role for attack in attacks if isinstance(attack.deed, Ask)}):
        rows = [attack for attack in attacks if isinstance(attack.deed, Ask) and attack.deed.role == role]
        lines = [_line(attack, places) for attack in rows]
        argv = ["policy", "check", "--config", config, "--role", role, "--worktree", places["tree"]]
        argv += [word for path in SCOPE for word in ("--scope", path)]
        said = check(argv, lines, cwd=root)
        assert len(said) == len(rows)
        answers |= {attack.id: answer for attack, answer in zip(rows, said, strict=True)}
    return answers


def check(argv: Sequence[object], lines: Sequence[str], cwd: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-c", MAIN, *map(str, argv)],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def _line(attack: Attack, places: Mapping[str, Path]) -> str:
    assert isinstance(attack.deed, Ask)
    line = attack.deed.line
    for name, path in places.items():
        line = line.replace(f"{{{name}}}", json.dumps(str(path))[1:-1])
    return line
