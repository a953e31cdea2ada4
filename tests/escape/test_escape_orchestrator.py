"""Whatever an agent leaves behind: the orchestrator runs none of it, and the main repository stays as it was."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from blueflame.git import batch, command, results
from blueflame.git.untrusted.disarm import disarm_checkout
from escape.attack import Attack, Poison
from escape.judging import Bench, Judged, bench, list_changes_since, take_snapshot
from escape.poisons import FSCK, ONLY_FILES
from escape.table import behind

PATIENCE = 120  # seconds; what hangs does so for good, and a busy machine is slow
SLOW_FOR_GIT = ("git-tree-names", "bomb-")  # git itself lists a million names


@contextmanager
def no_longer_than(seconds: int) -> Iterator[None]:
    """Fail what hangs: an agent must not be able to make the orchestrator wait."""

    def hangs(*_: object) -> None:
        raise AssertionError(f"it hangs for more than {seconds} s")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


POISONS = [attack for attack in behind("orchestrator") if isinstance(attack.deed, Poison)]
FETCHED = (FSCK, ONLY_FILES)


def judge_both_ways(at: Bench, monkeypatch: pytest.MonkeyPatch) -> Judged:
    """Small results are unpacked, without reading an address; large ones are fetched: by other programs of git."""
    with monkeypatch.context() as patch:
        patch.setattr(results, "MAX_LOOSE_OBJECTS", -1)
        fetched = at.judge()
    assert fetched.refused
    return at.judge() if at.attack.rule == FSCK else fetched


@pytest.mark.parametrize("attack", POISONS, ids=lambda attack: attack.id)
def test_the_orchestrator_is_not_deceived(attack: Attack, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(attack.deed, Poison)
    if attack.id.startswith(SLOW_FOR_GIT):
        for module in (command, batch):  # git needs seconds to fill a gigabyte
            monkeypatch.setattr(module, "MAX_GIT_MEMORY", 100_000_000)
    at = bench(repo.parent, attack)
    at.prepare()
    before = take_snapshot(at.repo)
    with no_longer_than(PATIENCE):
        judged = judge_both_ways(at, monkeypatch) if attack.rule in FETCHED else at.judge()
        disarm_checkout(at.repo, at.checkout)
    tops = at.look() if not attack.id.startswith(SLOW_FOR_GIT) else []
    assert {Path(top) for top in tops if top} <= {at.checkout, *(at.checkout / "src").iterdir()}
    at.clear()
    assert not at.ran, "the agent's program was run outside of the box"
    assert list_changes_since(at.repo, before) == []
    assert not at.checkout.exists()
    assert (at.evil / "precious" / "file").read_text() == "keep\n"
    if attack.deed.takes is not None:
        assert not (attack.deed.takes and judged.refused), "honest commits were refused"
        assert judged.taken <= attack.deed.takes, "a forged result was taken"


def test_without_disarming_a_look_would_run_what_the_agent_left(repo: Path) -> None:
    """Without this, the looks above would prove nothing."""
    rows = (
        *("git-poison-fsmonitor", "git-poison-hooks", "git-poison-config-worktree", "kept-nested-untracked"),
        *("kept-nested-hook", "kept-nested-file", "kept-nested-module", "kept-bare", "kept-rebase", "kept-includes"),
    )
    ran = []
    for attack in (attack for attack in behind("orchestrator") if attack.id in rows):
        at = bench(repo.parent, attack)
        at.prepare()
        at.look()
        ran += [attack.id] if at.ran else []
    assert sorted(ran) == sorted(rows)
