"""What `run` does about checkouts that earlier sessions left."""

from __future__ import annotations

from pathlib import Path

import pytest

from blueflame.cli.main import run
from blueflame.git.checkouts import list_checkouts, make_checkout
from blueflame.git.repository import open_repository
from blueflame.testing import create_throwaway_repository

CONFIG = """\
schema_version: 2
project: {name: stale}
planning: {interactive: false}
permissions: {allowed_paths: ["src/**"]}
beads: {enabled: false}
cleanup: {stale_worktrees: POLICY}
roles: {planner: {runtime: scripted}, worker: {runtime: scripted}, validator: {runtime: scripted}}
"""


def project(tmp_path: Path, policy: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = create_throwaway_repository(
        tmp_path / "мой repo", {"blueflame.yaml": CONFIG.replace("POLICY", policy), "src/a.txt": "a\n"}
    )
    monkeypatch.chdir(root)
    (tmp_path / "no.yaml").write_text("plan: [quit]\n")
    (tmp_path / "clean.yaml").write_text("plan: [quit]\nstale: [clean]\n")
    assert run(["run", "--task", "x", "--quiet", "--decisions-file", str(tmp_path / "no.yaml")]) == 5
    repo = open_repository(root, base_branch="main")
    make_checkout(repo, root / ".trees" / "worker-00000000", base=repo.base_sha)
    return root


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
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    *,
    policy: str,
    decisions: str,
    said: str,
) -> None:
    root = project(tmp_path, policy, monkeypatch)

    assert run(["run", "--task", "y", "--quiet", "--decisions-file", str(tmp_path / decisions)]) == 5

    assert len(list_checkouts(root / ".trees")) == (1 if said == KEPT else 0)
    assert said in capfd.readouterr().err
