"""What the orchestrator does with an agent's checkout after its session, step by step, with real git."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from blueflame.checks.postcheck import check_result
from blueflame.git.checkouts import make_checkout, remove_checkout
from blueflame.git.repository import Repository, open_repository
from blueflame.git.results import NoResult, collect_result, list_changes, list_refs, list_step_changes, read_diff
from blueflame.git.secret_scan import scan_result
from blueflame.git.trees import list_tree_files
from blueflame.git.tripwire import RepositoryFingerprint, find_tampering, take_fingerprint
from blueflame.model.errors import BlueFlameError
from blueflame.model.settings.permissions import PermissionSettings, SecretSettings, ValidationSettings
from blueflame.model.verdict import Violation
from blueflame.policy.compile import compile_policy
from escape import forging
from escape.attack import Attack, Poison, Result
from support.commit_format import COMMIT_PATTERN
from support.repositories import GIT_IDENTITY

PATIENCE = 60
POLICY = compile_policy(
    permissions=PermissionSettings(blocked_paths=(".env*", "*.secret", "*.key")),
    validation=ValidationSettings(),
    role="worker",
    role_settings=None,
    worktree="/repo",
    scope=("src/",),
)
"""With a person's own list of blocked paths: files that steer Blue Flame, agents and editors are blocked always."""
LOOKS = (
    "git status",
    "git diff",
    "git diff HEAD",
    "git log -p -3",
    "git stash list",
    "git submodule--helper status",  # `git submodule` is a shell script of 17 processes around it
    "git rebase --continue",
)


@dataclass(frozen=True)
class Judged:
    taken: bool  # there are commits, and no rule is broken
    broken: tuple[Violation, ...] = ()
    refused: str = ""


@dataclass
class Bench:
    """A repository with a checkout for one attack, and what must not happen around it."""

    root: Path
    repo: Repository
    attack: Attack

    @property
    def checkout(self) -> Path:
        return self.repo.root / ".trees" / self.attack.id

    @property
    def evil(self) -> Path:
        return self.root / "evil" / self.attack.id

    @property
    def branch(self) -> str:
        return f"blueflame/{self.attack.id}"

    @property
    def ran(self) -> bool:
        """Whether the agent's program was run."""
        return (self.evil / "ran").exists()

    def prepare(self) -> None:
        """Play the agent's session: honest work first, then the attack."""
        make_checkout(self.repo, self.checkout, base=self.repo.base_sha, branch=self.branch)
        (self.evil / "precious").mkdir(parents=True)
        (self.evil / "precious" / "file").write_text("keep\n")
        program = self.evil / "run"
        program.write_text(f'#!/bin/sh\necho "$0 $*" >> "{self.evil}/ran"\ncat >/dev/null 2>&1 </dev/null\nexit 0\n')
        program.chmod(0o755)
        (self.evil / "hooks").mkdir()
        for name in ("pre-commit", "post-checkout", "reference-transaction", "post-index-change"):
            (self.evil / "hooks" / name).symlink_to(program)
        deed = self.attack.deed
        assert isinstance(deed, Poison | Result)
        if isinstance(deed, Poison):
            honest = f"echo {self.attack.id} > src/1.txt; git add -A; git commit -q -m 'feat(task-001): one'"
            self._work(f"({honest}) || exit\n{deed.code}")
        else:
            last = "git add -A -f; git commit -q -m 'feat(task-001): result'" if deed.commit else ":"
            self._work(f"({deed.code}\n) || exit\n{last}")
        (self.evil / "ran").unlink(missing_ok=True)

    def _work(self, code: str) -> None:
        env = {
            **os.environ,
            "RUN": str(self.evil / "run"),
            "EVIL": str(self.evil),
            "PRECIOUS": str(self.evil / "precious"),
            "MAIN": str(self.repo.root),
            "FORGE": f"{sys.executable} -I -S {forging.__file__}",
        }
        done = subprocess.run(
            ["bash", "-c", code],
            cwd=self.checkout,
            env=env,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, f"the attack itself failed: {done.stderr}"

    def judge(self) -> Judged:
        """Judge as orchestrator/attempts/worker does: fetch, compare, search for secrets."""
        try:
            found = collect_result(
                self.repo,
                self.checkout,
                branch=self.branch,
                base=self.repo.base_sha,
                ref=f"refs/blueflame/{self.attack.id}",
            )
            if isinstance(found, NoResult):
                return Judged(taken=False, refused=found.reason)
            tip, policy = found.tip, POLICY
            read_diff(self.repo, self.repo.base_sha, tip, 100_000)
            broken = check_result(
                list_changes(self.repo, self.repo.base_sha, tip),
                found.commits,
                allowed_paths=policy.allowed_paths.written,
                blocked_paths=policy.blocked_paths.written,
                file_locks=("src/",),
                commit_pattern=COMMIT_PATTERN,
                naming_style="snake_case",
                naming_globs=("src/**/*.py",),
                secrets_file=SecretSettings().allow_file,
                existing=list_tree_files(self.repo, tip),
                steps=list_step_changes(self.repo, self.repo.base_sha, tip),
                identities=("{GIT_AUTHOR_NAME} <{GIT_AUTHOR_EMAIL}>".format(**GIT_IDENTITY),),
                also=scan_result(self.repo, self.repo.base_sha, tip, SecretSettings()),
            )
        except BlueFlameError as error:
            return Judged(taken=False, refused=str(error))
        return Judged(taken=not broken, broken=broken)

    def look(self) -> list[str]:
        """Look at the checkout as a person does, and return the top folders that git found there."""
        within = [path.parent for name in (".git", "HEAD") for path in self.checkout.glob(f"src/*/{name}")]
        script = f"({'; '.join(LOOKS)}) >&2; git rev-parse --show-toplevel"
        tops = []
        for folder in (self.checkout, *within):
            done = subprocess.run(script, shell=True, cwd=folder, capture_output=True, timeout=PATIENCE, check=False)
            tops.append(os.fsdecode(done.stdout).strip())
        return tops

    def clear(self) -> None:
        remove_checkout(self.checkout)


def bench(root: Path, attack: Attack) -> Bench:
    return Bench(root=root, repo=open_repository(root / "мой repo", base_branch="main"), attack=attack)


class Snapshot(NamedTuple):
    """The main repository: what could run code, and all else that git reads."""

    fingerprint: RepositoryFingerprint
    files: Mapping[str, bytes]
    refs: Mapping[str, str]


def take_snapshot(repo: Repository) -> Snapshot:
    names = ("HEAD", "config", "info/attributes", "info/exclude", "shallow")
    places = {name: repo.common_dir / name for name in names}
    files = {name: place.read_bytes() for name, place in places.items() if place.exists()}
    refs = {name: sha for name, sha in list_refs(repo, "refs").items() if not name.startswith("refs/blueflame/")}
    return Snapshot(take_fingerprint(repo), files, refs)


def list_changes_since(repo: Repository, before: Snapshot) -> list[object]:
    """Return what changed of the main repository's branches and of files that could run code."""
    after = take_snapshot(repo)
    changed = [part for part, other in zip(before[1:], after[1:], strict=True) if part != other]
    return [*find_tampering(before.fingerprint, after.fingerprint), *changed]
