"""The subagent runtime: a subagent of the person's own conversation in Claude Code does the work (decision 0089).

Its warden runs a small program in the agent's place (relay.py). It waits in the sandbox until the work is handed in,
and passes each call that the plugin's hook asks about to the watcher: policy, audit log, messages, time limit,
postcheck and landing are those of every attempt. The subagent itself runs outside of the sandbox, with the rights of
the person.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from blueflame.agents.hook import HOOK_VARIABLE, find_hook
from blueflame.agents.programs import build_python_command, join_prompt
from blueflame.agents.runtime import AgentBrief, AgentLaunch, Signal, parse_json_line, parse_own_message
from blueflame.agents.subagent import relay
from blueflame.git.command import build_agent_identity
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import Refused
from blueflame.system.files import write_atomically

PROMPT_FILE = "subagent.json"  # in the attempt's folder: what the subagent is given

PLACE = (
    "The current directory of these instructions is {0}: use absolute paths there, "
    "and begin each shell command with `cd {0} && `."
)


@dataclass(frozen=True, slots=True)
class SubagentRuntime:
    reports_end: bool = False

    def find_problems(self) -> tuple[str, ...]:
        return ()

    def prepare_launch(self, brief: AgentBrief, *, directory: Path) -> AgentLaunch:
        given = {"inside": brief.worktree, "prompt": join_prompt((brief.system, brief.prompt))}
        write_atomically(directory / PROMPT_FILE, json.dumps(given))
        folder = Path(relay.__file__).parent
        return AgentLaunch(
            argv=build_python_command("relay", (folder,), Path(brief.home, relay.FOLDER)),
            env=build_agent_identity(brief.agent_id) | {HOOK_VARIABLE: str(find_hook())},
            stdin="",
            needs=(folder, find_hook()),
            home={f"{relay.FOLDER}/{relay.CALLS}/.keep": "", f"{relay.FOLDER}/{relay.ANSWERS}/.keep": ""},
        )

    def parse_line(self, line: str) -> tuple[Signal, ...]:
        return parse_json_line(line, lambda message: (parse_own_message(message),))


def build_runtime(_options: Mapping[str, Any], _root: Path) -> SubagentRuntime:
    return SubagentRuntime()


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenWork:
    checkout: str
    prompt: str


def find_relay_folder(attempt: Path) -> Path:
    return attempt / "home" / relay.FOLDER


def is_waiting(attempt: Path) -> bool:
    """Whether its work is there to be taken."""
    folder = find_relay_folder(attempt)
    is_open = (folder / relay.CALLS).is_dir() and not (attempt / "outcome.json").exists()
    return is_open and not (folder / relay.TAKEN).exists()


def take_work(attempt: Path, checkout: str) -> TakenWork | None:
    """Take the work of an attempt that waits for a subagent; None if it does not, or another has taken it."""
    if not is_waiting(attempt):
        return None
    try:
        with (find_relay_folder(attempt) / relay.TAKEN).open("x", encoding="utf-8") as file:
            json.dump({"checkout": checkout}, file)
    except FileExistsError:
        return None
    given = json.loads((attempt / PROMPT_FILE).read_bytes())
    prompt = str(given["prompt"]).replace(given["inside"], checkout)
    return TakenWork(checkout=checkout, prompt=f"{PLACE.format(checkout)}\n\n{prompt}")


def hand_in_work(attempt: Path, summary: str) -> None:
    """Say that the work is done; the warden's program ends then. Refused for an attempt that no one has taken."""
    folder = find_relay_folder(attempt)
    if not (folder / relay.TAKEN).exists() or (attempt / "outcome.json").exists():
        raise Refused(f"{attempt.name} is not taken by a subagent, or has ended: nothing to hand in")
    draft = folder / f"{relay.HANDED_IN}.draft"
    draft.write_text(summary, encoding="utf-8")
    os.replace(draft, folder / relay.HANDED_IN)  # noqa: PTH105 (as one step)
