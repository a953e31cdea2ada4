"""The name an agent commits with, so that it works on a machine where git was never told one."""

from __future__ import annotations


def build_agent_identity(agent_id: str) -> dict[str, str]:
    mail = f"{agent_id}@agents.invalid"
    return {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", agent_id), ("EMAIL", mail))
    }
