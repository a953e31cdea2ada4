"""The windows of agents in tmux: which session, and how long they stay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blueflame.agents import tmux
from blueflame.system.tmux import TmuxWindow
from support.agent_briefs import build_brief


@pytest.mark.parametrize(
    ("ad_hoc", "session", "stays"), [(False, "cc-backend", ["--stay"]), (True, "cc-adhoc-backend", ["--idle", "30m"])]
)
def test_the_window_of_an_ad_hoc_agent_closes_after_half_an_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ad_hoc: bool, session: str, stays: list[str]
) -> None:
    opened: list[list[str]] = []

    def open_window(session: str, _title: str, argv: tuple[str, ...], **_more: object) -> TmuxWindow:
        opened.append(list(argv))
        return TmuxWindow(session)

    monkeypatch.setattr("blueflame.system.tmux.open_window", open_window)
    brief = build_brief(role="backend", seat="backend-1", ad_hoc=ad_hoc)
    tmux._open_window(brief, tmp_path, tmp_path, "")
    assert json.loads((tmp_path / "tmux.json").read_text()) == {"session": session, "window": 0, "pane": 0}
    assert opened[0][-len(stays) :] == stays
