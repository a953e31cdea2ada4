"""Continue the conversation of an earlier attempt: read it from what that attempt printed, and let claude resume it.

It is read from our own record of the output, not from claude's files in the agent's HOME, which the agent can write.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from blueflame.agents.claude import resume_driver
from blueflame.agents.claude.stream import PARTIAL_PREFIX
from blueflame.agents.programs import build_python_command
from blueflame.agents.runtime import MAX_PARSED_BYTES, AgentBrief, AgentLaunch
from blueflame.system.files import read_json_object, write_atomically
from blueflame.system.lines import SkippedBytes, read_spool_lines

MAX_CONVERSATION_CHARS = 400_000  # about 100,000 tokens, half of the smallest context window
GIVEN_FILE = "claude-conversation.json"
WRITTEN_AT = "2000-01-01T00:00:00.000Z"  # claude requires a time and does not show it to the model
SYNTHETIC = "<synthetic>"  # the model of messages that claude itself made up, such as an API error


def read_conversation(folder: Path) -> tuple[Mapping[str, Any], ...]:
    """Read the messages of an ended attempt, with those that it was given; none if there is nothing usable."""
    given = read_json_object(folder / GIVEN_FILE).get("messages") or []
    said = list(_read_messages(folder / "stdout.log"))
    if not any(message["role"] == "assistant" for message in said):
        return ()
    try:
        prompt = (folder / "prompt.txt").read_text(encoding="utf-8", errors="replace")
    except OSError:  # cleaned up
        return ()
    messages = (*given, {"role": "user", "content": prompt}, *said)
    return messages if len(json.dumps(messages)) <= MAX_CONVERSATION_CHARS else ()


def _read_messages(log: Path) -> Iterator[Mapping[str, Any]]:
    """Subagents have conversations of their own, which are not continued."""
    for line in read_spool_lines(log, MAX_PARSED_BYTES):
        if isinstance(line, SkippedBytes):
            continue
        entry = None if line.startswith(PARTIAL_PREFIX) else _parse_object(line)
        if entry is None or entry.get("type") not in ("user", "assistant") or entry.get("parent_tool_use_id"):
            continue
        message = entry.get("message")
        if isinstance(message, dict) and message.get("role") == entry["type"] and message.get("model") != SYNTHETIC:
            yield message


def _parse_object(line: str) -> Mapping[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def build_resumed_launch(launch: AgentLaunch, brief: AgentBrief, directory: Path) -> AgentLaunch:
    """Build a launch that resumes `brief.conversation`, or starts as `launch` does if claude refuses it."""
    session = str(uuid5(NAMESPACE_URL, f"blueflame:{brief.attempt}"))
    write_atomically(directory / GIVEN_FILE, json.dumps({"messages": brief.conversation}))
    program = directory / "claude-resume.json"
    write_atomically(program, json.dumps({"resume": [*launch.argv, "--resume", session], "fresh": launch.argv}))
    folder = Path(resume_driver.__file__).parent
    slug = re.sub(r"[^A-Za-z0-9]", "-", brief.worktree)
    transcript = "".join(_format_transcript(brief.conversation, session, brief.worktree))
    return replace(
        launch,
        argv=build_python_command("resume_driver", (folder,), program),
        needs=(*launch.needs, folder, program),
        home={**launch.home, f".claude/projects/{slug}/{session}.jsonl": transcript},
    )


def _format_transcript(messages: Sequence[Mapping[str, Any]], session: str, cwd: str) -> Iterator[str]:
    """Write the messages as claude does. Without the date after the first, it sends an empty message to its model."""
    date = {"type": "attachment", "attachment": {"type": "date", "date": WRITTEN_AT[:10]}}
    first, *rest = ({"type": message["role"], "message": message} for message in messages)
    before = None
    for n, entry in enumerate((first, date, *rest)):
        this = str(uuid5(NAMESPACE_URL, f"{session}:{n}"))
        common = {"sessionId": session, "cwd": cwd, "timestamp": WRITTEN_AT, "userType": "external"}
        yield json.dumps({**entry, **common, "uuid": this, "parentUuid": before, "isSidechain": False}) + "\n"
        before = this
