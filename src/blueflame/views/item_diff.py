"""The diff of an item, read from git."""

from __future__ import annotations

from typing import Any

from blueflame.git.repository import Repository
from blueflame.git.results import read_diff
from blueflame.session.state import Session
from blueflame.views.items import CommitRange, Item, build_hand_offs_json, find_item_diff

MAX_DIFF_BYTES = 20 * 1024 * 1024


def read_item_diff(repo: Repository, source: CommitRange | str) -> str:
    """Read the diff between two commits; that of a plan is text already."""
    return source if isinstance(source, str) else read_diff(repo, source.base, source.tip, max_bytes=MAX_DIFF_BYTES)


def build_diff_json(repo: Repository, session: Session, item: Item) -> dict[str, Any]:
    source = find_item_diff(session, item)
    ends = {"base": source.base, "commit": source.tip} if isinstance(source, CommitRange) else {}
    head = {"session": session.id, "kind": item.kind, "id": item.id, **ends}
    return head | build_hand_offs_json(session, item) | {"diff": read_item_diff(repo, source)}
