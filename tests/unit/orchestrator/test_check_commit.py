from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import cast

import pytest

from blueflame.orchestrator.attempts import check_commit
from blueflame.orchestrator.attempts.check_commit import release_unneeded
from blueflame.orchestrator.context import ScratchCheckout, SessionContext

CONTEXT = cast(SessionContext, None)


def test_a_stop_in_the_middle_of_a_release_does_not_break_the_release_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread of the first goes on, and finds that the second has released the same checkouts meanwhile."""
    unneeded = [ScratchCheckout(Path(name), ()) for name in ("one", "two")]
    second = Thread(target=release_unneeded, args=(CONTEXT, unneeded))
    released: list[Path] = []

    def release(_context: SessionContext, path: Path, _ran: Sequence[str]) -> None:
        released.append(path)
        if len(released) == 1:
            second.start()
            second.join()

    monkeypatch.setattr(check_commit, "release_checkout", release)
    release_unneeded(CONTEXT, unneeded)

    assert unneeded == []
    assert set(released) == {Path("one"), Path("two")}
