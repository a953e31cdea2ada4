"""Find refused calls that an agent made all the same."""

from __future__ import annotations

from collections.abc import Sequence

from blueflame.model.audit import AuditLine, ObservedCall


def find_defied_refusals(acts: Sequence[ObservedCall], audit: Sequence[AuditLine]) -> tuple[AuditLine, ...]:
    """Return refused calls that the agent's output shows as done. The watcher saw them, so they are not gaps."""
    done = {(act.call, act.digest) for act in acts if not act.denied and act.call and not act.by_digest}
    inputs = {(act.tool, act.digest) for act in acts if not act.denied and act.by_digest}
    inputs -= {(line.tool, line.digest) for line in audit if line.allowed}
    allowed = {(line.call, digest) for line in audit if line.allowed for digest in (line.digest, "")}
    left = done - allowed
    return tuple(
        line
        for line in audit
        if not line.allowed
        and (not left.isdisjoint({(line.call, line.digest), (line.call, "")}) or (line.tool, line.digest) in inputs)
    )
