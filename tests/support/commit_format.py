"""A commit format as a configuration may demand it."""

from __future__ import annotations

COMMIT_PATTERN = r"^(feat|fix|refactor|test|docs|chore)\(task-\d+(,\s*task-\d+)*\): .+"
"""Takes several ids, because a merge of several tasks is one commit."""
