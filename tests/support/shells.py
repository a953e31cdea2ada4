"""Shell commands in tests: judged by the real reader and path rules; and read by bash, with no program to run."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from blueflame.model.policy import EVERYDAY, Decision, Patterns, Policy, UnparsableCommand
from blueflame.model.settings.permissions import PermissionSettings
from blueflame.policy.access import PathAccess, prepare_policy
from blueflame.policy.path_patterns import compile_patterns
from blueflame.policy.shell.judge import judge_command_line, refuse_text
from blueflame.watcher.policy_file import find_shfmt
from blueflame.watcher.world import LocalWorld

DEFAULTS = PermissionSettings()
CONFIGS: dict[str, tuple[str, ...]] = {
    "default": tuple(command for command in DEFAULTS.bash_rules.allowed_commands if command != EVERYDAY),
    "everyday": (EVERYDAY,),
    "git": ("git",),
    "python": ("make", "git", "python", "pytest", "ruff", "mypy", "tox"),
    "module": ("python -m pytest", "git status"),
    "node": ("make", "git", "npm test", "npm run", "yarn", "pnpm", "node", "npx tsc", "jest", "eslint", "tsc"),
    "go": ("make", "git", "go test", "go build", "go vet", "go run", "gofmt"),
    "rust": ("make", "git", "cargo"),
    "files": (
        *("make", "git", "cp", "mv", "rm", "mkdir", "touch", "ln", "sed", "tar", "rsync", "patch", "install", "dd"),
        *(
            "chown",
            "unzip",
            "zip",
            "bash",
            "perl",
            "truncate",
            "tee",
            "./run.sh",
            "bin/tool",
            "frob",
            "make -C",
            "split",
        ),
    ),
    "build": ("make build", "make test", "cmake", "ninja", "gradle", "./gradlew", "mvn", "just", "tox -e", "npm test"),
    "wrap": ("uv run pytest", "pytest", "bundle exec rspec", "rspec", "poetry run", "make"),
    "reader": (
        "git diff",
        "git log",
        "git show",
        "git status",
        "ls",
        "cat",
        "head",
        "grep",
        "rg",
        "find",
        "pwd",
        "make check",
    ),
    "any": ("*",),
    "none": (),
}


@dataclass(frozen=True, slots=True)
class ShellJudge:
    """A worktree in which commands are judged."""

    policy: Policy
    world: LocalWorld

    def judge(self, command: str, config: str = "default", *, cwd: str = "") -> Decision:
        patterns = () if config == "everyday" else self.policy.blocked_patterns
        policy = replace(self.policy, allowed_commands=CONFIGS[config], blocked_patterns=patterns)
        places = PathAccess(rules=prepare_policy(policy), world=self.world, cwd=cwd or policy.worktree, shell=True)
        try:
            tree = self.world.parse(command)
        except UnparsableCommand as problem:
            return refuse_text(command) or Decision(False, "shell_unreadable", str(problem))
        return judge_command_line(command, tree, policy, places, self.world.parse)


def build_shell_judge(folder: Path) -> ShellJudge:
    """A worktree with a few files, one of them a link that leads outside."""
    worktree = folder / "дерево work"
    for place in ("src/app", "tests", "docs", "sub/deep", "scripts", ".git"):
        (worktree / place).mkdir(parents=True)
    for name in ("src/app.py", "tests/test_app.py", "docs/docker.md", "README.md", ".env", "Makefile", "package.json"):
        (worktree / name).write_text("x\n")
    (worktree / "link").symlink_to("/etc")
    policy = Policy(
        role="worker",
        worktree=str(worktree.resolve()),
        allowed_paths=compile_patterns(("src/**", "tests/**", "docs/**", "*.md", "build/**", "coverage/**")),
        blocked_paths=compile_patterns(DEFAULTS.blocked_paths, caseless=True),
        blocked_patterns=DEFAULTS.bash_rules.blocked_patterns,
        naming_globs=Patterns(),
        scratch=("/tmp/agent", "/home/agent"),
        readable=("/usr", "/bin"),
    )
    return ShellJudge(policy, LocalWorld(policy.worktree, shfmt=find_shfmt()))


RECORDER = r"""cat() {
  if [ $# != 0 ]; then command_not_found_handle cat "$@"; return; fi
  local t; IFS= read -r -d '' t; printf %s "$t"
}
command_not_found_handle() { printf '%s\0' "$@" $'\1' >&7; return "${#1}"; }
cd "$1"; PATH=/nowhere; unset OLDPWD; . "$2"
"""


def run_in_bash(script: str, folder: Path) -> list[tuple[str, ...]] | None:
    """Return the words of every command that bash tried to run, none of which exists; None if it did not finish."""
    work = folder / "w"
    work.mkdir(exist_ok=True)
    (folder / "script").write_bytes(script.encode())
    (folder / "record").unlink(missing_ok=True)  # a background process may still write to the last one
    with (folder / "record").open("wb") as record:
        try:
            subprocess.run(
                ["/bin/bash", "-c", f"exec 7>&{record.fileno()}\n{RECORDER}", "-", str(work), str(folder / "script")],
                pass_fds=(record.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PATH": "/nowhere", "LC_ALL": "C.UTF-8", "HOME": "/home/missing"},
                timeout=5,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None
    return _parse_record((folder / "record").read_bytes())


def _parse_record(said: bytes) -> list[tuple[str, ...]]:
    words = [os.fsdecode(word) for word in said.split(b"\0")[:-1]]
    found: list[tuple[str, ...]] = []
    current: list[str] = []
    for word in words:
        if word == "\1":
            found.append(tuple(current))
            current = []
        else:
            current.append(word)
    return found
