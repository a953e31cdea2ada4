"""Ids, branch names and refs. Every name that becomes a path is checked here, so that none leaves its folder."""

from __future__ import annotations

import re
from collections.abc import Container
from datetime import UTC, datetime
from hashlib import sha256

TASK_ID = re.compile(r"task-[0-9]{1,9}")
SESSION_ID = re.compile(r"ses-[0-9]{8}-[0-9]{6}(-[0-9]+)?")
ROLE_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
ATTEMPT_ID = re.compile(r"ses-[0-9-]+(\.[a-z0-9-]+){2}\.[0-9]+")


def is_task_id(text: str) -> bool:
    return TASK_ID.fullmatch(text) is not None


def is_session_id(text: str) -> bool:
    return SESSION_ID.fullmatch(text) is not None


def build_session_id(now: float, taken: Container[str]) -> str:
    return _build_time_id("ses", now, taken)


def build_request_id(now: float, taken: Container[str]) -> str:
    return _build_time_id("req", now, taken)


def _build_time_id(prefix: str, now: float, taken: Container[str]) -> str:
    """ses-YYYYMMDD-HHMMSS in UTC; a suffix keeps two of one second apart."""
    stem = datetime.fromtimestamp(now, UTC).strftime(f"{prefix}-%Y%m%d-%H%M%S")
    name, n = stem, 1
    while name in taken:
        n += 1
        name = f"{stem}-{n}"
    return name


def build_attempt_id(session: str, subject: str, key: str, n: int) -> str:
    """The name under which an attempt at a subject is started at most once. `key`: of its stage, or its role."""
    return f"{session}.{subject}.{key}.{n}"


def build_agent_id(key: str, attempt: str) -> str:
    """<role>-<8 hex>, derived from the attempt, so that it is the same after a crash."""
    return f"{key}-{sha256(attempt.encode()).hexdigest()[:8]}"


def build_branch_name(session: str, subject: str, n: int, key: str = "") -> str:
    return f"blueflame/{session}/{build_attempt_path(subject, n, key)}"


def build_attempt_path(subject: str, n: int, key: str = "") -> str:
    """`task-001/backend/1`; without the stage for a merger, and for all attempts of earlier versions."""
    return f"{subject}/{key}/{n}" if key else f"{subject}/{n}"


def build_attempt_ref(session: str, subject: str, n: int, key: str = "") -> str:
    """Keeps an attempt's commits in the repository until `blueflame cleanup`."""
    return f"refs/blueflame/attempts/{session}/{build_attempt_path(subject, n, key)}"


def build_base_ref(session: str, subject: str, n: int, key: str) -> str:
    """Keeps the commit that an attempt started from, against garbage collection."""
    return f"refs/blueflame/bases/{session}/{build_attempt_path(subject, n, key)}"


def build_changeset_ref(session: str, changeset: str) -> str:
    return f"refs/blueflame/changesets/{session}/{changeset}"
