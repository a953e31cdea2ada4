"""What an ended attempt leaves for the next stage: its changes by git, its words by its answer."""

from __future__ import annotations

from dataclasses import replace

from blueflame.documents.hand_offs import parse_hand_off
from blueflame.git.repository import Repository
from blueflame.git.results import list_changes
from blueflame.model.attempt import AttemptOutcome
from blueflame.model.errors import WorldError
from blueflame.model.hand_off import HandOff, TouchedFile
from blueflame.orchestrator.context import FinishedAttempt
from blueflame.text.sanitize import shorten_line

MAX_FILES, MAX_PATH_CHARS = 50, 200
HOW = {"A": "created", "D": "deleted", "R": "renamed"}


def collect_hand_off(repo: Repository, finished: FinishedAttempt, ended: AttemptOutcome) -> HandOff:
    """Collect the hand-off of an attempt that makes. The answer decides nothing: the attempt is judged already."""
    left = parse_hand_off(finished.gathered.answer, finished.gathered.text)
    if ended.base is None or ended.tip is None:
        return left
    try:
        changes = list_changes(repo, ended.base, ended.tip)
    except WorldError as error:
        return replace(left, problems=(*left.problems, f"git cannot list its changes: {error}"))
    files = (TouchedFile(shorten_line(each.path, MAX_PATH_CHARS), HOW.get(each.status, "modified")) for each in changes)
    return replace(left, files=tuple(files)[:MAX_FILES], more_files=max(len(changes) - MAX_FILES, 0))
