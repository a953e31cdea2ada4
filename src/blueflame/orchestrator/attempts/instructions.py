"""What of the repository's own instructions goes into a prompt."""

from __future__ import annotations

from collections.abc import Sequence

from blueflame.git.instructions import NO_INSTRUCTIONS, InstructionFile, Instructions, read_instructions
from blueflame.orchestrator.context import SessionContext
from blueflame.orchestrator.prompts import clip_lines
from blueflame.paths.globs import Globs
from blueflame.paths.locks import LockPath
from blueflame.policy.path_patterns import fold_text
from blueflame.session.state import Session


def build_blocked_globs(context: SessionContext) -> Globs:
    """For folded paths: letter case does not count."""
    return Globs(tuple(fold_text(pattern) for pattern in context.settings.permissions.blocked_paths))


def gather_instructions(context: SessionContext, session: Session, locks: Sequence[LockPath] = ()) -> Instructions:
    """Gather those for work within the locks, as the base branch has them, cut to `instructions.max_bytes`."""
    settings, blocked = context.settings.instructions, build_blocked_globs(context)
    if not settings.enabled:
        return NO_INSTRUCTIONS
    found = read_instructions(
        context.repo,
        session.base_sha,
        settings.files,
        locks=locks,
        may_import=lambda path: not blocked.touches(fold_text(path)),
    )
    kept, others, left = [], list(found.others), settings.max_bytes
    for file in found.files:
        clipped = clip_lines(file.text, left)
        left -= clipped.shown
        if clipped.shown:
            kept.append(InstructionFile(file.path, clipped.text))
        if clipped.cut:
            others.insert(0, f"{file.path} (the first {clipped.shown} of {clipped.total} bytes are above)")
    return Instructions(tuple(kept), tuple(others))
