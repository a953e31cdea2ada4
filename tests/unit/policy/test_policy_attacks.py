"""Paths that must not get through, and honest ones that must: each judged in a real worktree with real links."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blueflame.checks.postcheck import check_result
from blueflame.model.changes import Change
from blueflame.model.policy import Decision, Policy, ToolCall
from blueflame.model.settings.permissions import FileNaming, PermissionSettings, ValidationSettings
from blueflame.paths.globs import Globs
from blueflame.policy.compile import compile_policy
from blueflame.policy.decide import decide
from blueflame.watcher.world import LocalWorld

TOOLS = ("Read", "Write", "Edit", "MultiEdit", "Glob", "Grep", "LS", "Delete", "Bash", "NotebookRead")
PERMISSIONS = PermissionSettings(allowed_tools=TOOLS)
NO_PARSER = "/bin/false"


class TrapWorktree:
    """A worktree `wt`, a neighbour `wt-evil`, a private `tmp`, a `secret` beside them, and links of every kind."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.top = base / "рабочее дерево" / "wt"
        self.scratch = base / "tmp"
        for name in ("src/deep/er", "tests", "docs", ".git/hooks", ".blueflame", "café"):
            (self.top / name).mkdir(parents=True)
        for folder in (self.top.parent / "wt-evil", self.scratch, base / "secret"):
            folder.mkdir(parents=True)
        (base / "secret" / "id_rsa").write_text("key")
        for name in (".env", "src/app.py", "src/BadName.py", ".git/config", "src/server.key", "docs/a b.md"):
            (self.top / name).write_text("x\n")
        self._links()
        self.policy = self.make()
        self.world = LocalWorld(str(self.top), shfmt=NO_PARSER)

    def _links(self) -> None:
        links = {
            "src/out": str(self.base / "secret"),
            "src/up": "../..",
            "src/env.txt": "../.env",
            "src/chain1": "chain2",
            "src/chain2": "deep/chain3",
            "src/deep/chain3": str(self.base / "secret"),
            "src/loop1": "loop2",
            "src/loop2": "loop1",
            "src/self": "self",
            "src/nowhere": str(self.base / "not there yet"),
            "src/proc": "/proc/self/cwd",
            "src/root": "/",
            "src/gitlink": "../.git",
            "src/docs": "../docs",
            "src/inner": "deep/er",
            "src/absolute": str(self.top / "src" / "deep"),
            "src/readme.md": "../README.md",
        }
        for name, target in links.items():
            (self.top / name).symlink_to(target)
        (self.scratch / "back").symlink_to(self.top)
        (self.scratch / "away").symlink_to(self.base / "secret")

    def make(self, **changes: object) -> Policy:
        given: dict[str, Any] = {
            "permissions": PERMISSIONS,
            "validation": ValidationSettings(),
            "role": "worker",
            "role_settings": None,
            "worktree": str(self.top),
            "scope": None,
            "scratch": (str(self.scratch),),
            "readable": ("/usr",),
        }
        return compile_policy(**given | changes)

    def ask(self, tool: str, policy: Policy | None = None, cwd: str = "$WT", **given: object) -> Decision:
        return self.call(tool, given, policy or self.policy, cwd)

    def call(self, tool: str, given: Mapping[str, object], policy: Policy, cwd: str = "$WT") -> Decision:
        filled = {name: self.fill(value) if isinstance(value, str) else value for name, value in given.items()}
        return decide(policy, ToolCall(tool=tool, input=filled, cwd=self.fill(cwd)), self.world)

    def fill(self, text: str) -> str:
        return text.replace("$WT", str(self.top)).replace("$BASE", str(self.base)).replace("$TMP", str(self.scratch))


@pytest.fixture(scope="module")
def worktree(tmp_path_factory: pytest.TempPathFactory) -> TrapWorktree:
    return TrapWorktree(tmp_path_factory.mktemp("ground"))


OUT, BLOCKED, NOT_ALLOWED = "outside_worktree", "blocked_path", "path_not_allowed"

WRITES = [
    # climbing
    ("../x", OUT),
    ("../../x", OUT),
    ("src/../../x", OUT),
    ("src/../../wt-evil/x.py", OUT),
    ("src/./../../wt-evil/./x.py", OUT),
    ("src//..//..//x", OUT),
    ("$WT/../wt-evil/src/x.py", OUT),
    ("$WT/src/../../wt/../wt-evil/x", OUT),
    ("src/../.env", BLOCKED),
    ("src/deep/../../.git/config", BLOCKED),
    ("/", OUT),
    ("//", OUT),
    ("/..", OUT),
    ("..", OUT),
    # absolute places
    ("/etc/passwd", OUT),
    ("//etc/passwd", OUT),
    ("/etc/../etc/passwd", OUT),
    ("/usr/bin/x", OUT),
    ("/root/.ssh/authorized_keys", OUT),
    ("$BASE/secret/id_rsa", OUT),
    ("$WT-evil/src/x.py", OUT),
    ("$WT.evil/src/x.py", OUT),
    ("$WT /src/x.py", OUT),
    ("/proc/self/cwd/src/x.py", OUT),
    ("/proc/self/cwd/../x", OUT),
    ("/proc/self/root/etc/passwd", OUT),
    ("/proc/1/cwd/src/app.py", OUT),
    ("/proc/self/mem", OUT),
    ("/proc/sys/kernel/core_pattern", OUT),
    ("/dev/fd/1", OUT),
    ("/dev/fd/../../etc/passwd", OUT),
    ("/dev/null", OUT),  # for a file tool; a shell may
    ("/dev/tcp/127.0.0.1/80", OUT),
    ("/dev/shm/x", OUT),
    ("/sys/x", OUT),
    ("/tmp", OUT),
    # not paths at all
    ("~/.bashrc", OUT),
    ("~root/.bashrc", OUT),
    ("~", OUT),
    ("~+/src/x.py", OUT),
    ("file:///etc/passwd", OUT),
    ("FILE://$WT/src/x.py", OUT),
    ("file:/etc/passwd", OUT),
    ("https://example.org/x", OUT),
    ("vscode-remote://x/y", OUT),
    ("C:/Windows/x", OUT),
    ("", "malformed_call"),
    (" ", "malformed_call"),
    (" /etc/passwd", "malformed_call"),
    (" src/x.py", "malformed_call"),
    ("src/x.py ", "malformed_call"),
    ("\u00a0src/x.py", "malformed_call"),
    ("src\\..\\..\\x", "malformed_call"),
    ("src\\x.py", "malformed_call"),
    ("src/" + "a" * 300, "malformed_call"),
    ("src/" + "a/" * 3000 + "x", "malformed_call"),
    ("src/x.py\0", "control_characters"),
    ("src/\0../../x", "control_characters"),
    ("src/x\n.py", "control_characters"),
    ("src/x\r", "control_characters"),
    ("src/x.py\n", "control_characters"),
    ("src/\x1b[2Jx.py", "control_characters"),
    ("src/\x7fx.py", "control_characters"),
    ("src/\x85x.py", "control_characters"),
    ("src/\u2028x.py", "control_characters"),
    ("src/\udc80x.py", "control_characters"),
    # links
    ("src/out/x", OUT),
    ("src/out/deep/new/x", OUT),
    ("src/out", OUT),
    ("src/up/x", OUT),
    ("src/up/wt-evil/x", OUT),
    ("src/env.txt", BLOCKED),
    ("src/chain1", OUT),
    ("src/chain1/x", OUT),
    ("src/chain2/new/x.py", OUT),
    ("src/loop1", OUT),
    ("src/loop1/x", OUT),
    ("src/self/x", OUT),
    ("src/nowhere", OUT),
    ("src/nowhere/x", OUT),
    ("src/proc/x", OUT),
    ("src/proc/src/x.py", OUT),
    ("src/root/etc/passwd", OUT),
    ("src/root$WT/../wt-evil/x", OUT),
    ("src/gitlink/hooks/pre-commit", BLOCKED),
    ("src/gitlink", BLOCKED),
    ("src/readme.md", NOT_ALLOWED),
    ("src/docs/../.env", BLOCKED),
    ("src/inner/../../../.env", OUT),
    ("src/out/../x.py", OUT),  # by its letters src/x.py, for the kernel beside the secret
    ("src/out/../../wt/src/x.py", NOT_ALLOWED),
    ("$TMP/away/x", OUT),
    ("$TMP/back/.env", BLOCKED),
    ("$TMP/back/README.md", NOT_ALLOWED),
    ("$TMP/../secret/id_rsa", OUT),
    # blocked, in every disguise
    (".env", BLOCKED),
    ("./.env", BLOCKED),
    (".//.env", BLOCKED),
    ("$WT/.env", BLOCKED),
    ("$WT//.env", BLOCKED),
    (".ENV", BLOCKED),
    (".Env.local", BLOCKED),
    ("src/.env", BLOCKED),
    ("src/.eNv/x.py", BLOCKED),
    (".env/", BLOCKED),
    (".env/.", BLOCKED),
    (".env.", BLOCKED),
    ("src/x.KEY", BLOCKED),
    ("src/x.key.", BLOCKED),
    ("src/x.key /y", BLOCKED),
    ("src/x.ke\u200by", BLOCKED),
    ("src/\ufeff.env", BLOCKED),
    ("src/x.\u212aey", BLOCKED),  # the Kelvin sign is a k where case does not count
    ("src/x.ſecret", BLOCKED),  # and the long s an s
    ("BLUEFLAME.yaml", BLOCKED),
    (".blueflame/x", BLOCKED),
    (".BlueFlame/journal.db", BLOCKED),
    (".claude/settings.json", BLOCKED),
    (".Claude/settings.local.json", BLOCKED),
    ("src/go.mod", BLOCKED),
    # git's own
    (".git/config", BLOCKED),
    (".git/hooks/pre-commit", BLOCKED),
    (".Git/hooks/x", BLOCKED),
    (".GIT", BLOCKED),
    (".git", BLOCKED),
    (".git.", BLOCKED),
    (".git /config", BLOCKED),
    (".g\u200cit/config", BLOCKED),
    ("git~1/config", BLOCKED),
    ("GIT~1/config", BLOCKED),
    ("src/.git/config", BLOCKED),
    ("src/sub/.git", BLOCKED),
    (".gitmodules", BLOCKED),
    (".GitModules", BLOCKED),
    # simply not allowed
    ("README.md", NOT_ALLOWED),
    ("Makefile", NOT_ALLOWED),
    ("srcs/x.py", NOT_ALLOWED),
    ("src", NOT_ALLOWED),
    ("src/", NOT_ALLOWED),
    ("Src/x.py", NOT_ALLOWED),
    (".", NOT_ALLOWED),
    ("$WT", NOT_ALLOWED),
    ("$WT/", NOT_ALLOWED),
    (".github/workflows/ci.yml", NOT_ALLOWED),
    # the agent's own settings
    ("$TMP/.claude/settings.json", BLOCKED),
    ("$TMP/.Claude.json", BLOCKED),
    ("$TMP/.gitconfig", BLOCKED),
    ("$TMP/x/.bashrc", BLOCKED),
]


@pytest.mark.verification(11)
@pytest.mark.parametrize("tool", ["Write", "Edit", "MultiEdit", "Delete"])
def test_a_forbidden_write_is_refused(worktree: TrapWorktree, tool: str) -> None:
    answers = [(path, worktree.ask(tool, file_path=path)) for path, _ in WRITES]
    assert [(path, answer.allowed, answer.rule) for path, answer in answers] == [
        (path, False, rule) for path, rule in WRITES
    ]
    assert [path for path, answer in answers if not answer.details] == []


READS = [
    ("/etc/passwd", OUT),
    ("../x", OUT),
    ("$WT-evil/x", OUT),
    ("~/.ssh/id_rsa", OUT),
    ("/root/.aws/credentials", OUT),
    ("/proc/self/environ", OUT),
    ("/proc/1/environ", OUT),
    ("/dev/stdin", OUT),
    ("/usr/../etc/shadow", OUT),
    ("/usrx/y", OUT),
    ("src/out/id_rsa", OUT),
    ("src/chain1/id_rsa", OUT),
    ("src/root/etc/passwd", OUT),
    ("src/nowhere", OUT),
    ("src/loop1", OUT),
    ("src/up/secret", OUT),
    ("src/proc/../../etc/passwd", OUT),
    ("$TMP/away/id_rsa", OUT),
    (".env", BLOCKED),
    (".ENV", BLOCKED),
    ("src/env.txt", BLOCKED),
    ("src/server.key", BLOCKED),
    (".blueflame", BLOCKED),
    (".blueflame/journal.db", BLOCKED),
    (".claude", BLOCKED),
    ("$TMP/back/.env", BLOCKED),
    ("file:///etc/passwd", OUT),
    ("src/app.py\0.png", "control_characters"),
]


@pytest.mark.parametrize(("tool", "key"), [("Read", "file_path"), ("LS", "path"), ("NotebookRead", "notebook_path")])
def test_a_forbidden_read_is_refused(worktree: TrapWorktree, tool: str, key: str) -> None:
    answers = [(path, worktree.call(tool, {key: path}, worktree.policy)) for path, _ in READS]
    assert [(path, answer.allowed, answer.rule) for path, answer in answers] == [
        (path, False, rule) for path, rule in READS
    ]


@pytest.mark.parametrize("tool", ["Grep", "Glob"])
def test_a_search_of_a_forbidden_path_is_refused(worktree: TrapWorktree, tool: str) -> None:
    answers = [(path, worktree.ask(tool, pattern="*", path=path)) for path, _ in READS]
    assert [(path, answer.allowed, answer.rule) for path, answer in answers] == [
        (path, False, rule) for path, rule in READS
    ]


GLOBS = [
    ("/etc/*", OUT),
    ("/etc/passwd", OUT),
    ("/**/id_rsa", OUT),
    ("/*", OUT),
    ("../*", OUT),
    ("../**/*", OUT),
    ("src/../../*", OUT),
    ("**/../../*", OUT),
    ("*/../../x", OUT),
    ("{..,src}/*", OUT),
    ("{src,{../..,x}}/*", OUT),
    ("{/etc,src}/*", OUT),
    ("src/{a,../../..}/*", OUT),
    ("[.][.]/x", OUT),
    ("src/out/*", OUT),
    ("src/chain1/**", OUT),
    ("src/root/etc/*", OUT),
    ("$WT-evil/*", OUT),
    ("~/*", OUT),
    ("~/.ssh/*", OUT),
    ("\\/etc/*", OUT),
    ("\\.\\./*", OUT),
    ("@(..|src)/*", "malformed_call"),
    ("!(x)/*", "malformed_call"),
    ("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", "malformed_call"),
    ("src/*\0", "control_characters"),
    (".env", BLOCKED),
    (".env*", BLOCKED),
    (".e*", BLOCKED),
    (".en?", BLOCKED),
    (".[e]nv", BLOCKED),
    ("\\.env", BLOCKED),
    (".ENV*", BLOCKED),
    ("**/.env", BLOCKED),
    ("**/.env*", BLOCKED),
    ("src/**/.env.local", BLOCKED),
    ("{src/*.py,.env}", BLOCKED),
    ("*.key", BLOCKED),
    ("**/*.{key,py}", BLOCKED),
    ("src/*.KEY", BLOCKED),
    ("**/*.secret", BLOCKED),
    (".blueflame/**", BLOCKED),
    ("**/.blueflame/*", BLOCKED),
    (".claude/*", BLOCKED),
    ("**/go.mod", BLOCKED),
    ("$WT/.env*", BLOCKED),
]


def test_a_glob_that_leaves_the_worktree_or_aims_at_blocked_files_is_refused(worktree: TrapWorktree) -> None:
    answers = [(pattern, worktree.ask("Glob", pattern=pattern)) for pattern, _ in GLOBS]
    assert [(pattern, answer.allowed, answer.rule) for pattern, answer in answers] == [
        (pattern, False, rule) for pattern, rule in GLOBS
    ]


FILTERS = [pattern for pattern, rule in GLOBS if rule == BLOCKED and not pattern.startswith("$")]


def test_grep_is_not_narrowed_down_to_the_blocked(worktree: TrapWorktree) -> None:
    patterns = [*FILTERS, "*.py .env", "*.py,.env", "!x .env*", "/.env"]
    rules = {pattern: worktree.ask("Grep", pattern="API", glob=pattern).rule for pattern in patterns}
    assert {pattern: rule for pattern, rule in rules.items() if rule != BLOCKED} == {}


@pytest.mark.parametrize(
    "glob", ["," * 3000, "{" * 1900, "*.py " * 2_000_000, "a\n.env", "{a,b" * 400, "}" * 1000, "\0"]
)
def test_a_filter_without_end_is_refused_at_once(worktree: TrapWorktree, glob: str) -> None:
    assert worktree.ask("Grep", pattern="x", glob=glob).rule in ("malformed_call", "allowed")


def test_a_name_that_takes_too_long_to_match_is_refused(worktree: TrapWorktree) -> None:
    policy = worktree.make(permissions=replace_paths(blocked=("a/**/b/**/c/**/d/**/e",)))
    assert worktree.ask("Read", policy, file_path="a/" + "b/c/d/" * 600 + "x").rule == "malformed_call"
    assert worktree.ask("Read", policy, file_path="a/" + "b/c/d/" * 15 + "x").allowed
    assert worktree.ask("Read", policy, file_path="a/" + "b/c/d/" * 15 + "e").rule == BLOCKED


def test_an_anchored_rule_is_not_passed_by_its_last_name(worktree: TrapWorktree) -> None:
    policy = worktree.make(permissions=replace_paths(blocked=("config/prod.yaml",)))
    assert worktree.ask("Grep", policy, pattern="x", glob="prod.yaml").rule == BLOCKED
    assert worktree.ask("Grep", policy, pattern="x", glob="**/prod.yam?").rule == BLOCKED
    assert worktree.ask("Glob", policy, pattern="src/**/prod.yaml").allowed
    assert worktree.ask("Glob", policy, pattern="config/*.yaml").allowed


CWDS = [
    ("$WT-evil", OUT),
    ("$WT/..", OUT),
    ("$WT/src/out", OUT),
    ("$WT/src/up", OUT),
    ("/", OUT),
    ("/usr", OUT),
    ("/proc/self/cwd", OUT),
    ("$TMP/away", OUT),
    ("", "malformed_call"),
    ("src", "malformed_call"),
    (".", "malformed_call"),
    ("~", "malformed_call"),
    ("$WT\0", "malformed_call"),
]


@pytest.mark.parametrize(("cwd", "rule"), CWDS)
def test_a_call_from_elsewhere_is_refused(worktree: TrapWorktree, cwd: str, rule: str) -> None:
    assert worktree.ask("Read", file_path="$WT/src/app.py", cwd=cwd).rule == rule
    assert worktree.ask("Bash", command="ls", cwd=cwd).rule == rule


def test_relative_paths_are_taken_from_where_the_agent_stands(worktree: TrapWorktree) -> None:
    assert worktree.ask("Write", file_path="../x.py", cwd="$WT/src/deep").allowed
    assert worktree.ask("Write", file_path="../../x.py", cwd="$WT/src/deep").rule == NOT_ALLOWED
    assert worktree.ask("Write", file_path="../../../x.py", cwd="$WT/src/deep").rule == OUT
    assert worktree.ask("Write", file_path="x.txt", cwd="$TMP").allowed
    assert worktree.ask("Glob", pattern="../*.py", cwd="$WT/src/deep").allowed
    assert worktree.ask("Glob", pattern="../../../*", cwd="$WT/src/deep").rule == OUT


HONEST: list[tuple[str, Mapping[str, object]]] = [
    ("Write", {"file_path": "src/new.py", "content": "x = 1\n"}),
    ("Write", {"file_path": "$WT/src/new/package/__init__.py", "content": ""}),
    ("Write", {"file_path": "tests/test_app.py", "content": ""}),
    ("Write", {"file_path": "docs/каталог/с пробелом.md", "content": ""}),
    ("Write", {"file_path": "src/../tests/x.py", "content": ""}),
    ("Write", {"file_path": "src/a~b.py", "content": ""}),
    ("Write", {"file_path": "src/routes/$id.tsx", "content": ""}),
    ("Write", {"file_path": "src/app/[slug]/(group)/page.tsx", "content": ""}),
    ("Write", {"file_path": "src/@types/index.d.ts", "content": ""}),
    ("Write", {"file_path": "src/environment.py", "content": ""}),
    ("Write", {"file_path": "src/keys.py", "content": ""}),
    ("Write", {"file_path": "src/.gitkeep", "content": ""}),
    ("Write", {"file_path": "src/.gitignore", "content": ""}),
    ("Write", {"file_path": "src/git/config.py", "content": ""}),
    ("Write", {"file_path": "src/docs/new.md", "content": ""}),  # a link from allowed to allowed
    ("Write", {"file_path": "src/inner/x.py", "content": ""}),
    ("Write", {"file_path": "src/absolute/x.py", "content": ""}),
    ("Write", {"file_path": "$TMP/notes.txt", "content": ""}),
    ("Write", {"file_path": "$TMP/back/src/x.py", "content": ""}),
    ("Edit", {"file_path": "src/app.py", "old_string": "x", "new_string": "../../y", "replace_all": False}),
    ("Edit", {"file_path": "src/BadName.py", "old_string": "", "new_string": "y"}),
    ("MultiEdit", {"file_path": "src/app.py", "edits": [{"old_string": "a", "new_string": "b"}]}),
    ("Delete", {"file_path": "src/app.py"}),
    ("Read", {"file_path": "README.md"}),
    ("Read", {"file_path": "$WT/Makefile", "offset": 10, "limit": 20}),
    ("Read", {"file_path": ".git/config"}),
    ("Read", {"file_path": ".github/workflows/ci.yml"}),
    ("Read", {"file_path": "/usr/include/stdio.h"}),
    ("Read", {"file_path": "docs/a b.md", "pages": "1-3"}),
    ("Read", {"file_path": "src/does not exist.py"}),
    ("LS", {"path": "$WT", "ignore": ["node_modules"]}),
    ("LS", {"path": "src/"}),
    ("Glob", {"pattern": "**/*"}),
    ("Glob", {"pattern": "*"}),
    ("Glob", {"pattern": "**/*.py"}),
    ("Glob", {"pattern": "src/**/*.{ts,tsx,js}"}),
    ("Glob", {"pattern": "**/*.json"}),
    ("Glob", {"pattern": "**/package.json"}),
    ("Glob", {"pattern": "$WT/src/**/*.py"}),
    ("Glob", {"pattern": "*.py", "path": "$WT/src"}),
    ("Glob", {"pattern": ".github/**"}),
    ("Glob", {"pattern": "**/.gitignore"}),
    ("Glob", {"pattern": "src/app/[slug]/*.tsx"}),
    ("Glob", {"pattern": "**/*env*.py"}),
    ("Glob", {"pattern": "**/[A-Z]*.md"}),
    ("Grep", {"pattern": "def main"}),
    ("Grep", {"pattern": "\\.env|../..|/etc/passwd", "path": "src"}),
    ("Grep", {"pattern": "TODO", "glob": "*.py", "output_mode": "content", "-n": True, "-C": 3}),
    ("Grep", {"pattern": "x", "glob": "*.{ts,tsx}", "type": "ts", "head_limit": 50, "multiline": True}),
    ("Grep", {"pattern": "x", "glob": "*.py *.md"}),
    ("Grep", {"pattern": "x", "glob": "!*.key"}),
    ("Grep", {"pattern": "x", "path": "$WT"}),
    ("Grep", {"pattern": "x", "path": None, "glob": None}),
]


@pytest.mark.verification(12)
def test_an_honest_call_gets_through(worktree: TrapWorktree) -> None:
    answers = [(tool, given, worktree.call(tool, given, worktree.policy)) for tool, given in HONEST]
    assert [row for row in answers if not row[2].allowed] == []


def replace_paths(*, allowed: tuple[str, ...] = ("src/**",), blocked: tuple[str, ...] = ()) -> PermissionSettings:
    return PermissionSettings(allowed_tools=TOOLS, allowed_paths=allowed, blocked_paths=blocked)


@pytest.mark.verification(12)
def test_the_scope_of_a_task_is_compared_as_locks_are(worktree: TrapWorktree) -> None:
    policy = worktree.make(scope=("src/Café", "docs/**", "./tests//test_app.py"))
    assert worktree.ask("Write", policy, file_path="src/cafe\u0301/x.py").allowed
    assert worktree.ask("Write", policy, file_path="src/café").allowed
    assert worktree.ask("Write", policy, file_path="tests/TEST_APP.py").allowed
    assert worktree.ask("Write", policy, file_path="docs/deep/x.md").allowed
    assert worktree.ask("Write", policy, file_path="src/cafés/x.py").rule == "outside_file_scope"
    assert worktree.ask("Write", policy, file_path="tests/test_app.pyc").rule == "outside_file_scope"
    assert worktree.ask("Read", policy, file_path="src/app.py").allowed


def test_no_locks_are_the_whole_repository_and_switched_off_is_no_scope(worktree: TrapWorktree) -> None:
    assert worktree.ask("Write", worktree.make(scope=()), file_path="src/x.py").allowed
    off = ValidationSettings.model_validate({"file_scope": {"enforce": False}})
    assert worktree.ask("Write", worktree.make(scope=("docs",), validation=off), file_path="src/x.py").allowed


def test_a_refusal_says_what_the_task_may_write(worktree: TrapWorktree) -> None:
    policy = worktree.make(scope=("src/a.py",))
    assert "src/a.py" in worktree.ask("Write", policy, file_path="src/b.py").details
    assert "src/**" in worktree.ask("Write", file_path="README.md").details
    assert "BadName" not in worktree.ask("Write", file_path="README.md").details


def test_only_new_files_are_held_to_the_naming_style(worktree: TrapWorktree) -> None:
    validation = ValidationSettings(file_naming=FileNaming(style="snake_case", enforce_for=("src/**/*.py",)))
    policy = worktree.make(validation=validation)
    assert worktree.ask("Write", policy, file_path="src/NewName.py").rule == "file_naming"
    assert worktree.ask("Write", policy, file_path="src/new_name.py").allowed
    assert worktree.ask("Write", policy, file_path="src/BadName.py").allowed  # is there already
    assert worktree.ask("Write", policy, file_path="src/NewName.ts").allowed


def test_a_role_that_reads_only_writes_to_its_scratch_alone(worktree: TrapWorktree) -> None:
    policy = worktree.make(role="validator", schema=True)
    assert worktree.ask("Write", policy, file_path="src/x.py").rule == "read_only_role"
    assert worktree.ask("Edit", policy, file_path=".git/config").rule == "read_only_role"
    assert worktree.ask("Write", policy, file_path="$TMP/notes").allowed
    assert worktree.ask("Read", policy, file_path="src/app.py").allowed


def test_a_private_folder_above_the_worktree_does_not_open_it(worktree: TrapWorktree) -> None:
    policy = replace(worktree.policy, scratch=(str(worktree.base),), readable=("/",))
    assert worktree.ask("Write", policy, file_path=".env").rule == BLOCKED
    assert worktree.ask("Read", policy, file_path="src/env.txt").rule == BLOCKED
    assert worktree.ask("Read", policy, file_path="src/loop1").rule == OUT  # leads nowhere that anybody could name


LINKS = [
    *("out", "up", "chain1", "loop1", "root", "inner", "absolute", "docs", "env.txt", "gitlink"),
    *("back", "away", "nowhere", "readme.md", "self", "proc"),
]
NAMES = [
    *("src", "deep", "er", "x.py", ".env", ".ENV", ".git", "a.key", "wt", "wt-evil"),
    *("tmp", "new", "README.md", "café", "cafe\u0301", "tests"),
]
PARTS = st.sampled_from([*LINKS, *NAMES, "..", ".", ""])
STARTS = st.sampled_from(["", "/", "$WT/", "$TMP/", "$BASE/", "$WT", "./", "src/", "$WT/src/"])
PATHS = st.builds(lambda start, parts: start + "/".join(parts), STARTS, st.lists(PARTS, min_size=1, max_size=6))
CWD = st.sampled_from(["$WT", "$WT/src", "$WT/src/deep", "$TMP", "$WT/src/inner", "$WT/src/out"])


@settings(max_examples=500, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=PATHS, cwd=CWD)
def test_an_allowed_write_stays_in_the_worktree_and_in_allowed_paths(
    worktree: TrapWorktree, path: str, cwd: str
) -> None:
    if not worktree.ask("Write", file_path=path, cwd=cwd).allowed:
        return
    there = f"{worktree.fill(cwd)}/{worktree.fill(path)}" if path[0] not in "/$" else worktree.fill(path)
    for real in (os.path.realpath(there), os.path.realpath(os.path.normpath(there)), os.path.normpath(there)):
        inner = os.path.relpath(real, worktree.top)
        if inner.startswith(".."):
            assert os.path.commonpath([real, worktree.scratch]) == str(worktree.scratch)
            continue
        assert Globs(PERMISSIONS.allowed_paths).matches(inner)
        assert not Globs(PERMISSIONS.blocked_paths).touches(inner)
        assert not list(broken(inner))


def broken(path: str) -> Iterator[str]:
    """What the postcheck would hold against such a file: the first wall must not let through what the third stops."""
    found = check_result(
        [Change(status="A", path=path)],
        [],
        allowed_paths=PERMISSIONS.allowed_paths,
        blocked_paths=PERMISSIONS.blocked_paths,
        enforce_scope=False,
    )
    yield from (each.rule for each in found)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=PATHS, cwd=CWD)
def test_whatever_may_be_read_is_inside_and_not_blocked(worktree: TrapWorktree, path: str, cwd: str) -> None:
    if not worktree.ask("Read", file_path=path, cwd=cwd).allowed:
        return
    there = f"{worktree.fill(cwd)}/{worktree.fill(path)}" if path[0] not in "/$" else worktree.fill(path)
    real = os.path.realpath(there)
    inner = os.path.relpath(real, worktree.top)
    if inner.startswith(".."):
        assert real.startswith((str(worktree.scratch), "/usr"))
    else:
        assert not Globs(PERMISSIONS.blocked_paths).touches(inner)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.text(max_size=40))
def test_any_text_gets_a_decision(worktree: TrapWorktree, path: str) -> None:
    for tool, key in (("Write", "file_path"), ("Glob", "pattern"), ("Grep", "glob")):
        answer = worktree.call(tool, {key: path} if tool == "Write" else {"pattern": "x", key: path}, worktree.policy)
        assert answer.rule
