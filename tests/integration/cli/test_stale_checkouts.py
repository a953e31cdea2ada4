"""What `run` does about checkouts that earlier sessions left."""

from __future__ import annotations

from pathlib import Path

import pytest

from blueflame.cli.main import run
from blueflame.git.checkouts import list_checkouts, make_checkout
from blueflame.git.repository import open_repository
from blueflame.testing import create_throwaway_repository
from support.repositories import run_git
from support.snapshots import Snapshots

CONFIG = """\
schema_version: 2
project: {name: stale}
planning: {interactive: false}
permissions: {allowed_paths: ["src/**"]}
beads: {enabled: false}
cleanup: {stale_worktrees: POLICY}
roles: {planner: {runtime: scripted}, worker: {runtime: scripted}, validator: {runtime: scripted}}
"""


def build(folder: Path) -> None:
    """A repository with a session that was rejected, and a checkout that was left."""
    root = create_throwaway_repository(
        folder / "мой repo", {"blueflame.yaml": CONFIG.replace("POLICY", "warn"), "src/a.txt": "a\n"}
    )
    (folder / "no.yaml").write_text("plan: [quit]\n")
    (folder / "clean.yaml").write_text("plan: [quit]\nstale: [clean]\n")
    words = ["run", "--task", "x", "--quiet", "--decisions-file", str(folder / "no.yaml")]
    assert run([*words, "--config", str(root / "blueflame.yaml")]) == 5
    repo = open_repository(root, base_branch="main")
    make_checkout(repo, root / ".trees" / "worker-00000000", base=repo.base_sha)


KEPT = "'blueflame cleanup' removes them"
REMOVED = "removed 1 checkout of earlier sessions"


@pytest.mark.verification(35)
@pytest.mark.parametrize(
    ("policy", "decisions", "said"),
    [
        ("warn", "no.yaml", KEPT),
        ("clean", "no.yaml", REMOVED),
        ("ask", "clean.yaml", REMOVED),
        ("ask", "no.yaml", KEPT),
    ],
)
def test_stale_checkouts_are_treated_as_configured(
    snapshots: Snapshots,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    *,
    policy: str,
    decisions: str,
    said: str,
) -> None:
    folder = snapshots.open("stale", build)
    root = folder / "мой repo"
    monkeypatch.chdir(root)
    (root / "blueflame.yaml").write_text(CONFIG.replace("POLICY", policy))
    run_git(root, "commit", "-q", "--allow-empty", "-am", "configure")

    assert run(["run", "--task", "y", "--quiet", "--decisions-file", str(folder / decisions)]) == 5

    assert len(list_checkouts(root / ".trees")) == (1 if said == KEPT else 0)
    assert said in capfd.readouterr().err
