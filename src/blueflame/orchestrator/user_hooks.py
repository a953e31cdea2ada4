"""Run the user's hooks at their points of a session. docs/reference/hooks.md is the contract."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from blueflame.model.event import Event, HookRan
from blueflame.model.limits import Hook
from blueflame.orchestrator.context import Emit, SessionContext
from blueflame.orchestrator.engine.commands import Command, run_command
from blueflame.session.effects import RunHook
from blueflame.session.state import Session
from blueflame.session.user_hooks import build_payload, may_veto

HOOK_OUTPUT_BYTES = 4000


async def call_hook(context: SessionContext, session: Session, effect: RunHook, _emit: Emit) -> Sequence[Event]:
    due = effect.hook
    payload = build_payload(session, due)
    command = Command(
        name=f"{session.id}.{due.key.replace(':', '-')}.hook",
        text=getattr(context.settings.hooks, due.name),
        cwd=context.repo.root,
        env=build_hook_environment(context.environ, payload, root=context.repo.root),
        timeout=context.settings.hooks.timeout,
        stdin=format_hook_input(payload),
        judges=may_veto(Hook(due.name)),
    )
    ran = await run_command(context.engine, command)
    if ran is None:
        return []
    output = context.engine.read_log(ran.attempt, HOOK_OUTPUT_BYTES).text
    return [HookRan(hook=due.name, key=due.key, exit_code=ran.exit_code, output=output, timed_out=ran.timed_out)]


def format_hook_input(payload: Mapping[str, Any]) -> str:
    """One line of JSON; bytes of a file name that are not UTF-8 are replaced."""
    text = json.dumps(payload, ensure_ascii=False, sort_keys=True)
    return text.encode("utf-8", "replace").decode() + "\n"


def build_hook_environment(base: Mapping[str, str], payload: Mapping[str, Any], *, root: Path) -> dict[str, str]:
    """The person's own environment, since it is their command, without variables that redirect git."""
    own = {name: value for name, value in base.items() if not name.startswith("GIT_")}
    return own | {
        "BLUEFLAME_ROOT": str(root),
        "BLUEFLAME_HOOK": str(payload["hook"]),
        "BLUEFLAME_SESSION": str(payload["session"]),
        "BLUEFLAME_CYCLE": str(payload["cycle"]),
        "BLUEFLAME_PROJECT": str(payload["project"]),
        "BLUEFLAME_BASE_BRANCH": str(payload["base_branch"]),
    }
